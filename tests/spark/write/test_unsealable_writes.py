"""What is written is not sealed where the rows may come back out of the files as others, or in another order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bucketed import Tables
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension")


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[Tables]:
    made = Tables(spark, "unsealable_writes")
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield made
        made.sql("drop table if exists t")


def status(tables: Tables) -> list[tuple[object, ...]]:
    return tables.sql("select status from bucket_specs('unsealable_writes.t')")


def create(tables: Tables, columns: str, by: str, sorts: str, stored: str) -> None:
    tables.sql("drop table if exists t")
    tables.sql(f"create table t ({columns}) clustered by ({by}) sorted by ({sorts}) into 8 buckets stored as {stored}")


@pytest.mark.parametrize(
    ("stored", "settings"),
    [
        ("orc", {}),
        ("parquet", {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}),
        ("parquet", {"spark.sql.hive.convertMetastoreParquet": "false"}),
    ],
)
def test_dates_that_calendars_count_differently(tables: Tables, stored: str, settings: dict[str, str]) -> None:
    create(tables, "d date, v int", "d", "d", stored)
    with tables.settings(settings):
        tables.sql("insert into t values (date'1582-10-10', 1), (date'1500-01-01', 2), (date'2024-01-01', 3)")
    assert status(tables) == [("not-sealed",)]
    reading = {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}
    with tables.settings(reading):
        for query in ("select * from t where d = date'1582-10-15'", "select d, count(*) from t group by d"):
            assert tables.rows(query) == tables.stock_rows(query)
    with tables.settings(settings):
        tables.sql("insert overwrite table t values (date'1582-10-15', 1), (date'2024-01-01', 3)")
    assert status(tables) == [("sealed",)]


@pytest.mark.parametrize("planned", ["true", "false"])
@pytest.mark.parametrize("distribute", ["true", "false"])
def test_rows_that_come_in_the_opposite_order(tables: Tables, planned: str, distribute: str) -> None:
    create(tables, "k int, v int", "k", "k", "parquet")
    settings = {
        "spark.bucketing.write.distribute": distribute,
        "spark.sql.optimizer.plannedWrite.enabled": planned,
    }
    source = "select cast(id as int) as k, cast(id as int) as v from range(300)"
    with tables.settings(settings):
        tables.sql(f"insert overwrite table t select k, v from ({source}) sort by hive_bucket(8, k), k desc")
    tables.make("good", "k int, w int", "k", 8, source.replace("as v", "as w"))
    query = "select * from t join good on t.k = good.k"
    assert len(tables.rows(query)) == 300 and tables.rows(query) == tables.stock_rows(query)
    assert status(tables) == [("sealed" if distribute == "true" else "not-sealed",)]


def test_a_timestamp_ends_the_order(tables: Tables) -> None:
    create(tables, "k int, at timestamp, x int", "k", "k, at, x", "parquet")
    rows = "values (1, timestamp'2024-01-01 00:00:00.000100', 9), (1, timestamp'2024-01-01 00:00:00.000200', 5)"
    with tables.settings({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}):
        tables.sql(f"insert into t {rows}")
    query = "select * from t a join t b on a.k = b.k and a.at = b.at and a.x = b.x"
    assert len(tables.rows(query)) == 2
    assert tables.shape(query).sorts == 2


def test_tasks_that_have_several_files_open(tables: Tables) -> None:
    tables.sql("drop table if exists t")
    tables.sql(
        "create table t (k int) partitioned by (p int) clustered by (k) into 4 buckets stored as parquet",
    )
    settings = {"spark.sql.maxConcurrentOutputFileWriters": "4", "hive.exec.dynamic.partition.mode": "nonstrict"}
    with tables.settings(settings):
        tables.sql("insert into t select cast(id as int), cast(id % 2 as int) from range(40)")
    assert status(tables) == [("not-sealed",), ("not-sealed",)]
    query = "select k, count(*) from t group by k"
    assert tables.rows(query) == tables.stock_rows(query)
