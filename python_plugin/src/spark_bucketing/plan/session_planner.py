"""The Spark of this process, which plans each query once for all that is asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from spark_bucketing.plan.planner import PLAN_SETTINGS, Explained, Planner
from spark_bucketing.session import active_session, explain_execution, setting, spark_call

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionPlanner(Planner):
    """A SparkSession of this process."""

    def __init__(self, label: str, session: SparkSession) -> None:
        self.label, self.session = label, session

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a statement."""
        with self.asked():
            return [tuple(row) for row in self.session.sql(sql).collect()]

    def explain(self, sql: str) -> Explained:
        """The plan of a query, which is planned once for both texts."""
        with self.asked():
            return Explained(*explain_execution(self.session, sql))

    def data_files(self, table: str) -> Sequence[str]:
        """Paths of a table's files, as Spark lists them now."""
        with self.asked():
            self.session.catalog.refreshTable(table)
            return list(self.session.table(table).inputFiles())

    def size_of(self, table: str) -> int | None:
        """Bytes of a table's files, all partitions together."""
        with self.asked():
            leaf = self.session.table(table)._jdf.queryExecution().optimizedPlan().collectLeaves().head()
            if leaf.getClass().getSimpleName() != "LogicalRelation":
                return None
            files = leaf.relation().location()
            # Without statistics the index of a partitioned table has Spark's default, and that of its files knows.
            if files.getClass().getSimpleName() == "CatalogFileIndex":
                no_filters = leaf.output().take(0)
                files = files.filterPartitions(no_filters)
            return int(files.sizeInBytes())

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Inside the block this thread asks the session, and what Spark raises is a SparkError."""
        with active_session(self.session), spark_call(""):
            yield

    @contextmanager
    def printing_in_full(self) -> Iterator[SessionPlanner]:
        """Inside the block plans are printed in full; the session's settings are afterwards what they were."""
        with ExitStack() as stack:
            for key, value in PLAN_SETTINGS.items():
                stack.enter_context(setting(self.session, key, value))
            yield self
