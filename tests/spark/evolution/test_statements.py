"""Tests of how statements such as ANALYZE and MSCK REPAIR affect partitions' seals and descriptors, and later reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from bucketed_tables import Tables
from partition_specs import StoredSpec, create, kept, places
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

FOUR, SIX, CLEARED, UNKNOWN = StoredSpec(4, 4), StoredSpec(6, 6), StoredSpec(6, 0), StoredSpec(None, 6)
BROKEN_FOUR, BROKEN_SIX = StoredSpec("seal-stale", 4), StoredSpec("seal-stale", 6)
# Planner messages about a scan. Neither 4 nor 6 buckets is a multiple of the other.
BY_FOUR, BY_SIX, TOGETHER = "true (4 Hive", "true (6 Hive", "true (2 Hive buckets of partitions with 4, 6"
BROKEN, NONE = "false [seal-stale]", "false [not-sealed]"


class Case(NamedTuple):
    """Statements, the stored specs of the partitions that they change, and how Spark reads each partition afterwards.

    None stands for a dropped partition. Spark reads all partitions with an ordinary scan if one of them requires an
    ordinary scan. Otherwise, it reads them as `together` describes.
    """

    statements: tuple[str, ...]
    changed: dict[str, StoredSpec | None]
    read: dict[str, str] | None = None
    together: str = TOGETHER

    def kept(self) -> dict[str, StoredSpec]:
        return {name: of for name, of in ({"p=0": FOUR, "p=1": SIX} | self.changed).items() if of}

    def reads(self) -> dict[str, str]:
        """Return the planner's message about each existing partition, and about all of them together."""
        alone = {"p=0": BY_FOUR, "p=1": BY_SIX} | (self.read or {})
        there = {name: alone[name] for name in self.kept()}
        objections = [said for said in there.values() if said.startswith("false")]
        # The planner rejects unsealed partitions before it lists files.
        return there | {"true": max(objections, key=lambda said: said == NONE) if objections else self.together}


# The table has 6 buckets. Partition p=0 was written with 4 buckets, and p=1 with 6.
CASES = {
    "ANALYZE of a partition clears its descriptor": Case(("analyze table t partition (p = 1) compute statistics",), {"p=1": CLEARED}),
    "automatic statistics after an INSERT by stock Spark clear the descriptor": Case(
        ("set spark.sql.statistics.size.autoUpdate.enabled = true", "stock:insert into t values (8, 'x', 0)"),
        {"p=0": StoredSpec("seal-stale", 0)}, {"p=0": BROKEN},
    ),
    "ADD COLUMNS": Case(("alter table t add columns (w int)",), {}),
    "SET LOCATION leaves the seal of the previous files": Case(
        ("alter table t partition (p = 1) set location '{folder}/p=0'",), {"p=1": StoredSpec("seal-stale", 0)}, {"p=1": BROKEN},
    ),
    "SET LOCATION of the table affects new partitions": Case(
        ("alter table t set location '{folder}-moved'", "insert into t values (8, 'x', 7)"), {"p=7": SIX}, {"p=7": BY_SIX},
    ),
    "MSCK REPAIR finds files that SEAL BUCKETS seals": Case(
        ("!cp {folder}/p=1 {folder}/p=7", "msck repair table t", "alter table t seal buckets where p = 7"),
        {"p=7": SIX}, {"p=7": BY_SIX},
    ),
    "MSCK REPAIR finds no files": Case(("!mkdir {folder}/p=7", "msck repair table t"), {"p=7": UNKNOWN}, {"p=7": BY_SIX}),
    "ADD PARTITION copies the table's spec to the descriptor": Case(
        ("!cp {folder}/p=0 {folder}/p=7", "alter table t add partition (p = 7)"), {"p=7": UNKNOWN}, {"p=7": NONE},
    ),
    "DROP PARTITION and ADD PARTITION": Case(
        ("alter table t drop partition (p = 0)", "alter table t add partition (p = 0)"), {"p=0": UNKNOWN}, {"p=0": BY_SIX}, BY_SIX,
    ),
    "DROP PARTITION and MSCK REPAIR of its files": Case(
        ("!cp {folder}/p=0 {folder}/.p", "alter table t drop partition (p = 0)", "!cp {folder}/.p {folder}/p=0", "msck repair table t"),
        {"p=0": UNKNOWN}, {"p=0": NONE},
    ),
    "RENAME of a partition keeps the seal and clears the descriptor": Case(
        ("alter table t partition (p = 0) rename to partition (p = 7)",), {"p=0": None, "p=7": StoredSpec(4, 0)}, {"p=7": BY_FOUR},
    ),
    "TRUNCATE of a partition": Case(("truncate table t partition (p = 1)",), {"p=1": UNKNOWN}, {"p=1": BY_SIX}, BY_FOUR),
    "TRUNCATE of a partition by stock Spark": Case(
        ("stock:truncate table t partition (p = 1)", "alter table t partition (p = 1) seal buckets"), {},
    ),
    "INSERT by stock Spark": Case(
        ("stock:insert into t values (8, 'x', 0), (8, 'x', 1), (8, 'x', 7)",),
        {"p=0": BROKEN_FOUR, "p=1": BROKEN_SIX, "p=7": UNKNOWN}, {"p=0": BROKEN, "p=1": BROKEN, "p=7": NONE},
    ),
    "INSERT by stock Spark after a SELECT, without buckets": Case(
        ("stock:select * from t", "stock:insert overwrite table t partition (p = 1) values (8, 'x')"), {"p=1": BROKEN_SIX}, {"p=1": BROKEN},
    ),
    "LOAD DATA adds files to a sealed partition": Case(
        ("!cp {folder}/p=0 {folder}/.stage", "load data inpath '{folder}/.stage' into table t partition (p = 1)"),
        {"p=1": BROKEN_SIX}, {"p=1": BROKEN},
    ),
    "SEAL BUCKETS repairs the descriptor": Case(
        ("analyze table t partition (p) compute statistics", "alter table t seal buckets"), {},
    ),
    "INSERT with the extension repairs the descriptor": Case(
        ("analyze table t partition (p) compute statistics", "insert overwrite table t partition (p) select k, v, p from both"),
        {"p=0": SIX, "p=1": SIX}, {"p=0": BY_SIX}, BY_SIX,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Tables:
    """Create a database for tables whose metadata the tests change."""
    made = Tables(spark, "statements")
    made.sql(
        "create or replace temporary view both as "
        "select id as k, cast(id as string) as v, p from range(40) lateral view explode(array(0L, 1L)) as p"
    )
    return made


@pytest.fixture
def tables(database: Tables) -> Iterator[Tables]:
    """Create a table with 6 buckets, and a partition with 4 buckets and one with 6, both with the same keys."""
    with database.settings({"spark.sql.statistics.size.autoUpdate.enabled": "false"}):
        create(database, "t")
        database.sql("insert into t select k, v, p from both where p = 0")
        database.sql("alter table t clustered by (k) sorted by (k) into 6 buckets")
        database.sql("insert into t select k, v, p from both where p = 1")
        assert kept(database, "t") == {"p=0": FOUR, "p=1": SIX}
        folder = database.folder("t")
        yield database
        # The table may have moved, and Spark refuses to create a table in an existing folder.
        shutil.rmtree(folder)


def _run(tables: Tables, statement: str) -> None:
    if "{folder}" in statement:
        statement = statement.replace("{folder}", str(tables.folder("t")))
    verb, *paths = statement.split()
    if verb == "!cp":
        shutil.copytree(paths[0], paths[1], ignore=shutil.ignore_patterns(".*"))
    elif verb == "!mkdir":
        Path(paths[0]).mkdir()
    else:
        tables.sql(statement)


# One partition, or all of them, with the numbers of buckets.
GROUPS = "select k, count(*), min(v), max(v), sum(p) from t where {} group by k"
QUERIES = (
    "select a.k, a.p, b.p, b.v from t a join t b on a.k = b.k where a.p <> 1 and b.p = 1",
    "select k, v, p from t where k = 8",
)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.some(1)
def test_statement_has_the_expected_effect_on_seals_and_reads(tables: Tables, name: str) -> None:
    case = CASES[name]
    for statement in case.statements:
        _run(tables, statement)
    assert kept(tables, "t") == case.kept()
    assert places(tables, "t").descriptor == (6, ["k"], ["k"])
    assert places(tables, "t").properties["numBuckets"] == "6"
    for selected, said in case.reads().items():
        query = GROUPS.format(selected)
        rows, plan = tables.run(query)
        assert f"Bucketed: {said}" in plan, f"{selected}\n{plan}"
        assert rows == tables.stock_rows(query), selected
    for query in QUERIES:
        assert tables.rows(query) == tables.stock_rows(query), query
