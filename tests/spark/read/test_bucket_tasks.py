"""Tests that the planner uses buckets if they make enough tasks for their bytes, and shuffles if that is faster."""

from __future__ import annotations

import re

import pytest
from bucketed_tables import Shape, Tables, cores
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

ROWS = "select id as k, repeat(sha2(cast(id as string), 256), 4) as v from range(1600)"
MAX, SMALL = "spark.bucketing.read.maxBucketBytes", "spark.bucketing.read.partitionBytes"


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create tables with 2 and 8 buckets, including one in the Spark layout, and unbucketed tables."""
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


# (query, cores, maxBucketBytes as a share of the bytes of `few`, plan, code). With 2 of 64 cores busy, a bucket with
# an eighth of maxBucketBytes is already too large.
PLANS = [
    (join("few", "few"), 64, 1, Shape(2, 2, 0), "[too-few-buckets]"),
    (join("few", "few"), 64, 5, Shape(0, 0, 2), ""),
    (join("few", "few"), 16, 0.8, Shape(2, 2, 0), "[too-few-buckets]"),
    (join("few", "few"), 16, 1.2, Shape(0, 0, 2), ""),
    (join("few", "few"), 8, 0.1, Shape(0, 0, 2), ""),
    ("select k, count(*) from few group by k", 64, 1, Shape(1, 0, 0), "[too-few-buckets]"),
    # The query reads a single, large bucket.
    ("select k, count(*) from few where k = 5 group by k", 64, 5, Shape(1, 0, 0), "[too-few-buckets]"),
    ("select k, count(*) from few where k = 5 group by k", 64, 9, Shape(0, 0, 1), ""),
    # Each side is small, but both sides together are large.
    (join("few", "many"), 20, 2, Shape(1, 1, 1), "not-needed"),
    (join("few", "many"), 20, 9, Shape(0, 0, 2), ""),
    # Spark would shuffle the unbucketed side into two partitions.
    (join("few", "plain"), 64, 5, Shape(1, 1, 1), ""),
    (join("few", "(select * from plain union all select * from plain)"), 64, 5, Shape(2, 2, 0), "[too-few-buckets]"),
    # The size of a partitioned table is unknown; this table may be small.
    (join("few", "parts"), 64, 5, Shape(1, 1, 1), ""),
    # Spark shuffles only the few rows of an aggregate.
    (join("few", "(select max(k) as k, v from plain group by v limit 5)"), 64, 5, Shape(3, 1, 1), ""),
    # Stock Spark uses its own buckets, however few.
    (join("sparks", "sparks"), 64, 0.1, Shape(0, 0, 2), ""),
]


@pytest.mark.parametrize(("query", "number", "share", "expected", "code"), PLANS)
@pytest.mark.some(2)
def test_table_with_too_few_buckets_is_shuffled(
    tables: Tables, query: str, number: int, share: float, expected: Shape, code: str
) -> None:
    with cores(tables.spark, number), tables.settings({MAX: str(int(share * bytes_of(tables, "few")))}):
        rows, plan = tables.run(query)
        assert code in plan and (code or "too-few" not in plan), plan
        assert tables.shape(query) == expected, plan
    assert rows == tables.stock_rows(query) != []


# Target bytes of a shuffle task as a share of the bytes of `plain`; the query; buckets per task.
MOVED = [
    (10, join("many", "plain"), 2),
    (1 / 7, join("many", "plain"), 8),
    # The number of output rows does not matter.
    (1 / 7, "select count(a.v), count(b.v) from many a join plain b on a.k = b.k", 8),
    (1 / 7, join("many", "plain") + " limit 10", 8),
    # Spark estimates how many rows a filter leaves.
    (1 / 7, join("many", "(select * from plain limit 5)"), 2),
    # The size of a partitioned table is unknown; this table may be large.
    (10, join("many", "parts"), 8),
]


@pytest.mark.parametrize(("share", "query", "tasks"), MOVED)
@pytest.mark.some(2)
def test_small_buckets_suffice_for_a_small_shuffled_side(tables: Tables, share: float, query: str, tasks: int) -> None:
    advised = str(int(share * bytes_of(tables, "plain")))
    settings = {SMALL: "8m", "spark.sql.adaptive.advisoryPartitionSizeInBytes": advised}
    with cores(tables.spark, 2), tables.settings(settings):
        rows, plan = tables.run(query)
        assert f"hivehashpartitioning(k, {tasks})" in re.sub(r"#\d+L?", "", plan), plan
    assert len(rows) == len(tables.stock_rows(query)) > 0


@pytest.mark.parametrize(("one", "other", "number"), [(6, 12, 4), (100, 200, 3), (10, 20, 3), (12, 36, 8), (8, 12, 3)])
@pytest.mark.some(1)
def test_coalesced_buckets_of_compatible_tables_stay_compatible(
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


def test_executors_requested_later_count_as_cores(spark: SparkSession) -> None:
    """Dynamic allocation starts with few executors."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    tasks, conf = jvm.org.apache.spark.sql.bucketing.read.BucketTasks, spark.sparkContext._jsc.sc().conf()
    assert tasks.cores(spark._jsparkSession) == 3
    later = {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": "2"}
    try:
        for key, value in later.items():
            conf.set(key, value)
        assert tasks.cores(spark._jsparkSession) == 6, "cores() must count as many cores as a shuffle uses"
        conf.set("spark.dynamicAllocation.maxExecutors", "2")
        assert tasks.cores(spark._jsparkSession) == 4
    finally:
        for key in (*later, "spark.dynamicAllocation.maxExecutors"):
            conf.remove(key)
