"""Buckets are made use of where they are enough tasks for their bytes, and a shuffle is planned where it is faster."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from bucketed import Shape, Tables, cores
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension")

ROWS = "select id as k, repeat(sha2(cast(id as string), 256), 4) as v from range(1600)"
MAX = "spark.bucketing.read.maxPartitionBytes"


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Tables:
    """Tables of 2 and of 8 buckets, one of the Spark layout, and plain ones."""
    tables = Tables(spark, "bucket_tasks")
    for name, buckets in (("few", 2), ("many", 8)):
        tables.make(name, "k bigint, v string", "k", buckets, ROWS)
    tables.make("sparks", "k bigint, v string", "k", 2, stored="using parquet")
    with tables.settings({"spark.bucketing.enabled": "true"}):
        tables.sql(f"insert into sparks {ROWS}")
    tables.sql("drop table if exists parts")
    tables.sql("create table parts (k bigint, v string) partitioned by (d int) stored as parquet")
    tables.sql("insert into parts partition (d = 1) values (1, 'a'), (7, 'b')")
    tables.sql("drop table if exists plain")
    tables.sql(f"create table plain stored as parquet as {ROWS}")
    return tables


@pytest.fixture
def tables(made: Tables) -> Iterator[Tables]:
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield made


def bytes_of(tables: Tables, name: str) -> int:
    return sum(path.stat().st_size for path in tables.files(name))


def join(left: str, right: str) -> str:
    return f"select a.k, a.v, b.v from {left} a join {right} b on a.k = b.k"


# (query, cores, share of the bytes of `few` that a partition may have, plan, code)
PLANS = [
    (join("few", "few"), 64, 0.1, Shape(2, 2, 0), "[too-few-buckets]"),
    (join("few", "few"), 64, 0.9, Shape(0, 0, 2), ""),
    (join("few", "few"), 8, 0.1, Shape(0, 0, 2), ""),
    ("select k, count(*) from few group by k", 64, 0.1, Shape(1, 0, 0), "[too-few-buckets]"),
    # One bucket is asked for, and it is large.
    ("select k, count(*) from few where k = 5 group by k", 64, 0.1, Shape(1, 0, 0), "[too-few-buckets]"),
    ("select k, count(*) from few where k = 5 group by k", 64, 0.9, Shape(0, 0, 1), ""),
    # Each side has little, both together have not.
    (join("few", "many"), 20, 0.9, Shape(1, 1, 1), "not-needed"),
    (join("few", "many"), 20, 9, Shape(0, 0, 2), ""),
    # The plain side would be moved into two partitions.
    (join("few", "plain"), 64, 0.9, Shape(1, 1, 1), ""),
    (join("few", "(select * from plain union all select * from plain)"), 64, 0.9, Shape(2, 2, 0), "[too-few-buckets]"),
    # Of a table of partitions nobody knows the size, and it may be small.
    (join("few", "parts"), 64, 0.9, Shape(1, 1, 1), ""),
    # What moves is the few rows of an aggregate.
    (join("few", "(select max(k) as k, v from plain group by v limit 5)"), 64, 0.9, Shape(3, 1, 1), ""),
    # Stock Spark makes use of its own buckets, however few they are.
    (join("sparks", "sparks"), 64, 0.1, Shape(0, 0, 2), ""),
]


@pytest.mark.parametrize(("query", "number", "share", "expected", "code"), PLANS)
def test_too_few_buckets(tables: Tables, query: str, number: int, share: float, expected: Shape, code: str) -> None:
    with cores(tables.spark, number), tables.settings({MAX: str(int(share * bytes_of(tables, "few")))}):
        rows, plan = tables.run(query)
        assert code in plan and (code or "too-few" not in plan), plan
        assert tables.shape(query) == expected, plan
    assert rows == tables.stock_rows(query) != []


def test_small_buckets_are_enough_for_the_plain_table_that_moves_into_them(tables: Tables) -> None:
    settings = {"spark.bucketing.read.partitionBytes": "8m", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64m"}
    with cores(tables.spark, 2):
        for advised, tasks in (("64m", 2), (str(bytes_of(tables, "plain") // 7), 8)):
            with tables.settings(settings | {"spark.sql.adaptive.advisoryPartitionSizeInBytes": advised}):
                for other, expected in (("plain", tasks), ("parts", 2)):
                    plan = tables.read(join("many", other))
                    assert re.findall(r"hivehashpartitioning\(k#\d+L?, (\d+)\)", plan) == [str(expected)]


def test_cores_that_are_asked_for_later_count(spark: SparkSession) -> None:
    """Dynamic allocation starts with few executors."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    tasks, conf = jvm.org.apache.spark.sql.bucketing.read.BucketTasks, spark.sparkContext._jsc.sc().conf()
    assert tasks.cores(spark._jsparkSession) == 3
    later = {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "2"}
    try:
        for key, value in later.items():
            conf.set(key, value)
        assert tasks.cores(spark._jsparkSession) == 6, "as many as are shuffled with"
        conf.set("spark.dynamicAllocation.maxExecutors", "2")
        assert tasks.cores(spark._jsparkSession) == 4
    finally:
        for key in (*later, "spark.dynamicAllocation.maxExecutors"):
            conf.remove(key)
