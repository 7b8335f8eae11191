"""Bucket specs over partitions, without Spark: what can be read together, what is wrong, and what mends it."""

from __future__ import annotations

import io
import itertools
import json
import shlex
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bucketing.eligibility.partitions import selected_partitions
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.commands import rewriting, rewriting_one
from spark_bucketing.evolution.covering import covering
from spark_bucketing.evolution.evidence import FileEvidence
from spark_bucketing.evolution.locations import address, base_name, is_within, parent, path
from spark_bucketing.evolution.model import Column, Partition, RecordState, Table, words
from spark_bucketing.evolution.reading import Merging, read_together, readable_ranges, runs, span
from spark_bucketing.evolution.repair import Change, candidates, plan_repair
from spark_bucketing.evolution.smallest import smallest_rewrite
from spark_bucketing.evolution.verify import StoredTable, check_partitions, check_table
from spark_bucketing.evolution.warehouse import StoredFile
from spark_bucketing.plan import Node, parse_statistics
from spark_bucketing.report.evolution import write_findings, write_specs
from spark_bucketing.spec import BucketSpec

MERGING = Merging("auto", 2, 4)
DS = (Column("ds", "string"),)


def spec(buckets: int, *columns: str, order: tuple[str, ...] | None = None) -> BucketSpec:
    by = columns or ("k",)
    return BucketSpec(buckets, by, by if order is None else order, "hive")


def part(name: str, said: BucketSpec | str | None, **more: object) -> Partition:
    """A partition with a spec; None for 0 buckets, "" for no record, other text for a broken one."""
    values = tuple(None if v == "NULL" else v for v in (piece.partition("=")[2] for piece in name.split("/")))
    state = RecordState.BUCKETED
    if not isinstance(said, BucketSpec):
        state = RecordState.UNBUCKETED if said is None else (RecordState.BROKEN if said else RecordState.MISSING)
    own = said if isinstance(said, BucketSpec) else None
    made = Partition(name, values, f"file:/t/{name}", state, own, said if isinstance(said, str) else "", own)
    return replace(made, **more)  # type: ignore[arg-type]


def table(*partitions: Partition, own: BucketSpec | None = None, columns: tuple[Column, ...] = DS) -> Table:
    return Table("db.t", spec(8) if own is None else own, columns, True, partitions).ordered()


def test_neighbours_with_the_same_spec_are_a_range() -> None:
    found = runs(table(*(part(f"ds={d}", spec(8 if d < "c" else 16)) for d in "edcba")))
    assert [(run.name, run.claim) for run in found] == [("ds=a .. ds=b", spec(8)), ("ds=c .. ds=e", spec(16))]


def test_partitions_without_a_record_are_a_range_of_their_own() -> None:
    assert len(runs(table(part("ds=a", spec(8)), part("ds=b", ""), part("ds=c", spec(8))))) == 3


def test_numbers_are_in_the_order_of_numbers_and_null_comes_first() -> None:
    columns = (Column("n", "int"), Column("s", "string"))
    found = table(*(part(name, spec(8)) for name in ("n=10/s=a", "n=9/s=b", "n=9/s=10", "n=NULL/s=z")), columns=columns)
    assert [p.name for p in found.partitions] == ["n=NULL/s=z", "n=9/s=10", "n=9/s=b", "n=10/s=a"]


@pytest.mark.parametrize(
    ("said", "buckets", "why"),
    [
        ((spec(8), spec(8)), 8, ""),
        ((spec(8), spec(16)), 8, ""),
        ((spec(8), spec(12)), 4, ""),
        ((spec(8), ""), 8, ""),
        ((spec(7), spec(8)), None, "its bucket specs differ: 7 buckets in ds=a, 8 buckets in ds=b"),
        ((spec(8), spec(8, "v")), None, "its bucket specs differ: by k in ds=a, by v in ds=b"),
        ((spec(8), None), None, "partition ds=b is recorded as one without buckets"),
        ((None, None, None), None, "partitions ds=a and 2 more are recorded as ones without buckets"),
        ((None, spec(8), "no hash"), None, "partition ds=a is recorded as one without buckets"),
        ((spec(8), "no hash"), None, "partition ds=b has a broken record: no hash"),
        (("no hash", spec(8), "no hash"), None, "partitions ds=a and 1 more have broken records: no hash"),
    ],
)
def test_what_is_read_together(said: Sequence[BucketSpec | str | None], buckets: int | None, why: str) -> None:
    read = read_together(runs(table(*(part(f"ds={d}", s) for d, s in zip("abc", said, strict=False)))), MERGING)
    assert read.buckets == buckets
    assert read.why == why


@pytest.mark.parametrize(
    ("merging", "few", "many", "worth"),
    [
        (Merging("auto", 2, 4), 2, 64, True),
        (Merging("auto", 8, 4), 4, 16, True),
        (Merging("auto", 8, 4), 2, 16, False),
        (Merging("coalesce", 8, 4), 2, 16, True),
        (Merging("coalesce", 8, 4), 1, 16, False),
        (Merging("off", 2, 4), 8, 16, False),
        (Merging("off", 2, 4), 8, 8, True),
    ],
)
def test_few_tasks_are_not_worth_it(merging: Merging, few: int, many: int, worth: bool) -> None:
    assert merging.worth(few, many) is worth


def test_the_longest_ranges_overlap_where_they_can() -> None:
    said = [spec(9), spec(3), spec(16), spec(8), None, spec(8), spec(8, "v")]
    found = table(*(part(f"ds={d}", s) for d, s in zip("abcdefg", said, strict=True)))
    reads = readable_ranges(runs(found), MERGING)
    assert [(span(r.partitions), r.buckets) for r in reads] == [
        ("ds=a .. ds=b", 3),
        ("ds=c .. ds=d", 8),
        ("ds=e", None),
        ("ds=f", 8),
        ("ds=g", 8),
    ]


SAID = st.sampled_from([spec(2), spec(3), spec(4), spec(8), spec(16), spec(8, "v"), None, "", "broken"])


@given(st.lists(SAID, min_size=1, max_size=7))
def test_the_longest_ranges_are_all_there_is(said: list[BucketSpec | str | None]) -> None:
    found = table(*(part(f"ds={d}", s) for d, s in zip("abcdefg", said, strict=False)))
    all_runs = runs(found)
    fits = {
        (i, j)
        for i, j in itertools.combinations(range(len(all_runs) + 1), 2)
        if read_together(all_runs[i:j], MERGING).buckets
    }
    longest = {(i, j) for i, j in fits if not any((a, b) != (i, j) and a <= i and j <= b for a, b in fits)}
    expected = {span([p for run in all_runs[i:j] for p in run.partitions]) for i, j in longest}
    assert {span(r.partitions) for r in readable_ranges(all_runs, MERGING) if r.buckets} == expected


@given(st.lists(SAID, min_size=1, max_size=6), st.sampled_from([spec(8), spec(4), spec(16)]))
def test_the_smallest_rewrite_cures_and_none_is_smaller(said: list[BucketSpec | str | None], own: BucketSpec) -> None:
    found = table(*(part(f"ds={d}", s) for d, s in zip("abcdef", said, strict=False)), own=own)

    def cures(chosen: Sequence[Partition]) -> bool:
        names = {p.name for p in chosen}
        after = [part(p.name, own) if p.name in names else p for p in found.partitions]
        return read_together(runs(replace(found, partitions=tuple(after))), MERGING).buckets is not None

    rewritten = smallest_rewrite(found, found.partitions, MERGING)
    assert cures(rewritten)
    fewer = itertools.combinations(found.partitions, len(rewritten) - 1) if rewritten else ()
    assert not any(cures(chosen) for chosen in fewer)


def test_a_table_without_buckets_has_no_rewrite_that_cures() -> None:
    found = replace(table(part("ds=a", spec(8)), part("ds=b", None)), spec=None)
    assert smallest_rewrite(found, found.partitions, MERGING) == ()


@pytest.mark.parametrize(
    ("chosen", "predicate"),
    [
        ("a", "ds = 'a'"),
        ("ab", "ds in ('a', 'b')"),
        ("abc", "ds <= 'c'"),
        ("cdef", "ds >= 'c'"),
        ("bcd", "ds >= 'b' and ds <= 'd'"),
        ("abcf", "(ds <= 'c' or ds = 'f')"),
        ("abcdef", "true"),
    ],
)
def test_a_predicate_says_which_partitions(chosen: str, predicate: str) -> None:
    found = table(*(part(f"ds={d}", spec(8)) for d in "abcdef"))
    assert covering(found, [p for p in found.partitions if p.name[-1] in chosen]) == predicate


def test_a_predicate_goes_down_to_the_next_column_only_where_it_has_to() -> None:
    columns = (Column("ds", "date"), Column("n", "int"))
    names = [f"ds=2024-01-0{d}/n={n}" for d in (1, 2) for n in (1, 2)]
    found = table(*(part(name, spec(8)) for name in [*names, "ds=NULL/n=1"]), columns=columns)
    chosen = [p for p in found.partitions if p.name in (*names[:3], "ds=NULL/n=1")]
    assert covering(found, chosen) == "(ds = date '2024-01-01' or ds is null or (ds = date '2024-01-02' and n = 1))"


VALUES = st.lists(st.sampled_from(["a", "b", "it's", "c\\d", "é", "NULL"]), min_size=1, max_size=6, unique=True)


@given(VALUES, st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True), st.data())
def test_a_predicate_selects_exactly_what_was_chosen(names: list[str], numbers: list[int], data: st.DataObject) -> None:
    columns = (Column("ds", "string"), Column("n", "int"))
    found = table(*(part(f"ds={d}/n={n}", spec(8)) for d in names for n in numbers), columns=columns)
    chosen = [p for p in found.partitions if data.draw(st.booleans())]
    # SQLite's strings have no escapes; the rest of the predicate is everyone's SQL.
    predicate = covering(found, chosen).replace("\\\\", "\\").replace("\\'", "''")
    memory = sqlite3.connect(":memory:")
    memory.execute("create table t (name, ds, n integer)")
    memory.executemany("insert into t values (?, ?, ?)", [(p.name, *p.values) for p in found.partitions])
    selected = {row[0] for row in memory.execute(f"select name from t where {predicate}")}
    assert selected == {p.name for p in chosen}


def test_values_are_quoted_for_spark() -> None:
    assert sql.text("it's ${x} \\ y") == "'it\\'s \\u0024{x} \\\\ y'"
    assert sql.literal("2024-01-01", Column("d", "date")) == "date '2024-01-01'"
    assert sql.literal("7", Column("n", "bigint")) == "7"
    assert sql.literal("x", Column("n", "int")) == "cast('x' as int)"
    assert sql.partition_spec(DS, part("ds=NULL", None)) == "partition (`ds` = null)"
    assert sql.table("db.`a.b``c`") == "`db`.`a.b``c`"
    assert sql.files_of("file:/a [b]`/*", "orc") == "SELECT * FROM orc.`file:/a \\[b\\]``/\\*`"


def test_commands_can_be_copied_into_a_shell() -> None:
    found = table(*(part(name, None) for name in ("ds=a", "ds=it's", "ds=$x")))
    said = [rewriting_one(found, partition.name, "--take-over") for partition in found.partitions]
    assert [shlex.split(command)[3:] for command in said] == [
        ["db.t", "--where", f"ds = {sql.text(value)}", "--take-over"] for value in ("$x", "a", "it's")
    ]
    assert rewriting_one(found, "ds=gone") == 'spark-bucketing evolution rewrite db.t --where "false"'
    assert rewriting("db.`a b`") == "spark-bucketing evolution rewrite 'db.`a b`'"


def files(*rows: tuple[str, int, Mapping[int, tuple[int, int]]], disorder: int = 0) -> tuple[FileEvidence, ...]:
    return tuple(
        FileEvidence(name, number, {(n, ("k",)): found for n, found in buckets.items()}, {("k",): disorder})
        for name, number, buckets in rows
    )


OF_4 = files(("00000_0_x", 9, {4: (0, 0), 8: (0, 4)}), ("00001_0_x", 9, {4: (1, 1), 8: (1, 5)}))
LOOSE = files(("part-0", 9, {4: (0, 3), 8: (0, 7)}))
SWAPPED = files(("00001_0_x", 9, {4: (0, 0), 8: (0, 4)}))
UNSORTED = files(("00000_0_x", 9, {4: (0, 0), 8: (0, 4)}), disorder=3)


def repairs(found: Table, evidence: Mapping[str, Sequence[FileEvidence]]) -> list[Change]:
    known = candidates(found, [[file.name for file in files] for files in evidence.values()])
    return plan_repair(found, evidence, known)


@pytest.mark.parametrize(
    ("said", "own", "evidence", "wanted"),
    [
        (spec(4), spec(8), OF_4, "nothing"),
        (spec(8), spec(4), OF_4, spec(4)),
        ("", spec(4), OF_4, spec(4)),
        ("broken", spec(8), OF_4, None),
        ("broken", spec(4), OF_4, spec(4)),
        (spec(4), spec(4), LOOSE, None),
        (spec(4), spec(4), SWAPPED, None),
        (spec(4), spec(4), UNSORTED, spec(4, order=())),
        (spec(4, order=()), spec(8), UNSORTED, "nothing"),
        (None, spec(4), OF_4, spec(4)),
        (None, spec(8), OF_4, "nothing"),
        (spec(8), spec(4), (), "nothing"),
        ("", spec(4), (), spec(4)),
    ],
)
def test_the_record_becomes_what_the_files_prove(
    said: BucketSpec | str | None, own: BucketSpec, evidence: Sequence[FileEvidence], wanted: BucketSpec | str | None
) -> None:
    found = table(part("ds=a", said), own=own)
    changes = repairs(found, {"ds=a": evidence})
    if wanted == "nothing":
        assert changes == []
        return
    assert [change.spec for change in changes] == [wanted]
    repaired = table(part("ds=a", wanted), own=own)
    assert repairs(repaired, {"ds=a": evidence}) == []


def test_another_partitions_spec_is_a_candidate() -> None:
    found = table(part("ds=a", "broken"), part("ds=b", spec(4)), own=spec(8))
    changes = repairs(found, {"ds=a": OF_4, "ds=b": OF_4})
    assert [(change.partition.name, change.spec) for change in changes] == [("ds=a", spec(4))]


def test_names_of_files_are_candidates() -> None:
    found = table(part("ds=a", None), own=spec(8))
    named = replace(OF_4[1], name="00003_0_x", buckets={(4, ("k",)): (3, 3), (8, ("k",)): (3, 7)})
    assert [change.spec for change in repairs(found, {"ds=a": (OF_4[0], named)})] == [spec(4)]
    one = replace(OF_4[0], buckets={(8, ("k",)): (0, 4)})
    assert repairs(found, {"ds=a": (one,)}) == []


def test_a_wiped_descriptor_is_brought_back() -> None:
    found = table(part("ds=a", spec(4), descriptor=None))
    assert [change.spec for change in repairs(found, {"ds=a": OF_4})] == [spec(4)]
    unknown = table(part("ds=a", spec(4), descriptor=None, described=False))
    assert repairs(unknown, {"ds=a": OF_4}) == []


def test_partitions_of_a_table_that_never_evolved_need_no_record() -> None:
    never = replace(table(part("ds=a", "", descriptor=spec(4)), own=spec(4)), evolved=False)
    assert repairs(never, {"ds=a": OF_4}) == []
    assert [change.spec for change in repairs(never, {"ds=a": LOOSE})] == [None]


def test_the_data_of_a_repair() -> None:
    found = table(part("ds=it's", "broken"), part("ds=b", "broken"), own=spec(4))
    loose, of_4 = repairs(found, {"ds=it's": OF_4, "ds=b": LOOSE})
    assert of_4.data() == {"partition": "ds=it's", "buckets": 4, "columns": ("k",), "sort": ("k",)}
    assert loose.data() == {"partition": "ds=b"}


def listed(*names: str) -> tuple[StoredFile, ...]:
    return tuple(StoredFile(name, 10, 5) for name in names)


@pytest.mark.parametrize(
    ("said", "names", "found"),
    [
        (spec(8), ("00007_0_x",), None),
        (spec(8), ("00008_0_x",), "the file 00008_0_x is of bucket 8"),
        (spec(8), ("part-0",), "the file part-0 has no bucket id in its name"),
        (None, ("part-0",), None),
        ("bucketing.hash is missing", (), "a broken record: bucketing.hash is missing"),
        ("", ("00007_0_x",), "no record"),
    ],
)
def test_what_verify_finds(said: BucketSpec | str | None, names: tuple[str, ...], found: str | None) -> None:
    seen = table(
        part("ds=a", said, descriptor=said if isinstance(said, BucketSpec) else (spec(8) if said == "" else None))
    )
    findings = list(check_partitions(seen, {"ds=a": listed(*names)}))
    assert [finding.found for finding in findings] == ([found] if found else [])
    assert all("evolution repair db.t" in finding.run for finding in findings)


def test_rows_are_verified_where_they_were_read() -> None:
    seen = table(part("ds=a", spec(4)))
    listing = {"ds=a": listed("00001_0_x")}
    assert list(check_partitions(seen, listing)) == []
    (finding,) = check_partitions(seen, listing, {"ds=a": SWAPPED})
    assert "holds rows of bucket 0" in finding.found
    (finding,) = check_partitions(seen, {"ds=a": listed("00000_0_x")}, {"ds=a": UNSORTED})
    assert "3 rows that are smaller" in finding.found


def test_the_places_of_a_tables_own_spec_are_compared() -> None:
    seen = table()
    assert list(check_table(seen, StoredTable(spec(8), spec(8)))) == []
    assert list(check_table(seen, None)) == []
    (finding,) = check_table(seen, StoredTable(spec(16), spec(8)))
    assert "descriptor says 16 buckets" in finding.found and "properties say 8" in finding.found
    (finding,) = check_table(seen, StoredTable(spec(8), spec(8), "2"))
    assert "bucketing_version is 2" in finding.found


def test_folders_are_compared_in_one_spelling() -> None:
    assert address("file:///t/ds=a%20b/") == address("file:/t/ds=a%20b") == "file:///t/ds=a b"
    assert is_within("file:///t/a/b", "file:///t/a") and not is_within("file:///t/ab", "file:///t/a")
    assert (parent("file:/t/a/"), parent("hdfs://h/t"), parent("file:/t"), parent("s3://bucket")) == (
        "file:/t",
        "hdfs://h",
        "",
        "",
    )
    assert base_name("file:/t/a/") == "a"
    assert {path(place) for place in ("/t/a", "file:/t/a/", "file:///t/a", "s3://b/t/a")} == {"/t/a"}


def shown(seen: Table, form: str = "text") -> str:
    file = io.StringIO()
    write_specs(seen, MERGING, None, form, file)
    return file.getvalue()


def test_show_prints_ranges_and_what_can_be_read() -> None:
    said: dict[str, BucketSpec | str | None] = {"a": spec(8), "b": spec(8), "c": "", "d": None}
    text = shown(table(*(part(f"ds={d}", s) for d, s in said.items()), own=spec(16)))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "db.t: 16 buckets by (k), sorted by (k), 4 partitions"
    assert "ds=a .. ds=b 2 partitions 8 buckets by (k), sorted by (k)" in lines
    assert "ds=c 1 partition no record: the table's 16 buckets by (k), sorted by (k)" in lines
    assert "ds=d 1 partition no buckets, by record" in lines
    assert "all partitions together: no, partition ds=d is recorded as one without buckets" in lines
    assert "ds=a .. ds=c 3 partitions as 8 buckets by (k)" in lines


def test_show_prints_json() -> None:
    data = json.loads(shown(table(part("ds=a", spec(8)), part("ds=b", "no hash"), own=spec(16)), "json"))
    assert data["spec"]["num_buckets"] == 16
    assert [(r["first"], r["record"], r["problem"]) for r in data["ranges"]] == [
        ("ds=a", "bucketed", None),
        ("ds=b", "broken record", "broken record: no hash"),
    ]
    assert data["all_partitions"]["num_buckets"] is None
    assert data["readable"][0]["num_buckets"] == 8


def test_a_table_without_partitions_is_shown() -> None:
    assert "0 partitions" in shown(table())
    assert json.loads(shown(table(), "json"))["all_partitions"] is None
    assert words(None) == "no buckets" and words(spec(1, order=())) == "1 bucket by (k), not sorted"


SCAN = (
    "+- FileScan parquet spark_catalog.db.t[k#1,ds#3] Batched: true, Bucketed: true (8 Hive buckets), DataFilters: [], "
    "Format: Parquet, Location: {index}, PartitionFilters: {filters}, PushedFilters: [], ReadSchema: struct<k:int>"
)


def files_index(*days: str) -> str:
    return f"InMemoryFileIndex({len(days)} paths)[{', '.join(f'file:/w/t/ds={day}' for day in days)}]"


# What EXPLAIN COST says of scans of these filters, and what another scan with its own selects.
SELECTED = [
    ("ds#7 INSET a, c", [(files_index("a", "c"), "ds#3 INSET a, c")], "ac"),
    ("(ds#7 = a) OR (ds#7 = b, c)", [(files_index("a", "b, c"), "(ds#3 = a) OR (ds#3 = b, c)")], "ab"),
    ("ds#7 IN (a)", [(files_index(), "ds#3 IN (a)")], ""),
    ("ds#7 IN (a)", [(files_index("a"), "ds#3 IN (a)"), (files_index("c"), "ds#4 IN (a)")], "ac"),
    ("ds#7 IN (a)", [(files_index("a"), "ds#3 IN (b)")], "abcN"),
    ("ds#7 IN (a)", [("CatalogFileIndex(1 paths)[file:/w/t]", "ds#3 IN (a)")], "abcN"),
    ("ds#7 IN (a)", [("InMemoryFileIndex(3 paths)[file:/w/t/ds=a, ...]", "ds#3 IN (a)")], "abcN"),
    ("ds#7 IN (a)", [(files_index("elsewhere"), "ds#3 IN (a)")], "abcN"),
]


@pytest.mark.parametrize(("filters", "scans", "chosen"), SELECTED)
def test_explain_says_which_partitions_a_scan_selects(filters: str, scans: list[tuple[str, str]], chosen: str) -> None:
    found = table(*(replace(part(f"ds={d}", spec(8)), location=f"file:///w/t/ds={d}") for d in ("a", "b, c", "c", "N")))
    lines = [SCAN.format(index=index, filters=f"[{text}]") for index, text in scans]
    folders = parse_statistics("\n".join(["== Physical Plan ==", *lines])).folders
    scan = Node(1, "Scan", "parquet spark_catalog.db.t", details={"PartitionFilters": f"[{filters}]"})
    assert {p.name[3] for p in selected_partitions(scan, found, folders)} == set(chosen)


def test_records_that_no_reader_asks_for_are_found() -> None:
    seen = replace(table(part("ds=a", spec(4)), part("ds=b", spec(8)), part("ds=c", None)), evolved=False)
    assert [partition.name for partition in seen.hidden] == ["ds=a", "ds=c"]
    (finding,) = check_table(seen, None)
    assert "2 records that are not the table's spec: 4 buckets by (k), sorted by (k) in ds=a" in finding.found
    assert list(check_table(seen.recorded(), None)) == []
    alike = replace(table(part("ds=b", spec(8)), part("ds=c", "")), evolved=False)
    assert (alike.hidden, alike.recorded()) == ((), alike)


def test_verify_counts_the_bad_files_and_names_a_few() -> None:
    seen = table(part("ds=a", spec(4)))
    names = tuple(f"{bucket:05}_0_x" for bucket in range(9))
    (finding,) = check_partitions(seen, {"ds=a": listed(*names)})
    assert finding.found == (
        "5 of 9 files: 00004_0_x is of bucket 4; 00005_0_x is of bucket 5; 00006_0_x is of bucket 6; and 2 more"
    )
    assert [file.name for file in finding.files] == list(names[4:])
    key = (4, ("k",))
    rows = tuple(FileEvidence(f"{bucket:05}_0_x", 5, {key: (0, 3)}, {("k",): 2}) for bucket in range(2))
    placed, sorted_ = check_partitions(seen, {"ds=a": listed("00000_0_x", "00001_0_x")}, {"ds=a": rows})
    assert placed.found.startswith("2 of 2 files: 00000_0_x holds rows of buckets 0 to 3; 00001_0_x holds")
    assert sorted_.found.endswith("00001_0_x has 2 rows that are smaller than the one before")
    unnamed = replace(rows[0], name="part-0")
    (finding,) = check_partitions(seen, {"ds=a": listed("part-0", "00001_0_x")}, {"ds=a": (unnamed,)})
    assert finding.found == "the file part-0 has no bucket id in its name", "and of its order nothing"
    out = io.StringIO()
    write_findings(seen, [placed], None, True, "json", out)
    assert [file["name"] for file in json.loads(out.getvalue())["findings"][0]["files"]] == ["00000_0_x", "00001_0_x"]
