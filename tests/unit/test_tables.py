"""Tests of a table's bucket spec and files, of `table verify`, and of the report on tables."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from conftest import REPOSITORY
from spark_bucketing import output
from spark_bucketing.doctor.server import Diagnosis, write_diagnoses
from spark_bucketing.errors import exit_code
from spark_bucketing.spec import BucketHash, BucketSpec
from spark_bucketing.tables.bucketed_files import BucketedFiles, DataFile, bucket_of
from spark_bucketing.tables.compatibility import Merging
from spark_bucketing.tables.file_statistics import FileState, FileStats
from spark_bucketing.tables.model import Column, Partition, Status, TableMetadata
from spark_bucketing.tables.overview import Overview, Verification
from spark_bucketing.tables.report import write_file_statistics_report, write_overviews
from spark_bucketing.units import size

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
EIGHT = replace(SPEC, num_buckets=8)
FILE_NAMES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "shared" / "file_names.yml").read_text())
HIVE = {"Provider": "hive", "Num Buckets": "8", "Bucket Columns": "[`k`]", "Sort Columns": "[`k`, `ts`]"}


BY_K_AND_TS = BucketSpec(8, ("k",), ("k", "ts"), "hive")
AWKWARD = BucketSpec(8, ("a, b", "c`d", "[e]"), ("k", "ts"), "hive")


@pytest.mark.parametrize(
    ("details", "spec"),
    [
        (HIVE, BY_K_AND_TS),
        ({**HIVE, "Provider": "PARQUET"}, replace(BY_K_AND_TS, bucket_hash="spark")),
        ({**HIVE, "Sort Columns": "[]"}, replace(BY_K_AND_TS, sort_columns=())),
        ({**HIVE, "Bucket Columns": "[`a, b`, `c``d`, `[e]`]"}, AWKWARD),
        *((without, None) for without in ({}, {"Provider": "parquet"}, {**HIVE, "Num Buckets": "0"}, {"Type": "VIEW"})),
    ],
)
def test_spec_matches_the_description(details: dict[str, str], spec: BucketSpec | None) -> None:
    assert BucketSpec.from_description(details) == spec


@pytest.mark.parametrize("case", FILE_NAMES, ids=lambda case: case["name"])
def test_bucket_id_is_parsed_from_the_file_name(case: dict[str, Any]) -> None:
    assert (bucket_of(case["name"], "hive"), bucket_of(case["name"], "spark")) == (case["hive"], case["spark"])


@given(bucket=st.integers(0, 99_999), task=st.integers(0, 99_999), uuid=st.uuids(), part=st.integers(0, 999))
def test_names_that_spark_writes_are_parsed(bucket: int, task: int, uuid: object, part: int) -> None:
    name = f"part-{task:05d}-{uuid}_{bucket:05d}.c{part:03d}.snappy.parquet"
    assert bucket_of(name, "spark") == bucket
    assert bucket_of(f"{bucket:05d}_0_{name}", "hive") == bucket


def stored(files: str = "", rows: int = 1, partitioned: bool = False) -> BucketedFiles:
    """Return a table with four buckets and these files, such as `00000_0:8`, whose number of rows may be omitted."""
    of = (file.partition(":")[::2] for file in files.split())
    found = tuple(DataFile(f"file:///wh/t/{path}", int(number or rows)) for path, number in of)
    return BucketedFiles(TableMetadata("t", SPEC, (Column("d", "int"),) if partitioned else ()), SPEC, found)


NUMBERS = {
    "no files": (stored(), 1, 0, None),
    "no rows": (stored("00001_0:0"), 1, 0, None),
    "even": (stored("00000_0 00001_0 00002_0 00003_0", 5), 1, 20, 1.0),
    "the skew includes empty buckets": (stored("00000_0:8"), 1, 8, 4.0),
    "the rows of a bucket's files add up": (stored("00000_0:3 00000_0_copy_1:3 00001_0:2"), 1, 8, 3.0),
    "the rows of all partitions add up": (stored("d=1/00000_0 d=2/00001_0", 4, True), 2, 8, 2.0),
    "name without a bucket id": (stored("data.parquet:8"), 1, 8, None),
    "bucket out of range": (stored("00000_0 00004_0", 4), 1, 8, None),
}


@pytest.mark.parametrize(("layout", "partitions", "rows", "skew"), NUMBERS.values(), ids=NUMBERS)
def test_table_has_the_expected_numbers_of_partitions_and_rows_and_skew(
    layout: BucketedFiles, partitions: int, rows: int, skew: float | None
) -> None:
    assert (layout.partitions, layout.rows, layout.skew) == (partitions, rows, skew)


def mixed(four: list[int], eight: list[int]) -> BucketedFiles:
    """Return the files of a table with a partition of four buckets, as in the table's spec, and one of eight."""
    files = [f"d={d}/{bucket:05}_0:{rows}" for d, of in ((1, four), (2, eight)) for bucket, rows in enumerate(of)]
    return replace(stored(" ".join(files), partitioned=True), table=evolving({"d=1": None, "d=2": EIGHT}))


def evolving(specs: dict[str, BucketSpec | None]) -> TableMetadata:
    """Return a table partitioned by d, whose partitions are sealed with these specs."""
    parts = [Partition(name, (name[2:],), f"file:/wh/t/{name}", "", spec) for name, spec in specs.items()]
    return TableMetadata("db.t", SPEC, (Column("d", "int"),), tuple(parts))


@pytest.mark.parametrize(
    ("four", "eight", "skew"),
    [
        ([5] * 4, [5] * 8, 1.0), ([5] * 4, [1] * 8, 1.0), ([5] * 4, [8] + [0] * 7, 8.0), ([8, 0, 0, 0], [5] * 8, 4.0),
        ([0] * 4, [5] * 8, 1.0),
    ],
)  # fmt: skip
def test_partitions_with_different_bucket_counts_are_measured_separately(
    four: list[int], eight: list[int], skew: float
) -> None:
    layout = mixed(four, eight)
    assert (layout.skew, layout.state) == (skew, "ok")


def test_skew_is_unknown_if_the_buckets_of_a_partition_are_unknown() -> None:
    layout = mixed([5] * 4, [5] * 9)
    assert layout.skew is None
    assert layout.findings[0].startswith("1 file with a bucket id above 7, such as 00008_0")


FINDINGS = {
    "no files": (stored(), ()),
    "one file per bucket": (stored("00000_0 00003_0"), ()),
    "one file per bucket in each partition": (stored("d=1/00000_0 d=2/00000_0", partitioned=True), ()),
    "name without a bucket id": (stored("00000_0 data.parquet"), ("1 file without a bucket id in the name, such as data.parquet",)),
    "bucket out of range": (stored("00004_0 00005_0"), ("2 files with a bucket id above 3, such as 00004_0",)),
    "several files": (stored("00002_0 00002_1 00002_2:0"), ("1 bucket with more than one file, such as bucket 2 with 3",)),
    "folders that are not partitions": (stored("a=1/00000_0 b=1/00000_0"), ("1 bucket with more than one file",)),
    "several files in a partition": (
        stored("d=1/h=2/00000_0 d=1/h=2/00000_1 d=1/h=3/00000_0", partitioned=True),
        ("1 bucket with more than one file, such as bucket 0 of d=1/h=2 with 2",),
    ),
    "all kinds of problems": (
        stored("data.parquet 00004_0 00001_0 00001_1"),
        ("1 file without", "1 file with a bucket id above 3", "1 bucket with more than one file"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "findings"), FINDINGS.values(), ids=FINDINGS)
def test_finding_states_the_problem_and_the_fix(layout: BucketedFiles, findings: tuple[str, ...]) -> None:
    assert layout.state == ("wrong" if findings else "ok")
    for found, said in zip(layout.findings, findings, strict=True):
        assert found.startswith(said) and "dbt run --full-refresh" in found


@pytest.mark.parametrize("files", ["d=2/00001_0 d=2/00001_1", "d=2/data.parquet", "d=2/00004_0"])
def test_only_unsorted_partitions_of_an_evolving_table_are_rewritten(files: str) -> None:
    found = stored(f"d=1/00001_0 {files}", partitioned=True)
    (finding,) = replace(found, table=evolving({"d=1": None, "d=2": None})).findings
    assert finding.endswith('rewrite these partitions (spark-bucketing table rewrite db.t --where "d = 2").')


FILES = BucketedFiles(
    TableMetadata("db.t", SPEC, (Column("ds", "string"),)), SPEC, (DataFile("/t/ds=a/00000_0", 1, 1),)
)
MERGING = Merging("auto", 4, 4)


def part(ds: str, status: str) -> Partition:
    """Return a partition with a status, which a problem may follow."""
    status, _, problem = status.partition(" ")
    sealed = SPEC if status == Status.SEALED else None
    return Partition(f"ds={ds}", (ds,), f"/t/ds={ds}", status, sealed, problem, files=4, files_per_bucket=1)


def table(*parts: Partition) -> Overview:
    columns = (Column("ds", "string"),) if any(part.values for part in parts) else ()
    return Overview(TableMetadata("db.t", SPEC, columns, parts), FILES, MERGING)


def states(*found: str, sealed: tuple[Partition, ...] = ()) -> Verification:
    """Return the verification of a table whose partitions a, b and so on have these states."""
    return Verification(table(*map(part, "abc", found)), bool(sealed), sealed=sealed)


def organized(*found: str, overlaps: bool = False) -> Verification:
    files = tuple(FileStats(f"part-{n}", 1, 1, state, overlaps=overlaps) for n, state in enumerate(found))
    return Verification(Overview(TableMetadata("db.o", None, ()), statistics=files), statistics=files)


REFUSED = part("b", f"{Status.REFUSED} a row of bucket 1 in a file of bucket 0")
MISSING = "files-missing 1 of the 4 sealed files is missing"
STRAY = replace(FILES, files=(DataFile("/t/ds=a/data.parquet", 1, 1),))
CASES = {
    "sealed": (states("sealed", "empty"), ()),
    "not sealed": (states("sealed", "not-sealed"), ("1 partition without a valid seal, such as ds=b [not-sealed]: ", "spark-bucketing table seal db.t")),
    "no partitions": (Verification(table(Partition("", (), "/t", "not-sealed"))), ("no valid seal [not-sealed]: queries use an ordinary scan",)),
    "several": (states("seal-stale a file is gone", "not-sealed"), ("2 partitions without a valid seal, such as ds=a [seal-stale] a file is gone: ",)),
    "missing files": (states("sealed", MISSING), ("1 partition with missing files, such as ds=b [files-missing] 1 of the 4 sealed files is missing: restore them",)),
    "a refused partition is reported once": (
        Verification(table(part("b", "not-sealed")), True, sealed=(REFUSED,)),
        ("ds=b has a row of bucket 1 in a file of bucket 0: rewrite it",),
    ),
    "a file name": (Verification(replace(table(part("a", "sealed")), files=STRAY)), ("without a bucket id in the name",)),
    "statistics": (organized("covered"), ()),
    "not covered": (organized("covered", "not-covered"), ("1 file not in the file statistics, such as part-1: ", "table stats db.o --repair")),
    "wrong": (organized("wrong", "wrong"), ("2 files whose statistics differ from the rows",)),
    "overlapping": (organized("covered", overlaps=True), ("overlaps the range of another file", "--full-refresh")),
}  # fmt: skip


@pytest.mark.parametrize(("found", "parts"), CASES.values(), ids=CASES)
def test_finding_states_the_problem_and_the_command_to_run(found: Verification, parts: tuple[str, ...]) -> None:
    assert (found.state, len(found.findings)) == ("wrong" if parts else "ok", bool(parts))
    for text in parts:
        assert text in found.findings[0]


def test_stock_spark_reads_the_spark_layout_without_seals() -> None:
    spec = replace(SPEC, bucket_hash="spark")
    found = table(part("a", "not-sealed"))
    spark = replace(found, table=replace(found.table, spec=spec), files=replace(FILES, files=(), spec=spec))
    assert Verification(spark).state == "ok"
    broken = replace(spark, table=replace(spark.table, partitions=(part("a", "seal-stale"),)))
    assert Verification(broken).state == "wrong"


def test_table_without_the_extension_or_of_unreadable_files_is_unknown() -> None:
    sealed = table(part("a", "sealed"))
    assert Verification(replace(sealed, merging=None)).state == "unknown"
    text = Verification(replace(sealed, files=replace(FILES, files=(), unreadable="It is text.")))
    assert (text.state, text.unknown) == ("unknown", "It is text.")


def sealed_as(ds: str, bucket_hash: BucketHash | None) -> Partition:
    """Return a partition that is sealed with this hash, or an unsealed partition."""
    if bucket_hash is None:
        return part(ds, "not-sealed")
    return replace(part(ds, "sealed"), spec=replace(SPEC, bucket_hash=bucket_hash))


REFUSED_BY_TRINO = "so Trino cannot read the table"
INVALID = f"{REFUSED_BY_TRINO}. Spark and Trino support only '1' or '2': seal the table"
SET = "set the table property (ALTER TABLE db.t SET TBLPROPERTIES ('bucketing_version' = '{}'))"
SEAL = "has bucketing_version '{}', and its partitions are sealed with version {}: seal the table (spark-bucketing"
REWRITE = "1 partition in buckets of version {}, such as ds={}, but other partitions have version {}: {}rewrite these"
AGAIN = "1 partition sealed with version {}, such as ds={}, whose rows also match version {}: seal the table"
FIRST = "first set the table property, and then "
UNSEALED = "1 partition without a valid seal"
Hashes = dict[str, BucketHash | None]


@pytest.mark.parametrize(
    ("stated", "sealed", "read", "said"),
    [
        ("1", {"a": "hive"}, {}, []),
        (None, {"a": "hive"}, {}, []),
        ("2", {"a": "hive2", "b": "hive2"}, {}, []),
        ("1", {"a": "hive2"}, {}, [SET.format(2)]),
        (None, {"a": "hive2"}, {}, ["has bucketing_version '1', but its rows are in buckets of version 2"]),
        ("2", {"a": "hive"}, {}, [SET.format(1)]),
        (" 2 ", {"a": "hive2"}, {}, [SET.format(2)]),
        ("3", {}, {}, [f"'3', {INVALID}"]),
        ("02", {}, {}, [f"'02', {INVALID}"]),
        ("3", {"a": "hive2"}, {}, [f"'3', {REFUSED_BY_TRINO}. Its rows are in buckets of version 2: set the table property"]),
        ("3", {"a": "hive", "b": "hive2"}, {}, [f"'3', {REFUSED_BY_TRINO}, and its partitions are sealed"]),
        # Rows that match both versions may get the other version with the next seal.
        ("1", {"a": "hive", "b": "hive2"}, {}, [SEAL.format(1, "1 and 2")]),
        ("1", {"a": "hive", "b": "hive2", "c": "hive2"}, {}, [SEAL.format(1, "1 and 2")]),
        ("2", {"a": "hive", "b": None}, {}, [UNSEALED, SEAL.format(2, "1")]),
        ("1", {"a": "hive", "b": None}, {}, [UNSEALED]),
        # With the rows that were read
        ("1", {"a": None}, {"a": "hive2"}, [UNSEALED, SET.format(2)]),
        ("1", {"a": "hive", "b": "hive2"}, {"a": "hive", "b": "hive2"}, [REWRITE.format(2, "b", 1, "")]),
        ("2", {"a": "hive", "b": "hive2"}, {"a": "hive", "b": "hive2"}, [REWRITE.format(1, "a", 2, "")]),
        ("1", {"a": "hive", "b": "hive2", "c": "hive2"}, {"a": "hive", "b": "hive2", "c": "hive2"}, [SET.format(2), REWRITE.format(1, "a", 2, FIRST)]),
        # Only partitions that match a predicate were read.
        ("2", {"a": "hive", "b": "hive", "c": "hive2"}, {"c": "hive2"}, [SEAL.format(2, "1 and 2")]),
        ("2", {"a": "hive", "b": "hive"}, {"a": "hive2"}, [SEAL.format(2, "1 and 2")]),
        ("2", {"a": "hive", "b": "hive2"}, {"a": "hive2", "b": "hive2"}, [AGAIN.format(1, "a", 2)]),
        ("2", {"a": "hive", "b": None}, {"a": "hive2", "b": "hive2"}, ["1 partition", AGAIN.format(1, "a", 2)]),
    ],
)  # fmt: skip
def test_version_of_the_rows_is_compared_with_the_stated_version(
    stated: str | None, sealed: Hashes, read: Hashes, said: list[str]
) -> None:
    properties = {} if stated is None else {"Table Properties": f"[bucketing_version={stated}]"}
    of = table(*(sealed_as(*one) for one in sealed.items()))
    of = replace(of, table=replace(of.table, details={"Provider": "hive", **properties}))
    found = Verification(of, bool(read), sealed=tuple(sealed_as(*one) for one in read.items()))
    assert len(found.findings) == len(said), found.findings
    assert all(text in finding for text, finding in zip(said, found.findings, strict=True))
    assert found.state == ("wrong" if said else "ok")


def described(name: str, spec: BucketSpec, file_format: str, *columns: Column) -> TableMetadata:
    return TableMetadata(name, spec, columns, details={"Provider": file_format})


FLIGHTS = BucketSpec(2, ("tailnum", "[day]"), ("tailnum",), "hive")
PLANES, NOTES = BucketSpec(2, ("tailnum",), (), "spark"), BucketSpec(2, ("k",), (), "hive")
OK = BucketedFiles(
    described("flights", FLIGHTS, "parquet", Column("d", "int")),
    FLIGHTS,
    (DataFile("/d=1/00000_0", 3000, 4096), DataFile("/d=1/00001_0", 1000, 1536), DataFile("/d=2/00000_0", 0, 100)),
)
SIXTEEN = Partition("d=2", ("2",), "/d=2", "sealed", replace(OK.spec, num_buckets=16))
MIXED = replace(OK, table=replace(OK.table, partitions=(SIXTEEN,)))
WRONG = BucketedFiles(described("planes", PLANES, "orc"), PLANES, (DataFile("/x.orc", 1, 7),))
UNKNOWN = BucketedFiles(described("notes", NOTES, "textinputformat"), NOTES, unreadable="It is text.")


def written(*layouts: BucketedFiles, form: str = "text") -> str:
    file = io.StringIO()
    write_overviews("s", [Overview(one.table, one) for one in layouts], form, file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        (OK, "flights hive parquet tailnum, [day] tailnum 2 2 3 100 bytes 1.5 KiB 4.0 KiB 5.6 KiB 4,000 1.50 - ok"),
        (
            MIXED,
            "flights hive parquet tailnum, [day] tailnum 2, 16 2 3 100 bytes 1.5 KiB 4.0 KiB 5.6 KiB 4,000 1.50 - ok",
        ),
        (WRONG, "planes spark orc tailnum - 2 - 1 7 bytes 7 bytes 7 bytes 7 bytes 1 - - wrong"),
        (UNKNOWN, "notes hive textinputformat k - 2 - - - - - - - - - unknown"),
    ],
)
def test_each_table_is_one_line(layout: BucketedFiles, cells: str) -> None:
    assert [line for line in written(layout).splitlines() if line.split() == cells.split()]


def test_json_contains_bytes_and_partition_specs() -> None:
    data = json.loads(written(MIXED, WRONG, UNKNOWN, form="json"))
    assert data["schema"] == "s"
    first, second, third = data["tables"]
    spec = {"num_buckets": 2, "bucket_columns": ["tailnum", "[day]"], "sort_columns": ["tailnum"], "hash": "hive"}
    assert first == {
        "table": "flights",
        "state": "ok",
        "spec": spec,
        "format": "parquet",
        "partitions": 2,
        "files": 3,
        "bytes": {"smallest": 100, "median": 1536, "largest": 4096, "total": 5732},
        "rows": 4000,
        "skew": 1.5,
        "advice": None,
        "by_spec": [
            {"spec": spec, "partitions": 1, "files": 2, "rows": 4000, "skew": 1.5},
            {"spec": spec | {"num_buckets": 16}, "partitions": 1, "files": 1, "rows": 0, "skew": None},
        ],
        "findings": [],
        "unreadable": None,
        "range_by": None,
        "implicit_partition_by": [],
        "seals": None,
        "file_statistics": None,
    }
    assert (second["partitions"], second["skew"], second["findings"]) == (None, None, list(WRONG.findings))
    assert (third["state"], third["unreadable"]) == ("unknown", "It is text.")
    assert third["files"] is third["bytes"] is None
    assert json.loads(written(form="json")) == {"schema": "s", "tables": []}


def test_table_that_is_not_clustered_has_the_same_numbers_in_text_and_json() -> None:
    parts = tuple(replace(SIXTEEN, name=f"d={d}", files=4, size=512) for d in (1, 2))
    overview = Overview(TableMetadata("db.flights", None, (Column("d", "int"),), parts))
    text, data = io.StringIO(), io.StringIO()
    write_overviews("s", [overview], "text", text)
    write_overviews("s", [overview], "json", data)
    cells = "db.flights not clustered - - - 16 2 8 - - - 1.0 KiB - - - ok"
    assert cells.split() in [line.split() for line in text.getvalue().splitlines()]
    (table,) = json.loads(data.getvalue())["tables"]
    assert (table["partitions"], table["files"], table["rows"], table["by_spec"]) == (2, 8, None, [])
    assert table["bytes"] == {"smallest": None, "median": None, "largest": None, "total": 1024}


def test_documentation_contains_every_key() -> None:
    text = (REPOSITORY / "docs" / "reference" / "table.md").read_text()
    (table,) = json.loads(written(OK, form="json"))["tables"]
    for key in [*table, *table["bytes"], *table["by_spec"][0], *table["spec"]]:
        assert f"`{key}`" in text, key


def test_page_starts_with_tables_that_have_findings() -> None:
    page = written(OK, UNKNOWN, WRONG, form="html")
    assert re.findall('<h2 id="(.+?)"', page) == ["planes", "notes", "flights"]
    assert html.escape(WRONG.findings[0]) in page and "It is text." in page


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


def test_findings_follow_in_whole_lines() -> None:
    lines = written(OK, WRONG, UNKNOWN).splitlines()[-2:]
    assert lines == [f"planes: {WRONG.findings[0]}", "notes: It is text."]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (2**40, "1.0 TiB"), (2**70, "1,024.0 EiB")],
)
def test_sizes_are_formatted_with_units(number: int, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("layouts", "code"),
    [([], 0), ([OK], 0), ([OK, WRONG], 1), ([OK, UNKNOWN], 2), ([UNKNOWN, WRONG], 1)],
)
def test_exit_code_distinguishes_findings_from_unknowns(layouts: list[BucketedFiles], code: int) -> None:
    assert exit_code({layout.state for layout in layouts}) == code


@pytest.mark.parametrize("width", [44, 60, 100])
def test_narrow_terminals_break_no_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        FileStats(f"part-{number}.parquet", 1000, 10, FileState.COVERED, "a=1", "2024-01-01", "2024-02-01", 0)
        for number in (1, 2)
    ]
    writers: list[Callable[[TextIO], None]] = [
        lambda file: write_overviews("s", [Overview(one.table, one) for one in (OK, UNKNOWN)], "text", file),
        lambda file: write_file_statistics_report("db.flights", files, "text", file),
        lambda file: write_diagnoses(
            "t", [Diagnosis("Spark", "Spark 3.4 is not supported", "wrong", "install a newer version")], "text", file
        ),
    ]
    for write in writers:
        wide, narrow = io.StringIO(), io.StringIO()
        write(wide)
        with monkeypatch.context() as patched:
            patched.setattr(
                output,
                "Console",
                lambda **options: Console(**{**options, "width": width, "force_terminal": True, "color_system": None}),
            )
            write(narrow)
        assert max(map(len, narrow.getvalue().splitlines())) <= width
        assert {word for word in wide.getvalue().split() if len(word) < 20 and "─" not in word} <= set(
            narrow.getvalue().split()
        )
