"""Tests of concurrent writers to a table whose buckets change, and of writes that end before they store their seals."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from threading import Event
from typing import Any, NamedTuple

import pytest
from bucketed_tables import Tables
from metastore_interception import intercepted
from partition_specs import StoredSpec, create, kept, metastore_calls

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

DB = "writers"
QUERIES = (
    "select * from t",
    "select k, count(*), max(v) from t group by k",
    "select a.k, a.v, b.v from t a join t b on a.k = b.k and a.p = b.p",
    "select a.k, b.v from t a join t b on a.k = b.k where a.p = 0 and b.p = 1",
    "select * from t where k = 6",
)
# Each job has its own staging folder. Jobs that share one make each other fail, also on stock Spark.
FOLDER = {"spark.sql.hive.convertInsertingPartitionedTable": "false"}


def fill(tables: Tables) -> None:
    """Write the same keys into two partitions."""
    tables.sql("insert into t select k, v, 0 from new_rows union all select k, v, 1 from new_rows")


def assert_rows_are_those_of_stock_spark(tables: Tables) -> None:
    tables.sql("refresh table t")
    for query in QUERIES:
        tables.read(query)


class WriteMode(NamedTuple):
    """A way to write a partition, and whether it replaces the old rows."""

    statement: str
    settings: dict[str, str]
    overwrites: bool = True


WAYS = {
    "dynamic": WriteMode(
        "insert overwrite table t partition (p) select k, v, {p} as p from ({rows})",
        {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ),
    "static": WriteMode("insert overwrite table t partition (p = {p}) {rows}", FOLDER),
    "append": WriteMode("insert into t partition (p = {p}) {rows}", FOLDER, overwrites=False),
}
PARTITIONS, ROUNDS = 3, 2


def write(tables: Tables, way: WriteMode, writer: int) -> list[tuple[int, str, int]]:
    """Write each of the writer's partitions twice; return all rows."""
    written = []
    for number in range(ROUNDS):
        for p in range(writer, writer + 2 * PARTITIONS, 2):
            rows = f"select id as k, 'writer {writer}, {number}' as v from range(40)"
            tables.sql(way.statement.format(p=p, rows=rows))
            if number == ROUNDS - 1 or not way.overwrites:
                written += [(k, f"writer {writer}, {number}", p) for k in range(40)]
    return written


def alter_until(tables: Tables, done: Event) -> int:
    """Alter the table's spec repeatedly; return the number of changes."""
    for count, buckets in enumerate(cycle((8, 16, 4))):
        if done.is_set():
            return count
        tables.sql(f"alter table t clustered by (k) sorted by (k) into {buckets} buckets")
    raise AssertionError


@pytest.mark.parametrize("how", all_long_but("dynamic", WAYS))
@pytest.mark.long
def test_two_writers_keep_their_rows_while_the_spec_changes(tables: Tables, how: str) -> None:
    create(tables, "t")
    way, done = WAYS[how], Event()
    with ThreadPoolExecutor(3) as pool:
        altering = pool.submit(alter_until, Tables(tables.new_session(), DB), done)
        sessions = [Tables(tables.new_session(way.settings), DB) for _ in (0, 1)]
        writers = [pool.submit(write, session, way, writer) for writer, session in enumerate(sessions)]
        try:
            written = [row for writer in writers for row in writer.result()]
        finally:
            done.set()
        assert altering.result() > 3
    tables.sql("refresh table t")
    assert sorted(tables.sql("select k, v, p from t")) == sorted(written)
    assert_rows_are_those_of_stock_spark(tables)
    numbers = {of.of_seal for of in kept(tables, "t").values()}
    # A partition to which writers with two specs have appended has no valid buckets.
    assert numbers <= {4, 8, 16, *(() if way.overwrites else (None,))}, numbers


@pytest.mark.long
def test_concurrent_writes_to_one_partition_may_leave_a_stale_seal(tables: Tables) -> None:
    """A write with 6 buckets runs between the commit and the seal of a write with 4 buckets."""
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
    assert late and kept(tables, "t")["p=0"] == StoredSpec("seal-stale", 4)
    assert tables.sql("select count(*), min(v), max(v) from t where p = 0") == [(40, "second", "second")]
    grouped = "select k, count(*) from t where p = 0 group by k"
    assert "Bucketed: false [seal-stale]" in tables.plan(grouped)
    assert_rows_are_those_of_stock_spark(tables)
    assert {of.partition: of.status for of in tables.seal("t")} == {"p=0": "sealed", "p=1": "unchanged"}
    assert kept(tables, "t")["p=0"] == StoredSpec(6, 6)
    assert "Bucketed: true" in tables.plan(grouped)
    assert_rows_are_those_of_stock_spark(tables)


@pytest.mark.long
def test_partition_altered_during_a_file_listing_keeps_the_alteration(
    tables: Tables,
) -> None:
    create(tables, "t")
    fill(tables)
    append = "insert into t partition (p = 0) select k, 'late' from new_rows"
    with metastore_calls(tables.spark) as made:
        tables.sql(append)
    calls = made.count("get_partitions_by_names")

    def alter(client: Any, call: Callable[[], Any]) -> Any:
        nonlocal calls
        calls -= 1
        if not calls:
            partition = client.getPartition(DB, "t", "p=0")
            partition.getParameters().put("other", "was here")
            client.alter_partition(DB, "t", partition)
        return call()

    assert calls > 1 and kept(tables, "t")["p=0"] == StoredSpec(4, 4)
    with intercepted(tables.spark, "getPartitionsByNames", alter):
        tables.sql(append)
    # The statement reads the partition again, and seals it.
    assert calls <= 0 and kept(tables, "t")["p=0"] == StoredSpec(4, 4)
    assert "other=was here" in str(tables.sql("describe extended t partition (p = 0)"))
    assert_rows_are_those_of_stock_spark(tables)
