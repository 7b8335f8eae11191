"""Tests that writes into bucketed tables with the extension give one sorted file per bucket, in any session."""

from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from time import sleep

import pytest
from bucketed_tables import (
    ERRORS,
    LAYOUTS,
    Tables,
    assert_bucketed,
    buckets_of_files,
    create,
    last_insert,
    writing_tasks,
)
from local_files import while_held
from partition_specs import condition_of, kept, put_parameters, seal_of
from pyspark.errors import PySparkException

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.some(1)
def test_every_kind_of_write_gives_one_file_per_bucket(tables: Tables, layout: str) -> None:
    create(tables, "t", layout)
    for appends in (1, 2):
        tables.sql("insert into t select * from scattered")
        assert_bucketed(tables, "t", layout, files=appends)
    tables.sql("insert overwrite table t select * from scattered")
    assert_bucketed(tables, "t", layout)
    tables.spark.table("scattered").write.insertInto("t", overwrite=True)
    assert_bucketed(tables, "t", layout)
    assert tables.rows("select * from t") == tables.rows("select * from scattered")
    assert len(writing_tasks(tables.files("t"))) == 8, "each bucket must have its own task"


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize("layout", all_long_but("hive2-parquet", LAYOUTS))
@pytest.mark.long
def test_each_partition_has_one_file_per_bucket(tables: Tables, layout: str) -> None:
    create(tables, "t", layout, partitioned=True)
    tables.sql("insert into t partition (p) select * from scattered")
    assert_bucketed(tables, "t", layout)
    assert len(writing_tasks(tables.files("t"))) == 8, (
        "each bucket of a partition must have its own task, and partitions must share tasks"
    )
    with tables.settings({"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        tables.sql("insert overwrite table t partition (p) select * from scattered where p > 0")
    assert_bucketed(tables, "t", layout)
    tables.sql("insert overwrite table t partition (p = 1) select k, v from scattered where p = 1")
    assert_bucketed(tables, "t", layout)
    assert {folder for folder, _ in buckets_of_files(tables, "t")} == {"p=0", "p=1", "p=2"}
    assert tables.rows("select k, v, p from t") == tables.rows("select * from scattered")


def has_labels(error: Exception) -> bool:
    """Return whether a message has its labeled lines, and no other lines after the first."""
    return [line[:12] for line in str(error).strip().splitlines()[1:]] == [
        "  found:    ",
        "  expected: ",
        "  instead:  ",
    ]


def assert_sealed(tables: Tables, name: str, layout: str) -> None:
    """Check that all partitions are sealed with 8 buckets."""
    assert_bucketed(tables, name, layout)
    assert {of.of_seal for of in kept(tables, name).values()} == {8}


@pytest.mark.parametrize("layout", ["hive-parquet", "spark-parquet"])
@pytest.mark.some(1)
def test_ctas_and_save_as_table_write_buckets(tables: Tables, layout: str) -> None:
    stored = LAYOUTS[layout][0]
    head, tail = (stored, "") if stored.startswith("using") else ("", stored)
    buckets = "clustered by (k) sorted by (k) into 8 buckets"
    tables.create(f"made {head} {buckets} {tail} as select * from scattered")
    assert_sealed(tables, "made", layout)
    frame = tables.spark.table("scattered")
    frame.write.insertInto("made", overwrite=True)
    assert_sealed(tables, "made", layout)
    frame.write.bucketBy(8, "k").sortBy("k").mode("overwrite").saveAsTable("made")
    assert_sealed(tables, "made", "spark-parquet")
    frame.write.bucketBy(8, "k").sortBy("k").partitionBy("p").mode("overwrite").saveAsTable("made")
    assert_sealed(tables, "made", "spark-parquet")


@pytest.mark.long
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
def test_session_settings_do_not_affect_the_buckets(tables: Tables, settings: dict[str, str]) -> None:
    with tables.settings(settings):
        create(tables, "t", "hive-parquet", partitioned=True)
        create(tables, "u", "hive-parquet")
        tables.sql("insert into t partition (p) select * from scattered")
        tables.sql("insert into u select a.k, b.v, a.p from scattered a join scattered b on a.k = b.k and a.v = b.v")
        assert_bucketed(tables, "t", "hive-parquet")
        assert_bucketed(tables, "u", "hive-parquet")


@pytest.mark.parametrize("partitioned", [False, True])
def test_tasks_with_several_open_files_write_one_file_per_bucket(tables: Tables, partitioned: bool) -> None:
    if partitioned:
        create(tables, "t", "hive-parquet", partitioned)
    else:
        tables.make("t", "k bigint, v string, p bigint", "k", 8, sorted_by="")
    into = "t partition (p)" if partitioned else "t"
    with tables.settings({"spark.sql.maxConcurrentOutputFileWriters": "3"}):
        tables.sql(f"insert into {into} select * from scattered")
    assert set(buckets_of_files(tables, "t").values()) == {1}


SKEW = {
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2k",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.2",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
}
# Ways in which adaptive execution changes a shuffle read: the settings, and the name in a plan.
REREADS = {
    "skewed": SKEW,
    "skewed, forced": SKEW | {"spark.sql.adaptive.forceOptimizeSkewedJoin": "true"},
    "local": {"spark.sql.adaptive.autoBroadcastJoinThreshold": "100k"},
    "coalesced": {},
}


@pytest.mark.long
@pytest.mark.parametrize("reread", REREADS)
def test_adaptive_execution_does_not_split_buckets(tables: Tables, reread: str) -> None:
    """The join is already shuffled by the table's buckets, so the write relies on that shuffle."""
    columns = "k bigint, v string"
    tables.make("wide", columns, "k", 6, stored="using parquet")
    tables.create(f"flat_wide ({columns}) using parquet")
    skewed = "select if(id % 2 = 0, 7, id) as k, repeat(sha(cast(id as string)), 3) as v from range(0, 4000, 1, 5)"
    query = f"select a.k, a.v from ({skewed}) a join (select id as k from range(0, 4000, 1, 5)) b on a.k = b.k"
    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "6"} | REREADS[reread]
    with tables.settings(settings):
        tables.sql(f"insert into flat_wide {query}")
        assert f"Arguments: {reread.split(',')[0]}" in last_insert(tables.spark), "the settings must have an effect"
        tables.sql(f"insert into wide {query}")
    assert_bucketed(tables, "wide", "spark-parquet", 6)
    assert tables.rows("select count(*), sum(k) from wide") == tables.rows("select count(*), sum(k) from flat_wide")


@pytest.mark.parametrize("layout", ["hive-parquet", pytest.param("hive-orc", marks=pytest.mark.long)])
@pytest.mark.parametrize("partitioned", all_long_but(True, [True, False]))
def test_insert_after_a_select_keeps_the_buckets(tables: Tables, layout: str, partitioned: bool) -> None:
    create(tables, "t", layout, partitioned)
    into = "t partition (p)" if partitioned else "t"
    for how, files in (("overwrite", 1), ("into", 2), ("overwrite", 1)):
        tables.sql("select * from t")
        tables.sql(f"insert {how} {into} select * from scattered")
        assert_bucketed(tables, "t", layout, files=files)


def test_buckets_are_kept_without_an_added_shuffle(tables: Tables) -> None:
    create(tables, "t", "hive-parquet")
    tables.sql("select * from t")
    with tables.settings({"spark.bucketing.write.distribute": "false"}):
        tables.sql("insert into t select * from scattered")
    files = buckets_of_files(tables, "t")
    assert {bucket for _, bucket in files} == set(range(8))
    assert max(files.values()) == 5


def test_empty_strings_and_nulls_share_one_partition(tables: Tables) -> None:
    for stored, columns in (
        ("stored as parquet", ("k bigint", "partitioned by (p string)")),
        ("using parquet", ("k bigint, p string", "partitioned by (p)")),
    ):
        tables.make("t", columns[0], "k", 4, rest=columns[1], stored=stored)
        # Use 7 tasks, because the hashes of '' and NULL are equal modulo 6.
        with tables.settings({"spark.sql.shuffle.partitions": "7"}):
            tables.sql("insert into t select id, if(id % 2 = 0, '', null) from range(200)")
        assert set(buckets_of_files(tables, "t")) == {("p=__HIVE_DEFAULT_PARTITION__", bucket) for bucket in range(4)}
        assert set(buckets_of_files(tables, "t").values()) == {1}


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_special_values_of_several_key_types_are_bucketed(tables: Tables, layout: str) -> None:
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
    if layout.startswith("hive2"):
        return
    tables.make("u", columns, "f, i", 8, stored=LAYOUTS[layout][0])
    tables.sql(f"insert into u {odd}")
    assert set(buckets_of_files(tables, "u").values()) == {1}
    assert tables.stock_rows("select * from u") == tables.rows(odd)


def test_stream_writes_bucketed_batches(tables: Tables, tmp_path: Path) -> None:
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


IN_ONE_DIRECTORY = {
    "string": "if(id % 2 = 0, null, '__HIVE_DEFAULT_PARTITION__')",
    # The two hours before and after the clock change in autumn.
    "timestamp": "timestamp_seconds(1729987200 + 3600 * (id div 8 % 2))",
}


@pytest.mark.parametrize("of", IN_ONE_DIRECTORY)
def test_different_partition_values_in_one_directory_are_refused(tables: Tables, of: str) -> None:
    """A bucket would get several files."""
    tables.make("t", "id bigint, v bigint", "id", 7, rest=f"partitioned by (p {of})")
    rows = f"select id, id as v, cast({IN_ONE_DIRECTORY[of]} as {of}) as p from range(700)"
    merge = f"merge into t using ({rows}) s on false when not matched then insert *"
    with tables.settings({"spark.sql.session.timeZone": "Europe/Berlin"}):
        for statement, message in {
            f"insert overwrite t {rows}": "one file for each bucket of a partition",
            **({merge: "with several files"} if of == "timestamp" else {}),
        }.items():
            with pytest.raises(PySparkException, match=message):
                tables.sql(statement)
            assert tables.files("t") == [] and tables.sql("show partitions t") == []


ORGANIZED = "using parquet tblproperties ('bucketing.range_by'='[\"k\"]', 'bucketing.rows_per_file'='60000')"
# Files of a shuffle are compressed, so that only files of the table exceed the limit.
ROWS = "select id, id || repeat('x', 1000) v from range(0, 6000, 1, 16)"


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("clustered by (k) sorted by (k) into 1 buckets stored as parquet", f"insert into t {ROWS}"),
        (ORGANIZED, f"insert into t {ROWS}"),
        (ORGANIZED.replace("bucketing.rows_per_file", "unused").replace("60000", "x"), f"insert overwrite t {ROWS}"),
        (
            ORGANIZED,
            f"merge into t using ({ROWS}) s on t.k = s.id when not matched then insert (k, v) values (id, s.v)",
        ),
    ],
    ids=["bucketed", "organized", "sample", "merge"],
)
@pytest.mark.some(1)
def test_full_disk_gives_an_error_of_one_line(tables: Tables, table: str, statement: str) -> None:
    tables.create(f"t (k bigint, v string) {table}")
    # The first INSERT samples the size of a row.
    rows = [] if "unused" in table else [("before",)]
    if rows:
        tables.sql("insert into t values (1, 'before')")
    jvm = tables.spark.sparkContext._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    # A limit on the size of files simulates a full disk.
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (2**20, limits[1]))
    try:
        uncompressed = tables.settings({"spark.sql.parquet.compression.codec": "uncompressed"})
        with uncompressed, pytest.raises(PySparkException) as caught:
            tables.sql(statement)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    assert str(caught.value).startswith("Files of `spark_catalog`.") and "found:    File too large" in str(caught.value)
    assert has_labels(caught.value) and condition_of(caught.value)
    assert not [*tables.folder("t").glob("_replaced/*/files")]
    tables.sql("refresh table t")
    assert tables.sql("select v from t") == rows


# Where the first of two appends stops: while a task commits, before and after its files move into the table, and after its commit.
STOPS = ["rename .*/_temporary/.*", r"create .*/\.started-.*", r"create .*/\.outcome-.*", "create .*/done"]


def patient(tables: Tables) -> AbstractContextManager[None]:
    """Let statements wait for each other."""
    return tables.settings({"spark.bucketing.write.recoverAfter": "60s"})


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("partition", ["", "partitioned by (p int)"])
@pytest.mark.some(2)
def test_appends_at_the_same_time_keep_all_rows_and_seals(tables: Tables, partition: str, stop: str) -> None:
    tables.make("t", "k bigint, v bigint" + ("" if partition else ", p int"), "k", 4, rest=partition)
    tables.sql("insert into t values (1, 0, 0)")

    # Both appends create the partition.
    append = f"insert into {tables.database}.t select id, {{}}, 5 from range(200)"
    with patient(tables), while_held(tables.spark, stop, tables.spark.sql, append.format(1)):
        tables.spark.sql(append.format(2))
        rows = tables.new_session().sql(f"select v, count(*) from {tables.database}.t group by v order by v").collect()
        assert [tuple(row) for row in rows] == [(0, 1), *([(1, 200)] if stop == STOPS[-1] else []), (2, 200)]
    tables.sql("refresh table t")
    assert tables.sql("select v, count(*) from t group by v order by v") == [(0, 1), (1, 200), (2, 200)]
    assert tables.sql(f"select distinct status from bucket_specs('{tables.database}.t')") == [("sealed",)]


@pytest.mark.parametrize("appended", [0, 1])
@pytest.mark.some(1)
def test_append_seals_all_files_after_another_process_has_restored_an_older_seal(tables: Tables, appended: int) -> None:
    """The metastore cannot compare a seal before it replaces it, so two processes may write their seals in the wrong order."""
    tables.make("t", "k bigint, v bigint", "k", 4, rest="partitioned by (p int)")
    tables.sql("insert into t values (1, 0, 0)")
    append = f"insert into {tables.database}.t values (9, 9, 9)"
    with patient(tables), while_held(tables.spark, STOPS[2], tables.spark.sql, append):
        seals = [seal_of(tables, "t", "p=0")]
        for key in (2, 3):
            tables.sql(f"insert into t values ({key}, 0, 0)")
            seals.append(seal_of(tables, "t", "p=0"))
        put_parameters(tables, "t", "p=0", {**seals[appended]})
        tables.sql("insert into t values (4, 0, 0)")
        assert tables.sql("select status from bucket_specs('t') where partition = 'p=0'") == [("sealed",)]


def test_version_that_two_statements_write_at_the_same_time_is_written_once(tables: Tables) -> None:
    tables.make("t", "k bigint, v bigint", "k", 4)
    settings = {"spark.bucketing.write.txnAppId": "app", "spark.bucketing.write.txnVersion": "1"}
    append = f"insert into {tables.database}.t values (1, 1)"
    with patient(tables), tables.settings(settings), ThreadPoolExecutor(1) as pool:
        with while_held(tables.spark, STOPS[2], tables.spark.sql, append):
            second = pool.submit(tables.spark.sql, append)
            sleep(2)
            assert not second.done()
        second.result()
    tables.sql("refresh table t")
    assert tables.sql("select * from t") == [(1, 1)]


def test_overwrite_of_a_partition_that_an_append_creates_keeps_the_appended_rows(tables: Tables) -> None:
    tables.make("t", "k bigint, v bigint", "k", 4, rest="partitioned by (p int)")
    append = f"insert into {tables.database}.t values (1, 1, 5)"
    with patient(tables), while_held(tables.spark, STOPS[2], tables.spark.sql, append):
        tables.sql("insert overwrite t partition (p = 5) values (2, 2)")
    tables.sql("refresh table t")
    assert sorted(tables.sql("select k, v, p from t")) == [(1, 1, 5), (2, 2, 5)]


@pytest.mark.parametrize("partition", ["", "partition (p = 1)"])
@pytest.mark.parametrize("stored", all_long_but("stored as parquet", ["stored as parquet", "using parquet"]))
def test_append_fails_if_another_program_deletes_its_files(tables: Tables, stored: str, partition: str) -> None:
    tables.make("t", "k bigint, v string", "k", 8, stored=stored, rest="partitioned by (p int)" if partition else "")
    if partition:
        tables.sql("alter table t add partition (p = 1)")
    folder = tables.folder("t")

    statement = f"insert into {tables.database}.t {partition} select id, sha2(cast(id as string), 256) from range(100)"
    # The tasks have committed their files, and Spark deletes its temporary directory.
    cleaning = while_held(tables.spark, "delete .*/_replaced/.*/_temporary", tables.spark.sql, statement)
    with pytest.raises(PySparkException, match=r"new files, as reported by the tasks") as caught, cleaning:
        next(folder.glob("_replaced/*/files/**/[!.]*.parquet")).unlink()
    assert has_labels(caught.value)
    assert tables.sql("select k, v from t") == []


@pytest.mark.parametrize("partition", ["", "partitioned by (p int)"])
@pytest.mark.some(1)
def test_append_succeeds_if_another_statement_has_rewritten_its_rows(tables: Tables, partition: str) -> None:
    """After the commit, and before the record of the append is complete, an UPDATE replaces its files."""
    tables.make("t", "k bigint, v string" + ("" if partition else ", p int"), "k", 2, rest=partition)
    tables.sql("insert into t values (1, 'old', 1)")
    append = f"insert into {tables.database}.t values (1, 'new', 1), (2, 'new', 1)"
    with while_held(tables.spark, "create .*/done", tables.spark.sql, append):
        tables.new_session().sql("update t set v = concat(v, '!')").collect()
    tables.sql("refresh table t")
    assert sorted(tables.sql("select k, v from t")) == [(1, "new!"), (1, "old!"), (2, "new!")]
    # The seal of the UPDATE stays.
    assert {row[0] for row in tables.sql(f"select status from bucket_specs('{tables.database}.t')")} == {"sealed"}


@pytest.mark.parametrize("layout", ["stored as parquet", "using parquet"])
def test_unwritable_folder_is_reported(tables: Tables, layout: str) -> None:
    # On Linux, nobody can create files in this folder, not even the superuser.
    tables.make("t", "k bigint, v bigint", "k", 4, stored=f"{layout} location '/proc/self/fd'")
    with pytest.raises(PySparkException) as caught:
        tables.sql("insert into t select id, id from range(200)")
    assert "Mkdirs failed to create" in str(caught.value) and "_replaced" in str(caught.value)
    assert "instead:  check free space and write permission" in str(caught.value) and has_labels(caught.value)


@pytest.mark.long
@pytest.mark.parametrize(
    "statement", ["insert into t", "merge into t using (select 1) on false when not matched then insert *"]
)
def test_error_of_a_python_worker_is_not_reported_as_one_of_the_storage(tables: Tables, statement: str) -> None:
    tables.create("t (k bigint, v string) clustered by (k) sorted by (k) into 2 buckets stored as parquet")
    tables.spark.udf.register("ends", lambda _: os._exit(1), "bigint")
    query = "select ends(id) as k, 'a' as v from range(3)"
    with pytest.raises(ERRORS, match="Python worker exited unexpectedly"):
        tables.sql(statement.replace("select 1", query) if "merge" in statement else f"{statement} {query}")
