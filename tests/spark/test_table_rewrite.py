"""Tests that `spark-bucketing table rewrite` rewrites partitions or refuses them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from bucketed_tables import put
from click.testing import Result
from commands import command
from partition_specs import metastore
from spec_evolution import DB, HARD, SpecEvolution, evolving_tables, literal, sealed  # noqa: F401

from conftest import Project
from spark_bucketing.tables import rewrite

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")


@pytest.mark.parametrize("stored", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_rewrite_changes_only_the_selected_partitions(tables: SpecEvolution, stored: str) -> None:
    rows = tables.evolved("rewritten", {"a": 4, "b": 6, "c": 8}, f"stored as {stored}")
    before = {path: path.stat().st_mtime_ns for path in tables.locations("rewritten")["ds=c"].glob("0*")}
    dry = tables.said("rewrite", "rewritten", "--dry-run")
    assert "ds=a: 4 files, " in dry and "ds=c: already has the table's spec" in dry
    assert "2 partitions to rewrite with 8 buckets by (k), sorted by (k), hash hive: 10 files and " in dry
    assert tables.record("rewritten") == sealed(a=4, b=6, c=8)
    # The command does not depend on the session's settings.
    with tables.settings({"spark.sql.hive.manageFilesourcePartitions": "false"}):
        tables.said("rewrite", "rewritten", "--where", "ds < 'b'")
    assert tables.record("rewritten") == sealed(a=8, b=6, c=8)
    assert tables.sums("rewritten") == rows
    assert "1 partition rewritten in the table's spec, 2 already in this spec" in tables.said("rewrite", "rewritten")
    assert "0 partitions rewritten" in tables.said("rewrite", "rewritten")
    none = tables.said("rewrite", "rewritten", "--where", "ds > 'c'")
    assert none == f"{DB}.rewritten: none of 3 partitions matches --where.\n"
    assert {path: path.stat().st_mtime_ns for path in before} == before
    tables.assert_whole("rewritten", rows, a=8, b=8, c=8)
    tables.said("verify", "rewritten", "--deep")
    assert "Bucketed: true (8 Hive buckets" in tables.plan("select k, count(*) from rewritten group by k")


@pytest.mark.long
def test_partitions_with_special_characters_are_rewritten(tables: SpecEvolution) -> None:
    tables.new("hard", "ds string, n int")
    for ds in HARD:
        place = f"ds = {literal(ds)}, n = {'null' if ds is None else 7}"
        tables.sql(f"insert overwrite table hard partition ({place}) select cast(id as int), id from range(9)")
    tables.alter("hard", 8)
    rows, first, places = tables.sums("hard"), tables.record("hard"), tables.locations("hard")
    assert len(first) == len(HARD)
    tables.said("verify", "hard", "--deep")
    assert tables.record("hard") == first
    tables.said("rewrite", "hard")
    assert set(tables.record("hard").values()) == {("sealed", 8, 1)}
    assert tables.locations("hard") == places
    tables.assert_whole("hard", rows)
    tables.said("verify", "hard", "--deep")


@pytest.mark.long
def test_readers_of_a_path_see_the_rewritten_files(tables: SpecEvolution, tmp_path: Path) -> None:
    stored = f"stored as parquet location '{tmp_path / 'outside'}'"
    rows = tables.evolved("outside", {"a": 4, "b": 8}, stored)
    places = tables.locations("outside")
    tables.said("rewrite", "outside")
    assert tables.locations("outside") == places
    tables.assert_whole("outside", rows, a=8, b=8)
    tables.sql("drop table outside")
    tables.new("outside", stored=stored)
    tables.sql("msck repair table outside")
    assert tables.sums("outside") == rows


@pytest.mark.long
def test_partition_value_without_a_sql_literal_does_not_block_the_others(tables: SpecEvolution) -> None:
    tables.new("spelled", "ds decimal(10,2)")
    for ds in ("1.00", "2.00"):
        tables.sql(f"insert into spelled partition (ds = {ds}) select cast(id as int), id from range(40)")
    client = metastore(tables.spark)
    for partition in client.listPartitions(DB, "spelled", -1):
        if partition.getValues()[0].startswith("1"):
            renamed = partition.deepCopy()
            renamed.getValues()[0] = "1.0"
            client.renamePartition(DB, "spelled", partition.getValues(), renamed)
    tables.alter("spelled", 8)
    assert "Spark formats its values differently" in tables.said("rewrite", "spelled", code=2)
    assert ("sealed", 8, 1) in tables.record("spelled").values()


def test_partition_above_another_partitions_folder_is_refused(tables: SpecEvolution) -> None:
    tables.evolved("nested", {"a": 4, "b": 8})
    inner = tables.locations("nested")["ds=a"] / "inner"
    tables.sql(f"alter table nested add partition (ds = 'c') location '{inner}'")
    rows = tables.sums("nested")
    refused = tables.said("rewrite", "nested", "--where", "ds = 'a'", code=2)
    assert "its directory also contains ds=c" in refused
    assert tables.sums("nested") == rows


@pytest.mark.long
def test_unreadable_file_prevents_the_rewrite_of_its_partition(tables: SpecEvolution) -> None:
    tables.evolved("corrupt", {"a": 4, "b": 8})
    path = sorted(tables.locations("corrupt")["ds=a"].glob("0*"))[0]
    put(path, b"broken")
    tables.sql("alter table corrupt set serdeproperties ('ignoreCorruptFiles' = 'true')")
    with tables.settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
        rows = tables.sums("corrupt")
        assert "found:    ignoreCorruptFiles=true" in tables.said("rewrite", "corrupt", code=2)
        tables.sql("alter table corrupt set serdeproperties ('ignoreCorruptFiles' = 'false')")
        assert path.name in tables.said("rewrite", "corrupt", code=2)
        assert path.read_bytes() == b"broken"
        tables.sql("alter table corrupt set serdeproperties ('ignoreCorruptFiles' = 'true')")
        tables.assert_whole("corrupt", rows)


def test_files_of_a_stock_spark_insert_are_compacted(tables: SpecEvolution) -> None:
    tables.evolved("added", {"a": 8, "b": 8})
    # After a SELECT, stock Spark writes files without buckets.
    tables.sql("refresh table added")
    with tables.settings({"spark.bucketing.enabled": "false"}):
        tables.write("added", "a", how="into")
    rows = tables.sums("added")
    assert tables.record("added")["ds=a"][0] == "seal-stale"
    tables.said("seal", "added")
    assert tables.record("added")["ds=a"][:2] == ("sealed", 8)
    dry = tables.said("rewrite", "added", "--dry-run")
    assert "files per bucket" in dry and "1 partition to rewrite" in dry
    tables.said("rewrite", "added", "--where", "ds = 'a'")
    tables.assert_whole("added", rows, a=8, b=8)


def test_partitions_without_rows_are_skipped(tables: SpecEvolution) -> None:
    tables.evolved("empty", {"a": 4, "b": 8})
    tables.sql("alter table empty add partition (ds = 'c')")
    with tables.settings({"spark.bucketing.enabled": "true"}):
        tables.sql("insert overwrite table empty partition (ds = 'a') select 1, 1 from range(1) where id > 1")
    rows = tables.sums("empty")
    assert "0 partitions rewritten" in tables.said("rewrite", "empty")
    tables.assert_whole("empty", rows)


@pytest.mark.long
def test_rewrite_keeps_a_partition_in_another_folder(tables: SpecEvolution, tmp_path: Path) -> None:
    rows = tables.evolved("elsewhere", {"a": 4, "b": 8})
    place = tmp_path / "föo = 1%"
    shutil.move(tables.locations("elsewhere")["ds=a"], place)
    tables.sql(f"alter table elsewhere partition (ds = 'a') set location '{place}'")
    home = tables.locations("elsewhere")["ds=a"]
    assert tables.sums("elsewhere") == rows
    tables.said("rewrite", "elsewhere")
    assert tables.locations("elsewhere")["ds=a"] == home
    tables.assert_whole("elsewhere", rows, a=8, b=8)


def test_rewrite_works_in_several_batches(tables: SpecEvolution, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tables.evolved("batches", {"a": 4, "b": 4, "c": 4, "d": 8})
    monkeypatch.setattr(rewrite, "_BATCH_PARTITIONS", 2)
    said = tables.said("rewrite", "batches")
    assert "[1/2] 2 partitions: 8 files" in said and "[2/2] 1 partition: 4 files" in said
    tables.assert_whole("batches", rows, a=8, b=8, c=8, d=8)


@pytest.mark.long
def test_rewritten_files_use_the_tables_compression(tables: SpecEvolution) -> None:
    tables.new("gzip", stored="stored as parquet tblproperties ('parquet.compression' = 'GZIP')")
    tables.write("gzip", "a")
    tables.alter("gzip", 8)
    tables.said("rewrite", "gzip")
    assert all("gz" in path.name for path in tables.files("gzip"))


# Tests that `check` names the partitions to rewrite.


def create_mixed(tables: SpecEvolution, specs: dict[str, int]) -> None:
    """Create the table `mixed` with these specs, and a table to join."""
    tables.new("other")
    tables.sql("insert into other select cast(id as int), id, 'x' from range(40)")
    tables.evolved("mixed", specs)


def check(project: Project, *arguments: str) -> Result:
    file = project.folder / "query.sql"
    file.write_text(f"select a.k, a.v, b.v as w from {DB}.mixed a join {DB}.other b on a.k = b.k")
    return command(project, "check", str(file), *arguments)


MIXED = {"2024-01": 3, "2024-02": 4, "2024-03": 3, "2024-04": 8}
COMMAND = f"""spark-bucketing table rewrite {DB}.mixed --where "ds in ('2024-01', '2024-03')\""""


def test_finding_names_incompatible_partitions_and_the_smallest_rewrite(
    tables: SpecEvolution, project: Project
) -> None:
    create_mixed(tables, MIXED)
    result = check(project)
    found = [line.strip() for line in result.output.splitlines()]
    assert result.exit_code == 1
    assert found[2:4] == [
        f"Spark uses an ordinary scan for {DB}.mixed: its bucket specs differ: 3 buckets in ds=2024-01 and 1 more, "
        "4 buckets in ds=2024-02, 8 buckets in ds=2024-04 (mixed-bucket-specs).",
        f"fix (then sort-free): Run `{COMMAND}` to rewrite 2 partitions (ds=2024-01, ds=2024-03) with 8 buckets by (k), "
        "sorted by (k), hash hive. [whole query: 1 Exchange to 0, 1 Sort to 0]",
    ]
    (model,) = json.loads(check(project, "--format", "json").stdout)["models"]
    (finding,) = [finding for operator in model["operators"] for finding in operator["findings"]]
    (fix,) = finding["fixes"]
    assert (finding["reason"], finding["tables"]) == ("mixed-bucket-specs", [f"{DB}.mixed"])
    assert (fix["kind"], fix["where"]) == ("rewrite_files", "ds in ('2024-01', '2024-03')")


@pytest.mark.long
def test_finding_counts_the_other_partitions_without_buckets(tables: SpecEvolution, project: Project) -> None:
    create_mixed(tables, {"a": 4, "b": 4, "c": 4})
    for value in ("a", "b"):
        tables.sql(f"alter table mixed partition (ds = '{value}') not clustered")
    tables.alter("mixed", 8)
    output = check(project).output
    message = f"an ordinary scan for {DB}.mixed: partition ds=a and 1 more: its files are not sealed (not-sealed).\n"
    assert message in output
    assert """--where "ds in ('a', 'b')"` to rewrite 2 partitions (ds=a, ds=b) with 8 buckets""" in output
