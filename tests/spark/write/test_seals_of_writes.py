"""Tests that every INSERT with the extension seals its files, and updates partition descriptors with the seals."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from bucketed_tables import Tables
from metastore_interception import failing
from partition_specs import StoredSpec, create, filled, kept, logged, metastore_calls, put_parameters, seal_of

from conftest import REPOSITORY, all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")


CONVERT, NULL = "spark.sql.hive.convertMetastoreParquet", "__HIVE_DEFAULT_PARTITION__"
FOUR, EIGHT, PLAIN = StoredSpec(4, 4), StoredSpec(8, 8), StoredSpec(None, 0)
# Statements on a table with 8 buckets whose partitions p=0 and p=1 have 4, and the stored specs of written partitions.
WRITES: list[tuple[str, dict[str, StoredSpec]]] = [
    ("insert into t partition (p = 5) select k, v from new_rows", {"p=5": EIGHT}),
    ("insert into t partition (p = 5) select k, v from new_rows where false", {"p=5": EIGHT}),
    ("insert into t select k, v, p + 5 from new_rows", {"p=5": EIGHT, "p=6": EIGHT}),
    ("insert overwrite table t partition (p = 1) select k, v from new_rows", {"p=1": EIGHT}),
    ("insert overwrite table t partition (p = 1) select k, v from new_rows where false", {"p=1": EIGHT}),
    ("insert overwrite table t partition (p) select * from new_rows", {"p=0": EIGHT, "p=1": EIGHT}),
    ("insert overwrite table t partition (p = 1) if not exists select k, v from new_rows", {}),
    ("insert overwrite table t partition (p = 5) if not exists select k, v from new_rows", {"p=5": EIGHT}),
    ("insert into t partition (p = 1) select k, v from new_rows", {"p=1": PLAIN}),
    ("insert into t select * from new_rows where p = 1", {"p=1": PLAIN}),
    ("insert into t select k, v, if(p = 1, null, 0) from new_rows", {"p=0": PLAIN, f"p={NULL}": EIGHT}),
]


@pytest.mark.parametrize(
    "command", ["InsertIntoHadoopFsRelationCommand", pytest.param("InsertIntoHiveTable", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(("statement", "written"), WRITES, ids=[statement[:70] for statement, _ in WRITES])
@pytest.mark.some(2)
def test_write_seals_its_partitions(
    tables: Tables, statement: str, written: dict[str, StoredSpec], command: str
) -> None:
    convert = str(command == "InsertIntoHadoopFsRelationCommand").lower()
    create(tables, "t")
    with tables.settings({CONVERT: convert, "spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        tables.sql("insert into t select * from new_rows")
        old = dict.fromkeys(["p=0", "p=1"], FOUR)
        assert kept(tables, "t") == old
        tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
        explained = str(tables.sql(f"explain {statement}"))
        assert f"Execute {command} " in explained, "EXPLAIN must look as on stock Spark"
        tables.sql(statement)
    assert kept(tables, "t") == old | written
    tables.read("select * from t")


def digest_of(seal: dict[str, str], files: list[tuple[str, int, int]]) -> str:
    """Compute the digest as docs/reference/seal-format.md defines it: names, bytes and milliseconds, and the spec."""
    spec = "\n".join(seal[f"bucketing.{key}"] for key in ("num_buckets", "columns", "sort_columns", "hash", "schema"))
    sums = [0, 0]
    for text in (spec, *(f"{name}\n{length}\n{modified}" for name, length, modified in files)):
        digest = sha256(text.encode()).digest()
        for place in (0, 1):
            sums[place] += int.from_bytes(digest[8 * place : 8 * place + 8], "big")
    return "".join(f"{total % 2**64:016x}" for total in sums)


def groups_of(files: list[Path]) -> str:
    """Compute the groups of files as docs/reference/seal-format.md defines them: the files of one job are one group."""
    (job,) = {str(re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", path.name)[0]) for path in files}  # type: ignore[index]
    name = urlsafe_b64encode(sha256(job.encode()).digest()[:6]).decode()
    return f"{name}{len(files)}" if len(files) > 1 else name


def listed(files: list[Path]) -> list[tuple[str, int, int]]:
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns // 10**6) for path in files]


def test_seal_matches_its_documentation(tables: Tables) -> None:
    tables.make("t", "V string, K bigint", "v, K", 3, rest="partitioned by (p bigint)", sorted_by="v")
    tables.sql("insert into t select v, k, p from new_rows")
    for partition in ("p=0", "p=1"):
        files = [path for path in tables.files("t") if path.parent.name == partition]
        seal = seal_of(tables, "t", partition)
        assert seal == {
            "bucketing.spec_version": "2",
            "bucketing.num_buckets": "3",
            "bucketing.columns": '["v","k"]',
            "bucketing.sort_columns": '["v"]',
            "bucketing.hash": "hive",
            "bucketing.schema": '[{"name":"v","position":0,"type":"string"},{"name":"k","position":1,"type":"bigint"}]',
            "bucketing.files": str(len(files)),
            "bucketing.bytes": str(sum(path.stat().st_size for path in files)),
            "bucketing.digest": digest_of(seal, listed(files)),
            "bucketing.file_groups": groups_of(files),
        }
        (found,) = tables.sql(f"select * from bucket_specs('t') where partition = '{partition}'")
        spec = (3, ["v", "k"], ["v"])
        assert found == (
            partition, f"file:{tables.folder('t')}/{partition}", "sealed", *spec, "hive", len(files),
            int(seal["bucketing.bytes"]), 1, None, *spec, None,
        )  # fmt: skip


def test_documented_query_computes_the_digest_on_stock_spark(tables: Tables) -> None:
    text = (REPOSITORY / "docs" / "reference" / "seal-format.md").read_text()
    query = text.partition("```sql\n")[2].partition("```")[0]
    tables.make("t", "k bigint, v string", "k", 4)
    tables.sql("insert into t select k, v from new_rows")
    tables.sql("insert into t select k, v from new_rows")
    seal = seal_of(tables, "t")
    values = {key: f"'{seal[f'bucketing.{key}']}'" for key in ("columns", "sort_columns", "hash", "schema")}
    values |= {"folder": str(tables.folder("t")), "num_buckets": seal["bucketing.num_buckets"]}
    for key, value in values.items():
        query = query.replace(f"${{{key}}}", value)
    sealed = int(seal["bucketing.files"]), int(seal["bucketing.bytes"]), seal["bucketing.digest"]
    assert tables.sql(f"stock:{query}") == [sealed]
    assert json.loads(seal["bucketing.schema"]) == [{"name": "k", "position": 0, "type": "bigint"}]


def test_files_of_other_writers_leave_a_partition_unsealed(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("stock:insert into t select * from new_rows where p = 0")
    tables.sql("insert into t select * from new_rows")
    assert kept(tables, "t") == {"p=0": StoredSpec(None, 4), "p=1": FOUR}
    tables.sql("insert overwrite table t partition (p = 0) select k, v from new_rows")
    assert kept(tables, "t")["p=0"] == FOUR


def test_writes_to_tables_without_buckets_make_no_metastore_calls(tables: Tables) -> None:
    tables.create("plain (k bigint, v string) partitioned by (p bigint) stored as parquet")
    with metastore_calls(tables.spark) as calls:
        tables.sql("insert into plain select * from new_rows")
    assert not {"get_partitions_by_names", "alter_partitions"} & set(calls)
    assert kept(tables, "plain") == {"p=0": PLAIN, "p=1": PLAIN}


def test_append_makes_three_calls_for_all_partitions(tables: Tables) -> None:
    filled(tables, "t")
    with metastore_calls(tables.spark) as calls:
        tables.sql("insert into t select * from new_rows")
    # The extension fetches partitions before it lists their files, and again before it stores the seals.
    assert [calls.count(name) for name in ("get_partitions_by_names", "alter_partitions")] == [2, 1]
    assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], FOUR)


def test_next_write_repairs_an_inconsistent_descriptor(tables: Tables) -> None:
    create(tables, "t")
    with tables.settings({"spark.sql.statistics.size.autoUpdate.enabled": "true"}):
        tables.sql("insert into t select * from new_rows")
        assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], FOUR)
        tables.sql("analyze table t partition (p = 0) compute statistics")
        assert kept(tables, "t")["p=0"] == StoredSpec(4, 0)
        tables.sql("insert into t select * from new_rows")
        assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], FOUR)


HARD = ["a b", "x=1/y", "it's", 'say "hi"', "100%", "é", NULL]


def test_partitions_with_special_names_are_sealed(tables: Tables) -> None:
    create(tables, "hard", partition="Ds string, d date, N int")
    values = ", ".join(f'"{value}"' if '"' not in value else f"'{value}'" for value in HARD)
    query = f"""
        select id as k, cast(id as string) as v, nullif(array({values})[id % 7], '{NULL}') as ds,
          if(id % 7 = 1, null, date'2024-02-29') as d, cast(id % 7 - 3 as int) as n from range(70)
    """
    tables.sql(f"insert into hard {query}")
    found = kept(tables, "hard")
    assert set(found.values()) == {FOUR} and len(found) == 7, found
    assert "Bucketed: true" in tables.read("select k, count(*) from hard group by k")


# Damaged seals, and the result of bucket_specs.
DAMAGED: list[tuple[dict[str, str | None], str, str]] = [
    ({"hash": None}, "seal-unreadable", "bucketing.hash is missing"),
    ({"hash": "murmur"}, "seal-unreadable", "bucketing.hash is murmur, expected hive"),
    ({"spec_version": "1"}, "seal-unreadable", "bucketing.spec_version is 1, expected 2"),
    ({"num_buckets": "-4"}, "seal-unreadable", "bucketing.num_buckets is -4"),
    ({"num_buckets": "0"}, "seal-unreadable", "bucketing.num_buckets is 0"),
    ({"columns": "k"}, "seal-unreadable", "bucketing.columns is k"),
    ({"columns": '["k", 1]'}, "seal-unreadable", 'bucketing.columns is ["k", 1]'),
    ({"columns": '["k"] x'}, "seal-unreadable", 'bucketing.columns is ["k"] x'),
    ({"sort_columns": '["k","K"]'}, "seal-unreadable", 'bucketing.sort_columns is ["k","K"]'),
    ({"schema": "[]"}, "seal-unreadable", "bucketing.schema has other columns"),
    ({"schema": '[{"name":"k"}]'}, "seal-unreadable", "bucketing.schema is"),
    ({"files": "-1"}, "seal-unreadable", "bucketing.files is -1"),
    ({"digest": "FF" * 16}, "seal-unreadable", "expected 32 hexadecimal digits"),
    ({"num_buckets": "2"}, "seal-stale", "which differ from"),
    ({"files": "9"}, "seal-stale", "which differ from the 9 sealed files"),
]


def test_damaged_seal_is_reported_and_replaced_by_an_overwrite(tables: Tables) -> None:
    filled(tables, "t", f"select k, v, k % {len(DAMAGED)} from new_rows")
    for number, (change, _, _) in enumerate(DAMAGED):
        put_parameters(tables, "t", f"p={number}", {f"bucketing.{key}": value for key, value in change.items()})
    specs = "select partition, status, problem from bucket_specs('t')"
    found = {str(partition): (status, str(problem)) for partition, status, problem in tables.sql(specs)}
    for number, (_, code, words) in enumerate(DAMAGED):
        status, problem = found[f"p={number}"]
        assert status == code and words in problem, (number, problem)
    tables.sql("refresh table t")
    assert "Bucketed: false [seal-unreadable]" in tables.read("select k, count(*) from t where p = 0 group by k")
    tables.sql("insert overwrite table t partition (p = 0) select k, v from new_rows")
    assert kept(tables, "t")["p=0"] == FOUR


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.some(1)
def test_insert_succeeds_if_its_seal_cannot_be_written(tables: Tables, partitioned: bool) -> None:
    if partitioned:
        create(tables, "t")
    else:
        tables.make("t", "k bigint, v string, p bigint", "k", 4)
    call = "alter_partitions" if partitioned else "alter_table_with_environmentContext"
    with (
        logged(tables.spark, "org.apache.spark.sql.bucketing.write.FileReplacement") as lines,
        failing(tables.spark, call) as failed,
    ):
        tables.sql("insert into t select * from new_rows")
    assert failed and tables.sql("select count(*) from t") == [(40,)]
    assert {of.of_seal for of in kept(tables, "t").values()} == {None}
    warning = next(line for line in lines if "may not be sealed" in line)
    assert "ALTER TABLE `spark_catalog`.`seals_of_writes`.`t` SEAL BUCKETS" in warning


# The extension does not seal files that may return different rows, or rows in a different order.


def status(tables: Tables) -> list[tuple[object, ...]]:
    return tables.sql("select status from bucket_specs('t')")


@pytest.mark.parametrize(
    ("stored", "settings"),
    [
        pytest.param("orc", {}, marks=pytest.mark.long),
        ("parquet", {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}),
        pytest.param("parquet", {"spark.sql.hive.convertMetastoreParquet": "false"}, marks=pytest.mark.long),
    ],
)
def test_dates_that_differ_between_calendars_are_not_sealed(
    tables: Tables, stored: str, settings: dict[str, str]
) -> None:
    tables.make("t", "d date, v int", "d", 8, stored=f"stored as {stored}")
    with tables.settings(settings):
        tables.sql("insert into t values (date'1582-10-10', 1), (date'1500-01-01', 2), (date'2024-01-01', 3)")
    assert status(tables) == [("not-sealed",)]
    with tables.settings({"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        for query in ("select * from t where d = date'1582-10-15'", "select d, count(*) from t group by d"):
            assert tables.rows(query) == tables.stock_rows(query)
    with tables.settings(settings):
        tables.sql("insert overwrite table t values (date'1582-10-15', 1), (date'2024-01-01', 3)")
    assert status(tables) == [("sealed",)]


@pytest.mark.parametrize("planned", all_long_but("true", ["true", "false"]))
@pytest.mark.parametrize("distribute", ["true", "false"])
@pytest.mark.some(1)
def test_rows_in_descending_order_are_sorted_again_or_not_sealed(tables: Tables, planned: str, distribute: str) -> None:
    tables.make("t", "k int, v int", "k", 8)
    settings = {"spark.bucketing.write.distribute": distribute, "spark.sql.optimizer.plannedWrite.enabled": planned}
    source = "select cast(id as int) as k, cast(id as int) as v from range(300)"
    with tables.settings(settings):
        tables.sql(f"insert overwrite table t select k, v from ({source}) sort by hive_bucket(8, k), k desc")
    tables.make("good", "k int, w int", "k", 8, source.replace("as v", "as w"))
    query = "select * from t join good on t.k = good.k"
    tables.read(query)
    assert status(tables) == [("sealed" if distribute == "true" else "not-sealed",)]


def test_timestamps_end_the_sealed_ordering(tables: Tables) -> None:
    tables.make("t", "k int, at timestamp, x int", "k", 8, sorted_by="k, at, x")
    rows = "values (1, timestamp'2024-01-01 00:00:00.000100', 9), (1, timestamp'2024-01-01 00:00:00.000200', 5)"
    with tables.settings({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}):
        tables.sql(f"insert into t {rows}")
    query = "select * from t a join t b on a.k = b.k and a.at = b.at and a.x = b.x"
    assert len(tables.rows(query)) == 2
    assert tables.shape(query).sorts == 2


def test_tasks_with_several_open_files_leave_partitions_unsealed(tables: Tables) -> None:
    tables.create("t (k int) partitioned by (p int) clustered by (k) into 4 buckets stored as parquet")
    with tables.settings({"spark.sql.maxConcurrentOutputFileWriters": "4"}):
        tables.sql("insert into t select cast(id as int), cast(id % 2 as int) from range(40)")
    assert status(tables) == [("not-sealed",), ("not-sealed",)]
    tables.read("select k, count(*) from t group by k")


COMMITTERS = {
    "parquet": ("spark.sql.parquet.output.committer.class", "RenamingCommitter"),
    "orc": ("spark.sql.sources.outputCommitterClass", "RenamingFileCommitter"),
}


@pytest.mark.parametrize("stored", all_long_but("parquet", COMMITTERS))
def test_files_that_a_committer_renames_are_sealed(tables: Tables, stored: str) -> None:
    """S3A's staging committers add an id to the names of files."""
    package = "org.apache.spark.sql.bucketing.support"
    committer = tables.spark.sparkContext._jvm.org.apache.spark.sql.bucketing.support.RenamingCommitter  # type: ignore[union-attr]
    key, name = COMMITTERS[stored]
    create(tables, "t", stored=stored)
    tables.make("whole", "k bigint, v string, p bigint", "k", 4, stored=f"stored as {stored}")
    statements = ("insert into {t} select * from new_rows", "insert overwrite {t} select * from new_rows")
    with tables.settings({key: f"{package}.{name}"}):
        for statement in (*statements, statements[0]):
            for table in ("t", "whole"):
                tables.sql(statement.format(t=table))
                assert not any("0123abcd." in path.name for path in tables.files(table)), tables.files(table)
                specs = f"select distinct status, max_files_per_bucket from bucket_specs('{table}')"
                assert [row[0] for row in tables.sql(specs)] == ["sealed"]
        tables.sql("merge into t using new_rows s on t.k = s.k when matched then update set v = 'new'")
        assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], FOUR)
        # Names in the Spark layout end with the bucket.
        tables.make("s", "k bigint, v string, p bigint", "k", 4, stored=f"using {stored}")
        for separator in ("-", "+"):
            committer.use(separator)
            try:
                for table in ("t", "s"):
                    tables.sql(statements[0].format(t=table))
            finally:
                committer.use("-")
    assert kept(tables, "s") == {"": FOUR}
    assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], FOUR)
    assert "Bucketed: true" in tables.read("select k, count(*) from s group by k")


@pytest.mark.parametrize("stored", all_long_but("orc", ["parquet", "orc"]))
def test_case_sensitive_session_seals_its_writes(tables: Tables, stored: str) -> None:
    with tables.settings({"spark.sql.caseSensitive": "true"}):
        create(tables, "t", stored=stored)
        for statement in (
            "insert into t select * from new_rows",
            "insert overwrite t select * from new_rows",
            "update t set v = 'new' where k = 3",
            "merge into t using (select k + 5 as k, v, p from new_rows) s on t.k = s.k when matched then update set * "
            "when not matched then insert *",
            "delete from t where k = 4",
        ):
            tables.sql(statement)
            assert kept(tables, "t") == dict.fromkeys(["p=0", "p=1"], FOUR), statement
    tables.read("select k, count(*) from t group by k")


def test_table_below_a_directory_with_a_space_is_sealed(tables: Tables, tmp_path: Path) -> None:
    place = tmp_path / "a place%20"
    tables.create(f"t (k bigint) clustered by (k) sorted by (k) into 2 buckets stored as parquet location '{place}'")
    for _ in range(2):
        tables.sql("insert into t select id from range(20)")
    assert tables.sql("select status, files from bucket_specs('t')") == [("sealed", 4)]
