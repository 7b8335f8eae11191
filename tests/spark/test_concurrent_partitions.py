"""Tests of statements that create, empty or move partitions while other statements use them."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from local_files import failing, held, while_held
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from test_concurrent_row_changes import (
    BEGIN,
    CLEAR,
    COMMIT,
    DELETE,
    LONG,
    age_listings,
    age_records,
    attempt,
    folder,
    layout,
    run,
    session,
)

__all__ = ["layout"]
BOTH = pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
WRITE = r"create .*/_replaced/[^/]*/files/.*"


def newest(spark: SparkSession) -> Path:
    """Return the newest record."""
    return max((folder(spark) / "_replaced").glob("2*"))


@BOTH
def test_overwriting_keeps_the_rows_of_a_partition_that_others_create(spark: SparkSession, layout: str) -> None:
    """Others create the partition and append to it. When the statement commits, the record of the second INSERT is deleted."""
    overwrite = "insert overwrite shared partition (ds = 'p9') if not exists select id, 7 from range(2)"
    with while_held(spark, WRITE, run, spark, overwrite, True):
        run(spark, "insert into shared values (1000, 1, 'p9')", True)
        run(spark, "insert into shared values (1001, 2, 'p9')", True)
        done, then = newest(spark) / "done", time.time() - 360
        os.utime(done, (then, then))
        run(spark, "insert into shared values (1002, 3, 'p1')", True)
        assert not done.exists()
    query = "select id, v from shared where ds = 'p9' order by id"
    assert session(spark, True).sql(query).collect() == [(1000, 1), (1001, 2)], layout


@BOTH
def test_old_listing_is_not_used_after_recovery_deletes_a_record(spark: SparkSession, layout: str) -> None:
    """The reader knows the INSERT as committed, but not that the update has been. To complete the INSERT deletes the update's record."""
    reader, query = session(spark, True), "select max(v), min(v) from shared where ds = 'p0'"
    with while_held(spark, COMMIT, run, spark, "update shared set v = 1 where ds = 'p0'", True):
        run(spark, "insert into shared values (1000, 0, 'p1')", True)
        (newest(spark) / "done").unlink()  # killed after its commit
        assert reader.sql(query).collect() == [(0, 0)]
    age_records(spark)
    age_listings(spark)
    session(spark).sql("alter table shared recover files").collect()
    assert reader.sql(query).collect() == [(1, 1)], layout


@BOTH
def test_statement_that_begins_before_another_one_is_done(spark: SparkSession, layout: str) -> None:
    """It begins when the other one is committed, but its old files still exist."""
    old = {path: (path.read_bytes(), path.stat()) for path in folder(spark).glob("ds=p0/*")}
    with while_held(
        spark, r"create .*/_replaced/[^/]*/begun", run, spark, "update shared set v = v + 1 where ds = 'p0'"
    ):
        run(spark, "update shared set v = 5 where ds = 'p0'", True)
        (newest(spark) / "done").unlink()
        for path, (content, status) in old.items():
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    query = "select v, count(*) from shared where ds = 'p0' group by v"
    assert session(spark).sql(query).collect() == [(6, 20)], layout


@BOTH
def test_insert_waits_until_its_partition_has_been_dropped(spark: SparkSession, layout: str) -> None:
    """The DELETE has found the directory empty, and is about to drop the partition."""
    inserted = [(1000, 5, "p0")]
    with ThreadPoolExecutor(1) as pool:
        with while_held(spark, DELETE, run, spark, "delete from shared where ds in ('p0', 'p1')", True):
            inserting = pool.submit(run, spark, "insert into shared values (1000, 5, 'p0')", True)
            wait([inserting], 3)
            assert not inserting.done()
        inserting.result()
    assert session(spark, True).sql("select * from shared").collect() == inserted, layout
    assert session(spark, True).sql("show partitions shared partition (ds = 'p0')").collect(), layout


@pytest.mark.parametrize("layout", ["bucketed", "organized"], indirect=True)
def test_query_finds_the_records_in_the_new_location_of_the_table(
    spark: SparkSession, layout: str, tmp_path: Path
) -> None:
    reader, home = session(spark, True), folder(spark)
    query = "select min(v), count(*) from shared where ds = '{}'"
    assert reader.sql(query.format("p1")).collect() == [(0, 20)]
    session(spark).sql(f"alter table shared set location 'file:{tmp_path}/b'")
    try:
        with while_held(spark, COMMIT, run, spark, "update shared set v = 1 where ds = 'p0'", True):
            assert reader.sql(query.format("p0")).collect() == [(0, 20)]
        assert reader.sql(query.format("p0")).collect() == [(1, 20)]
    finally:
        shutil.rmtree(home)


@pytest.mark.parametrize("layout", ["bucketed", "whole", "organized"], indirect=True)
def test_table_without_the_records_that_a_listing_knows(spark: SparkSession, layout: str) -> None:
    """Another program has created the table again."""
    reader, query = session(spark, True), "select count(*) from shared"
    run(spark, "delete from shared")
    assert reader.sql(query).collect() == [(0,)]
    shutil.rmtree(folder(spark) / "_replaced")
    writer = session(spark)
    writer.conf.set("spark.bucketing.enabled", "false")
    writer.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    writer.sql("insert into shared select id, 0, 'p1' from range(3)")
    assert reader.sql(query).collect() == [(3,)], layout


DROPS = {
    "without rows": "insert overwrite shared partition (ds = 'p9') select 1L, 1 where false",
    "static": "insert overwrite shared select id, 7, 'p0' from range(3)",
    "undone": "insert into shared values (2000, 5, 'p9')",
}


@pytest.mark.parametrize(
    ("layout", "statement"),
    [("bucketed", "without rows"), ("bucketed", "undone"), ("organized", "static"), ("organized", "undone")],
    indirect=["layout"],
)
def test_insert_waits_for_statements_that_drop_a_partition_without_files(
    spark: SparkSession, layout: str, statement: str
) -> None:
    """They have been decided, and may drop the partition until they are done."""
    if statement != "undone":
        session(spark).sql("alter table shared add partition (ds = 'p9')")
    commit = COMMIT if statement == "undone" else "(?!)"
    with ThreadPoolExecutor(1) as pool, failing(spark, commit):
        with while_held(spark, r"create .*/_replaced/[^/]*/done", attempt, session(spark, True), DROPS[statement]):
            inserting = pool.submit(run, spark, "insert into shared values (1000, 5, 'p9')", True)
            wait([inserting], 3)
            assert not inserting.done()
        inserting.result()
    assert session(spark, True).sql("select * from shared where ds = 'p9'").collect() == [(1000, 5, "p9")], layout


@BOTH
def test_overwriting_does_not_wait_for_its_own_first_attempt(spark: SparkSession, layout: str) -> None:
    """Another statement has changed the partition in the meantime, and the storage fails when the first attempt is undone."""
    overwrite = "insert overwrite shared partition (ds = 'p0') select id, 7 from range(2)"
    with ThreadPoolExecutor(1) as pool, held(spark, WRITE) as operation:
        overwriting = pool.submit(attempt, session(spark, True), overwrite)
        operation.await_reached()
        run(spark, "update shared set v = 1 where ds = 'p0'", True)
        with failing(spark, COMMIT):
            operation.open()
            assert CLEAR.search(str(overwriting.result(60)))
    query = "select v, count(*) from shared where ds = 'p0' group by v"
    assert session(spark).sql(query).collect() == [(1, 20)], layout
    run(spark, overwrite)
    assert session(spark).sql(query).collect() == [(7, 2)], layout


@BOTH
def test_insert_into_a_partition_that_others_create_in_another_directory(
    spark: SparkSession, layout: str, tmp_path: Path
) -> None:
    """The statement knows the partition in a custom directory. Others drop it, and create it in the default directory."""
    session(spark).sql(f"alter table shared add partition (ds = 'p9') location 'file:{tmp_path}/p9'")
    run(spark, "insert into shared values (1000, 1, 'p9')")
    with ThreadPoolExecutor(1) as pool, held(spark, BEGIN) as operation:
        inserting = pool.submit(attempt, session(spark, True), "insert into shared values (1001, 2, 'p9')")
        operation.await_reached()
        run(spark, "delete from shared where ds = 'p9'", True)
        run(spark, "insert into shared values (1002, 3, 'p9')", True)
        operation.open()
        error = inserting.result()
    ids = [row[0] for row in session(spark).sql("select id from shared where ds = 'p9' order by id").collect()]
    expected = [1002] if CLEAR.search(str(error)) else [1001, 1002]
    assert ids == expected, layout
    run(spark, "insert into shared values (1003, 4, 'p9')")
    assert session(spark).sql("select * from shared where ds = 'p9'").count() == len(expected) + 1


@BOTH
def test_undone_overwriting_deletes_no_rows_of_a_partition_that_others_create(spark: SparkSession, layout: str) -> None:
    """It is paused after it has found no partition. Others undo it, and delete the record of the INSERT."""
    overwrite = "insert overwrite shared partition (ds = 'p9') if not exists select id, 7 from range(2)"
    with while_held(spark, r"list .*/shared/ds=p9", run, spark, overwrite, True):
        run(spark, "insert into shared values (1000, 1, 'p9')", True)
        run(spark, "insert into shared values (1001, 2, 'p1')")
        age_records(spark)
        run(spark, "insert into shared values (1002, 3, 'p1')", True)
    query = "select id, v from shared where ds = 'p9'"
    assert session(spark, True).sql(query).collect() == [(1000, 1)], layout


def test_truncate_leaves_no_seal_of_files_that_it_deletes(spark: SparkSession, layout: str) -> None:
    """A statement commits after TRUNCATE has removed the seals, and before it deletes the files."""
    partition = "partition (ds = 'p0')" if layout != "whole" else ""
    run(spark, f"truncate table shared {partition}")
    value = "(1000, 1, 'p0')"
    with ThreadPoolExecutor(2) as pool, held(spark, WRITE) as writing:
        inserting = pool.submit(run, spark, f"insert into shared values {value}", True)
        writing.await_reached()
        with held(spark, r"delete .*/shared(/ds=p0)?") as deleting:
            truncating = pool.submit(run, spark, f"truncate table shared {partition}", True)
            deleting.await_reached()
            writing.open()
            inserting.result()
        truncating.result()
    assert session(spark).sql("select * from shared where ds = 'p0'").collect() == [], layout
    run(spark, f"insert into shared values {value}")
    for statement in ("truncate table shared partition (v = 1)", "alter table shared partition (v = 1) seal buckets"):
        with pytest.raises(AnalysisException):
            run(spark, statement)


@BOTH
def test_statement_after_a_crash_that_has_dropped_a_partition_elsewhere(
    spark: SparkSession, layout: str, tmp_path: Path
) -> None:
    """A DELETE has dropped a partition outside of the table's directory, and is killed before it is done."""
    session(spark).sql(f"alter table shared add partition (ds = 'p9') location 'file:{tmp_path}/p9'")
    run(spark, "insert into shared values (1000, 1, 'p9')")
    run(spark, "delete from shared where ds = 'p9'")
    (newest(spark) / "done").unlink()
    run(spark, "insert into shared values (1001, 2, 'p9')")
    assert session(spark).sql("select id from shared where ds = 'p9'").collect() == [(1001,)], layout
