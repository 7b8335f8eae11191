"""Tests that tasks which fail and run again leave neither rows nor files in a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from bucketed_tables import Tables, cores
from local_files import failing
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")
BUCKETS = "clustered by (k) sorted by (k) into 4 buckets"
TABLES = {
    "hive": f"(k bigint, v int) partitioned by (p int) {BUCKETS} stored as parquet",
    "native": f"(k bigint, v int, p int) using parquet partitioned by (p) {BUCKETS}",
    "orc": f"(k bigint, v int) partitioned by (p int) {BUCKETS} stored as orc",
    "whole": f"(k bigint, v int, p int) {BUCKETS} stored as parquet",
    "organized": "(k bigint, v int, p int) using parquet partitioned by (p)"
    """ tblproperties ('bucketing.range_by' = '["k"]', 'bucketing.rows_per_file' = '5')""",
}
Row = tuple[int, int, int]
OLD: list[Row] = [(k, 0, k % 2) for k in range(40)]
NEW: list[Row] = [(k, 1, k % 2) for k in range(100, 140)]
ROWS = "select id as k, 1 as v, cast(id % 2 as int) as p from range(100, 140)"
STATEMENTS: dict[str, tuple[str, list[Row]]] = {
    "insert": (f"insert into t {ROWS}", OLD + NEW),
    "overwrite": (f"insert overwrite t {ROWS}", NEW),
    "merge": (f"merge into t using ({ROWS}) as s on t.k = s.k when not matched then insert *", OLD + NEW),
    "update": ("update t set v = 2", [(k, 2, p) for k, _, p in OLD]),
}
# The second file of a task, so that the first one is complete, and the commit of a task by Spark's own writer.
FAILURES = {
    "file": r"create .*/_replaced/[^/]*/files/.*(_00001\.c|/00001_0_part|\.c001).*",
    "commit": "rename .*/_replaced/[^/]*/files/_temporary/.*",
}


@contextmanager
def attempts(spark: SparkSession, number: int) -> Iterator[None]:
    """Let a task run again after a failure. Spark's local mode otherwise has one attempt."""
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    field = scheduler.getClass().getDeclaredField("maxTaskFailures")
    field.setAccessible(True)
    before = field.get(scheduler)
    field.set(scheduler, number)
    try:
        yield
    finally:
        field.set(scheduler, before)


def failed_tasks(spark: SparkSession) -> int:
    store = spark.sparkContext._jsc.sc().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return int(store.executorList(False).apply(0).failedTasks())


# Only Spark's tasks of an INSERT commit their files.
CASES = [
    case
    for case in product(TABLES, STATEMENTS, FAILURES)
    if case[2] != "commit" or (case[0] != "organized" and case[1] not in ("merge", "update"))
]


@pytest.mark.parametrize(("of", "statement", "failure"), CASES)
@pytest.mark.some(3)
def test_failed_task_that_runs_again_leaves_no_file(tables: Tables, of: str, statement: str, failure: str) -> None:
    sql, expected = STATEMENTS[statement]
    tables.create(f"t {TABLES[of]}")
    tables.sql("insert into t select id as k, 0 as v, cast(id % 2 as int) as p from range(40)")
    before = failed_tasks(tables.spark)
    # Few tasks, so that a task writes several files.
    with cores(tables.spark, 1), attempts(tables.spark, 3), failing(tables.spark, FAILURES[failure]):
        tables.sql(sql)
    assert failed_tasks(tables.spark) == before + 1
    for query in ("select k, v, p from t", "stock:select k, v, p from t"):
        tables.sql("refresh table t")
        assert sorted(tables.sql(query)) == expected, query
    assert not [*tables.folder("t").glob("_replaced/*/files")]
    if of != "organized":
        assert tables.sql(f"select distinct status from bucket_specs('{tables.database}.t')") == [("sealed",)]


@pytest.mark.parametrize("of", all_long_but("hive", ["hive", "native", "orc"]))
@pytest.mark.parametrize("statement", ["insert into", "insert overwrite"])
@pytest.mark.some(1)
def test_files_of_a_failed_attempt_that_stay_are_an_error(tables: Tables, of: str, statement: str) -> None:
    """This algorithm of Hadoop's committer moves files before all of the task is committed, so they stay after a failure."""
    tables.create(f"t {TABLES[of]}")
    tables.sql("insert into t values (1, 1, 1)")

    def partition_of(key: int) -> int:
        context = TaskContext.get()
        assert context
        return 10 * context.attemptNumber() + key % 2

    tables.spark.udf.register("partition_of", partition_of, "int")
    settings = {
        "mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.bucketing.write.distribute": "false",
    }
    refused = pytest.raises(
        PySparkException, match=r"(?s)found: .*\d new files.*as reported by the tasks.*nothing has been changed"
    )
    half = failing(tables.spark, "rename .*/_replaced/[^/]*/files/_temporary/.*/p=1.*")
    with tables.settings(settings), attempts(tables.spark, 3), half, refused:
        tables.sql(f"{statement} t select id, 2, partition_of(id) from range(0, 4, 1, 1)")
    tables.sql("refresh table t")
    assert tables.sql("select k, v, p from t") == tables.sql("stock:select k, v, p from t") == [(1, 1, 1)]
