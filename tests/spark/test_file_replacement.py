"""Tests of file replacement in organized tables: concurrent readers, and recovery after a crash."""

from __future__ import annotations

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bucketed_tables import Tables
from commands import command
from crashes import statements
from local_files import held, while_held
from organized import STEPS, OrganizedTable, Row, begin, merged, write_outcome
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from session_settings import setting
from statement_cases import run_steps
from test_concurrent_row_changes import session
from test_organized_merges import CHECKED, model, write

from conftest import Failed, Project, all_long_but

ROWS: list[Row] = [(i, i, 0, "a" if i < 200 else "b") for i in range(400)]
# These rows are updated, moved to a new partition, and deleted. One partition loses all rows.
UPSERTS: list[Row] = [*((i, i, 1, "a") for i in range(100, 110)), *((i, i, 1, "c") for i in range(200, 400))]
DELETED = list(range(20))
MERGED = merged(ROWS, UPSERTS, DELETED)
# The numbers of changed, updated, deleted and inserted rows.
COUNTS = (230, 210, 20, 0)
BOTH_KEYS = "m.id = new.id and m.ds = new.ds"
LONG = pytest.mark.long
of_plain_table = pytest.mark.parametrize("table", ["plain"], indirect=True)
of_each_table = pytest.mark.parametrize("table", ["partitioned", "plain"], indirect=True)


@pytest.fixture
def table(project: Project, extension: None, request: pytest.FixtureRequest) -> OrganizedTable:
    partitioned = getattr(request, "param", "partitioned") == "partitioned"
    made = OrganizedTable(project.spark, project.schema, project.folder / "backups", partitioned)
    made.insert(ROWS)
    return made


def recovered(table: OrganizedTable, name: str = "m", after: str = "0s") -> str:
    """Recover the files of a table in another session, and return the result."""
    other = session(table.spark)
    other.conf.set("spark.bucketing.write.recoverAfter", after)
    (row,) = other.sql(f"alter table {table.database}.{name} recover files").collect()
    return str(row.recovered)


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


def write_delta(project: Project, kind: str, **config: Any) -> None:
    """Write a model that merges the rows, with this type of `v`, and the table that it reads."""
    model(project, partition_by=["ds"], **config)
    delta = [*((*row, "U") for row in UPSERTS), *((key, 0, 0, "a", "D") for key in DELETED)]
    write(project.spark, project.table("delta"), delta, f"id bigint, o int, v {kind}, ds string, op string")


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
    write_delta(project, "int")
    project.dbt("run")
    assert table.read() == merged(before, UPSERTS, DELETED)
    assert not list(table.location.glob("ds=b*/part-*")), "the run must drop a partition without rows"
    assert [row.partition for row in project.rows("show partitions {schema}.m")] == ["ds=a", "ds=c"]
    assert project.tables() == {"m", "delta"}
    assert all((record / "done").exists() for record in (table.location / "_replaced").iterdir())
    (known,) = project.rows(f"select count(*), count(rows) from file_statistics('{project.table('m')}')")
    assert known == (len(table.files()),) * 2


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


def test_failed_replacement_is_undone(table: OrganizedTable) -> None:
    """If a file cannot be moved, no new file remains."""
    before, in_the_way = table.files(), table.location / "ds=c"
    in_the_way.write_text("not a folder")
    with pytest.raises(Exception, match="ds=c"):
        table.merge(UPSERTS, DELETED)
    in_the_way.unlink()
    assert table.learn() == table.read() == ROWS and table.files() == before
    assert [row.partition for row in table.sql("show partitions {db}.m")] == ["ds=a", "ds=b"]
    table.merge(UPSERTS, DELETED)
    assert table.read() == MERGED


@pytest.mark.parametrize(
    ("held_operation", "result"),
    [
        pytest.param(r"create .*/_replaced/[^/]*/\.outcome-.*", "undone", id="before the commit"),
        pytest.param("rename .*/m/(?:[^/]*/)?ds=[^/]*/part-.*", "completed", id="after the commit"),
    ],
)
@pytest.mark.some(1)
def test_recovery_during_a_replacement_undoes_it_only_before_the_commit(
    table: OrganizedTable, held_operation: str, result: str
) -> None:
    """Another session recovers the table while a statement waits; the statement starts again if it is undone."""
    old_files = set(table.files())
    with while_held(table.spark, held_operation, table.merge, UPSERTS, DELETED) as statement:
        assert recovered(table) == result
        assert table.read() == (ROWS if result == "undone" else MERGED)
    assert statement.result() == COUNTS and table.read() == MERGED
    assert len(set(table.files()) & old_files) == 1


LISTS = {"created": [], "dropped": [], "exclusive": True}
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
def test_files_of_a_record_have_one_meaning(table: OrganizedTable) -> None:
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
        # Queries may need the record for some time after the statement.
        for done in record.glob("done"):
            os.utime(done, (done.stat().st_mtime - 3600,) * 2)
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
def test_slow_statement_is_not_taken_for_crashed(table: OrganizedTable, operation: str) -> None:
    """It moves or deletes files for longer than `recoverAfter`, and other statements wait for its end."""
    with setting(table.spark, "spark.bucketing.write.recoverAfter", "3s"), ThreadPoolExecutor(1) as pool:
        with while_held(table.spark, operation, table.merge, UPSERTS, DELETED) as statement:
            other = pool.submit(recovered, table, after="3s")
            with pytest.raises(TimeoutError):
                other.result(5)
            assert table.read() == (ROWS if "files" in operation else MERGED)
        assert statement.result() == COUNTS and other.result() == "nothing"
    assert table.read() == MERGED


@pytest.mark.parametrize("changes", [pytest.param(1, marks=LONG), 3])
@pytest.mark.long
def test_statement_starts_again_if_another_writer_changes_a_file(table: OrganizedTable, changes: int) -> None:
    """After three attempts, it fails and changes nothing."""
    path = table.location / next(name for name in table.files() if "ds=b" in name)
    waits = r"rename .*/_replaced/[^/]*/\.started-.*"
    with ThreadPoolExecutor(1) as pool, held(table.spark, waits) as operation:
        statement = pool.submit(table.merge, UPSERTS, DELETED)
        for number in range(changes):
            operation.await_reached()
            path.touch()
            operation.open() if number == changes - 1 else operation.open_once()
        failure = statement.exception()
    fails = re.search("(?s)has been changed or deleted since the statement read it.*run it again", str(failure))
    assert (failure is None) if changes < 3 else fails
    assert table.read() == (MERGED if changes < 3 else ROWS)


@pytest.mark.long
@pytest.mark.parametrize("statement", ["merge into", "drop table"])
def test_merge_survives_a_crash_between_statements(project: Project, table: OrganizedTable, statement: str) -> None:
    # Because `v` has another type, the run writes an intermediate table, and drops it after the merge.
    write_delta(project, "tinyint", merge_checks=True)
    with statements(crash_before=statement), pytest.raises(Failed, match="crashed here"):
        project.dbt("run")
    assert table.learn() == table.read() == (MERGED if statement == "drop table" else ROWS)
    project.dbt("run")
    assert table.learn() == table.read() == MERGED
    assert project.tables() == {"m", "delta"}


def test_tables_without_file_statistics_have_no_replacement(project: Project, table: OrganizedTable) -> None:
    table.sql("create table {db}.other using parquet as select 1 as id")
    assert recovered(table, "other") == "nothing"
    steps = {
        "select * from file_statistics('other')": "has no file statistics",
        "merge into other using other as s on other.id = s.id when matched then delete": r"UNSUPPORTED_FEATURE.TABLE_OPERATION|MERGE INTO TABLE",
    }
    run_steps(Tables(project.spark, project.schema), steps, "other")


@pytest.mark.long
def test_replacements_stay_in_order_when_a_clock_was_ahead(table: OrganizedTable) -> None:
    """The names of the records determine the order of the replacements, not the clock."""
    for v in (1, 2):
        table.merge([(5, 5, v, "a")], [])
        record = max((table.location / "_replaced").iterdir())
        if v == 1:
            record.rename(record.with_name("20990101000000000000-0"))
    assert record.name.startswith("20990101000000000001-")
    assert table.read() == merged(ROWS, [(5, 5, 2, "a")], [])


@of_each_table
@pytest.mark.long
def test_session_with_an_old_listing_reads_the_current_files(project: Project, table: OrganizedTable) -> None:
    """The second replacement removes files of the first one, so no record refers to the files in the listing."""
    table.sql("analyze table {db}.m compute statistics")
    other, query = session(table.spark), f"select count(*), sum(v) from {table.database}.m"
    assert other.sql(query).collect()[0] == (400, 0)
    for v in (1, 2):
        table.merge([(5, 5, v, "a")], [])
    assert "400 rows" not in str(project.detail("m", "Statistics")), "outdated statistics from ANALYZE must be removed"
    for done in (table.location / "_replaced").glob("*/done"):
        os.utime(done, (done.stat().st_mtime - 3600,) * 2)
    for _ in range(2):
        assert other.sql(query).collect()[0] == (400, 2)


@pytest.mark.parametrize("is_undone", [False, True])
@of_plain_table
@pytest.mark.long
def test_outdated_listing_counts_only_committed_rows(table: OrganizedTable, is_undone: bool) -> None:
    """The listing contains files of a later replacement that is unfinished or undone; only committed rows count."""
    other, query = session(table.spark), f"select count(*), sum(v) from {table.database}.m"
    assert other.sql(query).collect()[0] == (400, 0)
    table.merge([(i, i, 1, "a") for i in range(1000, 1100)], [])
    one = table.location / table.files()[0]
    copied = one.with_name("part-copied.parquet")
    record = begin(table.location, "20990101000000000000-0", added=[copied.name])
    shutil.copy(one, copied)
    for _ in range(2):
        assert other.sql(query).collect()[0] == (500, 100)
    if is_undone:
        assert recovered(table) == "undone" and (record / "done").exists() and not copied.exists()
        assert recovered(table) == "nothing"
        assert other.sql(query).collect()[0] == (500, 100)
        # The run that started the replacement is still alive, and moves more files before it notices the recovery.
        shutil.copy(one, copied)
        table.refresh()
        assert other.sql(query).collect()[0] == (500, 100) and len(table.read()) == 500
    table.merge([(1000, 1000, 2, "a")], [])
    assert other.sql(query).collect()[0] == (500, 101)
    assert (len(rows := table.learn()), sum(row[2] for row in rows)) == (500, 101)
    assert record.exists() and not copied.exists()
    os.utime(record / "done", (0, 0))
    table.merge([(1000, 1000, 3, "a")], [])
    assert not record.exists() and other.sql(query).collect()[0] == (500, 102)


@pytest.mark.long
def test_two_partitions_in_one_folder_are_refused(table: OrganizedTable) -> None:
    """The rows of a file would belong to both partitions, so a merge would write them twice."""
    table.sql(f"alter table {{db}}.m add partition (ds='d') location '{table.location / 'ds=a'}'")
    before = table.files()
    with pytest.raises(PySparkException, match=r"(?s)2 partitions in the directory .*ds=a.*nothing has been replaced"):
        table.merge([(2, 2, 1, "d")], [], on=BOTH_KEYS)
    assert table.files() == before


@pytest.mark.long
def test_record_with_the_name_of_an_undone_replacement_is_read_again(table: OrganizedTable) -> None:
    """A clock was ahead, and the next run crashed; the session must not confuse the next record with the undone one."""
    (table.location / "_replaced" / "20990101000000000000-0").mkdir(parents=True)
    begin(table.location, "20990101000000000001", removed=table.files()[:1])
    table.refresh()
    assert table.read() == ROWS
    assert recovered(table) == "undone"
    table.merge([(399, 399, 1, "b")], [])
    assert table.read() == merged(ROWS, [(399, 399, 1, "b")], [])


@pytest.mark.long
def test_copied_table_recovers_only_its_own_files(project: Project, table: OrganizedTable) -> None:
    """The table was copied with its record during a replacement, which the original table has since completed."""
    crash(table, "started")
    copy = table.location.parent / "copied"
    shutil.copytree(table.location, copy)
    (created,) = table.sql("show create table {db}.m")[0]
    sql = re.sub(r"TABLE \S+", f"TABLE {project.table('copied')}", created, count=1)
    table.sql(sql.replace("TBLPROPERTIES", f"LOCATION '{copy}' TBLPROPERTIES"))
    table.sql("msck repair table {db}.copied")
    table.merge(UPSERTS, DELETED)
    after = table.read()
    assert recovered(table, "copied") == "undone"
    assert table.read() == after
    assert table.sql("select count(*), count(distinct id) from {db}.copied")[0] == (400, 400)


@pytest.mark.long
@pytest.mark.parametrize("state", ["moved", "half-deleted"])
def test_table_renamed_after_a_crash_recovers(project: Project, table: OrganizedTable, state: str) -> None:
    expected = crash(table, state)
    table.sql("alter table {db}.m rename to {db}.n")
    assert recovered(table, "n") == ("undone" if state == "moved" else "completed")
    found = table.sql("select id, o, v, ds from {db}.n")
    assert sorted(map(tuple, found)) == expected
    shutil.rmtree(project.location("n") / "_replaced")
    table.sql("refresh table {db}.n")
    assert len(table.sql("select id from {db}.n")) == len(found), "the record must not hide rows"


@pytest.mark.long
def test_partitions_can_have_files_with_the_same_names(project: Project, table: OrganizedTable) -> None:
    """A partition was copied to another folder, with the same file names."""
    clone = table.location.parent / "clone" / "ds=a"
    shutil.copytree(table.location / "ds=a", clone)
    table.sql(f"alter table {{db}}.m add partition (ds='d') location '{clone}'")
    with pytest.raises(
        PySparkException, match=r"(?s)old file.s. that differ from their file statistics.*table stats --repair"
    ):
        table.merge([(2, 2, 1, "d")], [], CHECKED, BOTH_KEYS)
    assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    table.merge([(2, 2, 1, "d")], [], CHECKED, BOTH_KEYS)
    counts = "select ds, count(*), count(distinct id), count_if(v = 1) from {db}.m group by ds order by ds"
    for enabled in ("true", "false"):
        with setting(table.spark, "spark.bucketing.enabled", enabled):
            table.sql("refresh table {db}.m")
            found = [tuple(row) for row in table.sql(counts)]
            assert found == [("a", 200, 200, 0), ("b", 200, 200, 0), ("d", 200, 200, 1)]
    shutil.rmtree(clone.parent)


@pytest.mark.long
def test_rows_of_a_dropped_partition_do_not_reappear(project: Project, extension: None) -> None:
    """An external table keeps the files of a dropped partition; a new partition in the same folder would include them."""
    folder = project.folder
    table = OrganizedTable(project.spark, project.schema, folder / "backups", partitioned=True, location=folder / "m")
    table.insert(ROWS)
    table.sql("alter table {db}.m drop partition (ds='b')")
    with pytest.raises(
        PySparkException, match=r"(?s)ds=b, which is not a partition.*ADD PARTITION.*nothing has been replaced"
    ):
        table.merge([(203, 203, 1, "b")], [])
    assert table.read() == ROWS[:200]
    table.sql("alter table {db}.m add partition (ds='b')")
    table.merge([(203, 203, 1, "b")], [])
    assert table.read() == merged(ROWS, [(203, 203, 1, "b")], [])


@of_each_table
@pytest.mark.long
def test_session_keeps_reading_after_a_merge_that_adds_no_file(table: OrganizedTable) -> None:
    other, query = session(table.spark), f"select count(*), sum(v) from {table.database}.m where ds = 'a'"
    assert other.sql(query).collect()[0] == (200, 0)
    table.merge([(195, 195, 1, "a")], [])
    table.merge([], list(range(400)))
    for _ in range(2):
        assert other.sql(query).collect()[0] == (0, None)


@pytest.mark.parametrize("what", ["ds=a", "."])
@pytest.mark.parametrize("copy", [shutil.copy2, shutil.copy])
@pytest.mark.long
def test_backup_made_before_a_merge_can_be_restored(
    project: Project, table: OrganizedTable, what: str, copy: Any
) -> None:
    """Restore a partition or the table, with old or new file times; queries return the rows, and a merge finds them."""
    backup = project.folder / "backup"
    shutil.copytree(table.location, backup)
    table.merge(UPSERTS, DELETED, CHECKED)
    assert table.read() == MERGED
    shutil.rmtree(table.location / what)
    shutil.copytree(backup / what, table.location / what, copy_function=copy)
    table.refresh()
    expected = ROWS if what == "." else sorted([*ROWS[:200], *(row for row in MERGED if row[3] != "a")])
    assert table.read() == table.learn() == expected
    table.merge(UPSERTS, DELETED, CHECKED)
    assert table.read() == table.learn() == MERGED


@of_plain_table
@pytest.mark.long
def test_restored_file_may_duplicate_rows_of_a_new_file(project: Project, table: OrganizedTable) -> None:
    """As in stock Spark, the rows exist twice; a merge must report them."""
    (old,) = [name for name, rows in table.rows_of.items() if 100 in {row[0] for row in rows}]
    backup = shutil.copy2(table.location / old, project.folder / "backup")
    table.merge(UPSERTS, DELETED, CHECKED)
    shutil.copy2(backup, table.location / old)
    before = table.learn()
    assert before == table.read() and len(before) == len(MERGED) + len(table.rows_of[old])
    with pytest.raises(PySparkException, match="several rows of the table that match the new row with the key"):
        table.merge(UPSERTS, DELETED, CHECKED)
    assert table.read() == before
