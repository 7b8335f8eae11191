"""The check's report for people: in a terminal, in a pipe, in a file."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from reported import REPORT
from rich.console import Console

from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, Report, Verdict
from spark_bucketing.report import check_text, output
from spark_bucketing.report.check_html import write_html


def written(report: Report = REPORT, verbose: bool = False) -> str:
    file = StringIO()
    check_text.write_text(report, file, verbose)
    return file.getvalue()


def test_text_has_the_widest_problem_first_and_leaves_out_what_is_accepted() -> None:
    text = written()
    heads = re.findall(r"^(?:error|warning|note)  (\S+)", text, re.MULTILINE)
    assert heads == ["side-not-bucketed", "bucket-count-mismatch", "spark-too-old", "expression-over-key"]
    assert "models/marts/joined.sql:12  3.0 TiB" in text
    assert "fix (then sort-free): Give model users buckets=64 and rebuild it." in text
    assert "unknown  broken" in text and "[TABLE_OR_VIEW_NOT_FOUND]" in text
    assert "not reached: last" in text
    assert "1 error, 2 warnings, 1 note, 1 in the baseline, 1 allowed, 2 unknown, 1 not reached." in text


def test_text_says_once_what_both_sides_of_a_join_have_in_common() -> None:
    fix = Fix("setting", "Set a=b.")
    sides = [Finding("union", f"Side {name}.", fixes=(fix,), bytes_shuffled=1024) for name in "ab"]
    other = Finding("union", "Side c.", bytes_shuffled=1)
    joins = [
        OperatorResult("join", "on k", Verdict.SHUFFLED, findings=found) for found in ((*sides, other), (sides[0],))
    ]
    text = written(Report((ModelResult("m", "m.sql", tuple(joins)),)))
    heads = re.findall(r"^warning  union  m.sql  (.*)$", text, re.MULTILINE)
    assert heads == ["2.0 KiB", "1.0 KiB", "1 bytes"]
    assert "    Side a.\n    Side b.\n    fix (then sort-free): Set a=b.\n\n" in text
    assert text.count("Set a=b.") == 2 and "3 warnings" in text
    page = StringIO()
    write_html(Report((ModelResult("m", "m.sql", tuple(joins)),)), page)
    assert page.getvalue().count("Set a=b.") == 2 and "<p>Side a.</p><p>Side b.</p>" in page.getvalue()


def test_text_for_a_pipe_has_no_colours_and_no_wrapped_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = written(verbose=True)
    assert "\x1b" not in text
    assert "    shop.clicks has 64 buckets and shop.users has 24: neither divides the other.\n" in text
    assert all(line == line.rstrip() or line.endswith("  ") for line in text.splitlines())


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_text_for_a_terminal_has_colours_unless_no_color_is_set(
    variable: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("NO_COLOR", variable), ("FORCE_COLOR", "1"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    file = StringIO()
    monkeypatch.setattr(output, "Console", lambda **options: Console(force_terminal=True, **options))
    check_text.write_text(REPORT, file)
    assert ("\x1b[31m" in file.getvalue()) == coloured


def test_text_shows_all_operators_when_asked() -> None:
    assert "PARTITION BY cast(user_id)" in written(verbose=True)
    assert "sort-free aggregate: GROUP BY user_id" not in written()
    assert "sort-free aggregate: GROUP BY user_id" in written(verbose=True)
