"""Several writers of one table while its buckets change, and writes that end before their records: what holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest
from bucketed import Tables
from click.testing import Result
from commanded import evolution_of
from elsewhere import Elsewhere
from evolved import ROWS, Kept, create, kept
from intercepted import failing, intercepted
from pyspark.sql import SparkSession

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

DB = "evolution_writers"
QUERIES = (
    "select * from t",
    "select k, count(*), max(v) from t group by k",
    "select a.k, a.v, b.v from t a join t b on a.k = b.k and a.p = b.p",
    "select a.k, b.v from t a join t b on a.k = b.k where a.p = 0 and b.p = 1",
    "select * from t where k = 6",
)
# Of its own for each job; jobs that share a folder fail each other, on stock Spark as well.
FOLDER = {"spark.sql.hive.convertInsertingPartitionedTable": "false"}


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[Tables]:
    """A database for tables that are written by several."""
    made = Tables(spark, DB)
    made.sql(f"create or replace temporary view new_rows as {ROWS}")
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield made


@pytest.fixture
def command(new_project: Callable[..., Project]) -> Callable[..., Result]:
    """`spark-bucketing evolution`, run in this process with this session."""
    return evolution_of(new_project())


def session(spark: SparkSession, settings: dict[str, str]) -> Tables:
    """Another session with the extension."""
    made = Tables(spark.newSession(), DB)
    settings = {"spark.bucketing.enabled": "true", "hive.exec.dynamic.partition.mode": "nonstrict"} | settings
    for key, value in settings.items():
        made.spark.conf.set(key, value)
    return made


def fill(tables: Tables) -> None:
    """Two partitions with the same keys."""
    tables.sql("insert into t select k, v, 0 from new_rows union all select k, v, 1 from new_rows")


def assert_rows_are_those_of_stock_spark(tables: Tables) -> None:
    tables.sql("refresh table t")
    for query in QUERIES:
        assert tables.rows(query) == tables.stock_rows(query) != [], query


class Way(NamedTuple):
    """How to write a partition, and whether its old rows are gone then."""

    statement: str
    settings: dict[str, str]
    overwrites: bool = True


WAYS = {
    "dynamic": Way(
        "insert overwrite table t partition (p) select k, v, {p} as p from ({rows})",
        {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ),
    "static": Way("insert overwrite table t partition (p = {p}) {rows}", FOLDER),
    "append": Way("insert into t partition (p = {p}) {rows}", FOLDER, overwrites=False),
}
PARTITIONS, ROUNDS = 3, 2


def write(tables: Tables, way: Way, writer: int) -> list[tuple[int, str, int]]:
    """Each of the writer's partitions is written new, and once more; gives all rows."""
    written = []
    for number in range(ROUNDS):
        for p in range(writer, writer + 2 * PARTITIONS, 2):
            rows = f"select id as k, 'writer {writer}, {number}' as v from range(40)"
            tables.sql(way.statement.format(p=p, rows=rows))
            if number == ROUNDS - 1 or not way.overwrites:
                written += [(k, f"writer {writer}, {number}", p) for k in range(40)]
    return written


def alter_until(tables: Tables, done: Event) -> int:
    """Alter the table's spec again and again; gives how often."""
    for count, buckets in enumerate(cycle((8, 16, 4))):
        if done.is_set():
            return count
        tables.sql(f"alter table t clustered by (k) sorted by (k) into {buckets} buckets")
    raise AssertionError


@pytest.mark.parametrize(
    "how", ["dynamic", *(pytest.param(how, marks=pytest.mark.long) for how in ("static", "append"))]
)
def test_two_writers_beside_a_changing_spec(tables: Tables, command: Callable[..., Result], how: str) -> None:
    create(tables, "t")
    way, done = WAYS[how], Event()
    with ThreadPoolExecutor(3) as pool:
        altering = pool.submit(alter_until, session(tables.spark, {}), done)
        writers = [pool.submit(write, session(tables.spark, way.settings), way, writer) for writer in (0, 1)]
        try:
            written = [row for writer in writers for row in writer.result()]
        finally:
            done.set()
        assert altering.result() > 3
    tables.sql("refresh table t")
    assert sorted(tables.sql("select k, v, p from t")) == sorted(written)
    assert_rows_are_those_of_stock_spark(tables)
    assert all(of.recorded is not None and of.recorded == of.described for of in kept(tables, "t").values())
    verified = command("verify", f"{DB}.t", "--rows")
    assert verified.exit_code == 0, verified.output


def test_of_two_writes_into_one_partition_the_record_may_be_that_of_the_files_that_are_gone(
    tables: Tables, command: Callable[..., Result]
) -> None:
    """A write of 6 buckets begins and ends between the files of another one, of 4, and the record of these."""
    create(tables, "t", buckets=8)
    fill(tables)
    late: list[Callable[[], Any]] = []
    tables.sql("alter table t clustered by (k) sorted by (k) into 4 buckets")
    with intercepted(tables.spark, "alter_partitions", lambda _, call: late.append(call)):
        tables.sql("insert overwrite table t partition (p = 0) select k, 'first' from new_rows")
    tables.sql("alter table t clustered by (k) sorted by (k) into 6 buckets")
    tables.sql("insert overwrite table t partition (p = 0) select id, 'second' from range(40)")
    for call in late:
        call()
    assert late and kept(tables, "t")["p=0"] == Kept(4, 4)
    assert tables.sql("select count(*), min(v), max(v) from t where p = 0") == [(40, "second", "second")]
    grouped = "select k, count(*) from t where p = 0 group by k"
    assert "Bucketed: false" in tables.plan(grouped)
    assert_rows_are_those_of_stock_spark(tables)
    found = command("verify", f"{DB}.t", "--rows")
    assert found.exit_code == 1 and found.output.startswith("p=0: found"), found.output
    assert command("repair", f"{DB}.t").exit_code == 0
    assert kept(tables, "t")["p=0"] == Kept(6, 6)
    assert command("verify", f"{DB}.t", "--rows").exit_code == 0
    assert "Bucketed: true" in tables.plan(grouped)
    assert_rows_are_those_of_stock_spark(tables)


# Plain INSERTs into one table share a folder, where the first one to end deletes what the others have there. Writes that
# overwrite one partition delete each other's files.
FAILING = {
    "a folder of all": (Way("insert into t partition (p = {p}) {rows}", {}), False),
    **{f"one partition, {how}": (way, True) for how, way in WAYS.items()},
}


@pytest.mark.long
@pytest.mark.parametrize("how", FAILING)
def test_jobs_that_fail_each_other_leave_nothing_that_is_read_wrongly(
    tables: Tables, command: Callable[..., Result], how: str
) -> None:
    create(tables, "t")
    fill(tables)
    (way, is_one), done = FAILING[how], Event()

    def attempt(writer: int) -> None:
        made = session(tables.spark, way.settings)
        for number in range(6):
            rows = f"select id as k, 'writer {writer}, {number}' as v from range(40)"
            try:
                made.sql(way.statement.format(p=0 if is_one else 2 * (number % 2) + writer, rows=rows))
            except Exception:
                continue

    with ThreadPoolExecutor(3) as pool:
        altering = pool.submit(alter_until, session(tables.spark, {}), done)
        for writer in [pool.submit(attempt, writer) for writer in (0, 1)]:
            writer.result()
        done.set()
        altering.result()
    assert_rows_are_those_of_stock_spark(tables)
    assert command("repair", f"{DB}.t").exit_code == 0
    verified = command("verify", f"{DB}.t", "--rows")
    assert verified.exit_code == 0, verified.output
    assert_rows_are_those_of_stock_spark(tables)


# A table of 6 buckets with partitions p=0 and p=1 of 8: writes whose records cannot be written; what is kept then of the
# partition, and after repair. Read by the old record, files of 6 buckets would not meet those of 8 in a join.
LOST = {
    "a new partition": ("insert into t partition (p = 5) select k, v from new_rows", "p=5", Kept(None, 6), Kept(6, 6)),
    "an overwritten one": (
        "insert overwrite table t partition (p = 0) select k, v from new_rows", "p=0", Kept(8, 8), Kept(6, 6),
    ),
    "an append": ("insert into t partition (p = 0) select k, v from new_rows", "p=0", Kept(8, 8), Kept(0, 0)),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "an overwritten one" else pytest.mark.long) for name in LOST]
)
def test_a_write_whose_record_is_lost_is_read_rightly_and_mended(
    tables: Tables, command: Callable[..., Result], name: str
) -> None:
    statement, partition, stale, mended = LOST[name]
    create(tables, "t", buckets=8)
    fill(tables)
    tables.sql("alter table t clustered by (k) sorted by (k) into 6 buckets")
    with failing(tables.spark, "alter_partitions") as failed:
        tables.sql(statement)
    assert failed, "the rows are written nevertheless"
    assert kept(tables, "t")[partition] == stale
    assert_rows_are_those_of_stock_spark(tables)
    found = command("verify", f"{DB}.t", "--rows")
    assert found.exit_code == 1 and found.output.startswith(f"{partition}: found"), found.output
    assert command("repair", f"{DB}.t").exit_code == 0
    assert kept(tables, "t")[partition] == mended
    verified = command("verify", f"{DB}.t", "--rows")
    assert verified.exit_code == 0, verified.output
    assert_rows_are_those_of_stock_spark(tables)


@pytest.mark.long
def test_a_process_that_is_killed_between_rows_and_record(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, "s")
    rows = "select id as k, id % 7 as v from range(40)"
    elsewhere.run(
        "create database s",
        "create table s.t (k bigint, v bigint) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets "
        "stored as parquet",
        f"insert into s.t partition (p = 0) {rows}",
        f"insert into s.t partition (p = 1) {rows}",
        "alter table s.t clustered by (k) sorted by (k) into 8 buckets",
        "insert overwrite table s.t partition (p = 0) select id, -1 from range(60)",
        kill_before="alter_partitions",
    )
    specs = "select partition, num_buckets from bucket_specs('s.t')"
    query = "select a.p, count(*), sum(a.v), sum(b.v) from s.t a join s.t b on a.k = b.k and a.p = b.p group by a.p"
    expected = [[0, 60, -60, -60], [1, 40, 115, 115]]
    stale, joined, found, _, mended, again, fine = elsewhere.run(
        specs, f"{query} order by 1", ("verify", "s.t"), ("repair", "s.t"), specs, f"{query} order by 1",
        ("verify", "s.t", "--rows"),
    )  # fmt: skip
    assert stale == [["p=0", 4], ["p=1", 4]], "the old record of the new files"
    assert joined == again == expected
    assert found[0] == 1 and found[1].startswith("p=0: found 4 of 8 files: 00004_0_"), found[1]
    assert mended == [["p=0", 8], ["p=1", 4]]
    assert fine[0] == 0, fine[1]
