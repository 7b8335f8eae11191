"""Tests of MERGE INTO, UPDATE and DELETE while other sessions read, write and alter the table."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from local_files import held, vanishing, while_held
from organized import begin
from partition_specs import logged
from pyspark.sql import DataFrame, SparkSession
from session_settings import setting

BUCKETS = "clustered by (id) sorted by (id, v) into 4 buckets stored as parquet"
LAYOUTS = {
    "bucketed": f"(id bigint, v int) partitioned by (ds string) {BUCKETS}",
    "whole": f"(id bigint, v int, ds string) {BUCKETS}",
    "organized": (
        "(id bigint, v int, ds string) using parquet partitioned by (ds)"
        """ tblproperties ('bucketing.range_by'='["id"]', 'bucketing.rows_per_file'='10')"""
    ),
}
# The operations of a statement: its record is written, the first new file moves into the table, the commit, and the deletion of the first
# old file.
BEGIN, MOVE, COMMIT, DELETE = (
    r"rename .*/_replaced/[^/]*/\.started.*",
    r"rename .*/_replaced/[^/]*/files/.*",
    r"create .*/_replaced/[^/]*/\.outcome-.*",
    r"rename .*/shared/(?:ds=[^/]*/)?[^/_]*(?:_0_)?part-.*",
)
# An error after which a user can run a statement again.
CLEAR = re.compile("run it again")


LONG = pytest.mark.long


@pytest.fixture(params=["bucketed", pytest.param("whole", marks=LONG), pytest.param("organized", marks=LONG)])
def layout(spark: SparkSession, extension: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """Create the table `shared` with 40 rows."""
    spark.catalog.setCurrentDatabase("default")  # that of new sessions
    spark.sql(f"create table shared {LAYOUTS[request.param]}")
    rows = "select id, 0 as v, concat('p', id % 2) as ds from range(40)"
    spark.sql(f"merge into shared as t using ({rows}) as s on false when not matched then insert *").collect()
    yield str(request.param)
    spark.sql("drop table shared")


def session(spark: SparkSession, waits: bool = False) -> SparkSession:
    """Open a session that waits for running statements, or that treats each of them as crashed, and undoes it."""
    made = spark.newSession()
    for key, value in {
        "spark.bucketing.enabled": "true",
        "spark.sql.shuffle.partitions": "1",
        "spark.bucketing.write.recoverAfter": "60s" if waits else "0s",
        "hive.exec.dynamic.partition.mode": "nonstrict",
    }.items():
        made.conf.set(key, value)
    return made


def rows(spark: SparkSession) -> list[tuple[object, ...]]:
    """Return the rows of the table; check that all ways to read it return them."""
    every = "select * from shared"
    found = sorted(map(tuple, session(spark).sql(every).collect()))
    with setting(spark, "spark.bucketing.enabled", "false"):
        spark.sql("refresh table shared")
        assert sorted(map(tuple, spark.sql(every).collect())) == found
    query = "select /*+ merge(b) */ a.* from shared as a join (select distinct id from shared) as b on a.id = b.id"
    assert sorted(map(tuple, session(spark).sql(query).collect())) == found
    ids = [row[0] for row in found]
    for key in (3, 17, max(ids)):
        assert session(spark).sql(f"select count(*) from shared where id = {key}").collect()[0][0] == ids.count(key)
    return found


def attempt(spark: SparkSession, statement: str) -> BaseException | None:
    """Run a statement, and return its error."""
    try:
        spark.sql(statement).collect()
    except Exception as error:
        return error
    return None


def unclear(failures: list[BaseException]) -> list[str]:
    return [str(failure) for failure in failures if not CLEAR.search(str(failure))]


# `SECONDS=300` runs readers beside statements for that time, instead of a number of statements.
SECONDS = int(os.environ.get("SECONDS", "0"))
CHANGES = {
    "update": "update shared set v = {}",
    "overwrite": "insert overwrite shared select id, {}, concat('p', id % 2) from range(40)",
    "move": "update shared set v = {0}, ds = concat('p', (id + {0}) % 3)",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("statements", [4, 30])
@pytest.mark.long
def test_readers_see_the_rows_of_one_statement(spark: SparkSession, layout: str, statements: int, change: str) -> None:
    """Each statement changes a column of all rows. A reader sees one value in all rows."""
    old = session(spark)
    assert old.sql("select count(*) from shared").collect()[0][0] == 40
    analyzed = old.table("shared")
    cached = session(spark).table("shared").where("v >= 0")
    joined = "select a.v, count(*) from shared a join shared b on a.id = b.id group by a.v, b.v"
    readers: dict[str, Callable[[], DataFrame]] = {
        "partition": lambda: session(spark).sql("select v, 2 * count(*) from shared where id % 2 = 0 group by v"),
        # The two scans of a query may see different states.
        "joined": lambda: session(spark).sql(joined),
        "new session": lambda: session(spark).sql("select v, count(*) from shared group by v"),
        "old session": lambda: old.sql("select v, count(*) from shared group by v"),
        "analyzed": lambda: analyzed.groupBy("v").count(),
        "filtered": lambda: cached.groupBy("v").count(),
    }
    done, seen, failures = threading.Event(), Counter[str](), list[BaseException]()

    def read(name: str) -> None:
        while not done.is_set():
            try:
                found = [tuple(row) for row in readers[name]().collect()]
            except Exception as error:
                failures.append(error)
                continue
            seen[name if len(found) == 1 and found[0][1] == 40 else f"{name}: {found}"] += 1

    with ThreadPoolExecutor(len(readers)) as pool:
        reads = [pool.submit(read, name) for name in readers]
        try:
            end = time.monotonic() + SECONDS
            for number in count(1):
                spark.sql(CHANGES[change].format(number)).collect()
                if time.monotonic() >= end and (SECONDS or number == statements):
                    break
        finally:
            done.set()
    assert [one.exception() for one in reads] == [None] * len(reads)
    print(f"\n{layout}: {number} statements, {dict(seen)}, {len(failures)} failed", flush=True)
    assert not failures and seen.keys() <= readers.keys()
    assert {row[1] for row in rows(spark)} == {number}


@pytest.mark.parametrize("inserts", [3, pytest.param(20, marks=LONG)])
def test_inserts_at_the_same_time_lose_no_row(spark: SparkSession, layout: str, inserts: int) -> None:
    """One session inserts rows into the partitions whose rows another session changes."""
    outcomes, refused = list[BaseException | None](), list[BaseException]()

    def insert() -> None:
        writer = session(spark, waits=True)
        for number in range(inserts):
            # A statement that fails has no effect, so the user runs it again.
            while error := attempt(writer, f"insert into shared values ({1000 + number}, 0, 'p{number % 2}')"):
                refused.append(error)
                assert not unclear(refused)

    with ThreadPoolExecutor(1) as pool:
        inserting, updater = pool.submit(insert), session(spark, waits=True)
        while not inserting.done():
            outcomes.append(attempt(updater, "update shared set v = v + 1 where id < 20"))
    inserting.result()
    updates, failures = outcomes.count(None), [*refused, *(error for error in outcomes if error)]
    print(f"\n{layout}: {updates} updates, {len(failures)} failed", flush=True)
    assert not unclear(failures)
    assert [row[:2] for row in rows(spark)] == [
        *((key, updates if key < 20 else 0) for key in range(40)),
        *((1000 + number, 0) for number in range(inserts)),
    ]


def run(spark: SparkSession, statement: str, waits: bool = False) -> None:
    session(spark, waits).sql(statement).collect()


# Statements about one partition.
OF_PARTITION = {
    "insert": "insert into shared values (100, 5, '{0}')",
    "overwrite": "insert overwrite shared select id, 5, '{0}' from range(3)",
    "merge": "merge into shared as t using (select 1L as id, 5 as v, '{0}' as ds union all select 200, 5, '{0}') as s"
    " on t.id = s.id and t.ds = s.ds when matched then update set * when not matched then insert *",
    "update": "update shared set v = 5 where ds = '{0}'",
    "delete": "delete from shared where ds = '{0}' and id < 20",
}


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
@pytest.mark.parametrize("stop", [BEGIN, COMMIT], ids=["begin", "commit"])
@pytest.mark.parametrize("second", OF_PARTITION)
@pytest.mark.parametrize("first", OF_PARTITION)
@pytest.mark.some(3)
def test_statements_on_different_partitions_do_not_conflict(
    spark: SparkSession, layout: str, first: str, second: str, stop: str
) -> None:
    """The second statement commits while the first one runs, or waits for its commit. None of them starts again."""
    of = OF_PARTITION | {"overwrite": "insert overwrite shared partition (ds = '{0}') select id, 5 from range(3)"}
    statements = [of[first].format("p0"), of[second].format("p1")]
    loggers = ("dml.ChangeRowsRun", "write.AtomicInsert")
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        lines = [stack.enter_context(logged(spark, f"org.apache.spark.sql.bucketing.{name}")) for name in loggers]
        with while_held(spark, stop, run, spark, statements[0], True):
            running = pool.submit(run, spark, statements[1], waits=True)
            # After its record is written, some statements wait for the first one.
            wait([running], 60 if stop == BEGIN else 2)
            assert running.done() or stop == COMMIT
        running.result()
    assert not [line for line in [*lines[0], *lines[1]] if "starts again" in line]
    concurrent = rows(spark)
    spark.sql("delete from shared").collect()
    run(spark, "insert into shared select id, 0 as v, concat('p', id % 2) as ds from range(40)")
    for statement in statements:
        run(spark, statement)
    assert rows(spark) == concurrent, layout


# The other statement commits when this one writes its files, or when it writes its record.
STOPS = {"write": "create .*/_replaced/[^/]*/files/.*", "begin": BEGIN}
CONFLICTS = [
    ("update shared set v = v + 1 where ds = 'p0'", "overwrite", "INSERT OVERWRITE"),
    ("update shared set v = v + 1 where v <= (select max(v) from shared)", "merge", "MERGE INTO"),
    ("merge into shared as t using (select 1L as id) as s on t.id = s.id when matched then delete", "update", "UPDATE"),
    ("insert overwrite shared select id, v + 1, ds from shared where ds = 'p0'", "update", "UPDATE"),
]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(("statement", "other", "operation"), CONFLICTS)
@pytest.mark.some(2)
def test_conflict_names_the_other_statement(
    spark: SparkSession, layout: str, statement: str, other: str, operation: str, stop: str
) -> None:
    """The error after the last attempt names the operation, the user and the time of the other statement."""
    attempts, before = 1 if statement.startswith("insert") else 3, datetime.now(timezone.utc).replace(microsecond=0)
    with ThreadPoolExecutor(1) as pool, held(spark, STOPS[stop]) as operations:
        running = pool.submit(attempt, session(spark, waits=True), statement)
        for number in range(attempts):
            operations.await_reached()
            run(spark, OF_PARTITION[other].format("p0").replace("5", str(5 + number)))
            operations.open() if number == attempts - 1 else operations.open_once()
        error = str(running.result())
    found = re.search(rf"found: .*{operation} by {getpass.getuser()}, which began at ([-0-9]+ [:0-9]+) UTC\n", error)
    assert found and "run it again; nothing has been replaced" in error, error
    assert before <= datetime.fromisoformat(f"{found[1]}+00:00") <= datetime.now(timezone.utc), layout


@pytest.mark.parametrize("operation", [MOVE, COMMIT, DELETE], ids=["move", "commit", "delete"])
@pytest.mark.some(1)
def test_insert_during_a_replacement_loses_no_row(spark: SparkSession, layout: str, operation: str) -> None:
    """The rows are as if one statement ran after the other: an INSERT before the UPDATE has its value in all of its rows."""
    insert = "insert into shared values (1000, 5, 'p0'), (1001, 5, 'p1'), (1002, 5, 'new')"
    with ThreadPoolExecutor(1) as pool:
        with while_held(spark, operation, run, spark, "update shared set v = 1"):
            inserting = pool.submit(run, spark, insert, waits=True)
            # The UPDATE goes on even if the INSERT waits for it.
            wait([inserting], 2)
        inserting.result()
    found = [row[:2] for row in rows(spark)]
    old = [(key, 1) for key in range(40)]
    assert found in [[*old, *((1000 + i, value) for i in range(3))] for value in (1, 5)]


@pytest.mark.parametrize(
    "statement", [CHANGES["update"].format("v + 1"), "insert overwrite shared values (1, 5, 'p0'), (2, 5, 'p1')"]
)
@pytest.mark.some(1)
def test_statement_starts_again_if_its_log_cannot_be_written(spark: SparkSession, layout: str, statement: str) -> None:
    """The commit of another statement deletes the log of this one, between the two steps that write it."""
    with while_held(spark, BEGIN, run, spark, statement):
        run(spark, CHANGES["update"].format("v + 10"))
    values = {row[1] for row in rows(spark)}
    assert values == ({11} if "update" in statement else {5}), layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_session_lists_partitions_again_whose_record_is_deleted(spark: SparkSession, layout: str) -> None:
    """The second statement changes another partition, and deletes the record of the first one."""
    query = "select sum(v), count(*) from shared where ds = 'p0'"
    reader, writer = session(spark), session(spark)
    analyzed = reader.table("shared").where("ds = 'p0'")
    assert tuple(reader.sql(query).collect()[0]) == (0, 20) and analyzed.where("v = 0").count() == 20
    for number in (1, 2):
        for partition in ("p0", "p1"):
            writer.sql(f"update shared set v = {number} where ds = '{partition}'").collect()
        for _ in range(2):
            assert tuple(reader.sql(query).collect()[0]) == (20 * number, 20), layout
        assert analyzed.where(f"v = {number}").count() == 20, layout


@pytest.mark.parametrize("held", ["p0", "p1"])
@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_scan_has_the_files_of_one_moment_if_statements_commit_while_it_lists(
    spark: SparkSession, layout: str, held: str
) -> None:
    """The first statement changes a partition that is already listed and one that is not. The next ones change others."""
    query = "select ds, max(v) from shared where ds between 'p0' and 'p1' group by ds"
    with while_held(spark, f"list .*/shared/ds={held}", session(spark).sql(query).collect) as reading:
        run(spark, "update shared set v = 1", waits=True)
        for number in range(3):
            run(spark, f"insert overwrite shared partition (ds = 'new{number}') select 1, 1", waits=True)
    assert {row[1] for row in reading.result()} in ({0}, {1}), layout


@pytest.mark.parametrize("where", ["", "where ds between 'p0' and 'p9'"], ids=["whole", "selected"])
@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_scan_has_all_partitions_of_a_statement_that_creates_one(spark: SparkSession, layout: str, where: str) -> None:
    """The query has selected partitions, but has not listed the first one, when rows arrive in it and in a new one."""
    query = f"select count(*), max(v) from shared {where}"
    with while_held(spark, "list .*/shared/ds=p0", session(spark).sql(query).collect) as reading:
        run(spark, "insert into shared values (100, 5, 'p0'), (101, 5, 'p9')", waits=True)
    assert reading.result() in ([(40, 0)], [(42, 5)]), layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_late_listing_does_not_replace_a_newer_one(spark: SparkSession, layout: str) -> None:
    """A query has listed a partition that changes. Another query of the session lists it again before the first one ends."""
    run(spark, "insert into shared values (100, 0, 'p2')", waits=True)
    reader, largest = session(spark), "select max(v), min(v) from shared where ds {}"
    with while_held(spark, "list .*/shared/ds=p2", reader.sql(largest.format("<> 'p1'")).collect) as reading:
        run(spark, "update shared set v = 1", waits=True)
        assert reader.sql(largest.format("= 'p0'")).collect() == [(1, 1)]
    assert reading.result() in ([(0, 0)], [(1, 1)]), layout
    assert reader.sql(largest.format("= 'p0'")).collect() == [(1, 1)], layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_query_lists_only_directories_that_another_session_has_changed(spark: SparkSession, layout: str) -> None:
    discovered = cast("Any", spark)._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics.METRIC_FILES_DISCOVERED()
    reader, seen = session(spark), []
    for statement in ("", "update shared set v = 1 where ds = 'p0'", "insert into shared values (100, 1, 'p1')", ""):
        if statement:
            run(spark, statement, waits=True)
        before = discovered.getCount()
        files = {row[0] for row in reader.sql("select distinct input_file_name() from shared").collect()}
        seen.append(discovered.getCount() - before)
    in_p1 = sum("ds=p1" in file for file in files)
    assert seen == [len(files) - 1, len(files) - in_p1, in_p1, 0], layout


def age_listings(spark: SparkSession) -> None:
    """Make all listings that queries share an hour older."""
    jvm: Any = cast("Any", spark)._jvm
    package = "org.apache.spark.sql.bucketing.read."

    def field(of: str, name: str) -> Any:
        found = jvm.org.apache.spark.util.Utils.classForName(package + of, True, False).getDeclaredField(name)
        found.setAccessible(True)
        return found

    shared = field("SharedListing$", "known").get(field("SharedListing$", "MODULE$").get(None))
    for listing in shared.values():
        field("TableListing", "began").set(listing.listing(), jvm.org.apache.spark.sql.bucketing.read.Moment(0, 0))


def folder(spark: SparkSession) -> Path:
    return Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")) / "shared"


def age_records(spark: SparkSession) -> None:
    """Make all finished statements so old that the next one deletes their records."""
    for done in folder(spark).glob("_replaced/*/done"):
        os.utime(done, (0, 0))


# Settings with which Spark lists all partitions itself, or keeps no listing.
LISTS = ["hive.manageFilesourcePartitions=false", "hive.filesourcePartitionFileCacheSize=0"]


@pytest.mark.parametrize("change", LISTS)
@pytest.mark.some(1)
def test_session_sees_changes_with_settings_for_listings(spark: SparkSession, layout: str, change: str) -> None:
    reader, query = session(spark), "select count(*), min(v), max(v), count(distinct ds) from shared {}"
    reader.conf.set(*f"spark.sql.{change}".split("="))
    run(spark, "update shared set v = 1")
    for number in (2, 3):
        for where, expected in (("", 40), ("where ds = 'p1'", 20)):
            assert reader.sql(query.format(where)).collect() == [(expected, number - 1, number - 1, expected // 20)], (
                layout
            )
        run(spark, f"update shared set v = {number}")
    reader.sql("update shared set v = v + 1 where ds = 'p0'").collect()
    assert Counter(row[1] for row in rows(spark)) == {3: 20, 4: 20}, layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_old_listing_is_not_used_after_records_are_deleted(spark: SparkSession, layout: str) -> None:
    """The listing is older than the update of a partition, whose record the commit in another partition deletes."""
    reader, query = session(spark), "select max(v), min(v) from shared where ds = 'p0'"
    assert reader.sql(query).collect() == [(0, 0)]
    run(spark, "update shared set v = 1 where ds = 'p0'")
    age_records(spark)
    age_listings(spark)
    run(spark, "update shared set v = 1 where ds = 'p1'")
    assert reader.sql(query).collect() == [(1, 1)], layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_late_file_of_an_undone_statement_is_not_read(spark: SparkSession, layout: str) -> None:
    """A session has listed the file before the next statement deletes it, and later a statement deletes the record."""
    reader, query = session(spark), "select count(*), max(v) from shared where ds = 'p0'"
    one = next(folder(spark).glob("ds=p0/[!._]*"))
    late = one.with_name(f"late-{one.name}")
    begin(folder(spark), f"20000101000000000000-{layout}", added=[f"ds=p0/{late.name}"])
    run(spark, "alter table shared recover files")
    age_records(spark)
    shutil.copy(one, late)
    assert reader.sql(query).collect() == [(20, 0)]
    run(spark, "update shared set v = 1 where ds = 'p1'")
    assert not late.exists() and reader.sql(query).collect() == [(20, 0)]
    age_records(spark)
    run(spark, "update shared set v = 2 where ds = 'p1'")
    assert reader.sql(query).collect() == [(20, 0)], layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
def test_query_succeeds_although_statements_commit_during_many_of_its_listings(
    spark: SparkSession, layout: str
) -> None:
    reader = session(spark).sql("select v, count(*) from shared group by v")
    with ThreadPoolExecutor(1) as pool, held(spark, "list .*/shared/ds=p1") as listing:
        reading = pool.submit(reader.collect)
        for number in range(8):
            listing.await_reached()
            run(spark, f"update shared set v = {number}", waits=True)
            listing.open() if number == 7 else listing.open_once()
        assert [tuple(row) for row in reading.result()] == [(7, 40)], layout


def test_insert_that_starts_again_keeps_its_files(spark: SparkSession, layout: str) -> None:
    """It has undone its own commit because of another statement, whose commit deletes the records of undone ones."""
    with ThreadPoolExecutor(2) as pool, held(spark, BEGIN) as first:
        inserting = pool.submit(run, spark, CHANGES["overwrite"].format(5), waits=True)
        first.await_reached()
        with while_held(spark, COMMIT, run, spark, CHANGES["update"].format("v + 10"), True):
            first.open()
            wait([inserting], 3)
        inserting.result()
    assert {row[1] for row in rows(spark)} == {5}, layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("organized", marks=LONG)], indirect=True)
@pytest.mark.parametrize(
    "statement", ["delete from shared where ds = 'p1'", "update shared set ds = 'p2' where ds = 'p1'"]
)
@pytest.mark.some(1)
def test_insert_into_an_emptied_partition_loses_no_row(spark: SparkSession, layout: str, statement: str) -> None:
    """The statement has dropped the partition and is about to delete its directory when another session inserts a row."""
    with while_held(spark, r"delete .*/shared/ds=p1", run, spark, statement):
        assert not session(spark).sql("show partitions shared partition (ds = 'p1')").collect(), layout
        run(spark, "insert into shared values (1000, 5, 'p1')")
    assert [row for row in rows(spark) if row[2] == "p1"] == [(1000, 5, "p1")]


@pytest.mark.long
def test_directories_that_vanish_during_a_listing_have_no_files(spark: SparkSession, layout: str) -> None:
    """The next commit deletes the directories of earlier replacements, while other sessions list them."""
    described = {row[0]: str(row[1]) for row in spark.sql("describe formatted shared").collect()}
    log = Path(described["Location"].removeprefix("file:")) / "_replaced" / "20200101000000000000-0"
    statements = ("select count(*) from shared", CHANGES["update"].format(1), CHANGES["overwrite"].format(1))
    for statement in statements:
        log.mkdir()
        with vanishing(spark, f".*/{log.name}"):
            session(spark).sql(statement).collect()
        assert not log.exists(), statement
    assert len(rows(spark)) == 40, layout


SUBQUERY = "(select max(id) from shared where id >= 0)"
READS_ITSELF = {
    "condition": f"delete from shared where id = {SUBQUERY}",
    "source": (
        "merge into shared as t using (select max(id) as id from shared where id >= 0) as s on t.id = s.id"
        " when matched then delete"
    ),
    "assigned value": f"update shared set v = {SUBQUERY} where id = 0",
}


@pytest.mark.parametrize("reads", READS_ITSELF)
@pytest.mark.some(1)
def test_repeated_statement_reads_the_table_again(spark: SparkSession, layout: str, reads: str) -> None:
    """Another session adds rows before the commit of a statement whose subquery reads the same table."""
    new = "select id, 0 as v, concat('p', id % 2) as ds from range(100, 110)"
    with while_held(spark, COMMIT, run, spark, READS_ITSELF[reads]):
        run(spark, f"merge into shared as t using ({new}) as s on false when not matched then insert *")
    found = rows(spark)
    if reads == "assigned value":
        assert found[0] == (0, 109, "p0") and len(found) == 50, layout
    else:
        assert [row[0] for row in found] == [*range(40), *range(100, 109)], layout


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("whole", marks=LONG), "organized"], indirect=True)
@pytest.mark.parametrize("changes", ["before", "during"])
@pytest.mark.some(1)
def test_statement_keeps_a_column_that_another_session_has_added(
    spark: SparkSession, layout: str, changes: str
) -> None:
    """The statement's session has read the table without the column."""
    old, other = session(spark), session(spark)
    assert old.sql("select count(*) from shared").collect()[0][0] == 40
    statement = "update shared set v = 1 where id % 3 = 0"

    def add() -> None:
        other.sql("alter table shared add columns (extra int)")
        assert other.sql("update shared set extra = cast(id as int)").collect()[0][0] == 40

    if changes == "during":
        with while_held(spark, COMMIT, attempt, session(spark), statement) as running:
            add()
        failure = running.result()
    else:
        add()
        failure = attempt(old, statement)
    assert not failure or re.search("(?s)another session has changed.*run it again", str(failure)), layout
    found = [tuple(row) for row in session(spark).sql("select id, v, extra from shared order by id").collect()]
    assert found == [(key, int(not failure and key % 3 == 0), key) for key in range(40)]


@pytest.mark.parametrize("layout", ["bucketed", pytest.param("whole", marks=LONG)], indirect=True)
def test_statement_during_which_the_bucket_spec_changes_keeps_all_rows(spark: SparkSession, layout: str) -> None:
    with while_held(spark, COMMIT, run, spark, "update shared set v = id"):
        run(spark, "alter table shared clustered by (v) sorted by (v) into 3 buckets", waits=True)
        run(spark, "insert into shared values (1000, 7, 'p0')", waits=True)
    assert [row[:2] for row in rows(spark)] == [*((key, key) for key in range(40)), (1000, 7)], layout
