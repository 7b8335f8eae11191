"""Tests of the report on table layouts, as text and as JSON."""

import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TextIO

import pytest
from rich.console import Console

from conftest import REPOSITORY
from spark_bucketing import output
from spark_bucketing.doctor.server import Diagnosis, write_diagnoses
from spark_bucketing.errors import exit_code
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.bucketed_files import BucketedFiles, DataFile
from spark_bucketing.tables.file_statistics import FileState, FileStats
from spark_bucketing.tables.model import Column, Partition, TableMetadata
from spark_bucketing.tables.overview import Overview
from spark_bucketing.tables.report import write_file_statistics_report, write_overviews
from spark_bucketing.units import size


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
