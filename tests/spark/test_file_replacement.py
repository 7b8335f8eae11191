"""Tests of file replacement in organized tables: concurrent readers, and recovery after a crash."""

from __future__ import annotations

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commands import command
from crashes import statements
from local_files import held
from organized import STEPS, OrganizedTable, merged, write_outcome
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from test_concurrent_row_changes import session
from test_organized_merges import CHECKED, COLUMNS, Row, merge, model, rows_of, start, write
from test_organized_ranges import data_files

from conftest import Failed, Project, all_long_but
from spark_bucketing.session import setting

ROWS: list[Row] = [(i, i, 0, "old", "a" if i < 200 else "b") for i in range(400)]
# The delta updates and deletes rows, and moves rows to another partition; one partition is new, another loses all rows.
DELTA = [
    *[(i, i, 1, "new", "a", "U") for i in range(100, 110)],
    *[(i, i, 1, "moved", "c", "U") for i in range(200, 400)],
    *[(i, i, 1, "gone", "a", "D") for i in range(20)],
]
MERGED = sorted(
    [
        *[(i, i, 0, "old", "a") for i in range(20, 200) if not 100 <= i < 110],
        *[(i, i, 1, "new", "a") for i in range(100, 110)],
        *[(i, i, 1, "moved", "c") for i in range(200, 400)],
    ],
    key=str,
)
OLD = sorted(ROWS, key=str)


def recovered(project: Project, table: str = "m", after: str = "0s") -> str:
    """Recover the files of a table in another session, and return the result."""
    other = session(project.spark)
    other.conf.set("spark.bucketing.write.recoverAfter", after)
    (row,) = other.sql(f"alter table {project.table(table)} recover files").collect()
    return str(row.recovered)


def begin(project: Project, added: list[Path], removed: list[Path], name: str) -> Path:
    """Record the start of a replacement."""
    record = project.location("m") / "_replaced" / name
    record.mkdir(parents=True)
    lists = {
        kind: [str(path.relative_to(project.location("m"))) for path in paths]
        for kind, paths in {"added": added, "removed": removed, "created": []}.items()
    }
    (record / "started").write_text(json.dumps({**lists, "exclusive": True}))
    return record


LONG = pytest.mark.long
BOTH_KEYS = "m.id = new.id and m.ds = new.ds"
# The delta without the columns that tests of crashes do not need.
UPSERTS = [(key, o, s, ds) for key, o, s, _, ds, op in DELTA if op == "U"]
DELETED = [row[0] for row in DELTA if row[-1] == "D"]


@pytest.fixture
def table(project: Project, extension: None) -> OrganizedTable:
    made = OrganizedTable(project.spark, project.schema, project.folder / "backups", partitioned=True)
    made.insert([(key, o, s, ds) for key, o, s, _, ds in ROWS])
    return made


def crash(table: OrganizedTable, state: str) -> list[Row]:
    """Simulate a merge that has crashed in this state of its replacement; return the rows that the table must have."""
    before, staged = table.expected(), table.stage(UPSERTS, DELETED)
    table.crash(staged, "moved" if state == "half-undone" else state)
    assert table.pending
    if state == "half-undone":
        write_outcome(table.pending, "undone")
        for name in list(staged.coming)[::2]:
            (table.location / name).unlink()
    elif state not in ("started", "half-moved"):
        # Stock Spark reads the new files even if the replacement is not committed.
        with setting(table.spark, "spark.bucketing.enabled", "false"):
            table.write_file_statistics(set(staged.coming))
    return merged(before, UPSERTS, DELETED) if table.is_committed() else before


@pytest.mark.parametrize("state", all_long_but("half-moved", [*STEPS[:-1], "half-undone"]))
def test_readers_and_the_next_run_survive_a_crash_during_replacement(
    project: Project, table: OrganizedTable, state: str
) -> None:
    """In every state, readers with the extension see the old or the new rows; the next run completes."""
    before = table.expected()
    expected = crash(table, state)
    assert table.read() == expected
    if not state.startswith("half"):
        assert table.recover() == ("undone" if expected == before else "completed")
        assert table.read() == expected
    model(project, partition_by=["ds"])
    delta = [*((*row, "U") for row in UPSERTS), *((key, 0, 0, "a", "D") for key in DELETED)]
    write(project.spark, project.table("delta"), delta, "id bigint, o int, v int, ds string, op string")
    project.dbt("run")
    assert table.read() == merged(before, UPSERTS, DELETED)
    assert not list(table.location.glob("ds=b*/part-*")), "the run must drop a partition without rows"
    assert [row.partition for row in project.rows("show partitions {schema}.m")] == ["ds=a", "ds=c"]
    assert project.tables() == {"m", "delta"}
    assert len(list((table.location / "_replaced").iterdir())) == 1
    (known,) = project.rows(f"select count(*), count(rows) from file_statistics('{project.table('m')}')")
    assert known == (len(data_files(project, "m")),) * 2


@pytest.mark.long
def test_every_query_sees_the_rows_of_one_moment(project: Project, table: OrganizedTable, spark: SparkSession) -> None:
    """Cover queries that use no buckets: with a setting of Spark, and in streaming queries."""
    expected = crash(table, "committed")
    with setting(spark, "spark.sql.sources.bucketing.enabled", "false"):
        assert table.read() == expected
    source = project.folder / "ids"
    spark.range(400).write.parquet(str(source))
    stream = spark.readStream.schema("id bigint").parquet(str(source))
    joined = stream.join(spark.table(project.table("m")), "id").writeStream.format("memory").queryName("joined")
    found: list[Any] = []
    batch = stream.writeStream.foreachBatch(lambda *_: found.append(table.read()))
    for query in (joined, batch):
        query.trigger(availableNow=True).start().awaitTermination()
    assert spark.table("joined").count() == len(expected)
    assert found == [expected]


def test_failed_replacement_is_undone(project: Project, extension: None) -> None:
    """If a file cannot be moved, no new file remains."""
    start(project, ROWS, partition_by=["ds"])
    before, in_the_way = data_files(project, "m"), project.location("m") / "ds=c"
    in_the_way.write_text("not a folder")
    with pytest.raises(Exception, match="ds=c"):
        merge(project, DELTA)
    in_the_way.unlink()
    assert rows_of(project) == OLD and data_files(project, "m") == before
    assert "ds=c" not in {row.partition for row in project.rows("show partitions {schema}.m")}
    merge(project)
    assert rows_of(project) == MERGED


@pytest.mark.parametrize(
    ("held_operation", "result"),
    [
        pytest.param(r"create .*/_replaced/[^/]*/\.outcome-.*", "undone", id="before the commit"),
        pytest.param("rename .*/m/(?:[^/]*/)?ds=[^/]*/part-.*", "completed", id="after the commit"),
    ],
)
@pytest.mark.some(1)
def test_recovery_during_a_replacement_undoes_it_only_before_the_commit(
    project: Project, extension: None, held_operation: str, result: str
) -> None:
    """Another session recovers the table while a statement waits; the statement starts again if it is undone."""
    start(project, ROWS, partition_by=["ds"])
    old_files = set(data_files(project, "m"))
    with ThreadPoolExecutor(1) as pool, held(project.spark, held_operation) as operation:
        statement = pool.submit(merge, project, DELTA)
        operation.await_reached()
        assert recovered(project) == result
        assert rows_of(project) == (OLD if result == "undone" else MERGED)
        operation.open()
        assert [tuple(row) for row in statement.result()] == [(230, 210, 20, 0)]
    assert rows_of(project) == MERGED
    assert len(set(data_files(project, "m")) & old_files) == 3


LISTS = {"created": [], "exclusive": True}
# Files that a crash can leave in a record, and the result of RECOVER FILES.
STATES = {
    "": "nothing",
    ".started-1": "nothing",
    "heartbeat": "nothing",
    "begun heartbeat": "nothing",
    "outcome done": "nothing",
    "started": "undone",
    "started .outcome-1": "undone",
    "started heartbeat": "undone",
    "started undone": "undone",
    "started undone done": "nothing",
    "started committed": "completed",
    "started committed done": "nothing",
}


@pytest.mark.long
def test_files_of_a_record_have_one_meaning(project: Project, table: OrganizedTable) -> None:
    """A record of a new file that does not exist, and of an old file; the table has either none or all of them."""
    rows = table.expected()
    for number, (state, result) in enumerate(STATES.items()):
        record = table.location / "_replaced" / f"{20990101000000000000 + 1000 * number}-0"
        record.mkdir(parents=True)
        for name in state.split():
            if name in ("undone", "committed"):
                write_outcome(record, name)
            else:
                (record / name).write_text(json.dumps({**LISTS, "added": ["ds=a/new"], "removed": ["ds=a/old"]}))
        assert table.read() == rows, state
        assert table.recover() == result, state
        assert table.recover() == "nothing", state
        table.merge([(0, number, number, "a")], [])
        rows = merged(rows, [(0, number, number, "a")], [])
        # The statement that has begun may still be running.
        assert table.read() == rows and record.exists() == ("begun" in state), state
        shutil.rmtree(record, ignore_errors=True)


@pytest.mark.parametrize(
    "operation",
    ["rename .*/_replaced/[^/]*/files/.*", "rename .*/m/ds=[^/]*/part-.*"],
    ids=["before the commit", "after the commit"],
)
@pytest.mark.some(1)
def test_slow_statement_is_not_taken_for_crashed(project: Project, extension: None, operation: str) -> None:
    """It moves or deletes files for longer than `recoverAfter`, and other statements wait for its end."""
    start(project, ROWS, partition_by=["ds"])
    with (
        setting(project.spark, "spark.bucketing.write.recoverAfter", "3s"),
        ThreadPoolExecutor(2) as pool,
        held(project.spark, operation) as moving,
    ):
        statement = pool.submit(merge, project, DELTA)
        moving.await_reached()
        other = pool.submit(recovered, project, after="3s")
        with pytest.raises(TimeoutError):
            other.result(5)
        assert rows_of(project) == (OLD if "files" in operation else MERGED)
        moving.open()
        assert [tuple(row) for row in statement.result()] == [(230, 210, 20, 0)]
        assert other.result() == "nothing"
    assert rows_of(project) == MERGED


@pytest.mark.parametrize("changes", [pytest.param(1, marks=LONG), 3])
@pytest.mark.long
def test_statement_starts_again_if_another_writer_changes_a_file(
    project: Project, extension: None, changes: int
) -> None:
    """After three attempts, it fails and changes nothing."""
    start(project, ROWS, partition_by=["ds"])
    path = project.location("m") / next(path for path in data_files(project, "m") if "ds=b" in str(path))
    waits = r"rename .*/_replaced/[^/]*/\.started-.*"
    with ThreadPoolExecutor(1) as pool, held(project.spark, waits) as operation:
        statement = pool.submit(merge, project, DELTA)
        for number in range(changes):
            operation.await_reached()
            path.touch()
            operation.open() if number == changes - 1 else operation.open_once()
        failure = statement.exception()
    assert (
        (failure is None)
        if changes < 3
        else re.search("(?s)has been changed or deleted since the statement read it.*run it again", str(failure))
    )
    assert rows_of(project) == (MERGED if changes < 3 else OLD)


@pytest.mark.long
@pytest.mark.parametrize("statement", ["merge into", "drop table"])
def test_merge_survives_a_crash_between_statements(project: Project, extension: None, statement: str) -> None:
    start(project, ROWS, partition_by=["ds"], merge_checks=True)
    # Because `s` has another type, the run writes an intermediate table, and drops it after the merge.
    write(project.spark, project.table("delta"), DELTA, f"{COLUMNS.replace('s int', 's tinyint')}, op string")
    with (
        statements(crash_before=statement),
        pytest.raises(Failed, match="crashed here"),
    ):
        project.dbt("run")
    assert rows_of(project) == (MERGED if statement == "drop table" else OLD)
    project.dbt("run")
    assert rows_of(project) == MERGED
    assert project.tables() == {"m", "base", "delta"}


def test_tables_without_file_statistics_have_no_replacement(project: Project, extension: None) -> None:
    project.spark.sql(f"create table {project.table('m')} using parquet as select 1 as id")
    assert recovered(project) == "nothing"
    with pytest.raises(Exception, match=r"has no file statistics"):
        project.spark.sql(f"select * from file_statistics('{project.table('m')}')")
    with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE.TABLE_OPERATION|MERGE INTO TABLE"):
        project.spark.sql(
            f"merge into {project.table('m')} using {project.table('m')} as s on m.id = s.id when matched then delete"
        )


@pytest.mark.long
def test_replacements_stay_in_order_when_a_clock_was_ahead(project: Project, extension: None) -> None:
    """The names of the records determine the order of the replacements, not the clock."""
    start(project, ROWS, partition_by=["ds"])
    for v in ("one", "two"):
        merge(project, [(5, 5, 1, v, "a", "U")])
        (record,) = (project.location("m") / "_replaced").iterdir()
        if v == "one":
            record.rename(record.with_name("20990101000000000000-0"))
    assert record.name.startswith("20990101000000000001-")
    assert project.rows("select count(*), count_if(v = 'two') from {schema}.m")[0] == (400, 1)


@pytest.mark.parametrize("by", all_long_but(["ds"], [["ds"], []]))
@pytest.mark.long
def test_session_with_an_old_listing_reads_the_current_files(
    project: Project, extension: None, spark: SparkSession, by: list[str]
) -> None:
    """The second replacement removes files of the first one, so no record refers to the files in the listing."""
    start(project, ROWS, partition_by=by)
    spark.sql(f"analyze table {project.table('m')} compute statistics")
    other, query = session(spark), f"select count(*), sum(s) from {project.table('m')}"
    assert other.sql(query).collect()[0] == (400, 0)
    for s in (1, 2):
        merge(project, [(5, 5, s, "new", "a", "U")])
    assert "400 rows" not in str(project.detail("m", "Statistics")), "outdated statistics from ANALYZE must be removed"
    (done,) = (project.location("m") / "_replaced").glob("*/done")
    os.utime(done, (done.stat().st_mtime - 3600,) * 2)
    for _ in range(2):
        assert other.sql(query).collect()[0] == (400, 2)


@pytest.mark.parametrize("is_undone", [False, True])
@pytest.mark.long
def test_outdated_listing_counts_only_committed_rows(
    project: Project, extension: None, spark: SparkSession, is_undone: bool
) -> None:
    """The listing contains files of a later replacement that is unfinished or undone; only committed rows count."""
    start(project, ROWS)
    other, query = session(spark), f"select count(*), sum(s) from {project.table('m')}"
    assert other.sql(query).collect()[0] == (400, 0)
    merge(project, [(i, i, 1, "new", "a", "I") for i in range(1000, 1100)])
    one = project.location("m") / data_files(project, "m")[0]
    copied = one.with_name("part-copied.parquet")
    record = begin(project, [copied], [], "20990101000000000000-0")
    shutil.copy(one, copied)
    for _ in range(2):
        assert other.sql(query).collect()[0] == (500, 100)
    if is_undone:
        assert recovered(project) == "undone" and (record / "done").exists() and not copied.exists()
        assert recovered(project) == "nothing"
        assert other.sql(query).collect()[0] == (500, 100)
        # The run that started the replacement is still alive, and moves more files before it notices the recovery.
        shutil.copy(one, copied)
        assert other.sql(query).collect()[0] == (500, 100) and len(rows_of(project)) == 500
    merge(project, [(1000, 1000, 2, "new", "a", "U")])
    assert other.sql(query).collect()[0] == (500, 101)
    assert (len(rows := stock_rows(project)), sum(row[2] for row in rows)) == (500, 101)
    assert not record.exists() and not copied.exists()


@pytest.mark.long
def test_two_partitions_in_one_folder_are_refused(project: Project, extension: None) -> None:
    """The rows of a file would belong to both partitions, so a merge would write them twice."""
    start(project, [(i, i, 0, "x", "a") for i in range(100)], partition_by=["ds"])
    folder = project.location("m") / "ds=a"
    project.spark.sql(f"alter table {project.table('m')} add partition (ds='b') location '{folder}'")
    before = data_files(project, "m")
    with pytest.raises(PySparkException, match=r"(?s)2 partitions in the directory .*ds=a.*nothing has been replaced"):
        merge(project, [(2, 2, 0, "y", "b", "U")], on=BOTH_KEYS)
    assert data_files(project, "m") == before


@pytest.mark.long
def test_record_with_the_name_of_an_undone_replacement_is_read_again(project: Project, extension: None) -> None:
    """A clock was ahead, and the next run crashed; the session must not confuse the next record with the undone one."""
    start(project, [(i, i, 0, "x", "a") for i in range(400)], partition_by=["ds"])
    files = sorted(project.location("m") / path for path in data_files(project, "m"))
    (project.location("m") / "_replaced" / "20990101000000000000-0").mkdir(parents=True)
    begin(project, [], files[:1], "20990101000000000001")
    assert len(rows_of(project)) == 400
    assert recovered(project) == "undone"
    merge(project, [(399, 399, 1, "y", "a", "U")])
    assert project.rows("select count(*), count_if(v = 'y') from {schema}.m")[0] == (400, 1)


@pytest.mark.long
def test_copied_table_recovers_only_its_own_files(project: Project, table: OrganizedTable) -> None:
    """The table was copied with its record during a replacement, which the original table has since completed."""
    crash(table, "started")
    copy = table.location.parent / "copied"
    shutil.copytree(table.location, copy)
    (created,) = project.spark.sql(f"show create table {project.table('m')}").collect()[0]
    sql = re.sub(r"TABLE \S+", f"TABLE {project.table('copied')}", created, count=1)
    project.spark.sql(sql.replace("TBLPROPERTIES", f"LOCATION '{copy}' TBLPROPERTIES"))
    project.spark.sql(f"msck repair table {project.table('copied')}")
    table.merge(UPSERTS, DELETED)
    after = table.read()
    assert recovered(project, "copied") == "undone"
    assert table.read() == after
    assert project.rows("select count(*), count(distinct id) from {schema}.copied")[0] == (400, 400)


@pytest.mark.long
@pytest.mark.parametrize("state", ["moved", "half-deleted"])
def test_table_renamed_after_a_crash_recovers(project: Project, table: OrganizedTable, state: str) -> None:
    expected = crash(table, state)
    project.spark.sql(f"alter table {project.table('m')} rename to {project.table('n')}")
    assert recovered(project, "n") == ("undone" if state == "moved" else "completed")
    found = project.rows("select id, o, v, ds from {schema}.n")
    assert sorted(map(tuple, found)) == expected
    shutil.rmtree(project.location("n") / "_replaced")
    project.spark.sql(f"refresh table {project.table('n')}")
    assert len(project.rows("select id from {schema}.n")) == len(found), "the record must not hide rows"


@pytest.mark.long
def test_partitions_can_have_files_with_the_same_names(project: Project, extension: None) -> None:
    """A partition was copied to another folder, with the same file names."""
    start(project, [(i, i, 0, "x", "a") for i in range(100)], partition_by=["ds"])
    clone = project.location("m").parent / "clone" / "ds=a"
    shutil.copytree(project.location("m") / "ds=a", clone)
    project.spark.sql(f"alter table {project.table('m')} add partition (ds='b') location '{clone}'")
    with pytest.raises(
        PySparkException, match=r"(?s)old file.s. that differ from their file statistics.*table stats --repair"
    ):
        merge(project, [(2, 2, 0, "y", "b", "U")], CHECKED, BOTH_KEYS)
    assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    merge(project, hint=CHECKED, on=BOTH_KEYS)
    counts = "select ds, count(*), count(distinct id), count_if(v = 'y') from {schema}.m group by ds order by ds"
    for enabled in ("true", "false"):
        with setting(project.spark, "spark.bucketing.enabled", enabled):
            project.spark.sql(f"refresh table {project.table('m')}")
            assert [tuple(row) for row in project.rows(counts)] == [("a", 100, 100, 0), ("b", 100, 100, 1)]
    shutil.rmtree(clone.parent)


@pytest.mark.long
def test_rows_of_a_dropped_partition_do_not_reappear(project: Project, extension: None) -> None:
    """An external table keeps the files of a dropped partition; a new partition in the same folder would include them."""
    start(
        project,
        [(i, i, 0, "x", "ab"[i % 2]) for i in range(100)],
        partition_by=["ds"],
        location_root=str(project.folder),
    )
    project.spark.sql(f"alter table {project.table('m')} drop partition (ds='b')")
    with pytest.raises(
        PySparkException, match=r"(?s)ds=b, which is not a partition.*ADD PARTITION.*nothing has been replaced"
    ):
        merge(project, [(3, 3, 0, "y", "b", "U")])
    assert project.rows("select count(*), count_if(ds = 'b') from {schema}.m")[0] == (50, 0)
    project.spark.sql(f"alter table {project.table('m')} add partition (ds='b')")
    merge(project)
    assert project.rows("select count(*), count_if(v = 'y') from {schema}.m")[0] == (100, 1)


@pytest.mark.long
@pytest.mark.parametrize("by", [["ds"], []])
def test_session_keeps_reading_after_a_merge_that_adds_no_file(
    project: Project, extension: None, spark: SparkSession, by: list[str]
) -> None:
    start(project, ROWS[190:210], partition_by=by)
    other, query = session(spark), f"select count(*), sum(s) from {project.table('m')} where ds = 'a'"
    assert other.sql(query).collect()[0] == (10, 0)
    for delta in ([(195, 195, 1, "new", "a", "U")], [(i, i, 0, "gone", "ab"[i > 199], "D") for i in range(190, 210)]):
        merge(project, delta)
    for _ in range(2):
        assert other.sql(query).collect()[0] == (0, None)


def stock_rows(project: Project) -> list[Row]:
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        return rows_of(project)


@pytest.mark.parametrize("what", ["ds=a", "."])
@pytest.mark.parametrize("copy", [shutil.copy2, shutil.copy])
@pytest.mark.long
def test_backup_made_before_a_merge_can_be_restored(project: Project, extension: None, what: str, copy: Any) -> None:
    """Restore a partition or the table, with old or new file times; queries return the rows, and a merge finds them."""
    start(project, ROWS, partition_by=["ds"])
    backup = project.folder / "backup"
    shutil.copytree(project.location("m"), backup)
    merge(project, DELTA, hint=CHECKED)
    assert rows_of(project) == MERGED
    shutil.rmtree(project.location("m") / what)
    shutil.copytree(backup / what, project.location("m") / what, copy_function=copy)
    project.spark.sql(f"msck repair table {project.table('m')} sync partitions")
    expected = OLD if what == "." else sorted([*ROWS[:200], *(row for row in MERGED if row[4] != "a")], key=str)
    assert rows_of(project) == stock_rows(project) == expected
    merge(project, hint=CHECKED)
    assert rows_of(project) == stock_rows(project) == MERGED


@pytest.mark.long
def test_restored_file_may_duplicate_rows_of_a_new_file(project: Project, extension: None) -> None:
    """As in stock Spark, the rows exist twice; a merge must report them."""
    start(project, ROWS)
    (old,) = [path for path in data_files(project, "m") if 100 in ids_of(project, path)]
    backup = shutil.copy2(project.location("m") / old, project.folder / "backup")
    merge(project, DELTA, hint=CHECKED)
    shutil.copy2(backup, project.location("m") / old)
    before = rows_of(project)
    assert before == stock_rows(project) and len(before) == len(MERGED) + 40
    with pytest.raises(PySparkException, match="several rows of the table that match the new row with the key"):
        merge(project, hint=CHECKED)
    assert rows_of(project) == before


def ids_of(project: Project, path: Path) -> set[int]:
    return {row.id for row in project.rows(f"select id from parquet.`{project.location('m') / path}`")}
