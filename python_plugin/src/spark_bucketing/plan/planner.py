"""Plan queries with SQL, in a session of any kind: in this process, or behind Spark Connect or a Thrift server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from spark_bucketing.errors import SparkError
from spark_bucketing.plan.document import PhysicalPlan, TableFacts, read_plan
from spark_bucketing.sql import Rows


class Planner:
    """A session of Spark with the extension, which plans queries without running them.

    The methods raise a SparkError if Spark rejects a statement. Table names are qualified and quoted.
    """

    def __init__(self, label: str, rows: Rows) -> None:
        self.label, self.rows = label, rows

    def plan(
        self, sql: str, tables: Iterable[TableFacts] = (), settings: Mapping[str, str] | None = None
    ) -> PhysicalPlan:
        """Plan a query, as if these tables existed and the session had these settings."""
        return self._planned(sql, {"settings": dict(settings or {}), "tables": [table.as_data() for table in tables]})

    def require_extension(self) -> PhysicalPlan:
        """Return the plan of a query without tables, which tells the settings and the version of the session."""
        try:
            return self.plan("select 1")
        except SparkError as error:
            if "PARSE_SYNTAX_ERROR" not in str(error) and "ParseException" not in str(error):
                raise
            raise SparkError(
                "This command needs the session extension, but the session loads none or an older version. "
                "`spark-bucketing extension conf` prints the settings that load it."
            ) from error

    def _planned(self, sql: str, assumed: Mapping[str, Any]) -> PhysicalPlan:
        given = {name: value for name, value in assumed.items() if value}
        text = json.dumps(given).replace("\\", "\\\\").replace("'", "\\'")
        assuming = f" assuming '{text}'" if given else ""
        (row,) = self.rows(f"explain buckets format json{assuming} {sql}")
        return read_plan(str(next(iter(row.values()))))


# Stub tables must not be read with fewer tasks because of sizes that nobody has measured.
STUB_SETTINGS = {"spark.bucketing.read.partitionBytes": "0"}


class StubPlanner(Planner):
    """A planner for queries over stub tables and views that exist in no catalog."""

    def __init__(self, label: str, rows: Rows, settings: Mapping[str, str] = STUB_SETTINGS) -> None:
        super().__init__(label, rows)
        self._settings = settings
        self._tables: dict[str, TableFacts] = {}
        self._views: dict[str, str] = {}

    def define(self, table: TableFacts) -> None:
        """Define a table, or replace the table that has the same name."""
        self._tables[table.name.lower()] = table

    def define_view(self, name: str, sql: str) -> None:
        """Create or replace a view."""
        self.plan(sql)
        self._views[name.lower()] = sql

    def table(self, name: str) -> TableFacts | None:
        """Return the definition of a table, or None if the table is not defined."""
        return self._tables.get(name.lower())

    def columns(self, sql: str) -> dict[str, str]:
        """Return the names and types of a query's result columns."""
        return dict(self.plan(sql).columns)

    def plan(
        self, sql: str, tables: Iterable[TableFacts] = (), settings: Mapping[str, str] | None = None
    ) -> PhysicalPlan:
        """Plan a query, with tables and settings that apply to this query only."""
        return self._planned(sql, self._assumed(sql, tables) | {"settings": {**self._settings, **(settings or {})}})

    def _assumed(self, sql: str, changed: Iterable[TableFacts] = ()) -> dict[str, Any]:
        """Return the tables and views that a query may read, directly or through views."""
        tables = self._tables | {table.name.lower(): table for table in changed}
        # The last word of a name with other characters occurs in any text that contains the quoted name.
        by_word: dict[str, list[str]] = {}
        for name in {**tables, **self._views}:
            by_word.setdefault(_words(name)[-1], []).append(name)
        read, waiting = set[str](), [sql]
        while waiting:
            new = {name for word in set(_words(waiting.pop())) for name in by_word.get(word, ())} - read
            read |= new
            waiting += (self._views[name] for name in new if name in self._views)
        return {
            "tables": [table.as_data() for name, table in tables.items() if name in read],
            "views": [{"name": name, "sql": text} for name, text in self._views.items() if name in read],
        }


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower()) or [""]
