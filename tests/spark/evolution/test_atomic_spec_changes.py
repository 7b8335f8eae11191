"""Tests that spec changes are atomic if the metastore fails or other writers run at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from bucketed_tables import ERRORS, Tables
from metastore_interception import failing, intercepted
from partition_specs import Places, StoredSpec, create, filled, kept, places

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

DATABASE = "atomic_spec_changes"
PARTITIONS, TABLE = "alter_partitions", "alter_table_with_environmentContext"
QUERIES = ["select * from t", "select k, count(*), max(v) from t group by k"]


class State(NamedTuple):
    provider: str
    table: Places
    partitions: list[StoredSpec]


class Change(NamedTuple):
    """A statement, the calls at which it may fail, and the specs that p=0, p=1 and a new partition have afterwards."""

    stored: str
    statement: str
    calls: tuple[str, ...]
    after: list[StoredSpec]
    descriptor: tuple[int, list[str], list[str]]
    new_partition: StoredSpec


FOUR, NONE = StoredSpec(4, 4), StoredSpec(None, 0)
CLUSTERED = "alter table t clustered by (k) sorted by (k) into 8 buckets"
ONE_NOT = "alter table t partition (p = 1) not clustered"
EIGHT = (8, ["k"], ["k"])
CHANGES = {
    "more buckets": Change("stored as parquet", CLUSTERED, (TABLE,), [FOUR] * 2, EIGHT, StoredSpec(8, 8)),
    "no buckets": Change("stored as orc", "alter table t not clustered", (TABLE,), [FOUR] * 2, (-1, [], []), NONE),
    "one partition": Change("stored as parquet", ONE_NOT, (PARTITIONS,), [FOUR, NONE], (4, ["k"], ["k"]), FOUR),
    "unbucketed parquet": Change("using parquet", CLUSTERED, (PARTITIONS, TABLE), [NONE] * 2, EIGHT, StoredSpec(8, 8)),
    "unbucketed orc": Change("using orc", CLUSTERED, (PARTITIONS, TABLE), [NONE] * 2, EIGHT, StoredSpec(8, 8)),
}
# Statements whose failures exercise the same code as another statement.
ALIKE = ("no buckets", "unbucketed orc")
CRASHES = [
    pytest.param(change, call, id=f"{name}, {call}", marks=pytest.mark.long if name in ALIKE else ())
    for name, change in CHANGES.items()
    for call in change.calls
]


def prepare(tables: Tables, stored: str) -> None:
    """Create a table with two partitions, sealed if it has buckets."""
    if stored.startswith("using"):
        tables.create(f"t (k bigint, v string, p bigint) {stored} partitioned by (p)")
    else:
        create(tables, "t", stored=stored.removeprefix("stored as "))
    tables.sql("insert into t select * from new_rows")


def state(tables: Tables) -> State:
    provider = next(str(row[1]) for row in tables.sql("describe formatted t") if row[0] == "Provider")
    return State(provider, places(tables, "t"), [of for _, of in sorted(kept(tables, "t").items())])


def rows(tables: Tables) -> list[list[str]]:
    """Return the rows of the queries, and check that stock Spark returns the same."""
    tables.sql("refresh table t")
    tables.read("select * from t")
    return [tables.rows(query) for query in QUERIES]


def fail_call(tables: Tables, statement: str, call: str, number: int = 1) -> list[list[str]]:
    """Make a call of a statement fail, check that nothing has changed, and return the rows of the queries."""
    before, expected = state(tables), rows(tables)
    with failing(tables.spark, call, number) as seen, pytest.raises(ERRORS, match="on purpose"):
        tables.sql(statement)
    assert seen == [call] * number
    assert state(tables) == before
    assert rows(tables) == expected
    return expected


@pytest.mark.parametrize(("change", "call"), CRASHES)
@pytest.mark.some(1)
def test_failed_change_keeps_the_old_spec_and_can_be_repeated(tables: Tables, change: Change, call: str) -> None:
    prepare(tables, change.stored)
    expected = fail_call(tables, change.statement, call)
    tables.sql(change.statement)
    now = state(tables)
    assert (now.provider, now.partitions) == ("hive", change.after)
    assert now.table.descriptor == change.descriptor
    assert now.table.properties.get("numBuckets") == (str(change.descriptor[0]) if change.descriptor[1] else None)
    assert rows(tables) == expected
    tables.sql("insert into t select k, v, 2 from new_rows where p = 1")
    assert kept(tables, "t")["p=2"] == change.new_partition
    rows(tables)


@pytest.mark.long
def test_change_of_many_partitions_can_be_repeated_after_a_failed_batch(tables: Tables) -> None:
    """Each call changes up to a thousand partitions; the first call succeeds, and the second one fails."""
    prepare(tables, "using parquet")
    tables.sql("alter table t add " + " ".join(f"partition (p = {p})" for p in range(2, 1002)))
    expected = fail_call(tables, CLUSTERED, PARTITIONS, 2)
    tables.sql(CLUSTERED)
    assert state(tables).table.descriptor == EIGHT
    assert rows(tables) == expected


def test_later_of_two_concurrent_statements_wins_and_rows_stay_correct(tables: Tables) -> None:
    """SET TBLPROPERTIES reads the table's metadata, and writes it back a moment later."""

    def write_back_old_table(client: Any, call: Callable[[], Any]) -> Any:
        before = client.getTable(DATABASE, "t")
        result = call()
        client.alter_table(DATABASE, "t", before)
        return result

    filled(tables, "t")
    with intercepted(tables.spark, TABLE, write_back_old_table):
        tables.sql(CLUSTERED)
    query = "select a.k, b.v from t a join t b on a.k = b.k"
    assert places(tables, "t").descriptor == (4, ["k"], ["k"])
    tables.read(query)
    tables.sql(CLUSTERED)
    assert places(tables, "t").descriptor == EIGHT
    tables.read(query)
