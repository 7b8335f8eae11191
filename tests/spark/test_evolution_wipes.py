"""What other statements do to the record of a partition and to its descriptor, and that rows stay right after each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from bucketed import Tables
from evolved import Kept, create, kept, places, with_new_rows
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from spark_bucketing.session import setting

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

FOUR, EIGHT, WIPED, UNKNOWN = Kept(4, 4), Kept(8, 8), Kept(8, 0), Kept(None, 8)


class Case(NamedTuple):
    """Statements, and what is kept afterwards of the partitions of which that changed.

    A statement that starts with `stock:` runs without the extension. None is a partition that is gone.
    """

    statements: tuple[str, ...]
    changed: dict[str, Kept | None]


# The table has 8 buckets; of its partitions p=0 was written with 4, p=1 with 8.
CASES = {
    "ANALYZE of the table": Case(("analyze table t compute statistics",), {}),
    "ANALYZE of columns": Case(("analyze table t compute statistics for all columns",), {}),
    "ANALYZE of a partition wipes its descriptor": Case(
        ("analyze table t partition (p = 1) compute statistics",), {"p=1": WIPED}
    ),
    "ANALYZE of all partitions wipes their descriptors": Case(
        ("analyze table t partition (p) compute statistics",), {"p=0": Kept(4, 0), "p=1": WIPED}
    ),
    "automatic statistics after an INSERT by stock Spark wipe the descriptor": Case(
        ("set spark.sql.statistics.size.autoUpdate.enabled = true", "stock:insert into t values (99, 'x', 1)"),
        {"p=1": WIPED},
    ),
    "SET SERDEPROPERTIES of a partition wipes its descriptor": Case(
        ("alter table t partition (p = 1) set serdeproperties ('a' = 'b')",), {"p=1": WIPED}
    ),
    "SET SERDEPROPERTIES of the table": Case(("alter table t set serdeproperties ('a' = 'b')",), {}),
    "SET TBLPROPERTIES": Case(("alter table t set tblproperties ('a' = 'b')",), {}),
    "ADD COLUMNS": Case(("alter table t add columns (w int)",), {}),
    "SET LOCATION leaves the record of the files that it turns away from": Case(
        ("alter table t partition (p = 1) set location '{folder}/p=0'",), {"p=1": WIPED}
    ),
    "MSCK REPAIR finds partitions of unknown files": Case(
        ("!mkdir {folder}/p=7", "msck repair table t"), {"p=7": UNKNOWN}
    ),
    "RECOVER PARTITIONS": Case(("!mkdir {folder}/p=7", "alter table t recover partitions"), {"p=7": UNKNOWN}),
    "ADD PARTITION has the spec of the table by its descriptor alone": Case(
        ("alter table t add partition (p = 7)",), {"p=7": UNKNOWN}
    ),
    "ADD PARTITION with files of another spec": Case(
        ("alter table t add partition (p = 7) location '{folder}/p=0'",), {"p=7": UNKNOWN}
    ),
    "DROP PARTITION, and the same again": Case(
        ("alter table t drop partition (p = 1)", "alter table t add partition (p = 1)"), {"p=1": UNKNOWN}
    ),
    "DROP PARTITION": Case(("alter table t drop partition (p = 1)",), {"p=1": None}),
    "RENAME of a partition takes the record along, and wipes the descriptor": Case(
        ("alter table t partition (p = 1) rename to partition (p = 7)",), {"p=1": None, "p=7": WIPED}
    ),
    "RENAME of the table": Case(("alter table t rename to u", "alter table u rename to t"), {}),
    "TRUNCATE of a partition": Case(("truncate table t partition (p = 1)",), {}),
    "TRUNCATE of the table": Case(("truncate table t",), {}),
    "REFRESH": Case(("refresh table t",), {}),
    "INSERT by stock Spark leaves the record, and files of the table's spec": Case(
        ("stock:insert into t values (99, 'x', 0), (99, 'x', 1), (99, 'x', 7)",), {"p=7": UNKNOWN}
    ),
    "INSERT OVERWRITE by stock Spark leaves the record of files that are gone": Case(
        ("stock:insert overwrite table t partition (p = 0) values (99, 'x')",), {}
    ),
    "INSERT by stock Spark after a SELECT, without buckets": Case(
        ("stock:select * from t", "stock:insert overwrite table t partition (p = 1) values (99, 'x')"), {}
    ),
    "LOAD DATA moves foreign files to those of the record": Case(
        ("!cp {folder}/p=0 {folder}/.stage", "load data inpath '{folder}/.stage' into table t partition (p = 1)"),
        {},
    ),
    "INSERT with the extension mends what was wiped": Case(
        (
            "analyze table t partition (p) compute statistics",
            "insert overwrite table t partition (p) select * from new_rows",
        ),
        {"p=0": EIGHT, "p=1": EIGHT},
    ),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """A database for tables of which the metadata is changed."""
    return with_new_rows(spark, "evolution_wipes")


def evolved(tables: Tables) -> None:
    """A table of 8 buckets with one partition of 4, and one of 8."""
    create(tables, "t")
    tables.sql("insert into t select * from new_rows where p = 0")
    tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    tables.sql("insert into t select * from new_rows where p = 1")
    assert kept(tables, "t") == {"p=0": FOUR, "p=1": EIGHT}


def _files(command: str) -> None:
    verb, *paths = command.split()
    places = [Path(path) for path in paths]
    if verb == "cp":
        shutil.copytree(places[0], places[1], ignore=shutil.ignore_patterns(".*"))
    else:
        places[0].mkdir()


def _run(tables: Tables, statement: str) -> None:
    if "{folder}" in statement:
        statement = statement.replace("{folder}", str(tables.folder("t")))
    if statement.startswith("!"):
        _files(statement[1:])
    elif statement.startswith("stock:"):
        with setting(tables.spark, "spark.bucketing.enabled", "false"):
            tables.sql(statement.removeprefix("stock:"))
    else:
        tables.sql(statement)


QUERIES = (
    "select k, v, p from t",
    "select k, count(*) from t group by k",
    "select a.k, b.v from t a join t b on a.k = b.k",
    "select a.k, b.v from t a join t b on a.k = b.k where a.p = 0 and b.p = 1",
    "select k, v, p from t where k = 6",
)


# Those that contradict the record, or the descriptor; the rest is as good, and takes long.
QUICK = (
    "ANALYZE of a partition",
    "automatic",
    "SET LOCATION",
    "MSCK",
    "ADD PARTITION with",
    "RENAME of a partition",
    "INSERT",
    "LOAD",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name.startswith(QUICK) else pytest.mark.long) for name in CASES]
)
def test_records_and_rows_after_a_statement(tables: Tables, name: str) -> None:
    evolved(tables)
    statements, changed = CASES[name]
    with setting(tables.spark, "spark.sql.statistics.size.autoUpdate.enabled", "false"):
        for statement in statements:
            _run(tables, statement)
    expected = {"p=0": FOUR, "p=1": EIGHT} | changed
    assert kept(tables, "t") == {partition: of for partition, of in expected.items() if of}
    assert places(tables, "t").descriptor == (8, ["k"], ["k"])
    assert places(tables, "t").properties["numBuckets"] == "8"
    for query in QUERIES:
        assert tables.rows(query) == tables.stock_rows(query), query


def test_exchange_is_refused_by_spark_itself(tables: Tables) -> None:
    evolved(tables)
    with pytest.raises(ParseException, match="EXCHANGE PARTITION"):
        tables.sql("alter table t exchange partition (p = 1) with table t")
