"""Tests of bucket specs per partition without Spark: partitions that Spark reads together, findings and fixes."""

from __future__ import annotations

import io
import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import replace

import pytest
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st

from spark_bucketing.checks.checked_query import selected_partitions
from spark_bucketing.output import console_on
from spark_bucketing.plan.document import Scan
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.compatibility import (
    Merging,
    compatible_read,
    readable_ranges,
    runs,
    smallest_rewrite,
    span,
)
from spark_bucketing.tables.metadata import partition_of
from spark_bucketing.tables.model import Column, Partition, Status, TableMetadata, words
from spark_bucketing.tables.partition_predicates import covering
from spark_bucketing.tables.report import print_specs, specs_data
from spark_bucketing.tables.rewrite import RewritePlan, plan_rewrite

MERGING = Merging("auto", 2, 4)
DS = (Column("ds", "string"),)


def spec(buckets: int, *columns: str, order: tuple[str, ...] | None = None) -> BucketSpec:
    by = columns or ("k",)
    return BucketSpec(buckets, by, by if order is None else order, "hive")


def part(name: str, found: BucketSpec | str | None, **more: object) -> Partition:
    """Return a partition sealed with a spec; spec None means unsealed, "" empty, and other text a problem."""
    values = tuple(None if v == "NULL" else v for v in (piece.partition("=")[2] for piece in name.split("/")))
    own = found if isinstance(found, BucketSpec) else None
    status = Status.SEALED if own else Status.NOT_SEALED if found is None else Status.EMPTY
    problem = found if isinstance(found, str) else ""
    status = Status.SEAL_STALE if problem else status
    made = Partition(name, values, f"file:/t/{name}", status, own, problem, files=1, size=10, files_per_bucket=1)
    return replace(made, **more)  # type: ignore[arg-type]


def table(*partitions: Partition, own: BucketSpec | None = None, columns: tuple[Column, ...] = DS) -> TableMetadata:
    return TableMetadata("db.t", spec(8) if own is None else own, columns, partitions)


def test_adjacent_partitions_with_the_same_spec_form_a_range() -> None:
    parts = [part(f"ds={d}", spec(8 if d < "c" else 16) if d != "e" else "") for d in "fedcba"]
    found = [(span(run), run[0].spec) for run in runs(table(*parts).partitions)]
    assert found == [("ds=a .. ds=b", spec(8)), ("ds=c .. ds=d", spec(16)), ("ds=e", None), ("ds=f", spec(16))]


def test_numeric_partitions_sort_as_numbers_with_null_first() -> None:
    columns = (Column("n", "int"), Column("s", "string"))
    found = table(*(part(name, spec(8)) for name in ("n=10/s=a", "n=9/s=b", "n=9/s=10", "n=NULL/s=z")), columns=columns)
    assert [p.name for p in found.partitions] == ["n=NULL/s=z", "n=9/s=10", "n=9/s=b", "n=10/s=a"]


@cases("tables/compatible", specs=..., buckets=None, why="")
def test_partitions_with_compatible_specs_are_read_together(specs: list[str], buckets: int | None, why: str) -> None:
    of: list[BucketSpec | str | None] = [
        spec(int(one[:-2]), one[-1]) if one[-2] == " " else {"none": None, "empty": ""}.get(one, one) for one in specs
    ]
    found = table(*(part(f"ds={d}", s) for d, s in zip("abc", of, strict=False)))
    read = compatible_read(found, found.partitions, MERGING)
    assert ((read.spec.num_buckets if read.spec else None), read.why) == (buckets, why)


SPECS = st.sampled_from([spec(2), spec(3), spec(4), spec(8), spec(9), spec(16), spec(8, "v"), None, "", "broken"])


@given(st.lists(SPECS, min_size=1, max_size=7))
def test_longest_readable_ranges_are_found(specs: list[BucketSpec | str | None]) -> None:
    found = table(*(part(f"ds={d}", s) for d, s in zip("abcdefg", specs, strict=False)))
    all_runs = runs(found.partitions)

    def partitions(start: int, end: int) -> list[Partition]:
        return [p for run in all_runs[start:end] for p in run]

    fits = {
        (i, j)
        for i, j in itertools.combinations(range(len(all_runs) + 1), 2)
        if compatible_read(found, partitions(i, j), MERGING).spec
    }
    longest = {(i, j) for i, j in fits if not any((a, b) != (i, j) and a <= i and j <= b for a, b in fits)}
    # Partitions that belong to no range keep their order.
    alone = {(i, i + 1) for i in range(len(all_runs)) if (i, i + 1) not in fits}
    expected = [(span(partitions(*at)), at in fits) for at in sorted(longest | alone)]
    assert [(span(r.partitions), r.spec is not None) for r in readable_ranges(found, MERGING)] == expected


# With the other settings, Spark does not read the partitions together as few buckets.
MERGINGS = st.sampled_from([MERGING, Merging("auto", 16, 2), Merging("off", 2, 4)])


@given(st.lists(SPECS, min_size=1, max_size=6), st.sampled_from([spec(8), spec(4), spec(16)]), MERGINGS)
def test_proposed_rewrite_is_sufficient_and_minimal(
    specs: list[BucketSpec | str | None], own: BucketSpec, merging: Merging
) -> None:
    found = table(*(part(f"ds={d}", s) for d, s in zip("abcdef", specs, strict=False)), own=own)

    def cures(chosen: Sequence[Partition]) -> bool:
        names = {p.name for p in chosen}
        after = [part(p.name, own) if p.name in names else p for p in found.partitions]
        return compatible_read(found, after, merging).spec is not None

    rewritten = smallest_rewrite(found, found.partitions, merging)
    assert cures(rewritten)
    fewer = itertools.combinations(found.partitions, len(rewritten) - 1) if rewritten else ()
    assert not any(cures(chosen) for chosen in fewer)


def test_partitions_with_another_hash_are_rewritten() -> None:
    of_version_2 = replace(spec(8), bucket_hash="hive2")
    found = table(part("ds=a", spec(8)), part("ds=b", of_version_2), part("ds=c", spec(4)))
    assert (
        "its bucket specs differ: hash hive in ds=a, hash hive2 in ds=b"
        in compatible_read(found, found.partitions, MERGING).why
    )
    assert [one.name for one in smallest_rewrite(found, found.partitions, MERGING)] == ["ds=b"]
    found = replace(found, spec=of_version_2)
    assert [one.name for one in smallest_rewrite(found, found.partitions, MERGING)] == ["ds=a", "ds=c"]


def test_table_without_buckets_has_no_rewrite() -> None:
    found = replace(table(part("ds=a", spec(8)), part("ds=b", None)), spec=None)
    assert smallest_rewrite(found, found.partitions, MERGING) == ()
    assert "NOT CLUSTERED" in compatible_read(found, found.partitions[:1], MERGING).why
    assert "Read as bucketed, all partitions together: no, the table has no buckets" in shown(found)


@pytest.mark.parametrize(
    ("chosen", "predicate"),
    [
        ("a", "ds = 'a'"), ("ab", "ds in ('a', 'b')"), ("abc", "ds <= 'c'"), ("cdef", "ds >= 'c'"),
        ("bcd", "ds >= 'b' and ds <= 'd'"), ("abcf", "(ds <= 'c' or ds = 'f')"), ("abcdef", "true"),
    ],
)  # fmt: skip
def test_predicate_selects_the_chosen_partitions(chosen: str, predicate: str) -> None:
    found = table(*(part(f"ds={d}", spec(8)) for d in "abcdef"))
    assert covering(found, [p for p in found.partitions if p.name[-1] in chosen]) == predicate


def test_predicate_uses_additional_columns_only_if_needed() -> None:
    columns = (Column("ds", "date"), Column("n", "int"))
    names = [f"ds=2024-01-0{d}/n={n}" for d in (1, 2) for n in (1, 2)]
    found = table(*(part(name, spec(8)) for name in [*names, "ds=NULL/n=1"]), columns=columns)
    chosen = [p for p in found.partitions if p.name in (*names[:3], "ds=NULL/n=1")]
    assert covering(found, chosen) == "(ds = date '2024-01-01' or ds is null or (ds = date '2024-01-02' and n = 1))"


VALUES = st.lists(st.sampled_from(["a", "b", "it's", "c\\d", "é", "NULL"]), min_size=1, max_size=6, unique=True)


@given(VALUES, st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True), st.data())
def test_predicate_selects_exactly_the_chosen_partitions(
    names: list[str], numbers: list[int], data: st.DataObject
) -> None:
    columns = (Column("ds", "string"), Column("n", "int"))
    found = table(*(part(f"ds={d}/n={n}", spec(8)) for d in names for n in numbers), columns=columns)
    chosen = [p for p in found.partitions if data.draw(st.booleans())]
    # SQLite strings have no escapes; the rest of the predicate is standard SQL.
    predicate = covering(found, chosen).replace("\\\\", "\\").replace("\\'", "''")
    memory = sqlite3.connect(":memory:")
    memory.execute("create table t (name, ds, n integer)")
    memory.executemany("insert into t values (?, ?, ?)", [(p.name, *p.values) for p in found.partitions])
    selected = {row[0] for row in memory.execute(f"select name from t where {predicate}")}
    assert selected == {p.name for p in chosen}


def plan(*partitions: Partition, unclear: frozenset[str] = frozenset()) -> RewritePlan:
    found = replace(table(*partitions), details={"Location": "file:///t"})
    return plan_rewrite(found, found.partitions, unclear)


@pytest.mark.parametrize(
    ("partition", "is_done"),
    [
        (part("ds=a", spec(8)), True),
        (part("ds=a", "", files=0, files_per_bucket=None), True),
        (part("ds=a", spec(8), files_per_bucket=2), False),
        (part("ds=a", spec(8), files_per_bucket=None), False),
        (part("ds=a", spec(8, order=())), False),
        (part("ds=a", spec(16)), False),
        (part("ds=a", None), False),
        (part("ds=a", "some of the 3 files in ds=a differ from the sealed files"), False),
    ],
)
def test_partitions_with_the_table_spec_and_one_file_per_bucket_are_skipped(
    partition: Partition, is_done: bool
) -> None:
    found = plan(partition)
    assert (found.done, found.todo) == (((partition,), ()) if is_done else ((), (partition,)))


def test_partitions_with_shared_directories_are_not_rewritten() -> None:
    outer, inner = part("ds=a", None), part("ds=b", None, location="file:///t/ds=a/ds=b")
    whole, alike = part("ds=c", None, location="file:/"), part("ds=ab", None)
    found = plan(outer, inner, alike, unclear=frozenset(["ds=ab"]))
    assert [partition.name for partition in found.todo] == ["ds=b"]
    left = [(partition.name, "also contains ds=b" in why) for partition, why in found.left]
    assert left == [("ds=a", True), ("ds=ab", False)]
    assert "also contains the table" in plan(whole).left[0][1]


def test_statement_does_not_exceed_the_limits() -> None:
    sizes = [40, 40, 40, 150, 1]
    found = plan(*(part(f"ds={d}", None, size=size * 2**30) for d, size in zip("abcde", sizes, strict=True)))
    assert ["".join(partition.name[3:] for partition in batch) for batch in found.batches()] == ["ab", "c", "d", "e"]
    many = plan(*(part(f"ds={number}", None) for number in range(2001)))
    assert [len(batch) for batch in many.batches()] == [1000, 1000, 1]


def shown(seen: TableMetadata) -> str:
    file = io.StringIO()
    print_specs(seen, MERGING, console_on(file))
    return file.getvalue()


def test_show_prints_ranges_and_readable_partitions() -> None:
    specs: dict[str, BucketSpec | str | None] = {"a": spec(8), "b": spec(8), "c": "", "d": None}
    text = shown(table(*(part(f"ds={d}", s) for d, s in specs.items()), own=spec(16)))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "db.t: 16 buckets by (k), sorted by (k), hash hive, 4 partitions"
    assert "ds=a .. ds=b 2 8 buckets by (k), sorted by (k), hash hive" in lines
    assert "ds=c 1 empty" in lines
    assert "ds=d 1 [not-sealed]" in lines
    assert "Read as bucketed, all partitions together: no, partition ds=d is not-sealed" in lines
    assert "ds=a .. ds=c 3 as 8 buckets by (k)" in lines


def test_table_without_partitions_is_shown() -> None:
    assert "0 partitions" in shown(table())
    assert specs_data(table(), MERGING)["all_partitions"] is None
    assert words(None) == "no buckets" and words(spec(1, order=())) == "1 bucket by (k), not sorted, hash hive"


@pytest.mark.parametrize(
    ("folders", "chosen"),
    [(("a", "c"), "ac"), (("b, c",), "b"), ((), ""), (None, "abcN"), (("a", "elsewhere"), "abcN")],
)
def test_plan_shows_which_partitions_a_scan_selects(folders: tuple[str, ...] | None, chosen: str) -> None:
    found = table(*(replace(part(f"ds={d}", spec(8)), location=f"file:///w/t/ds={d}") for d in ("a", "b, c", "c", "N")))
    scan = Scan("db.t", folders=None if folders is None else tuple(f"file:/w/t/ds={day}" for day in folders))
    assert {p.name[3] for p in selected_partitions(scan, found)} == set(chosen)


ROW = {
    "partition": "ds=a%3Ab/n=__HIVE_DEFAULT_PARTITION__", "location": "file:/t/ds=a", "status": "sealed", "num_buckets": 4,
    "bucket_columns": ["k"], "sort_columns": '["k", "v"]', "hash": "hive", "problem": None, "files": 3, "bytes": 7,
    "max_files_per_bucket": 1,
}  # fmt: skip


@pytest.mark.parametrize(("status", "is_known"), [("sealed", True), ("unchanged", True), ("seal-stale", False)])
def test_row_becomes_a_partition_with_the_spec_of_a_valid_seal(status: str, is_known: bool) -> None:
    found = partition_of({**ROW, "status": status})
    numbers = (found.files, found.size, found.files_per_bucket, found.files_read)
    assert (found.values, *numbers) == (("a:b", None), 3, 7, 1, 0)
    assert found.spec == (BucketSpec(4, ("k",), ("k", "v"), "hive") if is_known else None)
    assert (found.problem, found.location) == ("", "file:/t/ds=a")
