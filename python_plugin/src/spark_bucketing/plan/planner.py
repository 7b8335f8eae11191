"""What answers: a Spark that explains SQL, over whichever connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_bucketing.errors import SparkError

# With these, EXPLAIN prints lists in full; Spark's defaults cut them off. The last one is for the folders that a scan
# reads, which tell its partitions. Each may be 100 characters.
PLAN_SETTINGS: Mapping[str, str] = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxMetadataValueLength": "100000",
    "spark.sql.maxPlanStringLength": "2147483632",
    "spark.sql.maxMetadataStringLength": "10000000",
}


@dataclass(frozen=True)
class Explained:
    """Spark's answers for one query."""

    formatted: str  # the text of EXPLAIN FORMATTED
    cost: str = ""  # the text of EXPLAIN COST; empty where nobody asked for it


class Planner(ABC):
    """A Spark that answers; a table's name is qualified and quoted."""

    label: str

    @abstractmethod
    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a statement.

        Raises:
            SparkError: Spark refuses it.
        """

    @abstractmethod
    def explain(self, sql: str) -> Explained:
        """The plan of a query, which is not run.

        Raises:
            SparkError: Spark cannot plan it.
        """

    def data_files(self, table: str) -> Sequence[str] | None:  # noqa: ARG002
        """Paths of a table's files; None where they cannot be listed: SQL can do so only by reading them."""
        return None

    def size_of(self, table: str) -> int | None:  # noqa: ARG002
        """Bytes of a table's files, listed now; None where they cannot be."""
        return None


class SqlPlanner(Planner):
    """A Spark over the wire, which is asked in SQL alone."""

    def __init__(self, label: str, run: Any) -> None:
        self.label, self._run = label, run
        for key, value in PLAN_SETTINGS.items():
            self._run(f"set {key}={value}")

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a statement."""
        return tuple(self._run(sql))

    def explain(self, sql: str) -> Explained:
        """The plan of a query, as EXPLAIN prints it."""
        return Explained(self._explain("formatted", sql), self._explain("cost", sql))

    def _explain(self, mode: str, sql: str) -> str:
        text = "\n".join(str(row[0]) for row in self.rows(f"explain {mode}\n{sql}"))
        # EXPLAIN has no error: what is wrong with a query is its answer.
        if "== Physical Plan ==" not in text:
            raise SparkError(text.removeprefix("Error occurred during query planning:").strip())
        return text
