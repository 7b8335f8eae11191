"""Buckets are made use of where they are enough tasks for their bytes, and a shuffle is planned where it is faster."""

from __future__ import annotations

import re

import pytest
from bucketed_tables import Shape, Tables, cores
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

ROWS = "select id as k, repeat(sha2(cast(id as string), 256), 4) as v from range(1600)"
MAX, SMALL = "spark.bucketing.read.maxPartitionBytes", "spark.bucketing.read.partitionBytes"


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Tables of 2 and of 8 buckets, one of the Spark layout, and plain ones."""
    for name, buckets in (("few", 2), ("many", 8)):
        tables.make(name, "k bigint, v string", "k", buckets, ROWS)
    tables.make("sparks", "k bigint, v string", "k", 2, stored="using parquet")
    with tables.settings({"spark.bucketing.enabled": "true"}):
        tables.sql(f"insert into sparks {ROWS}")
    tables.create("parts (k bigint, v string) partitioned by (d int) stored as parquet")
    tables.sql("insert into parts partition (d = 1) values (1, 'a'), (7, 'b')")
    tables.create(f"plain stored as parquet as {ROWS}")
    return tables


def bytes_of(tables: Tables, name: str) -> int:
    return sum(path.stat().st_size for path in tables.files(name))


def join(left: str, right: str) -> str:
    return f"select a.k, a.v, b.v from {left} a join {right} b on a.k = b.k"


# (query, cores, maxPartitionBytes as a share of the bytes of `few`, plan, code): where 2 of 64 cores would be busy, an
# eighth of maxPartitionBytes is too much.
PLANS = [
    (join("few", "few"), 64, 1, Shape(2, 2, 0), "[too-few-buckets]"),
    (join("few", "few"), 64, 5, Shape(0, 0, 2), ""),
    (join("few", "few"), 16, 0.8, Shape(2, 2, 0), "[too-few-buckets]"),
    (join("few", "few"), 16, 1.2, Shape(0, 0, 2), ""),
    (join("few", "few"), 8, 0.1, Shape(0, 0, 2), ""),
    ("select k, count(*) from few group by k", 64, 1, Shape(1, 0, 0), "[too-few-buckets]"),
    # One bucket is asked for, and it is large.
    ("select k, count(*) from few where k = 5 group by k", 64, 5, Shape(1, 0, 0), "[too-few-buckets]"),
    ("select k, count(*) from few where k = 5 group by k", 64, 9, Shape(0, 0, 1), ""),
    # Each side has little, both together have not.
    (join("few", "many"), 20, 2, Shape(1, 1, 1), "not-needed"),
    (join("few", "many"), 20, 9, Shape(0, 0, 2), ""),
    # The plain side would be moved into two partitions.
    (join("few", "plain"), 64, 5, Shape(1, 1, 1), ""),
    (join("few", "(select * from plain union all select * from plain)"), 64, 5, Shape(2, 2, 0), "[too-few-buckets]"),
    # Of a table of partitions nobody knows the size, and it may be small.
    (join("few", "parts"), 64, 5, Shape(1, 1, 1), ""),
    # What moves is the few rows of an aggregate.
    (join("few", "(select max(k) as k, v from plain group by v limit 5)"), 64, 5, Shape(3, 1, 1), ""),
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


# What one task of a shuffle is to have, as a share of the bytes of `plain`; the query; how many buckets are read as one task each.
MOVED = [
    (10, join("many", "plain"), 2),
    (1 / 7, join("many", "plain"), 8),
    # However few rows come out of it.
    (1 / 7, "select count(a.v), count(b.v) from many a join plain b on a.k = b.k", 8),
    (1 / 7, join("many", "plain") + " limit 10", 8),
    # A filter leaves less, and Spark has an idea how much.
    (1 / 7, join("many", "(select * from plain limit 5)"), 2),
    # Of a table of partitions nobody knows the size, and it may be large.
    (10, join("many", "parts"), 8),
]


@pytest.mark.parametrize(("share", "query", "tasks"), MOVED)
def test_small_buckets_are_enough_for_what_moves_into_them(
    tables: Tables, share: float, query: str, tasks: int
) -> None:
    advised = str(int(share * bytes_of(tables, "plain")))
    settings = {SMALL: "8m", "spark.sql.adaptive.advisoryPartitionSizeInBytes": advised}
    with cores(tables.spark, 2), tables.settings(settings):
        rows, plan = tables.run(query)
        assert f"hivehashpartitioning(k, {tasks})" in re.sub(r"#\d+L?", "", plan), plan
    assert len(rows) == len(tables.stock_rows(query)) > 0


@pytest.mark.parametrize(("one", "other", "number"), [(10, 20, 3), (6, 12, 4), (12, 36, 8), (8, 12, 3), (100, 200, 3)])
def test_tables_that_fit_still_fit_when_their_buckets_are_read_together(
    tables: Tables, one: int, other: int, number: int
) -> None:
    for buckets in (one, other):
        tables.make(f"of{buckets}", "k bigint, v string", "k", buckets, ROWS)
    query = join(f"of{one}", f"of{other}")
    with cores(tables.spark, number):
        apart = tables.shape(query)
        with tables.settings({SMALL: "8m"}):
            rows = tables.run(query)[0]
            assert tables.shape(query).exchanges == apart.exchanges
    assert rows == tables.stock_rows(query) != []


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
