"""The report for people."""

import io

import pytest

from spark_bucketing.layout.table import DataFile, TableLayout
from spark_bucketing.report.text import write_layouts
from spark_bucketing.report.words import size
from spark_bucketing.spec import BucketSpec

OK = TableLayout(
    "flights",
    BucketSpec(2, ("tailnum", "[day]"), ("tailnum",), "hive"),
    "parquet",
    True,
    (DataFile("/d=1/00000_0", 3000), DataFile("/d=1/00001_0", 1000), DataFile("/d=2/00000_0", 0)),
)
WRONG = TableLayout("planes", BucketSpec(2, ("tailnum",), (), "spark"), "orc", False, (DataFile("/x.orc", 1),))
UNKNOWN = TableLayout("notes", BucketSpec(2, ("k",), (), "hive"), "TextInputFormat", False, unreadable="It is text.")


def report(*layouts: TableLayout) -> list[str]:
    file = io.StringIO()
    write_layouts(layouts, file)
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        (OK, "flights hive parquet tailnum, [day] tailnum 2 2 3 4,000 1.50 ok"),
        (WRONG, "planes spark orc tailnum - 2 - 1 1 - wrong"),
        (UNKNOWN, "notes hive TextInputFormat k - 2 - - - - unknown"),
    ],
)
def test_each_table_is_one_line(layout: TableLayout, cells: str) -> None:
    assert [line for line in report(layout) if line.split() == cells.split()]


def test_what_is_wrong_follows_in_whole_lines() -> None:
    lines = report(OK, WRONG, UNKNOWN)[-2:]
    assert lines == [f"planes: {WRONG.findings[0]}", "notes: It is text."]


def test_a_pipe_gets_no_colours() -> None:
    assert "\x1b" not in "".join(report(OK, WRONG))


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31m" in "".join(report(WRONG))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in "".join(report(WRONG))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (2**40, "1.0 TiB"), (2**70, "1,024.0 EiB")],
)
def test_bytes_are_told_as_people_say_them(number: int, text: str) -> None:
    assert size(number) == text
