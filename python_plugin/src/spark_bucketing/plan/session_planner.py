"""Plan queries with the Spark in this process.

Each query is planned only once, even if several outputs of EXPLAIN are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from spark_bucketing.plan.planner import PLAN_SETTINGS, Explained, Planner
from spark_bucketing.session import active_session, explain_execution, setting, spark_call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionPlanner(Planner):
    """A planner that uses a SparkSession in this process."""

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
