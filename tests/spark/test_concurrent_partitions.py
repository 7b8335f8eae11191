"""Tests of statements that create, empty or move partitions while other statements use them."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from local_files import while_held
from pyspark.sql import SparkSession
from test_concurrent_row_changes import COMMIT, DELETE, LONG, age_listings, age_records, folder, layout, run, session

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
