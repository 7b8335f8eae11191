"""Plain writes into bucketed tables with the extension: one sorted file per bucket, whatever the session is like."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from bucketed import Tables
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from conftest import Project
from spark_bucketing.session import setting

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

LAYOUTS = {
    "hive-parquet": ("stored as parquet", "(stock_hive_hash({keys}) & 2147483647) % {buckets}"),
    "hive-orc": ("stored as orc", "(stock_hive_hash({keys}) & 2147483647) % {buckets}"),
    "spark-parquet": ("using parquet", "pmod(hash({keys}), {buckets})"),
}
# Five tasks, each with rows of every bucket, and a key that most rows have.
SCATTERED = """
    select /*+ repartition(5) */ if(id % 3 = 0, 7, id % 90) as k, cast(id as string) as v, id % 3 as p from range(600)
"""


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """A database with scattered rows, and tables of 8 and of 4 buckets to write from."""
    made = Tables(spark, "extension_writes")
    made.sql(f"create or replace temporary view scattered as {SCATTERED}")
    for name, buckets in (("from8", 8), ("other8", 8), ("from4", 4)):
        made.make(
            name, "k bigint, v string", "k", buckets, "select id as k, cast(id % 40 as string) as v from range(300)"
        )
    made.make("spark8", "k bigint, v string", "k", 8, stored="using parquet")
    made.sql("insert into spark8 select /*+ repartition(8, id) */ id, cast(id % 40 as string) from range(300)")
    return made


@pytest.fixture
def dynamic_partitions(spark: SparkSession) -> Iterator[None]:
    with setting(spark, "hive.exec.dynamic.partition.mode", "nonstrict"):
        yield


@pytest.fixture(params=["true", "false"], ids=["aqe", "no-aqe"])
def aqe(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    with setting(spark, "spark.sql.adaptive.enabled", request.param):
        yield


def create(tables: Tables, name: str, layout: str, partitioned: bool = False, buckets: int = 8) -> None:
    stored = LAYOUTS[layout][0]
    if not partitioned:
        tables.make(name, "k bigint, v string, p bigint", "k", buckets, stored=stored)
    elif stored.startswith("using"):
        tables.make(name, "k bigint, v string, p bigint", "k", buckets, rest="partitioned by (p)", stored=stored)
    else:
        tables.make(name, "k bigint, v string", "k", buckets, rest="partitioned by (p bigint)", stored=stored)


def buckets_of_files(tables: Tables, name: str) -> dict[tuple[str, int | None], int]:
    """How many files each bucket of each partition has, by their names; None is a file without a bucket."""
    found: Counter[tuple[str, int | None]] = Counter()
    for path in tables.files(name):
        match = re.search(r"_(\d+)\.c\d+", path.name)
        found[str(path.parent.relative_to(tables.folder(name))), int(match[1]) if match else None] += 1
    return dict(found)


def assert_bucketed(tables: Tables, name: str, layout: str, buckets: int = 8, keys: str = "k", files: int = 1) -> None:
    """One file per bucket (or so many), each with the rows of its bucket only, in order."""
    names = buckets_of_files(tables, name)
    assert names and set(names.values()) == {files}, names
    assert None not in {bucket for _, bucket in names}, names
    bucket = LAYOUTS[layout][1].format(keys=keys, buckets=buckets)
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    query = f"select input_file_name(), monotonically_increasing_id(), {bucket}, {keys} from {name}"
    with setting(tables.spark, "spark.bucketing.enabled", "false"):
        for file, order, found, *key in tables.sql(query):
            rows[str(file)].append((order, found, tuple((part is not None, part) for part in key)))
    for file, content in rows.items():
        expected = re.search(r"_(\d+)\.c\d+", Path(file).name)
        assert expected and {found for _, found, _ in content} == {int(expected[1])}, file
        in_order = [key for _, _, key in sorted(content, key=lambda row: row[0])]
        assert all(before <= after for before, after in pairwise(in_order)), f"{file} is not sorted"


def writing_tasks(tables: Tables, name: str) -> int:
    """How many tasks wrote a table: the number after 'part-' is the task's."""
    return len({path.name.split("part-")[1].split("-")[0] for path in tables.files(name)})


def explain(tables: Tables, statement: str) -> str:
    return "\n".join(str(row[0]) for row in tables.sql(f"explain {statement}"))


def last_insert(spark: SparkSession) -> str:
    """The plan of the session's last INSERT, as it ran."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(i).physicalPlanDescription() for i in range(executions.size())]
    return str([plan for plan in plans if "Execute InsertIntoHadoopFsRelationCommand" in plan][-1])


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_way_to_write_makes_one_file_per_bucket(tables: Tables, layout: str) -> None:
    create(tables, "t", layout)
    tables.sql("insert into t select * from scattered")
    assert_bucketed(tables, "t", layout)
    tables.sql("insert overwrite table t select * from scattered")
    assert_bucketed(tables, "t", layout)
    tables.spark.table("scattered").write.insertInto("t", overwrite=True)
    assert_bucketed(tables, "t", layout)
    assert tables.rows("select * from t") == tables.rows("select * from scattered")
    assert writing_tasks(tables, "t") == 8, "buckets share tasks"


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_partitions_have_one_file_per_bucket_each(tables: Tables, layout: str) -> None:
    create(tables, "t", layout, partitioned=True)
    tables.sql("insert into t partition (p) select * from scattered")
    assert_bucketed(tables, "t", layout)
    assert writing_tasks(tables, "t") == 8, "buckets of a partition share tasks, or partitions have none in common"
    with setting(tables.spark, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        tables.sql("insert overwrite table t partition (p) select * from scattered where p > 0")
    assert_bucketed(tables, "t", layout)
    tables.sql("insert overwrite table t partition (p = 1) select k, v from scattered where p = 1")
    assert_bucketed(tables, "t", layout)
    assert {folder for folder, _ in buckets_of_files(tables, "t")} == {"p=0", "p=1", "p=2"}
    assert tables.rows("select k, v, p from t") == tables.rows("select * from scattered")


@pytest.mark.parametrize("layout", ["hive-parquet", "spark-parquet"])
def test_a_table_created_from_a_query_is_bucketed(tables: Tables, layout: str) -> None:
    stored = LAYOUTS[layout][0]
    head, tail = (stored, "") if stored.startswith("using") else ("", stored)
    tables.sql("drop table if exists made")
    tables.sql(
        f"create table made {head} clustered by (k) sorted by (k) into 8 buckets {tail} as select * from scattered"
    )
    assert_bucketed(tables, "made", layout)


def test_a_table_saved_from_a_frame_is_bucketed(tables: Tables) -> None:
    frame = tables.spark.table("scattered")
    frame.write.bucketBy(8, "k").sortBy("k").mode("overwrite").saveAsTable("saved")
    assert_bucketed(tables, "saved", "spark-parquet")
    frame.write.bucketBy(8, "k").sortBy("k").partitionBy("p").mode("overwrite").saveAsTable("saved")
    assert_bucketed(tables, "saved", "spark-parquet")


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.files.maxRecordsPerFile": "3"},
        {"spark.sql.shuffle.partitions": "1"},
        {"spark.sql.shuffle.partitions": "23", "spark.sql.adaptive.enabled": "false"},
        {
            "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1g",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1g",
        },
        {"spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k"},
        {"spark.sql.optimizer.plannedWrite.enabled": "false"},
        {"spark.sql.optimizer.plannedWrite.enabled": "false", "spark.sql.adaptive.enabled": "false"},
        {"spark.sql.requireAllClusterKeysForDistribution": "true"},
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.codegen.wholeStage": "false"},
        {"spark.sql.hive.convertMetastoreParquet": "false"},
        {"spark.sql.hive.convertInsertingPartitionedTable": "false"},
    ],
    ids=lambda settings: "-".join(f"{key.split('.')[-1]}={value}" for key, value in settings.items()),
)
def test_the_sessions_settings_do_not_matter(tables: Tables, settings: dict[str, str]) -> None:
    with tables.settings(settings):
        create(tables, "t", "hive-parquet", partitioned=True)
        create(tables, "u", "hive-parquet")
        tables.sql("insert into t partition (p) select * from scattered")
        tables.sql("insert into u select a.k, b.v, a.p from scattered a join scattered b on a.k = b.k and a.v = b.v")
        assert_bucketed(tables, "t", "hive-parquet")
        assert_bucketed(tables, "u", "hive-parquet")


@pytest.mark.parametrize("partitioned", [False, True])
def test_writers_that_keep_several_files_open_write_one_per_bucket(tables: Tables, partitioned: bool) -> None:
    create(tables, "t", "hive-parquet", partitioned)
    tables.make("t", "k bigint, v string, p bigint", "k", 8, sorted_by="") if not partitioned else None
    into = "t partition (p)" if partitioned else "t"
    with setting(tables.spark, "spark.sql.maxConcurrentOutputFileWriters", "3"):
        tables.sql(f"insert into {into} select * from scattered")
    assert set(buckets_of_files(tables, "t").values()) == {1}


SKEW = {
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2k",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.2",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
}
# How adaptive execution reads a shuffle anew: settings for it, and its name in a plan.
REREADS = {
    "skewed": SKEW,
    "skewed, even for a shuffle": SKEW | {"spark.sql.adaptive.forceOptimizeSkewedJoin": "true"},
    "local": {"spark.sql.adaptive.autoBroadcastJoinThreshold": "100k"},
    "coalesced": {},
}


@pytest.mark.parametrize("reread", REREADS)
def test_adaptive_execution_does_not_take_buckets_apart(tables: Tables, reread: str) -> None:
    """The join is spread by the buckets of the table, so that the write needs no shuffle, and relies on the join's."""
    columns = "k bigint, v string"
    tables.make("wide", columns, "k", 6, stored="using parquet")
    tables.sql("drop table if exists flat_wide")
    tables.sql(f"create table flat_wide ({columns}) using parquet")
    skewed = "select if(id % 2 = 0, 7, id) as k, repeat(sha(cast(id as string)), 3) as v from range(0, 4000, 1, 5)"
    query = f"select a.k, a.v from ({skewed}) a join (select id as k from range(0, 4000, 1, 5)) b on a.k = b.k"
    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "6"} | REREADS[reread]
    with tables.settings(settings):
        tables.sql(f"insert into flat_wide {query}")
        assert f"Arguments: {reread.split(',')[0]}" in last_insert(tables.spark), "the settings do not do it"
        tables.sql(f"insert into wide {query}")
    assert_bucketed(tables, "wide", "spark-parquet", 6)
    assert tables.rows("select count(*), sum(k) from wide") == tables.rows("select count(*), sum(k) from flat_wide")


@pytest.mark.parametrize("layout", ["hive-parquet", "hive-orc"])
def test_an_insert_after_a_select_keeps_the_buckets(tables: Tables, layout: str) -> None:
    for partitioned, how in product([False, True], ["insert into", "insert overwrite"]):
        create(tables, "t", layout, partitioned)
        tables.sql("select * from t")
        into = "t partition (p)" if partitioned else "t"
        tables.sql(f"{how} {into} select * from scattered")
        tables.sql("select * from t")
        tables.sql(f"{how} {into} select * from scattered")
        assert_bucketed(tables, "t", layout, files=2 if how == "insert into" else 1)


def test_without_its_shuffle_the_buckets_are_still_kept(tables: Tables) -> None:
    create(tables, "t", "hive-parquet")
    tables.sql("select * from t")
    with setting(tables.spark, "spark.bucketing.write.distribute", "false"):
        tables.sql("insert into t select * from scattered")
    files = buckets_of_files(tables, "t")
    assert {bucket for _, bucket in files} == set(range(8))
    assert max(files.values()) == 5


def test_an_append_adds_one_file_to_a_bucket(tables: Tables) -> None:
    create(tables, "t", "hive-parquet")
    for appends in (1, 2, 3):
        tables.sql("insert into t select * from scattered")
        assert_bucketed(tables, "t", "hive-parquet", files=appends)


def test_empty_strings_and_nulls_are_one_partition_with_one_file_per_bucket(tables: Tables) -> None:
    for stored, columns in (
        ("stored as parquet", ("k bigint", "partitioned by (p string)")),
        ("using parquet", ("k bigint, p string", "partitioned by (p)")),
    ):
        tables.make("t", columns[0], "k", 4, rest=columns[1], stored=stored)
        # By 7 tasks, since the hashes of the two agree by 6.
        with setting(tables.spark, "spark.sql.shuffle.partitions", "7"):
            tables.sql("insert into t select id, if(id % 2 = 0, '', null) from range(200)")
        assert set(buckets_of_files(tables, "t")) == {("p=__HIVE_DEFAULT_PARTITION__", bucket) for bucket in range(4)}
        assert set(buckets_of_files(tables, "t").values()) == {1}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_of_several_types_and_their_odd_values(tables: Tables, layout: str) -> None:
    columns = "s string, d date, n decimal(10, 2), b boolean, f double, i int"
    tables.make("t", columns, "s, d, n, b, i", 8, stored=LAYOUTS[layout][0])
    odd = """
        select array('', 'é', cast(x'ff61' as string), null, 'abc')[id % 5] as s,
          array(date'0001-01-01', date'1500-02-03', date'2024-02-29', null)[id % 4] as d,
          cast(array(0, -1.5, null)[id % 3] as decimal(10, 2)) as n, array(true, false, null)[id % 3] as b,
          array(double('NaN'), -0.0d, 0.0d, null)[id % 4] as f, array(null, -1, 2147483647)[id % 3] as i
        from range(400)
    """
    tables.sql(f"insert into t {odd}")
    files = buckets_of_files(tables, "t")
    assert set(files.values()) == {1} and len(files) > 4
    assert tables.stock_rows("select * from t") == tables.rows(odd)
    tables.make("u", columns, "f, i", 8, stored=LAYOUTS[layout][0])
    tables.sql(f"insert into u {odd}")
    assert set(buckets_of_files(tables, "u").values()) == {1}
    assert tables.stock_rows("select * from u") == tables.rows(odd)


# (what is written, exchanges)
SHUFFLES = {
    "insert into t select k, v from scattered": 1,
    "insert into t select /*+ repartition(3, v) */ k, v from scattered_once": 1,
    "insert into t select k, v from scattered_once order by v": 1,
    "insert into t select k, v from scattered_once distribute by v sort by v": 1,
    "insert into t select /*+ rebalance(v) */ k, v from scattered_once": 1,
    "insert into t select * from from8": 0,
    "insert into t select * from from4": 0,
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


@pytest.mark.usefixtures("aqe")
def test_a_write_shuffles_once_and_not_at_all_where_its_rows_lie_right(tables: Tables) -> None:
    tables.sql(
        "create or replace temporary view scattered_once as select id as k, cast(id as string) as v from range(600)"
    )
    for name, buckets in (("t", 8), ("t4", 4), ("one", 1)):
        tables.make(name, "k bigint, v string", "k", buckets)
    tables.make("s", "k bigint, v string", "k", 8, stored="using parquet")
    tables.make("days", "k bigint, v string", "k", 8, rest="partitioned by (ds string)")
    with setting(tables.spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        for statement, exchanges in SHUFFLES.items():
            plan = explain(tables, statement)
            # The view of scattered rows has a shuffle of its own.
            found = len(re.findall(r"\bExchange ", plan)) - plan.count("RoundRobinPartitioning")
            assert found == exchanges, f"{statement}\n{plan}"
            name = statement.split()[2]
            tables.sql(f"truncate table {name}")
            tables.sql(statement)
            assert set(buckets_of_files(tables, name).values()) <= {1}, statement


def test_order_that_a_value_depends_on_is_kept(tables: Tables) -> None:
    create(tables, "t", "hive-parquet")
    query = "select k, v, monotonically_increasing_id() as p from (select * from scattered order by cast(v as int))"
    assert "Exchange rangepartitioning" in explain(tables, f"insert into t {query}")
    assert "Exchange rangepartitioning" not in explain(tables, "insert into t select * from scattered order by v")


def test_tables_without_buckets_and_sessions_without_the_extension_are_left_alone(tables: Tables) -> None:
    tables.sql("create table if not exists flat (k bigint, v string, p bigint) using parquet")
    create(tables, "t", "spark-parquet")
    statement = "insert into {} select * from scattered"
    flat, bucketed = (explain(tables, statement.format(name)) for name in ("flat", "t"))
    assert "BucketedRows" in bucketed and "BucketedRows" not in flat
    with setting(tables.spark, "spark.bucketing.enabled", "false"):
        assert "BucketedRows" not in explain(tables, statement.format("t"))


WRITES: dict[str, Callable[[Tables], object]] = {
    "insert": lambda tables: tables.sql("insert into two select * from scattered"),
    "overwrite": lambda tables: tables.sql("insert overwrite table two select * from scattered"),
    "frame": lambda tables: tables.spark.table("scattered").write.insertInto("two"),
    "explain": lambda tables: tables.spark.sql("explain insert into two select * from scattered").collect(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("stored", ["parquet", "textfile"])
def test_a_table_of_bucketing_version_2_is_refused(
    tables: Tables, write: Callable[[Tables], object], stored: str
) -> None:
    create(tables, "two", "hive-parquet")
    if stored == "textfile":
        tables.make("two", "k bigint, v string, p bigint", "k", 8, stored="stored as textfile")
    tables.sql("alter table two set tblproperties ('bucketing_version' = '2')")
    tables.sql("select * from two")
    if write is WRITES["explain"]:
        assert "bucketing_version is 2" in str(write(tables))
        return
    with pytest.raises(AnalysisException) as error:
        write(tables)
    message = str(error.value)
    assert "Cannot write into `spark_catalog`.`extension_writes`.`two`: its bucketing_version is 2" in message
    assert "Expected bucketing_version 1" in message
    assert "SET TBLPROPERTIES ('bucketing_version'='1')" in message
    assert tables.files("two") == []
    tables.sql("alter table two set tblproperties ('bucketing_version' = '1')")
    write(tables)
    assert tables.files("two")


def test_version_2_means_nothing_to_a_table_of_the_spark_layout(tables: Tables) -> None:
    create(tables, "t", "spark-parquet")
    tables.sql("alter table t set tblproperties ('bucketing_version' = '2')")
    tables.sql("insert into t select * from scattered")
    assert_bucketed(tables, "t", "spark-parquet")


def test_a_stream_writes_its_batches_bucketed(tables: Tables, tmp_path: Path) -> None:
    create(tables, "t", "hive-parquet")
    source = tmp_path / "source"
    tables.spark.table("scattered").write.parquet(str(source))
    stream = tables.spark.readStream.schema("k bigint, v string, p bigint").parquet(str(source)).writeStream
    query = (
        stream.foreachBatch(lambda batch, _: batch.write.insertInto("t"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert_bucketed(tables, "t", "hive-parquet")


@pytest.mark.parametrize("bucket_hash", ["hive", "spark"])
def test_the_macros_shuffle_and_the_extensions_are_one(project: Project, spark: SparkSession, bucket_hash: str) -> None:
    for buckets, partition_by in ((8, []), (1, []), (4, ["p"])):
        name = f"m{buckets}"
        config = {"clustered_by": ["k"], "buckets": buckets, "bucket_hash": bucket_hash, "partition_by": partition_by}
        project.model(
            name, "select id as k, id % 3 as p from range(0, 400, 1, 5)", materialized="bucketed_table", **config
        )
        project.dbt("run", "--select", name)
        plan = last_insert(spark)
        assert f"`{name}" in plan
        final = plan.split("== Initial Plan ==")[0]
        assert len(re.findall(r"^[ :|+-]*(?:\* )?Exchange \(", final, re.MULTILINE)) == 1, plan
        assert "__spark_bucketing_key" in plan and "BucketedRows" not in plan
        assert len(project.files(name)) == buckets * (3 if partition_by else 1)
