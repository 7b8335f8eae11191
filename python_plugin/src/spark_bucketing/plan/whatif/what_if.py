"""Plan SQL over hypothetical tables in a separate session with an in-memory catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_bucketing.plan.explain_parser import parse_plan
from spark_bucketing.plan.planner import PLAN_SETTINGS, Explained, SessionPlanner
from spark_bucketing.plan.tree import PhysicalPlan
from spark_bucketing.plan.whatif.catalog_relations import WHATIF_SCHEMA, Relations
from spark_bucketing.plan.whatif.hypothetical_table import HypotheticalTable
from spark_bucketing.session import explain_execution, setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONTENT = re.compile(rf"(?:spark_catalog\.)?{WHATIF_SCHEMA}\.(\w+)")
# Static settings, which a session cannot change, and settings that load the extension.
_FIXED = ("spark.sql.extensions", "spark.sql.warehouse.dir", "spark.sql.catalogImplementation")


class WhatIf(SessionPlanner):
    """A planner for hypothetical tables in a separate session (open_beside()), with or without the extension.

    The methods raise a SparkError if Spark rejects a type, a bucket column or a query. The methods raise a PlanError if
    they cannot parse a plan.
    """

    def __init__(self, session: SparkSession, folder: Path) -> None:
        super().__init__("offline", session)
        self.has_extension = bool(self.rows("show functions like 'hive_bucket'"))
        self._tables: dict[str, HypotheticalTable] = {}
        self._meant: dict[str, str] = {}
        self._relations: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._schemas: set[str] = set()
        with self.asked():
            for key, value in PLAN_SETTINGS.items():
                session.conf.set(key, value)
            self._made = Relations(session, folder)

    def define(self, table: HypotheticalTable) -> None:
        """Define a table, or replace the table that has the same name."""
        with self.asked():
            self._mean(table)
        self._tables[table.name.lower()] = table

    def define_view(self, name: str, sql: str) -> None:
        """Create or replace a view."""
        schema, _, view = name.rpartition(".")
        with self.asked():
            self._create_schema(schema)
            self.session.sql(f"create or replace view `{schema}`.`{view}` as\n{sql}")

    def use(self, schema: str) -> None:
        """Make this schema the current schema, in which Spark resolves unqualified names."""
        with self.asked():
            self._create_schema(schema)
            self.session.sql(f"use `{schema}`")

    def table(self, name: str) -> HypotheticalTable | None:
        """Return the definition of a table, or None if the table is not defined."""
        return self._tables.get(name.lower())

    def columns(self, sql: str) -> dict[str, str]:
        """Return the names and types of a query's result columns, without planning the query completely."""
        with self.asked():
            fields = self.session.sql(f"{sql}").schema.fields
            return {field.name: field.dataType.simpleString() for field in fields}

    def plan(
        self, sql: str, tables: Iterable[HypotheticalTable] = (), settings: Mapping[str, str] | None = None
    ) -> PhysicalPlan:
        """Plan a query, with tables and settings that apply to this query only."""
        return parse_plan(self.explain(sql, tables, settings, cost=False).formatted)

    def explain(
        self,
        sql: str,
        tables: Iterable[HypotheticalTable] = (),
        settings: Mapping[str, str] | None = None,
        cost: bool = True,
    ) -> Explained:
        """Return the plan as text from Spark, with the original table names."""
        with self.asked(), self._given(tables, settings or {}):
            texts = explain_execution(self.session, sql, cost)
        return Explained(*map(self._renamed, texts))

    @contextmanager
    def _given(self, tables: Iterable[HypotheticalTable], settings: Mapping[str, str]) -> Iterator[None]:
        changed = [table for table in tables if table != self._tables.get(table.name.lower())]
        with ExitStack() as stack:
            for key, value in settings.items():
                if key not in _FIXED:
                    stack.enter_context(setting(self.session, key, value))
            try:
                for table in changed:
                    self._mean(table)
                yield
            finally:
                for table in changed:
                    before = self._tables.get(table.name.lower())
                    if before:
                        self._mean(before)

    def _mean(self, table: HypotheticalTable) -> None:
        content = table.content
        schema, _, name = table.name.lower().rpartition(".")
        if self._meant.get(table.name.lower()) == content:
            return
        if content not in self._relations:
            self._relations[content] = self._made.relation(table)
            self._names[content] = table.name
        if table.name.lower() not in self._meant:
            self._create_schema(schema)
            self._made.entry(schema, name)
        self._made.name(schema, name, self._relations[content])
        self._meant[table.name.lower()] = content

    def _create_schema(self, schema: str) -> None:
        if schema not in self._schemas:
            self.session.sql(f"create schema if not exists `{schema}`")
            self._schemas.add(schema)

    def _renamed(self, text: str) -> str:
        return _CONTENT.sub(lambda found: self._names.get(found[1], found[1]), text)
