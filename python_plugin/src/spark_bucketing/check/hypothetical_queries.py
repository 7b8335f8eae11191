"""Build queries over hypothetical tables.

Offline, the tables are the project's. In a live check, they are copies of the warehouse's tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import cached_property

from spark_bucketing.check.checked_query import Query
from spark_bucketing.check.fixes import HypotheticalQuery
from spark_bucketing.check.scans import TableFacts, spec_as_read
from spark_bucketing.check.session_settings import SPARK_LAYOUT
from spark_bucketing.check.table_facts import Facts
from spark_bucketing.errors import BucketingError, SparkError
from spark_bucketing.plan.planner import Planner
from spark_bucketing.plan.whatif import HypotheticalTable, WhatIf
from spark_bucketing.spec import Description
from spark_bucketing.table import sql

_MISSING = re.compile(r"TABLE_OR_VIEW_NOT_FOUND\][^`]*((?:`[^`]+`\.?)+)")
_MOST_NAMES = 200


Hypothesize = Callable[[Query], HypotheticalQuery | None]
"""Takes a query, and returns it over hypothetical tables, or None if Spark cannot plan it without the warehouse."""


def offline_query(whatif: WhatIf, query: Query) -> HypotheticalQuery:
    """Return a query over tables that are already hypothetical."""
    known = {name: table for name in query.tables if (table := whatif.table(name))}
    return HypotheticalQuery(whatif, query.sql, query.settings, query.tables, known)


class LiveHypotheticalTables:
    """Hypothetical copies of the warehouse's tables, whose Spark session starts when it is first needed."""

    def __init__(self, planner: Planner, facts: Facts, start: Callable[[], AbstractContextManager[WhatIf]]) -> None:
        self._planner, self._facts, self._start = planner, facts, start
        self._stack = ExitStack()

    def close(self) -> None:
        """Close the planner."""
        self._stack.close()

    def query(self, query: Query) -> HypotheticalQuery | None:
        """Return the query over hypothetical copies of the warehouse's tables, or None if Spark cannot plan it."""
        whatif = self._whatif
        if whatif is None:
            return None
        known: dict[str, HypotheticalTable] = {}
        session: dict[str, str] = {}
        for name, facts in query.tables.items():
            scans = [scan for node in query.plan.walk() if node.table == name and (scan := query.bucketed(node))]
            files = max((scan.files for scan in scans), default=1)
            known[name] = replace(
                _with_planned_size(facts, query), spec=spec_as_read(scans), files_per_bucket=files, partitions=None
            )
            if any(scan.left_to_stock for scan in scans):
                session = {SPARK_LAYOUT: "false"}
        for statement in query.functions:
            # Another query may have created the same function.
            with suppress(SparkError):
                whatif.rows(statement)
        try:
            self._complete(whatif, query.sql, list(known.values()))
        except BucketingError:
            return None
        return HypotheticalQuery(whatif, query.sql, query.settings, query.tables, known, session)

    @cached_property
    def _whatif(self) -> WhatIf | None:
        """Start the planner for hypothetical tables when it is first needed; return None if it does not start."""
        with suppress(BucketingError):
            whatif = self._stack.enter_context(self._start())
            whatif.use(str(self._planner.rows("select current_database()")[0][0]))
            return whatif
        return None

    def _complete(self, whatif: WhatIf, sql: str, tables: Sequence[HypotheticalTable]) -> None:
        """Define the tables and views that the query reads.

        Raises:
            BucketingError: the query uses a function, a table of another catalog, or another object that the embedded
                Spark does not have.
        """
        for table in tables:
            if table.name.count(".") == 1 and whatif.table(table.name) is None:
                whatif.define(table)
        for _ in range(_MOST_NAMES):
            try:
                whatif.plan(sql, tables)
                return
            except SparkError as error:
                missing = _MISSING.search(str(error))
                if missing is None:
                    raise
            self._define(whatif, missing[1])

    def _define(self, whatif: WhatIf, quoted: str) -> None:
        """Define a view, or a table that is missing from the plan.

        For example, Spark removes tables below a condition that is always false.
        """
        parts = sql.parts(quoted)[-2:]
        name = ".".join(parts if len(parts) == 2 else [str(whatif.rows("select current_database()")[0][0]), *parts])
        details = Description.of(self._planner.rows(f"describe table extended {quoted}")).details
        if text := details.get("View Text"):
            whatif.define_view(name, text)
            return
        facts = self._facts.of([name]).get(name)
        if facts is None or whatif.table(name):
            raise SparkError(f"Spark cannot describe the table `{name}`.")
        whatif.define(facts)


def _with_planned_size(facts: TableFacts, query: Query) -> TableFacts:
    """Return the facts with the size of the selected partitions, which is the size with which Spark plans the query."""
    if not facts.partition_columns:
        return facts
    size = query.statistics.tables.get(facts.name)
    return replace(facts, size_bytes=facts.size_bytes if size is None else size, knows_size=size is not None)
