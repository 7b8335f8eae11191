"""The record of a partition: every INSERT with the extension leaves one, together with the partition's descriptor."""

from __future__ import annotations

import pytest
from bucketed import Tables
from evolved import Kept, create, kept, logged, metastore_calls, parameters, put_parameters, with_new_rows
from pyspark.sql import SparkSession

from spark_bucketing.session import setting

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """A database for tables that evolve."""
    return with_new_rows(spark, "evolution_records")


EIGHT = Kept(8, 8)
NOT_BUCKETS = Kept(0, 0)
# Statements on a table of 8 buckets, with partitions p=0 and p=1 of 4; what is kept of the partitions that they write.
WRITES: list[tuple[str, dict[str, Kept]]] = [
    ("insert into {t} partition (p = 5) select k, v from new_rows", {"p=5": EIGHT}),
    ("insert into {t} partition (p = 5) select k, v from new_rows where false", {"p=5": EIGHT}),
    ("insert into {t} select k, v, p + 5 from new_rows", {"p=5": EIGHT, "p=6": EIGHT}),
    ("insert overwrite table {t} partition (p = 1) select k, v from new_rows", {"p=1": EIGHT}),
    ("insert overwrite table {t} partition (p = 1) select k, v from new_rows where false", {"p=1": EIGHT}),
    ("insert overwrite table {t} partition (p) select * from new_rows", {"p=0": EIGHT, "p=1": EIGHT}),
    ("insert overwrite table {t} partition (p = 1) if not exists select k, v from new_rows", {}),
    ("insert overwrite table {t} partition (p = 5) if not exists select k, v from new_rows", {"p=5": EIGHT}),
    ("insert into {t} partition (p = 1) select k, v from new_rows", {"p=1": NOT_BUCKETS}),
    ("insert into {t} select * from new_rows where p = 1", {"p=1": NOT_BUCKETS}),
    (
        "insert into {t} select k, v, if(p = 1, null, 0) from new_rows",
        {"p=0": NOT_BUCKETS, "p=__HIVE_DEFAULT_PARTITION__": EIGHT},
    ),
]


@pytest.mark.parametrize(
    "command",
    ["InsertIntoHadoopFsRelationCommand", pytest.param("InsertIntoHiveTable", marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    ("statement", "written"), WRITES, ids=lambda value: value[:70] if isinstance(value, str) else ""
)
def test_a_write_leaves_the_record_of_each_partition_that_it_wrote(
    tables: Tables, statement: str, written: dict[str, Kept], command: str
) -> None:
    convert = str(command == "InsertIntoHadoopFsRelationCommand").lower()
    settings = {
        "spark.sql.hive.convertMetastoreParquet": convert,
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    }
    create(tables, "t")
    with tables.settings(settings):
        tables.sql("insert into t select * from new_rows")
        old = dict.fromkeys(["p=0", "p=1"], Kept(4, 4))
        assert kept(tables, "t") == old
        tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
        assert f"Execute {command} " in str(tables.sql(f"explain {statement.format(t='t')}")), (
            "EXPLAIN reads as on stock Spark"
        )
        tables.sql(statement.format(t="t"))
    assert kept(tables, "t") == old | written
    assert tables.rows("select * from t") == tables.stock_rows("select * from t")


def test_the_record_is_the_spec_in_full(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("alter table t clustered by (v, K) sorted by (v) into 3 buckets")
    tables.sql("insert into t select * from new_rows where p = 0")
    assert parameters(tables, "t", "p=0") == {
        "bucketing.spec_version": "1",
        "bucketing.num_buckets": "3",
        "bucketing.columns": '["v","k"]',
        "bucketing.sort_columns": '["v"]',
        "bucketing.hash": "hive",
    }
    found = tables.sql("select * from bucket_specs('t')")
    location = f"file:{tables.folder('t')}/p=0"
    assert found == [("p=0", location, 3, ["v", "k"], ["v"], "hive", 1, None, 3, ["v", "k"], ["v"])]


def test_a_record_names_columns_as_hive_does(tables: Tables) -> None:
    tables.make("upper", "K bigint, V string", "K", 4, rest="partitioned by (p bigint)")
    tables.sql("insert into upper select * from new_rows where p = 0")
    assert parameters(tables, "upper", "p=0")["bucketing.columns"] == '["k"]'
    assert parameters(tables, "upper", "p=0")["bucketing.sort_columns"] == '["k"]'
    tables.sql("alter table upper clustered by (K) sorted by (K) into 4 buckets")
    assert kept(tables, "upper") == {"p=0": Kept(4, 4)}


def test_a_frame_leaves_records_as_well(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")
    tables.sql("alter table t clustered by (k) into 8 buckets")
    tables.spark.table("new_rows").where("p = 1").write.insertInto("t", overwrite=True)
    assert kept(tables, "t") == {"p=0": Kept(4, 4), "p=1": EIGHT}


def test_files_of_unknown_origin_keep_a_partition_without_a_record(tables: Tables) -> None:
    create(tables, "t")
    with setting(tables.spark, "spark.bucketing.enabled", "false"):
        tables.sql("insert into t select * from new_rows where p = 0")
    tables.sql("insert into t select * from new_rows")
    assert kept(tables, "t") == {"p=0": Kept(None, 4), "p=1": Kept(4, 4)}
    tables.sql("insert overwrite table t partition (p = 0) select k, v from new_rows")
    assert kept(tables, "t")["p=0"] == Kept(4, 4)


def test_a_table_without_buckets_any_more_marks_what_it_writes(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")
    tables.sql("alter table t not clustered")
    tables.sql("insert into t select k, v, p + 1 from new_rows")
    assert kept(tables, "t") == {"p=0": Kept(4, 4), "p=1": NOT_BUCKETS, "p=2": NOT_BUCKETS}


def test_tables_that_never_had_buckets_pay_nothing(tables: Tables) -> None:
    tables.sql("drop table if exists plain")
    tables.sql("create table plain (k bigint, v string) partitioned by (p bigint) stored as parquet")
    with metastore_calls(tables.spark) as calls:
        tables.sql("insert into plain select * from new_rows")
    assert not {"get_partitions_by_names", "alter_partitions"} & set(calls)
    assert kept(tables, "plain") == {"p=0": Kept(None, 0), "p=1": Kept(None, 0)}


def test_an_append_to_a_partition_of_the_same_spec_alters_nothing(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")
    with metastore_calls(tables.spark) as calls:
        tables.sql("insert into t select * from new_rows")
    assert "alter_partitions" not in calls
    assert [call for call in calls if "partition" in call and call != "get_partitions"].count(
        "get_partitions_by_names"
    ) == 1
    assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], Kept(4, 4))


def test_a_descriptor_out_of_step_is_mended_by_the_next_write(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")
    tables.sql("analyze table t partition (p = 0) compute statistics")
    assert kept(tables, "t")["p=0"] == Kept(4, 0)
    tables.sql("insert into t select * from new_rows")
    assert kept(tables, "t")["p=0"] == Kept(4, 4)


def test_records_come_after_automatic_statistics(tables: Tables) -> None:
    create(tables, "t")
    with setting(tables.spark, "spark.sql.statistics.size.autoUpdate.enabled", "true"):
        tables.sql("insert into t select * from new_rows")
        assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], Kept(4, 4))
        tables.sql("insert into t select * from new_rows")
        assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], Kept(4, 4))


HARD = ["a b", "x=1/y", "it's", 'say "hi"', "100%", "é", "__HIVE_DEFAULT_PARTITION__"]


def test_partitions_of_every_name_are_found(tables: Tables) -> None:
    create(tables, "hard", partition="Ds string, d date, N int")
    values = ", ".join(f'"{value}"' if '"' not in value else f"'{value}'" for value in HARD)
    query = f"""
        select id as k, cast(id as string) as v, nullif(array({values})[id % 7], '__HIVE_DEFAULT_PARTITION__') as ds,
          if(id % 7 = 1, null, date'2024-02-29') as d, cast(id % 7 - 3 as int) as n from range(70)
    """
    tables.sql(f"insert into hard {query}")
    found = kept(tables, "hard")
    assert set(found.values()) == {Kept(4, 4)} and len(found) == 7, found
    tables.sql("alter table hard clustered by (v) into 2 buckets")
    tables.sql("alter table hard partition (ds = 'x=1/y', n = '-2') clustered by (v) into 2 buckets")
    tables.sql("alter table hard partition (D = null) not clustered")
    tables.sql("alter table hard partition (d = date'2024-02-29', ds = 'it''s') clustered by (v) into 2 buckets")
    tables.sql("""alter table hard partition (ds = 'say "hi"') clustered by (v) into 2 buckets""")
    after = kept(tables, "hard")
    assert [name.split("/")[0] for name, of in after.items() if of == Kept(2, 2)] == ["ds=it%27s", "ds=say %22hi%22"]
    assert [name.split("/")[0] for name, of in after.items() if of == NOT_BUCKETS] == ["ds=x%3D1%2Fy"]
    tables.sql(
        f"insert overwrite table hard partition (ds = '100%', d, n) select k, v, d, n from ({query}) where ds = '100%'"
    )
    assert Kept(2, 2) in {of for name, of in kept(tables, "hard").items() if name.startswith("ds=100%25")}
    assert tables.rows("select * from hard") == tables.stock_rows("select * from hard")


def test_keys_that_spark_hashes_otherwise_than_hive_have_no_record(tables: Tables) -> None:
    tables.make("t", "k timestamp, v string", "k", 4, rest="partitioned by (p bigint)")
    tables.sql("insert into t select timestamp'2024-01-01', 'x', 1")
    assert kept(tables, "t") == {"p=1": Kept(None, 4)}


BROKEN: list[tuple[dict[str, str | None], str]] = [
    ({"bucketing.hash": None}, "bucketing.hash is missing"),
    ({"bucketing.hash": "murmur"}, "bucketing.hash is murmur, expected hive"),
    ({"bucketing.spec_version": "2"}, "bucketing.spec_version is 2, expected 1"),
    ({"bucketing.num_buckets": "-4"}, "bucketing.num_buckets is -4, expected a number of buckets"),
    ({"bucketing.num_buckets": "four"}, "bucketing.num_buckets is four, expected a number of buckets"),
    (
        {"bucketing.num_buckets": "0"},
        'bucketing.num_buckets is 0 and bucketing.columns is ["k"], which contradict each other',
    ),
    ({"bucketing.columns": "k"}, "bucketing.columns is k, expected a JSON array of different column names"),
    (
        {"bucketing.columns": '["k", 1]'},
        'bucketing.columns is ["k", 1], expected a JSON array of different column names',
    ),
    ({"bucketing.columns": '["k"] x'}, 'bucketing.columns is ["k"] x, expected a JSON array of different column names'),
    (
        {"bucketing.sort_columns": '["k","K"]'},
        'bucketing.sort_columns is ["k","K"], expected a JSON array of different column names',
    ),
]


def test_a_broken_record_is_reported_and_kept(tables: Tables) -> None:
    create(tables, "t")
    tables.sql(f"insert into t select k, v, k % {len(BROKEN)} from new_rows")
    for number, (change, _) in enumerate(BROKEN):
        put_parameters(tables, "t", f"p={number}", change)
    tables.sql(f"insert into t select k, v, k % {len(BROKEN)} from new_rows")
    tables.sql("alter table t clustered by (k) into 8 buckets")
    found = tables.sql(
        "select partition, problem, num_buckets, bucket_columns, sort_columns, hash, spec_version from bucket_specs('t')"
    )
    assert sorted(found) == [(f"p={i}", why, None, None, None, None, None) for i, (_, why) in enumerate(BROKEN)]
    tables.sql("insert overwrite table t partition (p = 0) select k, v from new_rows")
    assert tables.sql("select problem, num_buckets from bucket_specs('t') where partition = 'p=0'") == [(None, 8)]


@pytest.mark.long
def test_a_record_that_cannot_be_written_does_not_fail_the_insert(tables: Tables) -> None:
    """The metastore keeps 4,000 characters in a parameter, and these names of columns take more."""
    columns = [f"{'x' * 100}{number}" for number in range(50)]
    tables.make(
        "wide", ", ".join(f"{name} int" for name in columns), ", ".join(columns), 2, rest="partitioned by (p int)"
    )
    with logged(tables.spark, "org.apache.spark.sql.bucketing.PartitionRecorder") as lines:
        tables.sql(f"insert into wide values ({', '.join('1' for _ in columns)}, 7)")
    assert tables.sql("select count(*) from wide") == [(1,)]
    assert kept(tables, "wide") == {"p=7": Kept(None, 2)}
    warning = next(line for line in lines if "evolution_records" in line)
    assert "`evolution_records`.`wide`" in warning and "p=7" in warning
    assert "spark-bucketing evolution repair evolution_records.wide" in warning


def test_a_record_left_over_from_files_that_were_replaced_is_no_worse_than_none(tables: Tables) -> None:
    """A process that dies after the new files and before their record leaves the old one."""
    create(tables, "t")
    tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    tables.sql("insert into t select * from new_rows")
    tables.sql("alter table t partition (p = 0) clustered by (k) sorted by (k) into 4 buckets")
    assert kept(tables, "t") == {"p=0": Kept(4, 4), "p=1": EIGHT}
    for query in (
        "select * from t",
        "select k, count(*) from t group by k",
        "select a.k, b.v from t a join t b on a.k = b.k and a.p = b.p",
        "select a.k, b.v from t a join t b on a.k = b.k where a.p = 0 and b.p = 0",
        "select * from t where k = 6 and p = 0",
    ):
        assert tables.rows(query) == tables.stock_rows(query) != []
