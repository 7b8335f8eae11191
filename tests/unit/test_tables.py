"""Tests of a table's bucket spec, files and partitions, of `table verify`, and of the reports on tables."""

from __future__ import annotations

import html
import io
import itertools
import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import pytest
import yaml
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from conftest import REPOSITORY
from spark_bucketing import output
from spark_bucketing.checks.checked_query import selected_partitions
from spark_bucketing.doctor.server import Diagnosis, write_diagnoses
from spark_bucketing.errors import exit_code
from spark_bucketing.output import console_on
from spark_bucketing.plan.document import Scan
from spark_bucketing.spec import BucketHash, BucketSpec
from spark_bucketing.tables.file_statistics import FileState, FileStats
from spark_bucketing.tables.metadata import (
    Column,
    Merging,
    Partition,
    Status,
    TableMetadata,
    compatible_read,
    partition_of,
    readable_ranges,
    runs,
    smallest_rewrite,
    span,
)
from spark_bucketing.tables.overview import DataFile, Overview, bucket_of
from spark_bucketing.tables.report import print_specs, specs_data, write_file_statistics_report, write_overviews
from spark_bucketing.tables.rewrite import RewritePlan, covering, plan_rewrite

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
EIGHT = replace(SPEC, num_buckets=8)


@cases("shared/file_names", name=..., hive=..., spark=...)
def test_bucket_id_is_parsed_from_the_file_name(name: str, hive: int | None, spark: int | None) -> None:
    assert (bucket_of(name, "hive"), bucket_of(name, "spark")) == (hive, spark)


@given(bucket=st.integers(0, 99_999), task=st.integers(0, 99_999), uuid=st.uuids(), part=st.integers(0, 999))
def test_names_that_spark_writes_are_parsed(bucket: int, task: int, uuid: object, part: int) -> None:
    name = f"part-{task:05d}-{uuid}_{bucket:05d}.c{part:03d}.snappy.parquet"
    assert bucket_of(name, "spark") == bucket_of(f"{bucket:05d}_0_{name}", "hive") == bucket


def stored(files: str, partitioned: bool = False) -> Overview:
    """Return a table with four buckets and these files, such as `00000_0:8`, whose number of rows may be omitted."""
    of = (file.partition(":")[::2] for file in files.split())
    found = tuple(DataFile(f"file:///wh/t/{path}", int(number or 1)) for path, number in of)
    return Overview(TableMetadata("t", SPEC, (Column("d", "int"),) if partitioned else ()), SPEC, found)


def evolving(specs: dict[str, BucketSpec | None]) -> TableMetadata:
    """Return a table partitioned by d, whose partitions are sealed with these specs."""
    parts = [Partition(name, (name[2:],), f"file:/wh/t/{name}", Status.SEALED, spec) for name, spec in specs.items()]
    return TableMetadata("db.t", SPEC, (Column("d", "int"),), tuple(parts))


@cases("tables/files", files="", four=(), eight=(), partitions=..., rows=..., skew=..., findings=())
def test_files_have_the_expected_numbers_skew_and_findings(
    files: str, four: list[int], eight: list[int], partitions: Any, rows: Any, skew: Any, findings: list[str]
) -> None:
    of = [f"d={d}/{bucket:05}_0:{n}" for d, numbers in ((1, four), (2, eight)) for bucket, n in enumerate(numbers)]
    found = stored(files or " ".join(of), partitioned="d=" in files or bool(eight))
    if eight:
        found = replace(found, table=evolving({"d=1": None, "d=2": EIGHT}))
    for expected, number in ((partitions, found.partitions), (rows, found.rows), (skew, found.skew)):
        assert expected in (..., number)
    assert found.state == ("wrong" if findings else "ok")
    for finding, said in zip(found.findings, findings, strict=True):
        assert finding.startswith(said) and ("dbt run --full-refresh" in finding or eight)


@pytest.mark.parametrize("files", ["d=2/00001_0 d=2/00001_1", "d=2/data.parquet", "d=2/00004_0"])
def test_only_unsorted_partitions_of_an_evolving_table_are_rewritten(files: str) -> None:
    found = stored(f"d=1/00001_0 {files}", partitioned=True)
    (finding,) = replace(found, table=evolving({"d=1": None, "d=2": None})).findings
    assert finding.endswith('rewrite these partitions (spark-bucketing table rewrite db.t --where "d = 2").')


DS = (Column("ds", "string"),)


def verified_part(ds: str, status: str, bucket_hash: BucketHash = "hive") -> Partition:
    """Return a partition with a status, which a problem may follow."""
    status, _, problem = status.partition(" ")
    sealed = replace(SPEC, bucket_hash=bucket_hash) if status == Status.SEALED else None
    return Partition(f"ds={ds}", (ds,), f"/t/ds={ds}", status, sealed, problem, files=4, files_per_bucket=1)


def overview(*parts: Partition) -> Overview:
    table = TableMetadata("db.t", SPEC, DS if any(one.values for one in parts) else (), parts)
    files = (DataFile("/t/ds=a/00000_0", 1, 1),)
    return Overview(table, SPEC, files, merging=Merging("auto", 4, 4), is_verified=True)


@cases("tables/verify", partitions=(), refused="", files=(), overlaps=False, said=())
def test_finding_states_the_problem_and_the_command_to_run(
    partitions: list[str], refused: str, files: list[FileState], overlaps: bool, said: list[str]
) -> None:
    sealed = (verified_part("b", refused),) if refused else ()
    verified = replace(overview(*map(verified_part, "abc", partitions)), sealed=sealed)
    statistics = tuple(FileStats(f"part-{n}", 1, 1, state, overlaps=overlaps) for n, state in enumerate(files))
    organized = Overview(TableMetadata("db.o", None, ()), statistics=statistics, is_verified=True)
    found = verified if partitions else organized
    assert (found.state, len(found.findings)) == ("wrong" if said else "ok", bool(said))
    assert all(text in found.findings[0] for text in said)


def test_names_and_seals_of_unpartitioned_tables_are_checked_too() -> None:
    stray = (DataFile("/t/ds=a/data.parquet", 1, 1),)
    (finding,) = replace(overview(verified_part("a", "sealed")), files=stray).findings
    assert "without a bucket id in the name" in finding
    (finding,) = overview(Partition("", (), "/t", "not-sealed")).findings
    assert "no valid seal [not-sealed]: queries use an ordinary scan" in finding


def test_state_depends_on_the_layout_the_extension_and_the_readable_files() -> None:
    # Stock Spark reads the Spark layout without seals.
    spec = replace(SPEC, bucket_hash="spark")
    for status, state in (("not-sealed", "ok"), ("seal-stale", "wrong")):
        found = overview(verified_part("a", status))
        assert replace(found, table=replace(found.table, spec=spec), spec=spec, files=()).state == state
    sealed = overview(verified_part("a", "sealed"))
    assert replace(sealed, merging=None).state == "unknown"
    text = replace(sealed, files=(), unreadable="It is text.")
    assert (text.state, text.unknown) == ("unknown", "It is text.")


@cases("tables/versions", stated=None, sealed={}, read={}, said=[])
def test_version_of_the_rows_is_compared_with_the_stated_version(
    stated: str | None, sealed: dict[str, Any], read: dict[str, Any], said: list[str]
) -> None:
    properties = {} if stated is None else {"Table Properties": f"[bucketing_version={stated}]"}
    # Partitions without a hash are not sealed.
    stored, recomputed = (
        tuple(verified_part(ds, "sealed" if of else "not-sealed", of) for ds, of in hashes.items())
        for hashes in (sealed, read)
    )
    of = overview(*stored)
    table = replace(of.table, details={"Provider": "hive", **properties})
    found = replace(of, table=table, sealed=recomputed)
    assert len(found.findings) == len(said), found.findings
    assert all(text in finding for text, finding in zip(said, found.findings, strict=True))
    assert found.state == ("wrong" if said else "ok")


def described(name: str, spec: BucketSpec, file_format: str, *columns: Column) -> TableMetadata:
    return TableMetadata(name, spec, columns, details={"Provider": file_format})


FLIGHTS = BucketSpec(2, ("tailnum", "[day]"), ("tailnum",), "hive")
PLANES, NOTES = BucketSpec(2, ("tailnum",), (), "spark"), BucketSpec(2, ("k",), (), "hive")
DATA = (DataFile("/d=1/00000_0", 3000, 4096), DataFile("/d=1/00001_0", 1000, 1536), DataFile("/d=2/00000_0", 0, 100))
OK = Overview(described("flights", FLIGHTS, "parquet", Column("d", "int")), FLIGHTS, DATA)
SIXTEEN = Partition("d=2", ("2",), "/d=2", "sealed", replace(FLIGHTS, num_buckets=16))
MIXED = replace(OK, table=replace(OK.table, partitions=(SIXTEEN,)))
WRONG = Overview(described("planes", PLANES, "orc"), PLANES, (DataFile("/x.orc", 1, 7),))
UNKNOWN = Overview(described("notes", NOTES, "textinputformat"), NOTES, unreadable="It is text.")


def written(*overviews: Overview, form: str = "text") -> str:
    file = io.StringIO()
    write_overviews("s", overviews, form, file)
    return file.getvalue()


FLIGHTS_LINE = "flights hive parquet tailnum, [day] tailnum {} 2 3 100 bytes 1.5 KiB 4.0 KiB 5.6 KiB 4,000 1.50 - ok"


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        (OK, FLIGHTS_LINE.format("2")),
        (MIXED, FLIGHTS_LINE.format("2, 16")),
        (WRONG, "planes spark orc tailnum - 2 - 1 7 bytes 7 bytes 7 bytes 7 bytes 1 - - wrong"),
        (UNKNOWN, "notes hive textinputformat k - 2 - - - - - - - - - unknown"),
    ],
)
def test_each_table_is_one_line(layout: Overview, cells: str) -> None:
    assert [line for line in written(layout).splitlines() if line.split() == cells.split()]


def test_json_contains_bytes_and_partition_specs() -> None:
    data = json.loads(written(MIXED, WRONG, UNKNOWN, form="json"))
    assert data["schema"] == "s"
    first, second, third = data["tables"]
    assert first == yaml.safe_load((REPOSITORY / "tests" / "cases" / "tables" / "report.yml").read_text())
    assert (second["partitions"], second["skew"], second["findings"]) == (None, None, list(WRONG.findings))
    assert (third["state"], third["unreadable"]) == ("unknown", "It is text.")
    assert third["files"] is third["bytes"] is None
    assert json.loads(written(form="json")) == {"schema": "s", "tables": []}
    documented = (REPOSITORY / "docs" / "reference" / "table.md").read_text()
    for key in [*first, *first["bytes"], *first["by_spec"][0], *first["spec"]]:
        assert f"`{key}`" in documented, key


def test_table_that_is_not_clustered_has_the_same_numbers_in_text_and_json() -> None:
    parts = tuple(replace(SIXTEEN, name=f"d={d}", files=4, size=512) for d in (1, 2))
    overview = Overview(TableMetadata("db.flights", None, (Column("d", "int"),), parts))
    cells = "db.flights not clustered - - - 16 2 8 - - - 1.0 KiB - - - ok"
    assert cells.split() in [line.split() for line in written(overview).splitlines()]
    (listed,) = json.loads(written(overview, form="json"))["tables"]
    assert (listed["partitions"], listed["files"], listed["rows"], listed["by_spec"]) == (2, 8, None, [])
    assert listed["bytes"] == {"smallest": None, "median": None, "largest": None, "total": 1024}


@pytest.mark.parametrize("width", [40, 80, 300])
def test_narrow_terminal_shows_every_value(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("NO_COLOR", "1"), ("COLUMNS", str(width))):
        monkeypatch.setenv(name, value)
    text = re.sub(r"\x1b\[[\d;]*m", "", written(OK))
    assert all(len(line) <= width for line in text.splitlines())
    for value in ("flights", "tailnum, [day]", "100 bytes", "1.5 KiB", "4.0 KiB", "5.6 KiB", "4,000", "1.50", "ok"):
        assert value in text
    assert bool(re.search(r"^rows +4,000 *$", text, re.MULTILINE)) == (width < 300)
    # An empty line separates two records.
    both = re.sub(r"\x1b\[[\d;]*m", "", written(OK, WRONG))
    assert bool(re.search(r"^ *\n\w+ +planes *$", both, re.MULTILINE)) == (width < 300)


def test_findings_follow_in_whole_lines_and_first_on_the_page() -> None:
    lines = written(OK, WRONG, UNKNOWN).splitlines()[-2:]
    assert lines == [f"planes: {WRONG.findings[0]}", "notes: It is text."]
    page = written(OK, UNKNOWN, WRONG, form="html")
    assert re.findall('<h2 id="(.+?)"', page) == ["planes", "notes", "flights"]
    assert html.escape(WRONG.findings[0]) in page and "It is text." in page


@pytest.mark.parametrize(
    ("states", "code"), [("", 0), ("ok", 0), ("ok wrong", 1), ("ok unknown", 2), ("unknown wrong", 1)]
)
def test_exit_code_distinguishes_findings_from_unknowns(states: Any, code: int) -> None:
    assert exit_code(set(states.split())) == code


@pytest.mark.parametrize("width", [44, 60, 100])
def test_narrow_terminals_break_no_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"part-{number}.parquet" for number in (1, 2)]
    files = [FileStats(name, 1000, 10, "covered", "a=1", "2024-01-01", "2024-02-01", 0) for name in names]
    diagnosis = Diagnosis("Spark", "Spark 3.4 is not supported", "wrong", "install a newer version")
    reports: list[tuple[Any, str, Any]] = [
        (write_overviews, "s", [OK, UNKNOWN]), (write_file_statistics_report, "db.flights", files), (write_diagnoses, "t", [diagnosis])
    ]  # fmt: skip
    forced = {"width": width, "force_terminal": True, "color_system": None}
    for write, name, found in reports:
        wide, narrow = io.StringIO(), io.StringIO()
        write(name, found, "text", wide)
        with monkeypatch.context() as patched:
            patched.setattr(output, "Console", lambda **options: Console(**{**options, **forced}))
            write(name, found, "text", narrow)
        assert max(map(len, narrow.getvalue().splitlines())) <= width
        words = {word for word in wide.getvalue().split() if len(word) < 20 and "─" not in word}
        assert words <= set(narrow.getvalue().split())


MERGING = Merging("auto", 2, 4)


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


def days(specs: Sequence[BucketSpec | str | None]) -> list[Partition]:
    """Return partitions ds=a, ds=b and so on with these specs."""
    return [part(f"ds={ds}", found) for ds, found in zip(ascii_lowercase, specs, strict=False)]


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
    found = table(*days(of))
    read = compatible_read(found, found.partitions, MERGING)
    assert ((read.spec.num_buckets if read.spec else None), read.why) == (buckets, why)


SPECS = st.sampled_from([spec(2), spec(3), spec(4), spec(8), spec(9), spec(16), spec(8, "v"), None, "", "broken"])


@given(st.lists(SPECS, min_size=1, max_size=7))
def test_longest_readable_ranges_are_found(specs: list[BucketSpec | str | None]) -> None:
    found = table(*days(specs))
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
    found = table(*days(specs), own=own)

    def cures(chosen: Sequence[Partition]) -> bool:
        names = {p.name for p in chosen}
        after = [part(p.name, own) if p.name in names else p for p in found.partitions]
        return compatible_read(found, after, merging).spec is not None

    rewritten = smallest_rewrite(found, found.partitions, merging)
    assert cures(rewritten)
    fewer = itertools.combinations(found.partitions, len(rewritten) - 1) if rewritten else ()
    assert not any(cures(chosen) for chosen in fewer)


def test_partitions_with_another_hash_are_rewritten_unless_the_table_has_no_buckets() -> None:
    version_2 = replace(spec(8), bucket_hash="hive2")
    found = table(*days([spec(8), version_2, spec(4)]))
    why = compatible_read(found, found.partitions, MERGING).why
    assert "its bucket specs differ: hash hive in ds=a, hash hive2 in ds=b" in why
    for own, rewritten in ((spec(8), ["ds=b"]), (version_2, ["ds=a", "ds=c"]), (None, [])):
        found = replace(found, spec=own)
        assert [one.name for one in smallest_rewrite(found, found.partitions, MERGING)] == rewritten
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
    chosen = [one for one in found.partitions if data.draw(st.booleans())]
    # SQLite strings have no escapes; the rest of the predicate is standard SQL.
    predicate = covering(found, chosen).replace("\\\\", "\\").replace("\\'", "''")
    memory = sqlite3.connect(":memory:")
    memory.execute("create table t (name, ds, n integer)")
    memory.executemany("insert into t values (?, ?, ?)", [(p.name, *p.values) for p in found.partitions])
    selected = {row[0] for row in memory.execute(f"select name from t where {predicate}")}
    assert selected == {one.name for one in chosen}


def rewrite_plan(*partitions: Partition, unclear: frozenset[str] = frozenset()) -> RewritePlan:
    found = replace(table(*partitions), details={"Location": "file:///t"})
    return plan_rewrite(found, found.partitions, unclear)


def test_partitions_with_the_table_spec_and_one_file_per_bucket_are_skipped() -> None:
    done = part("ds=a", spec(8)), part("ds=b", "", files=0, files_per_bucket=None)
    several = part("ds=c", spec(8), files_per_bucket=2), part("ds=d", spec(8), files_per_bucket=None)
    stale = part("ds=e", "some of the 3 files in ds=e differ from the sealed files")
    todo = (*several, part("ds=f", spec(8, order=())), part("ds=g", spec(16)), part("ds=h", None), stale)
    found = rewrite_plan(*done, *todo)
    assert (set(found.done), set(found.todo), found.left) == (set(done), set(todo), ())


def test_partitions_with_shared_directories_are_not_rewritten() -> None:
    outer, inner = part("ds=a", None), part("ds=b", None, location="file:///t/ds=a/ds=b")
    whole, alike = part("ds=c", None, location="file:/"), part("ds=ab", None)
    found = rewrite_plan(outer, inner, alike, unclear=frozenset(["ds=ab"]))
    assert [partition.name for partition in found.todo] == ["ds=b"]
    left = [(partition.name, "also contains ds=b" in why) for partition, why in found.left]
    assert left == [("ds=a", True), ("ds=ab", False)]
    assert "also contains the table" in rewrite_plan(whole).left[0][1]


def test_statement_does_not_exceed_the_limits() -> None:
    sizes = [40, 40, 40, 150, 1]
    found = rewrite_plan(*(part(f"ds={d}", None, size=size * 2**30) for d, size in zip("abcde", sizes, strict=True)))
    assert ["".join(one.name[3:] for one in batch) for batch in found.batches()] == ["ab", "c", "d", "e"]
    many = rewrite_plan(*(part(f"ds={number}", None) for number in range(2001)))
    assert [len(batch) for batch in many.batches()] == [1000, 1000, 1]


def shown(seen: TableMetadata) -> str:
    file = io.StringIO()
    print_specs(seen, MERGING, console_on(file))
    return file.getvalue()


def test_show_prints_ranges_and_readable_partitions() -> None:
    text = shown(table(*days([spec(8), spec(8), "", None]), own=spec(16)))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "db.t: 16 buckets by (k), sorted by (k), hash hive, 4 partitions"
    assert "ds=a .. ds=b 2 8 buckets by (k), sorted by (k), hash hive" in lines
    assert "ds=c 1 empty" in lines and "ds=d 1 [not-sealed]" in lines
    assert "Read as bucketed, all partitions together: no, partition ds=d is not-sealed" in lines
    assert "ds=a .. ds=c 3 as 8 buckets by (k)" in lines
    assert "0 partitions" in shown(table())
    assert specs_data(table(), MERGING)["all_partitions"] is None
    assert str(spec(1, order=())) == "1 bucket by (k), not sorted, hash hive"


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
