"""Tests that damaged metadata of an organized table causes a clear error or does not affect the rows."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from uuid import uuid4

import pytest
from organized import DAMAGES, OrganizedTable, begin, merged, organized, random_rows, write_outcome
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from conftest import Project, all_long_but

CLEAR = r"(?s)Cannot determine the current files of the table, because .*{}.*expected: .*instead:  restore .*dbt run --full-refresh"


def layouts(*quick: str) -> pytest.MarkDecorator:
    """Run a test with an unpartitioned and a partitioned table; only the named ones are quick."""
    return pytest.mark.parametrize("table", all_long_but(quick, ["plain", "partitioned"]), indirect=True)


@pytest.fixture
def table(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, extension: None
) -> Iterator[OrganizedTable]:
    rows = random_rows(random.Random(1), range(60))
    with organized(
        spark, "damaged_records", tmp_path_factory.mktemp("backups"), request.param == "partitioned", rows
    ) as made:
        yield made


SOME = [[*DAMAGES, "folder"][part::4] for part in range(4)]


def is_refused(table: OrganizedTable, found: str) -> None:
    for act in (table.read, table.recover, lambda: table.merge([], [1])):
        with pytest.raises(AnalysisException, match=CLEAR.format(found)):
            act()


@layouts("partitioned")
@pytest.mark.parametrize("hows", all_long_but(SOME[1], SOME), ids=" ".join)
def test_error_names_a_damaged_record_of_an_unfinished_replacement(table: OrganizedTable, hows: list[str]) -> None:
    """Every reader and statement reports the damaged file; after its repair, all of them work again."""
    upserts = random_rows(random.Random(2), range(50, 70))
    before = table.expected()
    for how in hows:
        for last in ("moved", "half-deleted"):
            expected = merged(before, upserts, [1, 2]) if last == "half-deleted" else before
            table.crash(table.stage(upserts, [1, 2]), last, how)
            is_refused(table, r"/started is damaged\.\n  found:    ")
            table.mend()
            assert table.read() == expected
            table.recover()
            assert table.read() == table.learn() == expected
            before = expected


# Paths of another file; `{}` is the directory that has the table's directory and this file.
FOREIGN_NAME = r"(?s)/started is damaged\.\n  found:    the name .*expected: .*instead: .*dbt run --full-refresh"
FOREIGN = [
    "../victim", "./../victim", "ds=a/../../victim", "ds=a//../../victim", "{}/m/../victim", "{}/victim", "_link/victim",
]  # fmt: skip


@layouts("partitioned")
@pytest.mark.parametrize("decision", ["", "undone", "committed"])
@pytest.mark.some(1)
def test_names_outside_the_table_are_errors(table: OrganizedTable, decision: str) -> None:
    """Anyone who can write into the table's directory can write names of other files into a record."""
    expected, base = table.expected(), table.location.parent
    victim = base / "victim"
    victim.write_text("keep")
    (table.location / "_link").symlink_to(base)
    for number, name in enumerate(FOREIGN):
        kind = "removed" if decision == "committed" else "added"
        record = begin(table.location, f"2026010100000000000{number}-{uuid4().hex[:8]}", **{kind: [name.format(base)]})
        if decision:
            write_outcome(record, decision)
        for act in (table.recover, lambda: table.merge([], [1])):
            with pytest.raises(AnalysisException, match=FOREIGN_NAME):
                act()
        assert victim.read_text() == "keep"
        shutil.rmtree(record)
        assert table.read() == expected


@layouts("plain")
@pytest.mark.long
def test_damaged_record_of_a_finished_replacement_is_ignored(table: OrganizedTable) -> None:
    """A finished record hides no file, whatever its damage."""
    for how in DAMAGES:
        upserts = random_rows(random.Random(how), range(50, 70))
        expected = merged(table.expected(), upserts, [])
        table.crash(table.stage(upserts, []), "done", how)
        assert table.read() == expected and table.recover() == "nothing"
    table.merge(upserts, [3])
    assert table.read() == table.learn() == merged(expected, [], [3])


@layouts("plain", "partitioned")
def test_swapped_folders_and_files_are_errors(table: OrganizedTable) -> None:
    expected = table.expected()
    records = table.location / "_replaced"
    shutil.rmtree(records)
    records.write_text("")
    is_refused(table, r"_replaced is damaged\.\n  found:    not a directory")
    records.unlink()
    (records / "20260101000000000000-0" / "done").mkdir(parents=True)
    is_refused(table, r"done is damaged\.\n  found:    not a file")
    (records / "20260101000000000000-0" / "done").rmdir()
    (records / ".DS_Store").write_text("")
    assert table.read() == expected


@layouts("plain", "partitioned")
@pytest.mark.parametrize("how", all_long_but(("cut", "numbers"), [*DAMAGES, "folder"]))
@pytest.mark.long
def test_damaged_file_statistics_are_ignored(table: OrganizedTable, how: str) -> None:
    """Without valid statistics, filters and merges read all files."""
    (part,) = (table.location / "_file_statistics").rglob("part-*.parquet")
    table.damage(part, how)
    row = table.expected()[7]
    assert table.read(condition=f"o = {row[1]}") == [one for one in table.expected() if one[1] == row[1]]
    expected = merged(table.expected(), [(7, 500, 1, "a")], [8])
    table.merge([(7, 500, 1, "a")], [8])
    assert table.read() == table.learn() == expected


@layouts("partitioned")
@pytest.mark.parametrize("text", all_long_but(('["o', "[1]"), ["", '["o', "{}", "[1]", "o"]))
@pytest.mark.some(1)
def test_damaged_range_property_is_an_error(table: OrganizedTable, text: str) -> None:
    table.sql(f"alter table {{db}}.m set tblproperties ('bucketing.range_by'='{text}')")
    with pytest.raises(
        AnalysisException, match=r"(?s)has an invalid property `bucketing.range_by`.*JSON array.*full-refresh"
    ):
        table.sql("select * from file_statistics('{db}.m')")
    assert table.read() == table.expected()


@layouts("partitioned")
@pytest.mark.long
def test_restored_old_files_count_unless_new_files_are_missing(table: OrganizedTable) -> None:
    """Restored files count as in stock Spark; in an unfinished replacement, missing new files are an error."""
    backup = table.backup()
    before = table.expected()
    upserts = random_rows(random.Random(3), range(0, 60, 3))
    folder = table.folders()[0]
    staged = table.stage(upserts, [])
    table.crash(staged, "done")
    table.restore_partition(backup, folder)
    assert table.read() == table.expected() == table.learn()
    assert [row for row in table.read() if not table.partitioned or row[3] == "a"] == [
        row for row in before if not table.partitioned or row[3] == "a"
    ]
    table.restore_table(backup)
    assert table.read() == before
    table.crash(table.stage(upserts, []), "committed")
    table.restore_partition(backup, folder)
    is_refused(table, "is not finished.*found: +no file .*, in a directory with old files")
    table.restore_table(backup)
    assert table.read() == table.learn() == before


@pytest.mark.long
def test_full_refresh_repairs_a_damaged_table(project: Project, extension: None) -> None:
    config = {"materialized": "organized_incremental", "range_by": "o", "incremental_strategy": "append"}
    project.build("select id, cast(id as int) as o from range(100)", **config, target_file_size="1KiB")
    record = project.location("m") / "_replaced" / "20260101000000000000-0"
    record.mkdir(parents=True)
    (record / "started").write_text("{}")
    _, failure = project.attempt("run")
    assert re.search(CLEAR.format("started is damaged"), failure), failure
    project.dbt("run", "--full-refresh")
    assert project.rows("select count(*) from {schema}.m")[0] == (100,)
