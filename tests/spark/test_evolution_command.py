"""`spark-bucketing evolution` on real tables: what it shows and finds, and what it mends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bucketed import Tables
from click.testing import Result
from evolving import (  # noqa: F401
    DB,
    alter,
    evolution_command,
    evolved,
    evolving_tables,
    fill,
    fine,
    locations,
    make,
    record,
    set_parameter,
    sums,
    unrecord,
)
from pyspark.sql import SparkSession

from spark_bucketing.evolution.rows import read_evidence
from spark_bucketing.evolution.warehouse import Warehouse

pytestmark = pytest.mark.usefixtures("extension")


def test_specs_are_shown_as_ranges(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "shown", {"a": 4, "b": 4, "c": 8})
    result = command("show", f"{DB}.shown")
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert (result.exit_code, lines[0]) == (0, f"{DB}.shown: 8 buckets by (k), sorted by (k), 3 partitions")
    assert "ds=a .. ds=b 2 partitions 4 buckets by (k), sorted by (k)" in lines
    assert "ds=c 1 partition 8 buckets by (k), sorted by (k)" in lines
    assert "all partitions together: as 4 buckets by (k)" in lines
    tables.sql("alter table shown partition (ds = 'b') not clustered")
    data = json.loads(command("show", f"{DB}.shown", "--format", "json").output)
    assert [(read["first"], read["last"], read["num_buckets"]) for read in data["readable"]] == [
        ("ds=a", "ds=a", 4),
        ("ds=b", "ds=b", None),
        ("ds=c", "ds=c", 8),
    ]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(8, id="divides"),
        pytest.param(6, id="by a half", marks=pytest.mark.long),
        pytest.param(5, id="not at all"),
    ],
)
def test_what_show_says_of_reading_is_what_the_planner_does(
    tables: Tables, command: Callable[..., Result], second: int
) -> None:
    evolved(tables, "planned", {"a": 4, "b": second})
    together = json.loads(command("show", f"{DB}.planned", "--format", "json").output)["all_partitions"]
    plan = tables.plan("select k, count(*) from planned group by k")
    expected = together["num_buckets"]
    assert ("Bucketed: true" in plan) == (expected is not None), plan
    if expected:
        assert f"Bucketed: true ({expected} Hive buckets" in plan
    else:
        assert together["why"][:40] in plan


def test_a_table_that_never_evolved_is_fine(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "never")
    with tables.settings({"spark.bucketing.enabled": "false"}):
        tables.sql("insert into never partition (ds = 'a') select 1, 1")
    fine(command, "never")
    assert "No spec was ever altered" in command("show", f"{DB}.never").output
    assert "every record is what the files are" in command("repair", f"{DB}.never").output
    assert record(tables, "never")["ds=a"][0] is None


BREAKS: dict[str, Callable[[Tables, str], object]] = {
    "a key is gone": lambda t, n: set_parameter(t, n, "a", "bucketing.hash", None),
    "no number": lambda t, n: set_parameter(t, n, "a", "bucketing.num_buckets", "many"),
    "no JSON": lambda t, n: set_parameter(t, n, "a", "bucketing.columns", "[k"),
    "another version": lambda t, n: set_parameter(t, n, "a", "bucketing.spec_version", "9"),
    "another number": lambda t, n: set_parameter(t, n, "a", "bucketing.num_buckets", "16"),
    "another column": lambda t, n: set_parameter(t, n, "a", "bucketing.columns", '["v"]'),
    "a column that is not there": lambda t, n: set_parameter(t, n, "a", "bucketing.columns", '["gone"]'),
    "no order": lambda t, n: set_parameter(t, n, "a", "bucketing.sort_columns", "[]"),
    "no record": lambda t, n: unrecord(t, n),
    "said to have none": lambda t, n: t.sql(f"alter table {n} partition (ds = 'a') not clustered"),
    "analyzed": lambda t, n: t.sql(f"analyze table {n} partition (ds = 'a') compute statistics"),
    "serde properties": lambda t, n: t.sql(f"alter table {n} partition (ds = 'a') set serdeproperties ('x' = 'y')"),
}


QUICK_BREAKS = ("a key is gone", "analyzed")


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[] if how in QUICK_BREAKS else [pytest.mark.long]) for how in BREAKS]
)
def test_every_broken_record_is_found_and_repaired(tables: Tables, command: Callable[..., Result], how: str) -> None:
    evolved(tables, "broken", {"a": 4, "b": 8})
    BREAKS[how](tables, "broken")
    before = record(tables, "broken")
    # Files that are more than their record says are no mistake.
    if how != "said to have none":
        found = command("verify", f"{DB}.broken", "--rows")
        assert found.exit_code == 1 and found.output.startswith("ds=a: found"), found.output
    dry = command("repair", f"{DB}.broken", "--dry-run")
    assert (dry.exit_code, record(tables, "broken")) == (0, before)
    assert "would write 4 buckets by (k), sorted by (k)" in dry.output
    repaired = command("repair", f"{DB}.broken")
    assert repaired.exit_code == 0, repaired.output
    assert record(tables, "broken") == {"ds=a": (4, 4, None), "ds=b": (8, 8, None)}
    assert "every record is what the files are" in command("repair", f"{DB}.broken").output
    fine(command, "broken")


@pytest.mark.long
def test_a_partition_that_is_overwritten_while_its_rows_are_looked_at_keeps_its_own_record(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "moving", {"a": 4, "b": 8})
    for ds in ("a", "b"):
        tables.sql(f"alter table moving partition (ds = '{ds}') not clustered")

    def read_and_overwrite(*what: Any) -> Any:
        found = read_evidence(*what)
        fill(tables, "moving", "a")
        return found

    monkeypatch.setattr("spark_bucketing.cli_evolution.read_evidence", read_and_overwrite)
    result = command("repair", f"{DB}.moving")
    assert result.exit_code == 2 and "1 partition got no record" in result.output and "ds=a" in result.output
    assert record(tables, "moving") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None)}
    fine(command, "moving")


@pytest.mark.long
@pytest.mark.parametrize("numbers", [(8, 4), (4, 8)], ids=["fewer", "more"])
def test_a_stale_record_is_found_by_the_rows(
    tables: Tables, command: Callable[..., Result], numbers: tuple[int, int]
) -> None:
    evolved(tables, "stale", {"a": numbers[0], "b": numbers[1]})
    files = locations(tables, "stale")
    for path in files["ds=a"].glob("*"):
        path.unlink()
    for path in files["ds=b"].glob("0*"):
        (files["ds=a"] / path.name).write_bytes(path.read_bytes())
    by_names = command("verify", f"{DB}.stale")
    assert by_names.exit_code == (1 if numbers[1] > numbers[0] else 0)
    by_rows = command("verify", f"{DB}.stale", "--rows")
    assert by_rows.exit_code == 1
    assert f"expected files of {numbers[0]} buckets" in by_rows.output
    assert command("repair", f"{DB}.stale").exit_code == 0
    assert record(tables, "stale")["ds=a"] == (numbers[1], numbers[1], None)
    fine(command, "stale")


@pytest.mark.long
def test_files_that_prove_nothing_are_recorded_so(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "loose", {"a": 4, "b": 4})
    folder = locations(tables, "loose")["ds=a"]
    first, second = sorted(folder.glob("0*"))[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    for path in folder.glob(".*.crc"):
        path.unlink()
    tables.sql("refresh table loose")
    rows = sums(tables, "loose")
    assert command("verify", f"{DB}.loose").exit_code == 0
    assert "holds rows of bucket" in command("verify", f"{DB}.loose", "--rows").output
    assert "the files prove no spec" in command("repair", f"{DB}.loose").output
    assert record(tables, "loose") == {"ds=a": (0, 0, None), "ds=b": (4, 4, None)}
    assert sums(tables, "loose") == rows
    fine(command, "loose")


def test_unsorted_files_lose_their_order_only(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "unsorted")
    tables.sql("alter table unsorted clustered by (k) sorted by (v) into 4 buckets")
    tables.sql("insert overwrite table unsorted partition (ds = 'a') select cast(id as int), -id from range(40)")
    alter(tables, "unsorted", 4)
    alter(tables, "unsorted", 4, "partition (ds = 'a')")
    assert "rows that are smaller than the one before" in command("verify", f"{DB}.unsorted", "--rows").output
    assert command("repair", f"{DB}.unsorted").exit_code == 0
    rows = tables.sql(f"select num_buckets, sort_columns from bucket_specs('{DB}.unsorted')")
    assert rows == [(4, [])]


@pytest.mark.parametrize("clustered", [True, False], ids=["clustered", "not clustered"])
def test_records_that_no_reader_asks_for_are_found_and_shown_to_readers_again(
    tables: Tables, command: Callable[..., Result], clustered: bool
) -> None:
    evolved(tables, "hidden", {"a": 4, "b": 8})
    if not clustered:
        tables.sql("alter table hidden not clustered")
    tables.sql("alter table hidden unset tblproperties ('bucketing.evolved')")
    records = record(tables, "hidden")
    assert "that no reader asks for" in command("show", f"{DB}.hidden").output
    found = command("verify", f"{DB}.hidden", "--rows")
    assert found.exit_code == 1 and found.output.count(": found") == 1, found.output
    assert f"{DB}.hidden: found no property bucketing.evolved=true" in found.output
    assert "would set bucketing.evolved=true" in command("repair", f"{DB}.hidden", "--dry-run").output
    assert command("verify", f"{DB}.hidden").exit_code == 1
    assert "sets bucketing.evolved=true" in command("repair", f"{DB}.hidden").output
    assert record(tables, "hidden") == records
    fine(command, "hidden")
    alone = "select k, count(*) from hidden where ds = 'a' group by k"
    with tables.settings({"spark.bucketing.enabled": "true"}):
        assert "Bucketed: true (4 Hive buckets" in tables.plan(alone)


def test_places_of_the_tables_spec_that_differ_are_found(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "apart", {"a": 4})
    jvm, session = tables.spark.sparkContext._jvm, tables.spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    metastore = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(client.conf()).getMSC()
    table = metastore.getTable(DB, "apart")
    table.getSd().setNumBuckets(32)
    metastore.alter_table(DB, "apart", table)
    result = command("verify", f"{DB}.apart")
    assert result.exit_code == 1
    assert "its descriptor says 32 buckets by (k), sorted by (k), and Spark's table properties say 4" in result.output
    alter(tables, "apart", 4)
    fine(command, "apart")


REFUSED = [
    ("nowhere", ("show", f"{DB}.nowhere"), f"There is no table {DB}.nowhere"),
    ("view", ("show", f"{DB}.a_view"), "is a view"),
    ("unpartitioned", ("verify", f"{DB}.one"), "has no partitions"),
    ("spark layout", ("repair", f"{DB}.spark"), "4 buckets of the Spark layout, which cannot evolve"),
    ("plain", ("rewrite", f"{DB}.plain"), "or on_bucket_change='evolve' of its dbt model"),
    ("name", ("show", "a.b.c"), "is no name of a table"),
    ("other column", ("rewrite", f"{DB}.refused", "--where", "k = 1"), "partition columns only, which are ds"),
    ("no predicate", ("rewrite", f"{DB}.refused", "--where", "ds ="), "partition columns only, which are ds"),
    ("no condition", ("rewrite", f"{DB}.refused", "--where", "ds"), "partition columns only, which are ds"),
    ("format", ("show", f"{DB}.texts"), "TextInputFormat, which Spark neither reads nor writes by the buckets"),
    ("version", ("rewrite", f"{DB}.version_2"), "has bucketing_version 2, and nothing was changed. Expected 1"),
    ("lenient", ("rewrite", f"{DB}.lenient"), "SET SERDEPROPERTIES ('IgnoreCorruptFiles' = 'false')"),
    ("no target", ("rewrite", f"{DB}.unclustered"), "has no buckets now"),
]


@pytest.fixture(scope="module")
def refused(spark: SparkSession) -> None:
    made = Tables(spark, DB)
    made.sql("create or replace view a_view as select 1 as a")
    made.sql("create table if not exists one (k int) clustered by (k) into 4 buckets stored as parquet")
    made.sql(
        "create table if not exists spark (k int, ds string) using parquet partitioned by (ds) clustered by (k) into 4 buckets"
    )
    made.sql("create table if not exists plain (k int) partitioned by (ds string) stored as parquet")
    make(made, "refused")
    make(made, "unclustered")
    make(made, "texts", stored="stored as textfile")
    make(made, "version_2", stored="stored as parquet tblproperties ('bucketing_version' = '2')")
    make(made, "lenient")
    made.sql("alter table lenient set serdeproperties ('IgnoreCorruptFiles' = 'TRUE')")
    made.sql("alter table unclustered not clustered")


@pytest.mark.parametrize(("arguments", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_done_is_said(
    refused: None, command: Callable[..., Result], arguments: tuple[str, ...], said: str
) -> None:
    result = command(*arguments)
    assert result.exit_code == 2
    assert said in result.output, result.output
    assert "mistake of this program" not in result.output and "Traceback" not in result.output


def test_a_session_without_the_extension_says_what_to_do(
    refused: None, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_bucketing.errors import SparkError

    real = Warehouse.rows

    def rows(self: Warehouse, query: str) -> list[dict[str, object]]:
        if "hive_bucket" in query:
            raise SparkError("no such function")
        return real(self, query)

    monkeypatch.setattr(Warehouse, "rows", rows)
    result = command("show", f"{DB}.refused")
    assert result.exit_code == 2 and "spark-bucketing extension conf --format profiles" in result.output
