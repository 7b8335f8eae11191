"""Tests of what all HTML pages have in common, and of the pictures of plans and tables."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report_pages import Page
from sample_pages import CLICKS, FILES, organized, pages

from conftest import REPOSITORY
from spark_bucketing.plan.document import read_plan
from spark_bucketing.plan.tree import tree_lines
from spark_bucketing.tables.bucketed_files import DataFile, SpecFiles
from spark_bucketing.tables.file_statistics import FileStats
from spark_bucketing.tables.pictures import bucket_bars, file_bars, file_ranges


def test_every_page_is_self_contained_and_has_the_common_style() -> None:
    for name, text in pages().items():
        assert {tag for tag, _ in Page(text).seen}.isdisjoint({"link", "img", "iframe"}), name
        assert not re.search(r"https?:|@import|url\(", text), name
        assert "(prefers-color-scheme: dark)" in text and "@media print" in text, name


def test_tree_has_each_operator_above_its_inputs() -> None:
    plan = read_plan((REPOSITORY / "tests" / "unit" / "plans" / "cast_on_key.json").read_text())
    exchange = "   Exchange hivehashpartitioning(cast(k as bigint), 8), ENSURE_REQUIREMENTS"
    assert [tuple(line) for line in tree_lines(plan)] == [
        (0, "SortMergeJoin Inner d.a.k = cast(k as bigint)", "join"),
        (1, "+- Filter", "other"),
        (1, "   Scan parquet d.a (8 Hive buckets, sorted)", "bucketed"),
        (1, "+- Sort cast(k as bigint)", "sort"),
        (1, exchange, "exchange"),
        (1, "   Filter", "other"),
        (1, "   Scan parquet d.i (not-needed)", "scan"),
    ]
    page = pages()["check"]
    assert f'<div class="exchange" style="--depth:1">{exchange.replace("cast(k as bigint), 8", "k, 16")}</div>' in page
    assert page.count("<details open><summary>plan: 12 operators") == page.count("<details><summary>plan: 36") == 1


@pytest.mark.parametrize(
    ("number", "files", "bars", "empty", "title", "caption"),
    [
        (2, (DataFile("/00001_0", 3, 5),), 2, 1, "bucket 0: 0 rows, 0 bytes", "1 of 2 buckets without rows"),
        (1, (DataFile("/00001_0", 3, 5),), 1, 1, "bucket 0: 0 rows", "Not shown: 1 file outside these buckets."),
        (300, FILES, 150, 1, "buckets 0 to 1: 0 rows", "Bytes per 2 adjacent buckets: largest 8.6 KiB, mean 8.2 KiB"),
    ],
)  # fmt: skip
def test_each_bucket_is_in_a_bar(
    number: int, files: tuple[DataFile, ...], bars: int, empty: int, title: str, caption: str
) -> None:
    found = bucket_bars(SpecFiles(replace(CLICKS, num_buckets=number), files))
    ((_, marks),) = found.groups
    assert (len(marks), sum(mark.is_special for mark in marks)) == (bars, empty)
    assert marks[0].title.startswith(title) and caption in found.caption


# The type of the range column, the values of each file, and the start, the length and the overlap of each line.
AXES = [
    ("bigint", [("15", "20"), ("0", "9"), ("10", "19")], [(0, 45, False), (50, 45, False), (75, 25, True)]),
    ("decimal(3,1)", [("-1.0", "1.0"), ("1.0", "1.0")], [(0, 100, False), (100, 0, True)]),
    ("date", [("2024-01-01", "2024-01-02"), ("2024-01-04", "2024-01-05")], [(0, 25, False), (75, 25, False)]),
    ("timestamp", [("1969-12-31 23:59:59.5", "1970-01-01 00:00:01.5")], [(0, 100, False)]),
    ("string", [("1", "2")], None), ("date", [("+12345-01-01", "+12345-01-02")], None), ("int", [(None, None)], None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "lines"), AXES)
def test_ranges_of_numbers_and_dates_are_on_one_axis(
    kind: str, values: list[tuple[str, str]], lines: list[tuple[float, float, bool]] | None
) -> None:
    files = tuple(FileStats(f"{number}", 1, 2, "covered", None, *ends) for number, ends in enumerate(values))
    of = organized(files, kind).organized
    found = file_ranges(of, files) if of else None
    marks = found and [(mark.start, mark.length, mark.is_special) for _, group in found.groups for mark in group]
    assert marks == lines
    assert len(file_bars(files).groups[0][1]) == len(values)
    assert "Only the first 200 of 201 files" in file_bars(files[:1] * 201).caption
