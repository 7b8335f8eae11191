"""The places that keep a spec change together or not at all: a change that fails in the metastore at any call of its."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from bucketed import Tables
from click.testing import Result
from commanded import evolution_of
from evolved import Kept, Places, create, kept, places, put_descriptor, table_properties, with_new_rows
from intercepted import intercepted
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

DB = "evolution_together"
PARTITIONS, TABLE = "alter_partitions", "alter_table_with_environmentContext"
GROUPED = "select k, count(*), max(v) from t group by k"
QUERIES = ["select * from t", GROUPED]


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Tables:
    """A database for tables that are altered."""
    return with_new_rows(spark, DB)


@pytest.fixture
def tables(made: Tables) -> Iterator[Tables]:
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield made


@pytest.fixture(scope="module")
def command(new_project: Callable[..., Project]) -> Callable[..., Result]:
    """The command, run in this process with this session."""
    return evolution_of(new_project())


class State(NamedTuple):
    """All that the metastore keeps of a table's specs."""

    provider: str
    table: Places
    evolved: bool
    partitions: list[Kept]


class Death(NamedTuple):
    """A call to the metastore that fails, what is kept of p=0 and p=1 then, and what `verify` says of it."""

    call: str
    number: int
    partitions: list[Kept]
    verified: str


class Change(NamedTuple):
    """A statement, what there is before and after it, and its deaths."""

    stored: str
    statement: str
    before: list[Kept]
    deaths: list[Death]
    after: list[Kept]
    descriptor: tuple[int, list[str], list[str]]
    new_partition: Kept


UNRECORDED, FOUR, NONE = Kept(None, 4), Kept(4, 4), Kept(0, 0)
OF_SPARK = Kept(None, 0)
CLUSTERED = "alter table t clustered by (k) sorted by (k) into 8 buckets"
EIGHT = (8, ["k"], ["k"])
FINE = "nothing is wrong"
HIDDEN = "no property bucketing.evolved=true"
PLAIN = "has no buckets"


def becomes_bucketed(file_format: str) -> Change:
    return Change(
        f"using {file_format}",
        CLUSTERED,
        [OF_SPARK] * 2,
        [Death(PARTITIONS, 1, [OF_SPARK] * 2, PLAIN), Death(TABLE, 1, [NONE] * 2, PLAIN)],
        [NONE] * 2,
        EIGHT,
        Kept(8, 8),
    )


CHANGES = {
    "more buckets": Change(
        "stored as parquet",
        CLUSTERED,
        [UNRECORDED] * 2,
        [Death(PARTITIONS, 1, [UNRECORDED] * 2, FINE), Death(TABLE, 1, [FOUR] * 2, FINE)],
        [FOUR] * 2,
        EIGHT,
        Kept(8, 8),
    ),
    "no buckets": Change(
        "stored as orc",
        "alter table t not clustered",
        [UNRECORDED] * 2,
        [Death(PARTITIONS, 1, [UNRECORDED] * 2, FINE), Death(TABLE, 1, [FOUR] * 2, FINE)],
        [FOUR] * 2,
        (-1, [], []),
        NONE,
    ),
    # The first record of a table that never evolved: its own, those of the others, and then the property of the table.
    "a partition": Change(
        "stored as parquet",
        "alter table t partition (p = 1) not clustered",
        [UNRECORDED] * 2,
        [
            Death(PARTITIONS, 1, [UNRECORDED] * 2, FINE),
            Death(PARTITIONS, 2, [UNRECORDED, NONE], HIDDEN),
            Death(TABLE, 1, [FOUR, NONE], HIDDEN),
        ],
        [FOUR, NONE],
        (4, ["k"], ["k"]),
        FOUR,
    ),
    "plain parquet": becomes_bucketed("parquet"),
    "plain orc": becomes_bucketed("orc"),
}
# The deaths of these are in the same code as those of others.
ALIKE, LONG = ("no buckets", "plain orc"), pytest.mark.long
DEATHS = [
    pytest.param(change, death, id=f"{name}, {death.call} {death.number}", marks=LONG if name in ALIKE else ())
    for name, change in CHANGES.items()
    for death in change.deaths
]


@contextmanager
def failing_at(spark: SparkSession, death: Death) -> Iterator[None]:
    """The n-th call of a name fails, during a block in which it has to come."""
    seen = []

    def act(_: Any, call: Callable[[], Any]) -> Any:
        seen.append(death.call)
        if len(seen) == death.number:
            raise RuntimeError("the metastore failed on purpose")
        return call()

    with intercepted(spark, death.call, act):
        yield
    assert len(seen) == death.number


def prepare(tables: Tables, change: Change) -> State:
    """A table with two partitions that stock Spark has written."""
    with tables.settings({"spark.bucketing.enabled": "false"}):
        if change.stored.startswith("using"):
            tables.sql("drop table if exists t")
            tables.sql(f"create table t (k bigint, v string, p bigint) {change.stored} partitioned by (p)")
        else:
            create(tables, "t", stored=change.stored.removeprefix("stored as "))
        tables.sql("insert into t select * from new_rows")
    return state(tables)


def state(tables: Tables) -> State:
    provider = next(str(row[1]) for row in tables.sql("describe formatted t") if row[0] == "Provider")
    evolved = table_properties(tables, "t").get("bucketing.evolved") == "true"
    return State(provider, places(tables, "t"), evolved, [of for _, of in sorted(kept(tables, "t").items())])


def rows(tables: Tables) -> list[list[str]]:
    """Rows of the queries. Stock Spark reads the same from the table as it is now."""
    tables.sql("refresh table t")
    assert tables.rows("select * from t") == tables.stock_rows("select * from t")
    return [tables.rows(query) for query in QUERIES]


@pytest.mark.parametrize(("change", "death"), DEATHS)
def test_a_change_that_fails_leaves_the_old_spec_and_succeeds_when_it_is_repeated(
    tables: Tables, command: Callable[..., Result], change: Change, death: Death
) -> None:
    before = prepare(tables, change)
    assert before.partitions == change.before and not before.evolved
    expected = rows(tables)
    with failing_at(tables.spark, death), pytest.raises((PySparkException, Py4JJavaError), match="on purpose"):
        tables.sql(change.statement)
    assert state(tables) == before._replace(partitions=death.partitions)
    assert rows(tables) == expected
    verified = command("verify", f"{DB}.t")
    assert verified.exit_code == {FINE: 0, HIDDEN: 1, PLAIN: 2}[death.verified]
    assert death.verified in verified.output + str(verified.exception)

    tables.sql(change.statement)
    now = state(tables)
    assert (now.provider, now.evolved, now.partitions) == ("hive", True, change.after)
    assert now.table.descriptor == change.descriptor
    assert now.table.properties.get("numBuckets") == (str(change.descriptor[0]) if change.descriptor[1] else None)
    assert rows(tables) == expected
    tables.sql("insert into t select k, v, 2 from new_rows where p = 1")
    assert kept(tables, "t")["p=2"] == change.new_partition
    rows(tables)


def test_a_correction_that_fails_in_a_table_that_has_evolved_changes_nothing(tables: Tables) -> None:
    prepare(tables, CHANGES["more buckets"])
    tables.sql(CLUSTERED)
    before, expected = state(tables), rows(tables)
    statement = "alter table t partition (p = 1) not clustered"
    with (
        failing_at(tables.spark, Death(PARTITIONS, 1, before.partitions, FINE)),
        pytest.raises((PySparkException, Py4JJavaError), match="on purpose"),
    ):
        tables.sql(statement)
    assert state(tables) == before
    assert rows(tables) == expected
    tables.sql(statement)
    assert state(tables) == before._replace(partitions=[FOUR, NONE])
    assert rows(tables) == expected


@pytest.mark.long
@pytest.mark.parametrize("stored", ["stored as parquet", "using parquet"])
def test_records_of_more_partitions_than_go_into_one_call_fail_and_are_repeated(tables: Tables, stored: str) -> None:
    """Of a thousand partitions at a time: those of the first call have their records when the second one fails."""
    prepare(tables, CHANGES["more buckets"]._replace(stored=stored))
    tables.sql("alter table t add " + " ".join(f"partition (p = {p})" for p in range(2, 1002)))
    before, expected = state(tables), rows(tables)
    with (
        failing_at(tables.spark, Death(PARTITIONS, 2, before.partitions, FINE)),
        pytest.raises((PySparkException, Py4JJavaError), match="on purpose"),
    ):
        tables.sql(CLUSTERED)
    failed, recorded = state(tables), before.partitions[0]._replace(recorded=before.partitions[0].described)
    assert failed._replace(partitions=[]) == before._replace(partitions=[])
    assert (failed.partitions.count(recorded), failed.partitions.count(before.partitions[0])) == (1000, 2)
    assert rows(tables) == expected
    tables.sql(CLUSTERED)
    assert state(tables).partitions == [recorded] * 1002
    assert table_properties(tables, "t")["bucketing.evolved"] == "true"
    assert rows(tables) == expected


@pytest.mark.parametrize(
    "statement",
    [CLUSTERED.replace("8", "16"), "alter table t partition (p = 1) clustered by (k) sorted by (k) into 8 buckets"],
)
def test_a_partition_whose_descriptor_is_not_the_tables_spec_is_recorded_by_its_own(
    tables: Tables, statement: str
) -> None:
    """As Hive writes them, which knows no records, before and after its own ALTER TABLE."""
    create(tables, "t", buckets=8)
    with tables.settings({"spark.bucketing.enabled": "false"}):
        tables.sql("insert into t select * from new_rows where p = 1")
        create(tables, "four", buckets=4)
        tables.sql("insert into four select * from new_rows where p = 0")
        tables.sql(f"alter table t add partition (p = 0) location '{tables.folder('four')}/p=0'")
    put_descriptor(tables, "t", "p=0", 4)
    assert kept(tables, "t") == {"p=0": UNRECORDED, "p=1": Kept(None, 8)}
    tables.sql(statement)
    assert kept(tables, "t") == {"p=0": FOUR, "p=1": Kept(8, 8)}
    assert "Bucketed: true (4 Hive buckets of partitions with 4, 8" in tables.plan(GROUPED)
    assert len(rows(tables)[0]) == 40
