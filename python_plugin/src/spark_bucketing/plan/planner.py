"""Define the interface to a Spark that can explain SQL, over any kind of connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_bucketing.errors import SparkError

# These settings make EXPLAIN print complete lists, which Spark truncates by default. The last setting is for a scan's
# directories, which identify its partitions. It allows 100 characters per path.
PLAN_SETTINGS: Mapping[str, str] = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxMetadataValueLength": "100000",
    "spark.sql.maxPlanStringLength": "2147483632",
    "spark.sql.maxMetadataStringLength": "10000000",
}


@dataclass(frozen=True)
class Explained:
    """The plans that Spark explains for one query."""

    formatted: str  # output of EXPLAIN FORMATTED
    cost: str = ""  # output of EXPLAIN COST; empty if the caller does not request it


class Planner(ABC):
    """A Spark that plans queries.

    Table names are qualified and quoted.
    """

    label: str

    @abstractmethod
    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement, and return its rows.

        Raises:
            SparkError: Spark rejects the statement.
        """

    @abstractmethod
    def explain(self, sql: str) -> Explained:
        """Plan a query without running it.

        Raises:
            SparkError: Spark cannot plan the query.
        """

    def data_files(self, table: str) -> Sequence[str] | None:  # noqa: ARG002
        """Return the paths of a table's files.

        Return None if only a query that reads the files could list them.
        """
        return None

    def size_of(self, table: str) -> int | None:  # noqa: ARG002
        """Return the current total size of a table's files in bytes, or None if it is unknown."""
        return None


class SqlPlanner(Planner):
    """A remote Spark that this process can use only through SQL."""

    def __init__(self, label: str, run: Any) -> None:
        self.label, self._run = label, run
        for key, value in PLAN_SETTINGS.items():
            self._run(f"set {key}={value}")

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        return tuple(self._run(sql))

    def explain(self, sql: str) -> Explained:
        """Return a query's plan in the form that EXPLAIN prints."""
        return Explained(self._explain("formatted", sql), self._explain("cost", sql))

    def _explain(self, mode: str, sql: str) -> str:
        text = "\n".join(str(row[0]) for row in self.rows(f"explain {mode}\n{sql}"))
        # EXPLAIN does not fail; it returns the error as a row.
        if "== Physical Plan ==" not in text:
            raise SparkError(text.removeprefix("Error occurred during query planning:").strip())
        return text
