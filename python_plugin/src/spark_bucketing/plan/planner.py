"""Plan queries with a Spark in this process, or over any kind of connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_bucketing.errors import SparkError
from spark_bucketing.session import active_session, explain_execution, setting, spark_call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        """Return the paths of a table's files, or None if only a query that reads the files could list them."""
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


class SessionPlanner(Planner):
    """A planner that uses a SparkSession in this process, and plans each query only once."""

    def __init__(self, label: str, session: SparkSession) -> None:
        self.label, self.session = label, session

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        with self.asked():
            return [tuple(row) for row in self.session.sql(sql).collect()]

    def explain(self, sql: str) -> Explained:
        """Plan a query once, and return the output of both EXPLAIN commands."""
        with self.asked():
            return Explained(*explain_execution(self.session, sql))

    def data_files(self, table: str) -> Sequence[str]:
        """Return the paths of a table's files in Spark's current listing."""
        with self.asked():
            self.session.catalog.refreshTable(table)
            return list(self.session.table(table).inputFiles())

    def size_of(self, table: str) -> int | None:
        """Return the total size of a table's files in bytes, over all partitions."""
        with self.asked():
            leaf = self.session.table(table)._jdf.queryExecution().optimizedPlan().collectLeaves().head()
            if leaf.getClass().getSimpleName() != "LogicalRelation":
                return None
            files = leaf.relation().location()
            # Without statistics, the catalog index of a partitioned table returns Spark's default size, but the file
            # index returns the real size.
            if files.getClass().getSimpleName() == "CatalogFileIndex":
                no_filters = leaf.output().take(0)
                files = files.filterPartitions(no_filters)
            return int(files.sizeInBytes())

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Make the session the active one in this thread inside the block, and convert Spark's errors to SparkError."""
        with active_session(self.session), spark_call(""):
            yield

    @contextmanager
    def printing_in_full(self) -> Iterator[SessionPlanner]:
        """Let Spark print complete plans inside the block, and restore the session's settings afterwards."""
        with ExitStack() as stack:
            for key, value in PLAN_SETTINGS.items():
                stack.enter_context(setting(self.session, key, value))
            yield self
