"""Tests of damaged files, seals and columns: queries return stock Spark's rows, and EXPLAIN shows the reason code."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from bucketed_tables import ERRORS, Tables, explain, put
from metastore_interception import failing
from partition_specs import put_descriptor, put_parameters, put_schema, seal_of
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_features import WIDER_TYPES, can

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

NUMBERS = "select cast(pmod(id * 37, 600) - 100 as int) as k, id as v from range({})"
INSERT = f"insert into t {NUMBERS.format(300)}"
OVERWRITE = INSERT.replace("into", "overwrite")
TWELVE = "alter table t clustered by (k) sorted by (k) into 12 buckets"
VERSION_2 = "alter table t set tblproperties ('bucketing_version' = '2')"
QUERIES = (
    "select * from t full join good on t.k = good.k",
    "select k, count(*), sum(v) from t group by k",
    "select * from t where k = -7",
)
SEALED, BROKEN, MISSING = "", "seal-stale", "files-missing"
Act = Callable[[Tables], None]


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Tables:
    """Create a table to join, and a table with different files that have the same names and buckets."""
    made = Tables(spark, "seals")
    for name, rows in (("good", 900), ("other", 2500)):
        made.make(name, "k int, v bigint", "k", 4, NUMBERS.format(rows))
    return made


@pytest.fixture
def tables(database: Tables) -> Iterator[Tables]:
    """Create the table `t`, which an INSERT writes and seals."""
    database.make("t", "k int, v bigint", "k", 4)
    database.sql(f"insert into t {NUMBERS.format(900)}")
    folder = database.folder("t")
    yield database
    # The table may have moved, and Spark refuses to create a table in an existing folder.
    for there in (folder, database.folder("t")):
        shutil.rmtree(there, ignore_errors=True)
    database.sql("drop table t")


def reason_code(tables: Tables, query: str = QUERIES[1]) -> str:
    """Return the reason code of an ordinary scan of `t`, or an empty string for a bucketed scan."""
    plan = explain(tables, query)
    found = re.search(r"Bucketed: false \[([a-z-]+)\]", plan)
    assert found or "Bucketed: true" in plan, plan
    return found[1] if found else ""


def stock_rows(tables: Tables) -> list[list[str]]:
    """Return the rows of the queries; no rows if stock Spark cannot read the files."""
    try:
        return [tables.stock_rows(query) for query in QUERIES]
    except ERRORS:
        return []


def change_first_file(act: Callable[[Path], Any]) -> Act:
    """Apply a change to the first file of the table."""
    return lambda tables: act(tables.files("t")[0])


def replace_file(tables: Tables, own_time: bool = False) -> None:
    """Replace a file with a file of the other table, and keep the modification time of either file."""
    mine, theirs = tables.files("t")[0], tables.files("other")[0]
    assert mine.stat().st_size != theirs.stat().st_size
    put(mine, theirs.read_bytes(), (mine if own_time else theirs).stat().st_mtime_ns)


def move_table(tables: Tables, copy: Callable[..., Any]) -> None:
    """Move the table to another folder, as when a backup is restored or the table is copied."""
    folder, target = tables.folder("t"), tables.folder("t").with_name("t_moved")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, copy_function=copy)
    tables.sql(f"alter table t set location '{target}'")


def touch_files(tables: Tables) -> None:
    """Change all file times to whole seconds, as object stores do that rename files by copying."""
    for path in tables.files("t"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def add_nested_folder(tables: Tables) -> None:
    (tables.folder("t") / "more").mkdir()
    shutil.copy2(tables.files("other")[0], tables.folder("t") / "more")


def set_parameter(key: str, value: str | None) -> Act:
    return lambda tables: put_parameters(tables, "t", "", {key: value})


def two_appends(tables: Tables) -> None:
    """Let the second of two appends start with the seal from before the first one. It also seals the files of the first one."""
    before = seal_of(tables, "t")
    tables.sql(INSERT)
    put_parameters(tables, "t", "", dict(before))
    tables.sql(INSERT)


def crash(statement: str, then: str = "select 1") -> Act:
    """Crash between commit and seal."""

    def act(tables: Tables) -> None:
        with failing(tables.spark, "alter_table_with_environmentContext") as failed:
            tables.sql(statement)
        assert failed
        tables.sql(then)

    return act


def load_data(tables: Tables) -> None:
    shutil.copytree(tables.folder("other"), tables.folder("t") / ".stage")
    tables.sql(f"load data inpath '{tables.folder('t')}/.stage' into table t")


def statements(*texts: str) -> Act:
    def act(tables: Tables) -> None:
        for text in texts:
            tables.sql("refresh table t")
            tables.sql(text)

    return act


def without_bucket_spec(tables: Tables) -> None:
    """Append with stock Spark after a SELECT, which makes Spark write files without buckets."""
    tables.sql("stock:select count(*) from t")
    tables.sql(f"stock:{INSERT}")


class Case(NamedTuple):
    """A kind of damage, the reason code of a read, and the result of SEAL BUCKETS; None if the statement is refused.

    After some crashes, stock Spark also reads the replaced files until the next statement.
    """

    do: Act
    code: str = BROKEN
    then: str | None = "sealed"
    recovers: bool = False


CASES = {
    "nothing": Case(statements(), SEALED, "unchanged"),
    "a file added": Case(
        change_first_file(lambda path: shutil.copy2(path, path.with_name(f"{path.name[:5]}_0_copy_1")))
    ),
    "a file removed": Case(change_first_file(Path.unlink), MISSING),
    "a file from another table": Case(replace_file),
    "a file replaced by one with the same size": Case(
        change_first_file(lambda path: put(path, path.read_bytes(), path.stat().st_mtime_ns + 2_000_000))
    ),
    "a file replaced by one with the same time": Case(lambda tables: replace_file(tables, own_time=True)),
    "a file truncated": Case(change_first_file(lambda path: put(path, path.read_bytes()[:-9])), BROKEN, None),
    "a file emptied": Case(change_first_file(lambda path: put(path, b"")), MISSING),
    "restored with file times": Case(lambda tables: move_table(tables, shutil.copy2), SEALED, "unchanged"),
    "copied without file times": Case(lambda tables: move_table(tables, shutil.copy)),
    "file times changed": Case(touch_files),
    # Spark ignores this folder.
    "a nested folder": Case(add_nested_folder, SEALED, "unchanged"),
    "a wider type": Case(lambda tables: put_schema(tables, "t", "k bigint, v bigint"), "columns-changed", "refused"),
    "another number of buckets in Spark's table property": Case(
        set_parameter("spark.sql.sources.schema.numBuckets", "16"), SEALED, "unchanged"
    ),
    "another number of buckets in the metastore descriptor": Case(
        lambda tables: put_descriptor(tables, "t", "", 16), SEALED, "unchanged"
    ),
    "another number of buckets in the seal": Case(set_parameter("bucketing.num_buckets", "16")),
    "other sort columns in the seal": Case(set_parameter("bucketing.sort_columns", "[]")),
    "another digest": Case(set_parameter("bucketing.digest", "0" * 32)),
    "a missing key of the seal": Case(set_parameter("bucketing.bytes", None), "seal-unreadable", "sealed"),
    "a newer seal version": Case(set_parameter("bucketing.spec_version", "3"), "seal-unreadable", "sealed"),
    "the seal of another table": Case(lambda tables: put_parameters(tables, "t", "", dict(seal_of(tables, "other")))),
    "another bucketing_version": Case(statements(VERSION_2), SEALED, "unchanged"),
    "two appends at the same time": Case(two_appends, SEALED, "unchanged"),
    "an append that crashes before its seal": Case(crash(INSERT)),
    "an overwrite that crashes before its seal": Case(crash(OVERWRITE), recovers=True),
    "an append": Case(statements(INSERT, INSERT), SEALED, "unchanged"),
    "an append after a crashed append": Case(crash(INSERT, then=INSERT), SEALED, "unchanged"),
    "an append by stock Spark": Case(statements(f"stock:{INSERT}")),
    "an append after an append by stock Spark": Case(statements(f"stock:{INSERT}", INSERT)),
    "an overwrite after an append by stock Spark": Case(statements(f"stock:{INSERT}", OVERWRITE), SEALED, "unchanged"),
    "an overwrite by stock Spark": Case(statements(f"stock:{OVERWRITE}")),
    "an append by stock Spark without buckets": Case(without_bucket_spec, BROKEN, "refused"),
    "LOAD DATA": Case(load_data),
    "TRUNCATE": Case(statements("truncate table t"), SEALED, "empty"),
    "TRUNCATE and INSERT": Case(statements("truncate table t", INSERT), SEALED, "unchanged"),
    "TRUNCATE and INSERT by stock Spark": Case(statements("truncate table t", f"stock:{INSERT}"), "not-sealed"),
    "TRUNCATE by stock Spark": Case(statements("stock:truncate table t"), MISSING),
    "another number of buckets for later writes": Case(statements(TWELVE), SEALED, "unchanged"),
    "an append with another number of buckets": Case(statements(TWELVE, INSERT), "not-sealed", "refused"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.some(2)
def test_damage_causes_an_ordinary_scan_and_may_be_sealed_again(tables: Tables, name: str) -> None:
    case = CASES[name]
    case.do(tables)
    tables.sql("refresh table t")
    assert reason_code(tables) == case.code
    if name == "a wider type" and not can(WIDER_TYPES):
        pytest.skip("Spark 4.0 and newer read the integers of a file as bigint")
    expected = stock_rows(tables)
    with tables.settings({"spark.sql.files.ignoreMissingFiles": str(case.code == MISSING).lower()}):
        found = [tables.rows(query) for query in QUERIES[: len(expected)]]
    assert (found == expected) != case.recovers
    if case.then is None:
        with pytest.raises(ERRORS):
            tables.seal("t")
    else:
        (outcome,) = tables.seal("t")
        assert outcome.status == case.then, outcome
        explained = case.then == "refused" or case.code == MISSING or name == "another bucketing_version"
        assert (outcome.problem is not None) == explained, outcome
        if case.then in ("sealed", "unchanged"):
            assert reason_code(tables) == SEALED
            assert [tables.rows(query) for query in QUERIES] == found == stock_rows(tables)


KEYS = {
    "boolean": "id % 3 = 0",
    "tinyint": "if(id % 7 = 0, null, id % 100 - 50)",
    "smallint": "id % 900 - 400",
    "bigint": "(id % 500 - 250) * 10000000000",
    "date": "date_add(date'1969-11-01', cast(id % 400 as int))",
    "decimal(12,3)": "if(id % 5 = 0, null, (id % 300 - 100) / 8)",
    "decimal(30,9)": "(id % 300 - 100) * 12345678.875",
    "string": "case id % 9 when 0 then null when 1 then '' when 2 then 'é' when 3 then '漢字' when 4 then 'z\\u0301' "
    "else concat('key', id % 77) end",
}


@pytest.mark.long
@pytest.mark.parametrize("sql_type", KEYS)
def test_every_key_type_is_sealed_and_read_correctly(tables: Tables, sql_type: str) -> None:
    """A write seals one table, and a statement seals the other one."""
    rows = f"select cast({KEYS[sql_type]} as {sql_type}) as k, id as v from range(900)"
    for name in ("t", "u"):
        tables.make(name, f"k {sql_type}, v bigint", "k", 8)
    tables.sql(f"insert into t {rows}")
    tables.fill("u", rows)
    assert tables.read("select * from t full join u on t.k = u.k").shape == (0, 0, 2)


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("timestamp", "timestamp_seconds(id - 4.5)"),
        pytest.param("binary", "cast(id as string)", marks=pytest.mark.long),
        pytest.param("float", "id / 2", marks=pytest.mark.long),
        ("double", "if(id % 3 = 0, -0.0D, if(id % 3 = 1, 0.0D, double('NaN')))"),
        ("varchar(9)", "cast(id as string)"),
        pytest.param("char(9)", "cast(id as string)", marks=pytest.mark.long),
    ],
)
@pytest.mark.some(1)
def test_key_types_with_engine_specific_hashes_are_never_sealed(tables: Tables, sql_type: str, value: str) -> None:
    tables.make("t", f"k {sql_type}, v bigint", "k", 8)
    tables.sql(f"insert into t select cast({value} as {sql_type}), id from range(300)")
    assert seal_of(tables, "t") == {}
    assert reason_code(tables) == "not-sealed"
    (outcome,) = tables.seal("t")
    assert outcome.status == "refused" and "of a type" in str(outcome.problem)
    tables.read("select k, count(*) from t group by k")


def test_session_with_different_column_resolution_gets_an_ordinary_scan(tables: Tables) -> None:
    """With resolution by position, or another case sensitivity, a column may differ from the sealed column."""
    tables.make("t", "v bigint, k bigint", "k", 4, stored="stored as orc")
    tables.sql("insert into t select id, id % 40 from range(300)")
    put_schema(tables, "t", "k bigint, v bigint")
    tables.sql("refresh table t")
    assert reason_code(tables) == "columns-changed", "the position of a column must match the seal"
    assert tables.seal("t")[0].status == "sealed" and reason_code(tables) == SEALED
    codes = {"orc.force.positional.evolution": "positional-columns", "spark.sql.caseSensitive": "ambiguous-column"}
    for setting, code in codes.items():
        with tables.settings({setting: "true"}):
            assert reason_code(tables) == code
            assert [tables.rows(query) for query in QUERIES] == stock_rows(tables)
            with pytest.raises(PySparkException, match=setting):
                tables.seal("t")


def test_decimals_of_different_scale_are_different_keys(tables: Tables) -> None:
    for name, sql_type in (("t", "decimal(10,2)"), ("u", "decimal(12,4)")):
        tables.make(name, f"k {sql_type}, v bigint", "k", 8)
        tables.sql(f"insert into {name} select cast(id / 4 as {sql_type}), id from range(500)")
    tables.read("select * from t full join u on t.k = u.k")


def test_table_read_by_hives_serde_is_unchanged(tables: Tables) -> None:
    with tables.settings({"spark.sql.hive.convertMetastoreParquet": "false"}):
        assert "Bucketed" not in tables.plan(QUERIES[1].replace("from t ", "from other "))


@pytest.mark.parametrize("decision", ["", "committed"])
@pytest.mark.some(1)
def test_hives_serde_does_not_read_the_files_of_an_unfinished_statement(tables: Tables, decision: str) -> None:
    """Hive's reader lists all files. Only Spark's own readers ignore the files that are not part of the table yet, or no longer."""
    first = tables.files("t")[0]
    name = f"{first.name[:5]}_0_of_another_statement"
    shutil.copy2(first, first.with_name(name))
    record = tables.folder("t") / "_replaced" / f"20260101000000000000-{decision or 'undecided'}"
    record.mkdir(parents=True)
    files = {"added": [], "removed": [name]} if decision else {"added": [name], "removed": []}
    (record / "started").write_text(json.dumps({**files, "created": [], "dropped": [], "exclusive": True}))
    if decision:
        (record / "outcome").write_text(f"{decision} {uuid4()}\n")
    tables.sql("refresh table t")
    query, by_hive = "select count(*) from t", {"spark.sql.hive.convertMetastoreParquet": "false"}
    assert tables.sql(query) == [(900,)]
    with tables.settings(by_hive), pytest.raises(PySparkException, match=r"(?s)with Hive's SerDe.*RECOVER FILES"):
        tables.sql(query)
    tables.sql("alter table t recover files")
    with tables.settings(by_hive):
        assert tables.sql(query) == [(900,)]


def test_unsealed_spark_layout_is_left_to_stock_spark(tables: Tables) -> None:
    tables.make("s", "k int, v bigint", "k", 4, stored="using parquet")
    tables.sql(f"stock:insert into s select /*+ REPARTITION(4, k) */ * from ({NUMBERS.format(500)})")
    query = "select * from s a join s b on a.k = b.k"
    plan = tables.plan(query)
    assert plan.shape == (0, 2, 2) and "4 Spark buckets" not in plan, "the plan must be stock Spark's"
    assert [of.status for of in tables.seal("s")] == ["sealed"]
    assert tables.shape(query) == (0, 0, 2)
    assert "true (4 Spark buckets, sorted)" in tables.read(query)
    tables.sql(f"insert into s {NUMBERS.format(100)}")
    assert "true (4 Spark buckets, merged)" in tables.read(query)


def test_table_without_files_uses_its_own_spec(tables: Tables) -> None:
    tables.make("none", "k int, v bigint", "k", 16)
    assert tables.shape("select * from none join good on none.k = good.k").bucketed == 2
    assert "true (16 Hive buckets" in tables.plan("select k, count(*) from none group by k")
