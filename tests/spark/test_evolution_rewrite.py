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
    some_file,
    sums,
)
from interrupted import meanwhile

from spark_bucketing.evolution.staging import FOLDER

pytestmark = pytest.mark.usefixtures("extension")


@pytest.mark.parametrize("stored", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_a_rewrite_brings_the_selected_partitions(tables: Tables, command: Callable[..., Result], stored: str) -> None:
    evolved(tables, "rewritten", {"a": 4, "b": 6, "c": 8}, f"stored as {stored}")
    rows = sums(tables, "rewritten")
    before = {path: path.stat().st_mtime_ns for path in locations(tables, "rewritten")["ds=c"].glob("0*")}
    dry = command("rewrite", f"{DB}.rewritten", "--dry-run")
    assert "ds=a: 4 files, " in dry.output and "ds=c: has the table's spec already" in dry.output
    assert "2 partitions to be brought to 8 buckets by (k), sorted by (k), 10 files and " in dry.output
    assert record(tables, "rewritten")["ds=a"] == (4, 4, None)
    # The command has settings of its own.
    with tables.settings({"spark.sql.hive.manageFilesourcePartitions": "false"}):
        assert command("rewrite", f"{DB}.rewritten", "--where", "ds < 'b'").exit_code == 0
    assert record(tables, "rewritten") == {"ds=a": (8, 8, None), "ds=b": (6, 6, None), "ds=c": (8, 8, None)}
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
    tables.sql("alter table hard partition (ds = 'it\\'s', n = 7) clustered by (k) into 16 buckets")
    assert command("repair", f"{DB}.hard").exit_code == 0
    assert record(tables, "hard") == first
    result = command("rewrite", f"{DB}.hard")
    assert result.exit_code == 0, result.output
    assert set(record(tables, "hard").values()) == {(8, 8, None)}
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
    assert record(tables, "outside") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None)}
    assert locations(tables, "outside") == places
    assert sums(tables, "outside") == rows
    tables.sql("drop table outside")
    make(tables, "outside", stored=f"stored as parquet location '{tmp_path / 'outside'}'")
    tables.sql("msck repair table outside")
    assert sums(tables, "outside") == rows


@pytest.mark.long
def test_a_folder_whose_name_begins_like_a_rewrites_is_left(
    tables: Tables, command: Callable[..., Result], tmp_path: Path
) -> None:
    evolved(tables, "lake", {"a": 4, "b": 8})
    place = tmp_path / f"{FOLDER}lake" / "clicks" / "foo"
    place.parent.mkdir(parents=True)
    precious = tmp_path / f"{FOLDER}lake" / "precious"
    precious.touch()
    shutil.copytree(locations(tables, "lake")["ds=a"], place)
    tables.sql(f"alter table lake partition (ds = 'a') set location '{place}'")
    rows = sums(tables, "lake")
    assert command("rewrite", f"{DB}.lake").exit_code == 0
    assert (locations(tables, "lake")["ds=a"], sums(tables, "lake")) == (place, rows)
    assert precious.exists()


@pytest.mark.long
def test_a_partition_goes_back_to_a_folder_of_any_name(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evolved(tables, "foo", {"a": 4, "b": 8})
    place = tmp_path / "föo = 1%"
    shutil.copytree(locations(tables, "foo")["ds=a"], place)
    tables.sql(f"alter table foo partition (ds = 'a') set location '{place}'")
    rows, home = sums(tables, "foo"), locations(tables, "foo")["ds=a"]
    late = place / "00000_0_late.parquet"
    with meanwhile(monkeypatch, "copy", lambda: late.write_bytes(some_file(place))):
        assert "its files stay in" in command("rewrite", f"{DB}.foo").output
    shutil.rmtree(place)
    assert command("rewrite", f"{DB}.foo").exit_code == 0
    assert (locations(tables, "foo")["ds=a"], sums(tables, "foo")) == (home, rows)
    assert not list(tmp_path.glob(f"{FOLDER}*"))
    fine(command, "foo")


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
    assert result.exit_code == 2 and "as Spark spells these values" in result.output, result.output
    assert (8, 8, None) in record(tables, "spelled").values()


def test_a_partition_above_another_ones_folder_is_refused(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "nested", {"a": 4, "b": 8})
    inner = locations(tables, "nested")["ds=a"] / "inner"
    tables.sql(f"alter table nested add partition (ds = 'c') location '{inner}'")
    rows = sums(tables, "nested")
    result = command("rewrite", f"{DB}.nested", "--where", "ds = 'a'")
    assert result.exit_code == 2 and "is also the folder of partition ds=c, or above it" in result.output
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
    assert strict.exit_code == 2 and "The rows of evolution_command.corrupt cannot be read" in strict.output
    assert path.read_bytes() == b"broken"
    nothing_is_left(tables, "corrupt")


def test_empty_partitions_get_their_record(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "empty", {"a": 4, "b": 8})
    fill(tables, "empty", "a", rows=0)
    tables.sql("alter table empty partition (ds = 'a') clustered by (k) into 2 buckets")
    assert command("rewrite", f"{DB}.empty").exit_code == 0
    assert record(tables, "empty")["ds=a"] == (8, 8, None)
    nothing_is_left(tables, "empty")
