"""Tests that write plans with the extension have at most one shuffle, and that unsupported writes are refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from bucketed_tables import Tables, assert_bucketed, buckets_of_files, create, explain, last_insert
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from conftest import Project, all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create source tables with at most 8 buckets; the session has 3 cores."""
    for name, buckets in (("from8", 8), ("other8", 8), ("from4", 4), ("from2", 2)):
        tables.make(
            name, "k bigint, v string", "k", buckets, "select id as k, cast(id % 40 as string) as v from range(300)"
        )
    tables.make("spark8", "k bigint, v string", "k", 8, stored="using parquet")
    tables.sql("insert into spark8 select /*+ repartition(8, id) */ id, cast(id % 40 as string) from range(300)")
    return tables


# The source of the write, and the number of exchanges.
SHUFFLES = {
    "insert into t select k, v from scattered": 1,
    "insert into t select /*+ repartition(3, v) */ k, v from scattered_once": 1,
    "insert into t select k, v from scattered_once order by v": 1,
    "insert into t select k, v from scattered_once distribute by v sort by v": 1,
    "insert into t select /*+ rebalance(v) */ k, v from scattered_once": 1,
    "insert into t select * from from8": 0,
    "insert into t select * from from4": 0,
    "insert into t select * from from2": 1,
    "insert into t4 select * from from8": 1,
    "insert into t select v, cast(k as string) from (select k, cast(v as bigint) as v from from8)": 1,
    "insert into t select a.k, b.v from from8 a join other8 b on a.k = b.k": 0,
    "insert into t select a.k, b.v from from8 a left join scattered_once b on a.k = b.k": 1,
    "insert into t select k, max(v) from from8 group by k": 0,
    "insert into days partition (ds) select k, v, v from from8": 0,
    "insert into days partition (ds = 'x') select k, v from from8": 0,
    "insert into t select * from spark8": 1,
    "insert into s select * from spark8": 0,
    "insert into s select * from from8": 1,
    "insert into one select k, v from scattered_once": 1,
    "insert into t select max(k), max(v) from from8": 1,
}
PARTS = [list(SHUFFLES)[part::4] for part in range(4)]


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize("statements", all_long_but(PARTS[0], PARTS), ids=range(4))
def test_write_shuffles_at_most_once(tables: Tables, statements: list[str]) -> None:
    tables.sql(
        "create or replace temporary view scattered_once as select id as k, cast(id as string) as v from range(600)"
    )
    for name, buckets in (("t", 8), ("t4", 4), ("one", 1)):
        tables.make(name, "k bigint, v string", "k", buckets)
    tables.make("s", "k bigint, v string", "k", 8, stored="using parquet")
    tables.make("days", "k bigint, v string", "k", 8, rest="partitioned by (ds string)")
    with tables.settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        for statement in statements:
            exchanges = SHUFFLES[statement]
            plan = explain(tables, statement)
            # The view `scattered` contains a shuffle.
            found = len(re.findall(r"\bExchange ", plan)) - plan.count("RoundRobinPartitioning")
            assert found == exchanges, f"{statement}\n{plan}"
            name = statement.split()[2]
            tables.sql(f"truncate table {name}")
            tables.sql(statement)
            assert set(buckets_of_files(tables, name).values()) <= {1}, statement


def test_required_input_order_is_preserved(tables: Tables) -> None:
    create(tables, "t", "hive-parquet")
    query = "select k, v, monotonically_increasing_id() as p from (select * from scattered order by cast(v as int))"
    assert "Exchange rangepartitioning" in explain(tables, f"insert into t {query}")
    assert "Exchange rangepartitioning" not in explain(tables, "insert into t select * from scattered order by v")


def test_writes_without_buckets_or_extension_are_unchanged(tables: Tables) -> None:
    tables.sql("create table if not exists flat (k bigint, v string, p bigint) using parquet")
    create(tables, "t", "spark-parquet")
    statement = "insert into {} select * from scattered"
    flat, bucketed = (explain(tables, statement.format(name)) for name in ("flat", "t"))
    assert "BucketedRows" in bucketed and "BucketedRows" not in flat
    with tables.settings({"spark.bucketing.enabled": "false"}):
        assert "BucketedRows" not in explain(tables, statement.format("t"))


WRITES: list[Callable[[Tables], object]] = [
    lambda tables: tables.sql("insert into two select * from scattered"),
    lambda tables: tables.sql("insert overwrite table two select * from scattered"),
    lambda tables: tables.spark.table("scattered").write.insertInto("two"),
]


@pytest.mark.parametrize("stored", ["parquet", pytest.param("textfile", marks=pytest.mark.long)])
def test_table_of_an_unknown_bucketing_version_is_refused(tables: Tables, stored: str) -> None:
    tables.make("two", "k bigint, v string, p bigint", "k", 8, stored=f"stored as {stored}")
    tables.sql("alter table two set tblproperties ('bucketing_version' = '3')")
    tables.sql("select * from two")
    found = "found:    the table property 'bucketing_version' = '3'"
    assert found in explain(tables, "insert into two select * from scattered")
    for write in WRITES:
        with pytest.raises(AnalysisException) as error:
            write(tables)
        message = str(error.value)
        assert f"Cannot write into `spark_catalog`.`write_plans`.`two`.\n  {found}" in message
        assert "expected: exactly '1' or '2'" in message
        assert "ALTER TABLE `spark_catalog`.`write_plans`.`two` SEAL BUCKETS DRY RUN" in message
        assert tables.files("two") == []
    tables.sql("alter table two set tblproperties ('bucketing_version' = '1')")
    for write in WRITES:
        tables.sql("truncate table two")
        write(tables)
        assert tables.files("two")


def test_bucketing_version_2_does_not_affect_the_spark_layout(tables: Tables) -> None:
    create(tables, "t", "spark-parquet")
    tables.sql("alter table t set tblproperties ('bucketing_version' = '2')")
    tables.sql("insert into t select * from scattered")
    assert_bucketed(tables, "t", "spark-parquet")


@pytest.mark.parametrize("bucket_hash", ["hive", pytest.param("spark", marks=pytest.mark.long)])
def test_extension_adds_no_shuffle_if_the_macros_add_one(
    project: Project, spark: SparkSession, bucket_hash: str
) -> None:
    models: dict[int, list[str]] = {8: [], 1: [], 4: ["p"]}
    for buckets, partition_by in models.items():
        config = {"clustered_by": ["k"], "buckets": buckets, "bucket_hash": bucket_hash, "partition_by": partition_by}
        sql = "select id as k, id % 3 as p from range(0, 400, 1, 5)"
        project.model(f"m{buckets}", sql, materialized="bucketed_table", **config)
    project.dbt("run")
    for buckets, partition_by in models.items():
        plan = last_insert(spark, f"`m{buckets}")
        final = plan.split("== Initial Plan ==")[0]
        assert len(re.findall(r"^[ :|+-]*(?:\* )?Exchange \(", final, re.MULTILINE)) == 1, plan
        assert "BucketedRows" in plan and "__spark_bucketing_key" not in plan, plan
        assert len(project.files(f"m{buckets}")) == buckets * (3 if partition_by else 1)


def test_shuffle_below_computed_columns_is_kept(tables: Tables) -> None:
    """The shuffle may affect a computed value, but not a column that the query only passes on."""
    tables.make("spread", "k int, v double", "k", 4)
    rows = "select /*+ REPARTITION(2) */ id from range(9999)"
    for value, exchanges in (("sqrt(id)", 2), ("cast(id as double)", 1)):
        plan = explain(tables, f"insert into spread select cast(id as int), {value} from ({rows})")
        assert len(re.findall(r"Exchange (RoundRobin|hive)", plan)) == exchanges


def test_one_task_writes_a_small_number_of_rows(tables: Tables) -> None:
    tables.make("tiny", "k int, v double", "k", 64)
    tables.sql("insert into tiny values (1, 1), (2, 2), (3, 3), (4, 4)")
    assert [path.name[:5] for path in tables.files("tiny")] == ["00001", "00002", "00003", "00004"]
    plan = explain(tables, "insert into tiny values (1, 1), (2, 2)")
    assert "Exchange SinglePartition" in plan and "64 Hive buckets" in plan
    many = explain(tables, "insert into tiny select cast(id as int), 1 from range(9999)")
    assert "hivehashpartitioning" in many
