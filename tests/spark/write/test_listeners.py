"""Tests that a QueryExecutionListener, such as those of OpenLineage and Spline, sees the command, the table and the query of each write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bucketed_tables import Tables
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")
BUCKETS = "clustered by (k) sorted by (k) into 2 buckets"
TABLES = {
    "native": f"(k bigint, v int, p int) using parquet partitioned by (p) {BUCKETS}",
    "hive": f"(k bigint, v int) partitioned by (p int) {BUCKETS} stored as parquet",
    "hive serde": f"(k bigint, v int) partitioned by (p int) {BUCKETS} stored as parquet",
    "organized": """(k bigint, v int, p int) using parquet partitioned by (p) tblproperties ('bucketing.range_by' = '["k"]')""",
}
INSERTS = {
    "insert into t select k, v, p from source": "Append",
    "insert overwrite t select k, v, p from source": "Overwrite",
    "insert overwrite t partition (p = 1) select k, v from source": "Overwrite",
}
CHANGES = {
    "merge into t using source as s on t.k = s.k when matched then update set v = s.v when not matched then insert *": [
        "source"
    ],
    "update t set v = 3 where k < 2": [],
    "delete from t where k = 1": [],
}
FILES = "org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand"
HIVE = "org.apache.spark.sql.hive.execution.InsertIntoHiveTable"


class Listener:
    """Keeps the executions that Spark reports."""

    def __init__(self) -> None:
        self.executions: list[Any] = []
        self.failures: list[Any] = []

    def onSuccess(self, _name: str, execution: Any, _nanos: int) -> None:  # noqa: N802
        self.executions.append(execution)

    def onFailure(self, _name: str, execution: Any, _error: Any) -> None:  # noqa: N802
        self.failures.append(execution)

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


@contextmanager
def listening(spark: SparkSession) -> Iterator[Listener]:
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    listener, manager = Listener(), spark._jsparkSession.listenerManager()
    manager.register(listener)
    try:
        yield listener
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        manager.unregister(listener)


def tables_of(plan: Any) -> list[str]:
    """Return the names of the tables that the leaves of a plan read, as lineage listeners find them."""
    leaves = plan.collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.size())]
    relations = [leaf for leaf in found if leaf.getClass().getSimpleName() in ("LogicalRelation", "HiveTableRelation")]
    of_files = [leaf.catalogTable().get() for leaf in relations if leaf.getClass().getSimpleName() == "LogicalRelation"]
    return sorted({str(table.identifier().table()) for table in of_files})


def commands(listener: Listener, name: str) -> list[Any]:
    """Return the commands of a class or its subclasses: the one that Spark has run, and those in analyzed plans."""

    def is_one(plan: Any) -> bool:
        of = plan.getClass()
        while of and of.getName() != name:
            of = of.getSuperclass()
        return bool(of)

    optimized = [plan for plan in (one.optimizedPlan() for one in listener.executions) if is_one(plan)]
    analyzed = [plan for plan in (one.analyzed() for one in listener.executions) if is_one(plan)]
    assert len(optimized) == 1 and analyzed and not listener.failures
    return optimized + analyzed


@pytest.fixture
def source(tables: Tables) -> None:
    tables.sql("create table if not exists source using parquet as select 1L as k, 2 as v, 1 as p")


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("of", TABLES)
@pytest.mark.parametrize("statement", INSERTS)
@pytest.mark.some(2)
def test_listeners_see_sparks_insert_commands(tables: Tables, of: str, statement: str) -> None:
    tables.create(f"t {TABLES[of]}")
    convert = {"spark.sql.hive.convertMetastoreParquet": str(of != "hive serde").lower()}
    with tables.settings(convert), listening(tables.spark) as listener:
        tables.sql(statement)
    for command in commands(listener, HIVE if of == "hive serde" else FILES):
        assert tables_of(command.query()) == ["source"]
        # Without Spark's own writer, the columns are those of the query, which lacks a literal partition value.
        columns = ["k", "v"] if of == "hive serde" and "partition (" in statement else ["k", "v", "p"]
        assert [*map(str, _elements(command.outputColumnNames()))] == columns
        if of == "hive serde":
            assert command.table().identifier().table() == "t"
            assert command.overwrite() == (INSERTS[statement] == "Overwrite")
            continue
        assert command.catalogTable().get().identifier().table() == "t"
        assert command.mode().toString() == INSERTS[statement]
        assert str(command.outputPath()).endswith(str(tables.folder("t")))


def _elements(of: Any) -> list[Any]:
    return [of.apply(number) for number in range(of.size())]


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("of", TABLES)
@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.some(2)
def test_listeners_see_the_table_and_the_source_of_a_row_change(tables: Tables, of: str, statement: str) -> None:
    """Spark has no command for them that works on files, so listeners find the extension's own."""
    tables.create(f"t {TABLES[of]}")
    tables.sql("insert into t values (1, 1, 1)")
    with listening(tables.spark) as listener:
        tables.sql(statement)
    for command in commands(listener, "org.apache.spark.sql.bucketing.dml.ChangeRows"):
        assert command.table().identifier().table() == "t"
        assert tables_of(command) == CHANGES[statement], command.toString()
