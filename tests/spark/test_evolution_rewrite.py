"""`spark-bucketing evolution rewrite`: the partitions that it brings to the table's spec, and those that it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bucketed import Tables
from click.testing import Result
from evolving import (  # noqa: F401
    DB,
    HARD,
    alter,
    evolution_command,
    evolved,
    evolving_tables,
    fill,
    fine,
    literal,
    locations,
    make,
    nothing_is_left,
    record,
    sealed,
    sums,
)

pytestmark = pytest.mark.usefixtures("extension")


@pytest.mark.parametrize("stored", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_a_rewrite_brings_the_selected_partitions(tables: Tables, command: Callable[..., Result], stored: str) -> None:
    evolved(tables, "rewritten", {"a": 4, "b": 6, "c": 8}, f"stored as {stored}")
    rows = sums(tables, "rewritten")
    before = {path: path.stat().st_mtime_ns for path in locations(tables, "rewritten")["ds=c"].glob("0*")}
    dry = command("rewrite", f"{DB}.rewritten", "--dry-run")
    assert "ds=a: 4 files, " in dry.output and "ds=c: has the table's spec already" in dry.output
    assert "2 partitions to be brought to 8 buckets by (k), sorted by (k), 10 files and " in dry.output
    assert record(tables, "rewritten") == sealed(a=4, b=6, c=8)
    # The command has settings of its own.
    with tables.settings({"spark.sql.hive.manageFilesourcePartitions": "false"}):
        assert command("rewrite", f"{DB}.rewritten", "--where", "ds < 'b'").exit_code == 0
    assert record(tables, "rewritten") == sealed(a=8, b=6, c=8)
    assert sums(tables, "rewritten") == rows
    result = command("rewrite", f"{DB}.rewritten")
    assert "1 partition brought to the table's spec, 2 had it before" in result.output
    assert "0 partitions brought" in command("rewrite", f"{DB}.rewritten").output
    none = command("rewrite", f"{DB}.rewritten", "--where", "ds > 'c'")
    assert (none.exit_code, none.output) == (0, f"{DB}.rewritten: none of 3 partitions matches --where.\n")
    assert sums(tables, "rewritten") == rows
    assert {path: path.stat().st_mtime_ns for path in before} == before
    nothing_is_left(tables, "rewritten")
    fine(command, "rewritten")
    assert "Bucketed: true (8 Hive buckets" in tables.plan("select k, count(*) from rewritten group by k")


@pytest.mark.long
def test_partitions_with_hard_names(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "hard", "ds string, n int")
    for ds in HARD:
        place = f"ds = {literal(ds)}, n = {'null' if ds is None else 7}"
        tables.sql(f"insert overwrite table hard partition ({place}) select cast(id as int), id from range(9)")
    alter(tables, "hard", 8)
    rows = sums(tables, "hard")
    first, places = record(tables, "hard"), locations(tables, "hard")
    assert len(first) == len(HARD)
    fine(command, "hard")
    assert record(tables, "hard") == first
    result = command("rewrite", f"{DB}.hard")
    assert result.exit_code == 0, result.output
    assert set(record(tables, "hard").values()) == {("sealed", 8, 1)}
    assert locations(tables, "hard") == places
    assert sums(tables, "hard") == rows
    nothing_is_left(tables, "hard")
    fine(command, "hard")


@pytest.mark.long
def test_other_readers_of_the_path_find_what_was_rewritten(
    tables: Tables, command: Callable[..., Result], tmp_path: Path
) -> None:
    evolved(tables, "outside", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'outside'}'")
    rows, places = sums(tables, "outside"), locations(tables, "outside")
    result = command("rewrite", f"{DB}.outside")
    assert result.exit_code == 0, result.output
    assert record(tables, "outside") == sealed(a=8, b=8)
    assert locations(tables, "outside") == places
    assert sums(tables, "outside") == rows
    tables.sql("drop table outside")
    make(tables, "outside", stored=f"stored as parquet location '{tmp_path / 'outside'}'")
    tables.sql("msck repair table outside")
    assert sums(tables, "outside") == rows


@pytest.mark.long
def test_a_value_that_sql_cannot_name_does_not_stop_the_others(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "spelled", "ds decimal(10,2)")
    for ds in ("1.00", "2.00"):
        tables.sql(f"insert into spelled partition (ds = {ds}) select cast(id as int), id from range(40)")
    jvm, session = tables.spark.sparkContext._jvm, tables.spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    metastore = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(client.conf()).getMSC()
    for partition in metastore.listPartitions(DB, "spelled", -1):
        if partition.getValues()[0].startswith("1"):
            values = jvm.java.util.ArrayList()
            values.add("1.0")
            renamed = partition.deepCopy()
            renamed.setValues(values)
            metastore.renamePartition(DB, "spelled", partition.getValues(), renamed)
    alter(tables, "spelled", 8)
    result = command("rewrite", f"{DB}.spelled")
    assert result.exit_code == 2 and "Spark spells its values in another way" in result.output, result.output
    assert ("sealed", 8, 1) in record(tables, "spelled").values()


def test_a_partition_above_another_ones_folder_is_refused(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "nested", {"a": 4, "b": 8})
    inner = locations(tables, "nested")["ds=a"] / "inner"
    tables.sql(f"alter table nested add partition (ds = 'c') location '{inner}'")
    rows = sums(tables, "nested")
    result = command("rewrite", f"{DB}.nested", "--where", "ds = 'a'")
    assert result.exit_code == 2 and "is also that of ds=c, or above it" in result.output
    assert sums(tables, "nested") == rows


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_not_replaced_by_what_can(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "corrupt", {"a": 4, "b": 8})
    path = sorted(locations(tables, "corrupt")["ds=a"].glob("0*"))[0]
    path.write_bytes(b"broken")
    path.with_name(f".{path.name}.crc").unlink()
    tables.sql("alter table corrupt set serdeproperties ('ignoreCorruptFiles' = 'true')")
    with tables.settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
        lenient = command("rewrite", f"{DB}.corrupt")
        assert lenient.exit_code == 2 and "is read with its option ignoreCorruptFiles=true" in lenient.output
        tables.sql("alter table corrupt set serdeproperties ('ignoreCorruptFiles' = 'false')")
        strict = command("rewrite", f"{DB}.corrupt")
    assert strict.exit_code == 2 and path.name in strict.output, strict.output
    assert path.read_bytes() == b"broken"
    nothing_is_left(tables, "corrupt")


def test_what_a_stock_insert_has_added_is_compacted(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "added", {"a": 8, "b": 8})
    with tables.settings({"spark.bucketing.enabled": "false"}):
        fill(tables, "added", "a", how="into")
    rows = sums(tables, "added")
    assert record(tables, "added")["ds=a"][0] == "seal-broken"
    assert command("seal", f"{DB}.added").exit_code == 0
    assert record(tables, "added")["ds=a"][:2] == ("sealed", 8)
    dry = command("rewrite", f"{DB}.added", "--dry-run")
    assert "files of a bucket" in dry.output and "1 partition to be brought" in dry.output
    assert command("rewrite", f"{DB}.added", "--where", "ds = 'a'").exit_code == 0
    assert record(tables, "added") == sealed(a=8, b=8)
    assert sums(tables, "added") == rows


def test_partitions_without_rows_are_left(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "empty", {"a": 4, "b": 8})
    tables.sql("alter table empty add partition (ds = 'c')")
    with tables.settings({"spark.sql.sources.bucketing.enabled": "false", "spark.bucketing.enabled": "false"}):
        tables.sql("insert overwrite table empty partition (ds = 'a') select 1, 1 from range(1) where id > 1")
    result = command("rewrite", f"{DB}.empty")
    assert result.exit_code == 0, result.output
    assert "0 partitions brought" in result.output
    nothing_is_left(tables, "empty")


@pytest.mark.long
def test_a_partition_stays_in_a_folder_elsewhere(
    tables: Tables, command: Callable[..., Result], tmp_path: Path
) -> None:
    evolved(tables, "elsewhere", {"a": 4, "b": 8})
    place = tmp_path / "föo = 1%"
    shutil.copytree(locations(tables, "elsewhere")["ds=a"], place)
    shutil.rmtree(locations(tables, "elsewhere")["ds=a"])
    tables.sql(f"alter table elsewhere partition (ds = 'a') set location '{place}'")
    rows, home = sums(tables, "elsewhere"), locations(tables, "elsewhere")["ds=a"]
    result = command("rewrite", f"{DB}.elsewhere")
    assert result.exit_code == 0, result.output
    assert (locations(tables, "elsewhere")["ds=a"], sums(tables, "elsewhere")) == (home, rows)
    assert record(tables, "elsewhere") == sealed(a=8, b=8)
    nothing_is_left(tables, "elsewhere")


def test_several_batches(tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    evolved(tables, "batches", {"a": 4, "b": 4, "c": 4, "d": 8})
    rows = sums(tables, "batches")
    monkeypatch.setattr("spark_bucketing.evolution.rewrite._BATCH_PARTITIONS", 2)
    result = command("rewrite", f"{DB}.batches")
    assert "[1/2] 2 partitions: 8 files" in result.output and "[2/2] 1 partition: 4 files" in result.output
    assert record(tables, "batches") == sealed(a=8, b=8, c=8, d=8)
    assert sums(tables, "batches") == rows
    nothing_is_left(tables, "batches")


def test_a_staging_table_keeps_what_files_are_written_by(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "gzip", stored="stored as parquet tblproperties ('parquet.compression' = 'GZIP')")
    fill(tables, "gzip", "a")
    alter(tables, "gzip", 8)
    assert command("rewrite", f"{DB}.gzip").exit_code == 0
    assert all("gz" in path.name for path in tables.files("gzip"))
