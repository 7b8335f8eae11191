"""`spark-bucketing evolution` and `seal` on real tables: what they show and find, and what they seal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

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
    sealed,
    set_parameter,
    sums,
)
from pyspark.sql import SparkSession

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
    set_parameter(tables, "shown", "b", "bucketing.hash", None)
    data = json.loads(command("show", f"{DB}.shown", "--format", "json").output)
    assert [(read["first"], read["last"], read["num_buckets"], read["why"]) for read in data["readable"]] == [
        ("ds=a", "ds=a", 4, None),
        ("ds=b", "ds=b", None, "partition ds=b is seal-unreadable"),
        ("ds=c", "ds=c", 8, None),
    ]
    assert [(found["status"], found["files"]) for found in data["ranges"]] == [
        ("sealed", 4),
        ("seal-unreadable", 4),
        ("sealed", 8),
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
        assert "Bucketed: false" in plan


def touch(tables: Tables, name: str) -> None:
    """As a copy of the files is later."""
    for path in locations(tables, name)["ds=a"].glob("0*"):
        os.utime(path, (1, 1))


BREAKS: dict[str, Callable[[Tables, str], object]] = {
    "a key is gone": lambda t, n: set_parameter(t, n, "a", "bucketing.hash", None),
    "no number": lambda t, n: set_parameter(t, n, "a", "bucketing.num_buckets", "many"),
    "another version": lambda t, n: set_parameter(t, n, "a", "bucketing.spec_version", "9"),
    "another digest": lambda t, n: set_parameter(t, n, "a", "bucketing.digest", "0" * 32),
    "other files": touch,
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_seal_is_found_and_repaired(tables: Tables, command: Callable[..., Result], how: str) -> None:
    evolved(tables, "broken", {"a": 4, "b": 8})
    BREAKS[how](tables, "broken")
    before = record(tables, "broken")
    assert before["ds=a"][0] in ("seal-unreadable", "seal-broken"), before
    found = command("verify", f"{DB}.broken")
    assert found.exit_code == 0 and "ds=a: would be sealed, 4 buckets by (k), sorted by (k)" in found.output
    assert "1 sealed, 1 unchanged; the keys of 4 files were read" in found.output
    dry = command("repair", f"{DB}.broken", "--dry-run")
    assert (dry.exit_code, record(tables, "broken")) == (0, before)
    assert command("repair", f"{DB}.broken", "--where", "ds = 'b'").exit_code == 0
    assert record(tables, "broken") == before
    repaired = command("repair", f"{DB}.broken")
    assert (repaired.exit_code, record(tables, "broken")) == (0, sealed(a=4, b=8))
    again = json.loads(command("seal", f"{DB}.broken", "--format", "json").output)
    assert [(found["partition"], found["status"], found["files_read"]) for found in again["partitions"]] == [
        ("ds=a", "unchanged", 0),
        ("ds=b", "unchanged", 0),
    ]


def test_files_that_are_no_buckets_are_named(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "loose", {"a": 4, "b": 4})
    first, second = sorted(locations(tables, "loose")["ds=a"].glob("0*"))[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    for path in first.parent.glob(".*.crc"):
        path.unlink()
    rows = sums(tables, "loose")
    for found in (command("verify", f"{DB}.loose"), command("seal", f"{DB}.loose")):
        assert found.exit_code == 1 and "1 refused, 1 unchanged" in found.output, found.output
        assert re.search(r"ds=a: found a row of bucket [01] in a file of bucket [01]: 0000[01]_", found.output)
    data_of = json.loads(command("seal", f"{DB}.loose", "--format", "json").output)["partitions"][0]
    assert data_of["status"] == "refused" and "a row of bucket" in data_of["problem"]
    assert record(tables, "loose")["ds=b"] == ("sealed", 4, 1)
    assert sums(tables, "loose") == rows


@pytest.mark.long
@pytest.mark.parametrize("numbers", [(8, 4), (4, 8)], ids=["fewer", "more"])
def test_files_of_another_partition_are_sealed_as_what_they_are(
    tables: Tables, command: Callable[..., Result], numbers: tuple[int, int]
) -> None:
    evolved(tables, "stale", {"a": numbers[0], "b": numbers[1]})
    files = locations(tables, "stale")
    for path in files["ds=a"].glob("*"):
        path.unlink()
    for path in files["ds=b"].glob("0*"):
        (files["ds=a"] / path.name).write_bytes(path.read_bytes())
    assert record(tables, "stale")["ds=a"][0] == "seal-broken"
    assert command("repair", f"{DB}.stale").exit_code == 0
    assert record(tables, "stale") == sealed(a=numbers[1], b=numbers[1])


def test_unsorted_files_lose_their_order_only(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "unsorted")
    tables.sql("alter table unsorted clustered by (k) sorted by (v) into 4 buckets")
    tables.sql("insert overwrite table unsorted partition (ds = 'a') select cast(id as int), -id from range(40)")
    alter(tables, "unsorted", 4)
    set_parameter(tables, "unsorted", "a", "bucketing.digest", None)
    found = command("seal", f"{DB}.unsorted")
    assert found.exit_code == 0 and "ds=a: sealed, 4 buckets by (k)" in found.output, found.output


def test_a_table_without_partitions_is_sealed(tables: Tables, command: Callable[..., Result], tmp_path: Path) -> None:
    tables.sql("drop table if exists whole")
    tables.sql("create table whole (k int) clustered by (k) sorted by (k) into 4 buckets stored as parquet")
    with tables.settings({"spark.bucketing.enabled": "false"}):
        tables.sql("insert into whole select cast(id as int) from range(40)")
    query = "select k, count(*) from whole group by k"
    assert "[not-sealed]" in tables.plan(query)
    found = command("seal", f"{DB}.whole")
    assert found.exit_code == 0 and f"{DB}.whole: sealed, 4 buckets by (k), sorted by (k)" in found.output, found.output
    assert "Bucketed: true (4 Hive buckets" in tables.plan(query)


REFUSED = [
    ("nowhere", ("show", f"{DB}.nowhere"), f"There is no table {DB}.nowhere"),
    ("view", ("show", f"{DB}.a_view"), "is a view"),
    ("unpartitioned", ("show", f"{DB}.one"), "has no partitions"),
    ("spark layout", ("rewrite", f"{DB}.spark"), "4 buckets of the Spark layout, which cannot evolve"),
    ("nothing to seal", ("seal", f"{DB}.nowhere"), f"There is no table {DB}.nowhere"),
    ("seal plain", ("seal", f"{DB}.plain"), "found a table without buckets"),
    ("seal version", ("repair", f"{DB}.version_2"), "found bucketing_version 2"),
    ("seal other column", ("verify", f"{DB}.refused", "--where", "k = 1"), "k"),
    ("plain", ("rewrite", f"{DB}.plain"), "or on_bucket_change='evolve' of its dbt model"),
    ("name", ("show", "a.b.c"), "is no name of a table"),
    ("other column", ("rewrite", f"{DB}.refused", "--where", "k = 1"), "partition columns only, which are ds"),
    (
        "column of the query",
        ("rewrite", f"{DB}.refused", "--where", "place = 0"),
        "partition columns only, which are ds",
    ),
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
    with made.settings({"spark.bucketing.enabled": "true"}):
        fill(made, "unclustered", "a")
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
    real = Warehouse.rows

    def rows(self: Warehouse, query: str) -> list[dict[str, object]]:
        return [] if "show user functions" in query else real(self, query)

    monkeypatch.setattr(Warehouse, "rows", rows)
    for name in ("show", "seal"):
        result = command(name, f"{DB}.refused")
        assert result.exit_code == 2 and "spark-bucketing extension conf --format profiles" in result.output


def test_settings_under_which_rows_are_left_out_come_back(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "settled", {"a": 4, "b": 8})
    loose = {"spark.sql.files.ignoreMissingFiles": "true", "spark.bucketing.write.distribute": "false"}
    with tables.settings(loose):
        assert command("rewrite", f"{DB}.settled").exit_code == 0
        assert {key: tables.spark.conf.get(key) for key in loose} == loose
    assert record(tables, "settled") == sealed(a=8, b=8)
