"""Tests that ALTER TABLE ... SEAL BUCKETS reads unsealed files once, and seals files that match the bucket spec."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import NamedTuple

import pytest
from bucketed_tables import Tables, explain, put
from partition_specs import StoredSpec, create, kept, seal_of

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

SCHEMA = "k int, v bigint"
NUMBERS = "select if(id % 50 = 3, null, cast(pmod(id * 37, 600) - 100 as int)) as k, id as v from range({})"
GROUPED = "select k, count(*), sum(v) from t group by k"
JOINED = "select a.k, a.v, b.v from t a join t b on a.k = b.k"


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    tables.sql(f"create or replace temporary view numbers as {NUMBERS.format(700)}")
    return tables


def create_unsealed(tables: Tables, files: int = 1) -> None:
    """Create the table `t` as stock Spark writes it."""
    tables.make("t", SCHEMA, "k", 8)
    tables.fill("t", "select * from numbers", files=files, sealed=False)


def same_rows(tables: Tables) -> None:
    tables.sql("refresh table t")
    for query in (GROUPED, JOINED):
        tables.read(query)


ROWS = "select cast(id * 8 as int) as k, id as v, id as n from range(90) union all select {}"


class Case(NamedTuple):
    """A change to files or a table, the result of SEAL BUCKETS, the problem, and the plan of a later join."""

    do: Callable[[Tables], object]
    status: str = "refused"
    problem: str = ""
    read: str = "false [not-sealed]"


def rename_files(name: str) -> Callable[[Tables], object]:
    return lambda tables: tables.rename("t", name)


def replace_rows(row: str) -> Callable[[Tables], object]:
    """Replace the table's first file with a file of the same name that contains the rows of a query."""

    def act(tables: Tables) -> None:
        rows = ROWS.format(row)
        tables.create(f"crafted using parquet as select /*+ coalesce(1) */ k, v from ({rows}) order by n")
        put(tables.files("t")[0], tables.files("crafted")[0].read_bytes())
        tables.sql("refresh table t")

    return act


def alter_table(spec: str) -> Callable[[Tables], object]:
    return lambda tables: tables.sql(f"alter table t clustered by (k) {spec} buckets")


SORTED, UNSORTED = "true (8 Hive buckets, sorted)", "true (8 Hive buckets)"
CASES = {
    "Hive file names": Case(rename_files(r"0\1_0"), "sealed", read=SORTED),
    "Hive copy file names": Case(rename_files(r"0\1_0_copy_1"), "sealed", read=SORTED),
    "several files per bucket": Case(
        lambda tables: create_unsealed(tables, 3), "sealed", read="true (8 Hive buckets, merged)"
    ),
    "smaller key at the end": Case(replace_rows("16, 1L, 900L"), "sealed", "not sorted by k.*00000_0_part", UNSORTED),
    # NULLs are last in Hive's descending order, or in another engine's order.
    "NULL last": Case(replace_rows("null, 1L, 900L"), "sealed", "not sorted by k.*00000_0_part", UNSORTED),
    "different sort columns": Case(alter_table("sorted by (v) into 8"), "sealed", "not sorted by v", UNSORTED),
    "different number of buckets": Case(alter_table("sorted by (k) into 16"), problem="a row of bucket"),
    "row from another bucket": Case(
        replace_rows("801, 1L, 900L"), problem="a row of bucket 1 in a file of bucket 0: 00000_0_part"
    ),
    "file names without bucket ids": Case(rename_files(r"part-\1"), problem="no bucket id in the file name: part-0000"),
    "file names of the Spark layout": Case(rename_files(r"part-\1-x_\1.c000"), problem="no bucket id in the file name"),
    "bucket ids out of range": Case(
        rename_files(r"00008_0_\1"), problem="a file of bucket 8, but the spec has 8 buckets"
    ),
    "file name of another bucket": Case(rename_files(r"00001_0_\1"), problem="a row of bucket"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.some(2)
def test_only_files_that_match_the_spec_are_sealed(tables: Tables, name: str) -> None:
    case = CASES[name]
    create_unsealed(tables)
    case.do(tables)
    assert "Bucketed: false [not-sealed]" in tables.plan(GROUPED)
    (outcome,) = tables.seal("t")
    assert outcome.status == case.status
    assert bool(outcome.problem) == bool(case.problem) and re.search(case.problem, outcome.problem or ""), outcome
    if case.status == "sealed":
        size = sum(path.stat().st_size for path in tables.files("t"))
        files = len(tables.files("t"))
        assert (outcome.buckets, outcome.columns, outcome.hash) == (8, ["k"], "hive")
        assert (outcome.files, outcome.bytes, outcome.files_read) == (files, size, files)
        assert outcome.sorts == ([] if case.problem else ["k"])
    assert f"Bucketed: {case.read}" in tables.plan(JOINED)
    same_rows(tables)


def test_sealed_files_are_not_read_again(tables: Tables) -> None:
    create_unsealed(tables)
    assert (tables.seal("t")[0].status, tables.seal("t")[0].files_read) == ("sealed", 0)
    again = tables.seal("t")[0]
    assert (again.status, again.files, again.files_read) == ("unchanged", 8, 0)
    tables.fill("t", "select * from numbers where v < 300", sealed=False)
    more = tables.seal("t")[0]
    assert (more.status, more.files, more.files_read) == ("sealed", 16, 8)
    assert "Bucketed: true (8 Hive buckets, merged)" in tables.plan(JOINED)
    same_rows(tables)


def test_explain_and_dry_run_write_nothing(tables: Tables) -> None:
    create_unsealed(tables)
    assert "SealBucketsCommand" in explain(tables, "alter table t seal buckets")
    dry = tables.seal("t", "dry run")
    assert seal_of(tables, "t") == {} and "[not-sealed]" in tables.plan(GROUPED)
    assert dry[0].status == "sealable"
    assert tables.seal("t") == [row._replace(status="sealed") for row in dry]
    assert tables.seal("t", "DRY RUN")[0].status == "unchanged"


@pytest.fixture
def days(tables: Tables) -> Tables:
    """Create a table with partitions p=0 and p=1, which stock Spark wrote, and with an empty partition."""
    create(tables, "days")
    tables.sql("stock:insert into days select * from new_rows")
    tables.sql("alter table days add partition (p = 7)")
    return tables


@pytest.mark.parametrize(
    ("where", "sealed"),
    [
        ("", {"p=0", "p=1", "p=7"}),
        pytest.param("where p = 1", {"p=1"}, marks=pytest.mark.long),
        ("where p > 0 and p < 5", {"p=1"}),
        ("WHERE p in (0, 7) DRY RUN", {"p=0", "p=7"}),
        pytest.param("where p = 99", set(), marks=pytest.mark.long),
    ],
)
def test_where_clause_selects_partitions(days: Tables, where: str, sealed: set[str]) -> None:
    outcomes = {outcome.partition: outcome for outcome in days.seal("days", where)}
    assert set(outcomes) == sealed
    new = "sealable" if "DRY" in where else "sealed"
    assert all(of.status == ("empty" if name == "p=7" else new) for name, of in outcomes.items())
    whole = set() if "DRY" in where else sealed - {"p=7"}
    assert {name for name, of in kept(days, "days").items() if of == StoredSpec(4, 4)} == whole
    query = "select k, count(*) from days where p < 7 group by k"
    assert ("Bucketed: true" in days.read(query)) == (len(whole) == 2)


def test_partition_is_selected_by_its_values(days: Tables) -> None:
    outcomes = [tuple(row) for row in days.sql("alter table days partition (p = 1) seal buckets")]
    assert [row[:2] for row in outcomes] == [("p=1", "sealed")]
    assert kept(days, "days")["p=0"] == StoredSpec(None, 4)


def test_mixed_partitions_are_sealed_by_their_descriptors(days: Tables) -> None:
    days.sql("alter table days clustered by (k) sorted by (k) into 8 buckets")
    assert {of.partition: of.buckets for of in days.seal("days") if of.files} == {"p=0": 4, "p=1": 4}


def test_refused_partition_does_not_affect_the_others(days: Tables) -> None:
    shutil.rmtree(days.folder("days") / "p=0")
    days.sql("alter table days partition (p = 0) clustered by (v) into 4 buckets")
    shutil.copytree(days.folder("days") / "p=1", days.folder("days") / "p=0")
    file = next(path for path in (days.folder("days") / "p=0").iterdir() if not path.name.startswith("."))
    file.rename(file.with_name("no_bucket"))
    statuses = {of.partition: of.status for of in days.seal("days")}
    assert statuses == {"p=0": "refused", "p=1": "sealed", "p=7": "empty"}


def test_statement_works_with_the_extension_disabled(tables: Tables) -> None:
    create_unsealed(tables)
    with tables.settings({"spark.bucketing.enabled": "false"}):
        assert tables.seal("t")[0].status == "sealed"
    assert "Bucketed: true" in tables.plan(GROUPED)
