"""Plan queries with SQL, in a session of any kind: in this process, or behind Spark Connect or a Thrift server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from spark_bucketing.errors import SparkError
from spark_bucketing.plan.document import PhysicalPlan, TableFacts, read_plan
from spark_bucketing.sql import Rows

# Stub tables must not be read with fewer tasks because of sizes that nobody has measured.
_STUB_SETTINGS = {"spark.bucketing.read.partitionBytes": "0"}


class Planner:
    """A session of Spark with the extension, which plans queries without running them.

    The queries may also read defined tables and views, which exist in no catalog. The methods raise a SparkError if
    Spark rejects a statement. Table names are qualified and quoted.
    """

    def __init__(self, label: str, rows: Rows) -> None:
        self.label, self.rows = label, rows
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

    def plan(
        self, sql: str, tables: Iterable[TableFacts] = (), settings: Mapping[str, str] | None = None
    ) -> PhysicalPlan:
        """Plan a query, as if these tables existed and the session had these settings."""
        own = _STUB_SETTINGS if self._tables or self._views else {}
        assumed = {"settings": {**own, **(settings or {})}, **self._assumed(sql, tables)}
        given = {name: value for name, value in assumed.items() if value}
        text = json.dumps(given).replace("\\", "\\\\").replace("'", "\\'")
        assuming = f" assuming '{text}'" if given else ""
        (row,) = self.rows(f"explain buckets format json{assuming} {sql}")
        return read_plan(str(next(iter(row.values()))))

    def _assumed(self, sql: str, changed: Iterable[TableFacts]) -> dict[str, Any]:
        """Return the changed tables, and the defined tables and views that a query may read, also through views."""
        own = {table.name.lower(): table for table in changed}
        tables = self._tables | own
        # The last word of a name with other characters occurs in any text that contains the quoted name.
        by_word: dict[str, list[str]] = {}
        for name in {**tables, **self._views}:
            by_word.setdefault(_words(name)[-1], []).append(name)
        read, waiting = set(own), [sql]
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
