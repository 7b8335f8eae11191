"""Tests of a table's bucket spec and files, of `table verify`, and of the report on tables."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO

import pytest
import yaml
from case_tables import cases
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

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
EIGHT = replace(SPEC, num_buckets=8)


@cases("shared/file_names", name=..., hive=..., spark=...)
def test_bucket_id_is_parsed_from_the_file_name(name: str, hive: int | None, spark: int | None) -> None:
    assert (bucket_of(name, "hive"), bucket_of(name, "spark")) == (hive, spark)


@given(bucket=st.integers(0, 99_999), task=st.integers(0, 99_999), uuid=st.uuids(), part=st.integers(0, 999))
def test_names_that_spark_writes_are_parsed(bucket: int, task: int, uuid: object, part: int) -> None:
    name = f"part-{task:05d}-{uuid}_{bucket:05d}.c{part:03d}.snappy.parquet"
    assert bucket_of(name, "spark") == bucket
    assert bucket_of(f"{bucket:05d}_0_{name}", "hive") == bucket


def stored(files: str, partitioned: bool = False) -> BucketedFiles:
    """Return a table with four buckets and these files, such as `00000_0:8`, whose number of rows may be omitted."""
    of = (file.partition(":")[::2] for file in files.split())
    found = tuple(DataFile(f"file:///wh/t/{path}", int(number or 1)) for path, number in of)
    return BucketedFiles(TableMetadata("t", SPEC, (Column("d", "int"),) if partitioned else ()), SPEC, found)


def evolving(specs: dict[str, BucketSpec | None]) -> TableMetadata:
    """Return a table partitioned by d, whose partitions are sealed with these specs."""
    parts = [Partition(name, (name[2:],), f"file:/wh/t/{name}", "", spec) for name, spec in specs.items()]
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
FILES = BucketedFiles(TableMetadata("db.t", SPEC, DS), SPEC, (DataFile("/t/ds=a/00000_0", 1, 1),))
MERGING = Merging("auto", 4, 4)


def part(ds: str, status: str) -> Partition:
    """Return a partition with a status, which a problem may follow."""
    status, _, problem = status.partition(" ")
    sealed = SPEC if status == Status.SEALED else None
    return Partition(f"ds={ds}", (ds,), f"/t/ds={ds}", status, sealed, problem, files=4, files_per_bucket=1)


def table(*parts: Partition) -> Overview:
    columns = DS if any(part.values for part in parts) else ()
    return Overview(TableMetadata("db.t", SPEC, columns, parts), FILES, MERGING)


def organized(*found: str, overlaps: bool = False) -> Verification:
    files = tuple(FileStats(f"part-{n}", 1, 1, state, overlaps=overlaps) for n, state in enumerate(found))
    return Verification(Overview(TableMetadata("db.o", None, ()), statistics=files), statistics=files)


@cases("tables/verify", partitions=(), refused="", files=(), overlaps=False, said=())
def test_finding_states_the_problem_and_the_command_to_run(
    partitions: list[str], refused: str, files: list[str], overlaps: bool, said: list[str]
) -> None:
    sealed = (part("b", refused),) if refused else ()
    verified = Verification(table(*map(part, "abc", partitions)), bool(sealed), sealed=sealed)
    found = verified if partitions else organized(*files, overlaps=overlaps)
    assert (found.state, len(found.findings)) == ("wrong" if said else "ok", bool(said))
    assert all(text in found.findings[0] for text in said)


def test_names_and_seals_of_unpartitioned_tables_are_checked_too() -> None:
    stray = replace(FILES, files=(DataFile("/t/ds=a/data.parquet", 1, 1),))
    (finding,) = Verification(replace(table(part("a", "sealed")), files=stray)).findings
    assert "without a bucket id in the name" in finding
    (finding,) = Verification(table(Partition("", (), "/t", "not-sealed"))).findings
    assert "no valid seal [not-sealed]: queries use an ordinary scan" in finding


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


Hashes = dict[str, BucketHash | None]


@cases("tables/versions", stated=None, sealed={}, read={}, said=[])
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
DATA = (DataFile("/d=1/00000_0", 3000, 4096), DataFile("/d=1/00001_0", 1000, 1536), DataFile("/d=2/00000_0", 0, 100))
OK = BucketedFiles(described("flights", FLIGHTS, "parquet", Column("d", "int")), FLIGHTS, DATA)
SIXTEEN = Partition("d=2", ("2",), "/d=2", "sealed", replace(OK.spec, num_buckets=16))
MIXED = replace(OK, table=replace(OK.table, partitions=(SIXTEEN,)))
WRONG = BucketedFiles(described("planes", PLANES, "orc"), PLANES, (DataFile("/x.orc", 1, 7),))
UNKNOWN = BucketedFiles(described("notes", NOTES, "textinputformat"), NOTES, unreadable="It is text.")


def written(*layouts: BucketedFiles, form: str = "text") -> str:
    file = io.StringIO()
    write_overviews("s", [Overview(one.table, one) for one in layouts], form, file)
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
def test_each_table_is_one_line(layout: BucketedFiles, cells: str) -> None:
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
    ("layouts", "code"),
    [([], 0), ([OK], 0), ([OK, WRONG], 1), ([OK, UNKNOWN], 2), ([UNKNOWN, WRONG], 1)],
)
def test_exit_code_distinguishes_findings_from_unknowns(layouts: list[BucketedFiles], code: int) -> None:
    assert exit_code({layout.state for layout in layouts}) == code


@pytest.mark.parametrize("width", [44, 60, 100])
def test_narrow_terminals_break_no_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    more = (1000, 10, FileState.COVERED, "a=1", "2024-01-01", "2024-02-01", 0)
    files = [FileStats(f"part-{number}.parquet", *more) for number in (1, 2)]
    diagnosis = Diagnosis("Spark", "Spark 3.4 is not supported", "wrong", "install a newer version")
    forced = {"width": width, "force_terminal": True, "color_system": None}
    writers: list[Callable[[TextIO], None]] = [
        lambda file: write_overviews("s", [Overview(one.table, one) for one in (OK, UNKNOWN)], "text", file),
        lambda file: write_file_statistics_report("db.flights", files, "text", file),
        lambda file: write_diagnoses("t", [diagnosis], "text", file),
    ]
    for write in writers:
        wide, narrow = io.StringIO(), io.StringIO()
        write(wide)
        with monkeypatch.context() as patched:
            patched.setattr(output, "Console", lambda **options: Console(**{**options, **forced}))
            write(narrow)
        assert max(map(len, narrow.getvalue().splitlines())) <= width
        words = {word for word in wide.getvalue().split() if len(word) < 20 and "─" not in word}
        assert words <= set(narrow.getvalue().split())
