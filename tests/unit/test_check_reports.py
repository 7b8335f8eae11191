"""Tests that each format of check's report contains all findings, and of what all HTML pages have in common."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from case_tables import cases
from report_pages import Page, schema_errors
from rich.console import Console
from sample_pages import CLICKS, FILES, organized, pages
from sample_report import BROKEN, CAST, CLEAN, JOINED, LATER, MISMATCH, ODD, REPORT, WIDE, joined

from conftest import REPOSITORY
from spark_bucketing import output
from spark_bucketing.checks.acceptance import accept
from spark_bucketing.checks.report import FORMATS, write_report
from spark_bucketing.checks.results import (
    Finding,
    Fix,
    ModelResult,
    OperatorResult,
    OtherQuery,
    Parent,
    Report,
    Verdict,
    exit_code,
    open_findings,
)
from spark_bucketing.plan.document import PlanCounts, read_plan, tree_lines
from spark_bucketing.tables.file_statistics import FileStats
from spark_bucketing.tables.overview import DataFile, SpecFiles
from spark_bucketing.tables.report import bucket_bars, file_bars, file_ranges

OPERATOR = replace(ODD.operators[0], findings=(CAST, *ODD.operators[0].findings))
NOT_RECOGNIZED = Report((replace(ODD, operators=(OPERATOR,)),))


def written(form: str, report: Report = REPORT, verbose: bool = False) -> str:
    file = StringIO()
    write_report(report, form, file, verbose)
    return file.getvalue()


def sarif(report: Report = REPORT) -> Any:
    """Return the only run of a SARIF log after validating it against the standard's schema."""
    data = json.loads(written("sarif", report))
    assert schema_errors(REPOSITORY / "tests" / "schemas" / "sarif-subset.json", data) == []
    (run,) = data["runs"]
    return run


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_contains_the_findings_and_ends_its_last_line(form: str) -> None:
    texts = {written(form, report)[-1] for report in (REPORT, CLEAN, Report(()))}
    assert texts == {"\n"}
    reasons = ("bucket-count-mismatch", "side-not-bucketed", "unsupported-spark-version")
    said = (*reasons, "neither is a multiple of the other", "buckets=64")
    assert [words for words in said if words not in written(form)] == []
    # An operator that check does not recognize is an error regardless of its findings.
    assert "Operator not recognized: distinct: DISTINCT a" in written(form, NOT_RECOGNIZED)


def test_json_follows_its_schema_which_documents_every_key_and_verdict() -> None:
    path = REPOSITORY / "docs" / "reference" / "check.schema.json"
    data, definitions = json.loads(written("json")), json.loads(path.read_text())["$defs"]
    assert schema_errors(path, data) == []
    incomplete = {key: data[key] for key in data if key != "project"}
    for broken in (data | {"schema_version": 2}, data | {"models": [{}]}, incomplete):
        assert schema_errors(path, broken)
    for name in ("models", "operators", "findings", "fixes", "inputs"):
        assert f'"{name}": [\n' in written("json")
    assert definitions["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    finding = data["models"][1]["operators"][0]["findings"][0]
    assert set(finding) == set(definitions["finding"]["properties"])
    assert set(finding["fixes"][0]) == set(definitions["fix"]["properties"])


def test_sarif_follows_the_standard() -> None:
    run = sarif()
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids))
    assert {result["ruleId"] for result in run["results"]} <= set(ids)
    by_rule = {result["ruleId"]: result for result in run["results"]}
    place = by_rule["bucket-count-mismatch"]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == ("models/marts/joined.sql", {"startLine": 12})
    assert by_rule["union"]["suppressions"] == [{"kind": "inSource"}]
    assert by_rule["scan-ordering-disabled"]["suppressions"] == [{"kind": "external"}]
    assert "suppressions" not in by_rule["side-not-bucketed"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "gone" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    (invocation,) = sarif(NOT_RECOGNIZED)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "DISTINCT a" in invocation["toolExecutionNotifications"][0]["message"]["text"]


@cases("project/paths", form=..., path=..., folder="", found=...)
def test_paths_are_relative_to_the_repository_and_escaped(form: str, path: str, folder: str, found: str) -> None:
    text = written(form, Report((replace(JOINED, path=path),), folder=folder))
    place = r'"artifactLocation": {\s*"uri": "([^"]*)"' if form == "sarif" else "file=([^,:]*)"
    assert set(re.findall(place, text)) == {found}
    assert ('"uriBaseId"' in text) == (form == "sarif" and not path.startswith("/"))


def test_github_commands_are_single_lines_with_everything_escaped() -> None:
    lines = written("github").splitlines()
    commands = [line for line in lines if line.startswith("::")]
    assert len(commands) == len(lines) - 1
    assert commands[0].startswith("::warning file=models/later.sql,line=3,title=side-not-bucketed (5.0 TiB)::shop.raw")
    assert any("100%25" in line and line.startswith("::notice ") for line in commands)
    assert any("multiple of the other.%0AFix: Give model users" in line for line in commands)
    assert any(line.startswith("::error file=models/broken.sql,title=Could not check broken::") for line in commands)
    assert not any("scan-ordering-disabled" in line or "title=union" in line for line in commands)


def reads(report: Report) -> dict[str, list[tuple[str, str]]]:
    """Return the models that the page lists as readers of each table, with their verdicts."""
    rows = re.findall(r'<tr class="reads"><td title="([^"]*)">.*?</td><td>(.*?)</td>', written("html", report))
    pattern = r'<a href="#[^"]*">([^<]*)</a>(?: <span class="pill ([^"]*)">)?'
    return {parent: re.findall(pattern, readers) for parent, readers in rows}


def test_html_lists_the_readers_of_each_table_with_their_verdicts() -> None:
    found = reads(REPORT)
    verdicts = [verdict for readers in found.values() for _, verdict in readers]
    assert sorted(verdicts) == ["", "", "broadcast", "one-sided", "shuffled", "sort-free"]
    assert ("joined", "shuffled") in found["model.shop.users"]
    dim = ModelResult("dim", "a.sql", inputs=(Parent("source.p.s.v1"),))
    of_versions = Report(tuple(replace(dim, unique_id=f"model.p.dim.v{number}") for number in (1, 2)))
    assert reads(of_versions) == {"source.p.s.v1": [("dim.v1", ""), ("dim.v2", "")]}


def test_html_shows_the_line_of_the_query_and_escapes_markup_from_a_project() -> None:
    assert "join {{ ref(&#39;users&#39;) }} as u using (user_id) -- &lt;all&gt;</pre>" in written("html")
    text = written("html", Report((replace(BROKEN, name="<script>x</script>").failed('"><img src=x>'),)))
    Page(text)
    assert text.count("<script") == 1 and "<script>x" not in text and "<img" not in text


def alike_and_hurting() -> Report:
    """Return a report with two findings that the formats merge, whose fix affects other queries, and an accepted one."""
    counts = PlanCounts(1, 2), PlanCounts(0, 1)
    others = (OtherQuery("better", *counts), OtherQuery("hurt", *reversed(counts)), OtherQuery("lost", counts[0], None))
    fix = replace(JOINED.operators[0].findings[0].fixes[0], before=counts[0], after=counts[1], others=others)
    sides = tuple(Finding("union", f"Side {name}.", fixes=(fix,)) for name in "ab")
    report = joined(*sides, Finding("union", "Known.", accepted="baseline"))
    return Report((*report.models, LATER, BROKEN), REPORT.project)


@pytest.mark.parametrize("report", [REPORT, alike_and_hurting(), CLEAN], ids=["all kinds", "alike", "none"])
def test_html_shows_the_stated_number_of_cards(report: Report) -> None:
    page, text = written("html", report), written("text", report)
    cards = len(re.findall('class="card named finding (?!.*? accepted")', page))
    (heading,) = re.findall(r"<h2>(\d+|No) findings?</h2>", page)
    (tile,) = re.findall(r"<b>(\d+)</b><span>findings", page)
    sentence = re.findall(r"(\d+) (?:error|warning|note)s?\b", text.split("operator")[-1])
    assert int(heading.replace("No", "0")) == int(tile) == sum(map(int, sentence)) == cards
    others = len(open_findings(report, unknown=True)) + bool(report.unfinished)
    assert written("github", report).count("title=") == cards + others


def test_html_marks_fixes_that_make_other_queries_worse() -> None:
    page = written("html", alike_and_hurting())
    assert page.count("worse for 2 other queries") == 1 and "worse for" not in written("html")
    assert "<td>hurt</td><td>0 Exchanges, 1 Sort</td><td>1 Exchange, 2 Sorts</td>" in page
    assert "<td>lost</td><td>1 Exchange, 2 Sorts</td><td>cannot be planned</td>" in page
    assert "<td>better</td>" not in page


def test_html_links_and_filters_match_the_cards() -> None:
    seen = Page(written("html")).seen
    links = [value for _, attributes in seen for name, value in attributes.items() if name in ("href", "src")]
    assert links and set(links) <= {f"#{attributes.get('id')}" for _, attributes in seen}
    options = {attributes.get("value") for tag, attributes in seen if tag == "option"}
    marked = [attributes for _, attributes in seen if "data-verdicts" in attributes]
    for key in ("data-verdicts", "data-levels"):
        values = {value for attributes in marked for value in str(attributes[key]).split()}
        assert values and values <= options, key
    # The page has one card for each finding and one for each query.
    assert len(marked) == len(REPORT.models) + 6
    # Without JavaScript, a browser shows everything.
    assert ["hidden" in attributes for tag, attributes in seen if tag == "form"] == [True]


def test_text_starts_with_the_largest_problem_and_omits_accepted_findings() -> None:
    text = written("text")
    heads = re.findall(r"^(?:error|warning|note)  (\S+)", text, re.MULTILINE)
    assert heads == ["side-not-bucketed", "bucket-count-mismatch", "unsupported-spark-version", "expression-over-key"]
    assert "models/marts/joined.sql:12  3.0 TiB" in text
    assert "fix (then sort-free): Give model users buckets=64 and rebuild it." in text
    assert "unknown  broken" in text and "[TABLE_OR_VIEW_NOT_FOUND]" in text
    assert "not checked: last" in text
    assert "1 error, 2 warnings, 1 note, 1 in the baseline, 1 allowed, 2 unknown, 1 not checked." in text


def test_text_merges_findings_of_both_sides_of_a_join() -> None:
    fix = Fix("setting", "Set a=b.")
    sides = [Finding("union", f"Side {name}.", fixes=(fix,), bytes_shuffled=1024) for name in "ab"]
    of = (*sides, Finding("union", "Side c.", bytes_shuffled=1)), (sides[0],)
    joins = tuple(OperatorResult("join", "on k", Verdict.SHUFFLED, findings=findings) for findings in of)
    report = Report((ModelResult("m", "m.sql", joins),))
    text = written("text", report)
    heads = re.findall(r"^warning  union  m.sql  (.*)$", text, re.MULTILINE)
    assert heads == ["2.0 KiB", "1.0 KiB", "1 bytes"]
    assert "    Side a.\n    Side b.\n    fix (then sort-free): Set a=b.\n\n" in text
    assert text.count("Set a=b.") == 2 and "3 warnings" in text
    page = written("html", report)
    assert page.count("Set a=b.") == 2 and "<p>Side a.</p><p>Side b.</p>" in page


def test_text_in_a_pipe_has_no_colors_and_no_wrapped_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = written("text", verbose=True)
    assert "\x1b" not in text
    assert "    shop.clicks has 64 buckets and shop.users has 24: neither is a multiple of the other.\n" in text
    assert all(line == line.rstrip() or line.endswith("  ") for line in text.splitlines())
    # Verbose text shows all operators.
    assert "PARTITION BY cast(user_id)" in text and "sort-free aggregate: GROUP BY user_id" in text
    assert "sort-free aggregate: GROUP BY user_id" not in written("text")
    # Codes of emoji are not converted.
    assert "the column :key: of a" in written("text", joined(replace(CAST, message="the column :key: of a")))


@pytest.mark.parametrize("no_color", ["", "1"])
def test_text_on_a_terminal_has_colors_unless_no_color_is_set(no_color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NO_COLOR", no_color), ("FORCE_COLOR", "1"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(output, "Console", lambda **options: Console(force_terminal=True, **options))
    assert ("\x1b[31m" in written("text")) != bool(no_color)


def test_text_states_a_common_error_once() -> None:
    models = tuple(replace(BROKEN, name=f"m{number}").failed("No columns.") for number in range(17))
    text = written("text", Report((*models, BROKEN)))
    assert "unknown  17 queries  m0, m1, m2, m3, m4 and 12 more\n    No columns.\n" in text
    assert text.count("No columns.") == 1 and "unknown  broken  models/broken.sql" in text and "18 unknown" in text


@pytest.mark.parametrize(("size", "small"), [(45 * 1024, True), (1024**2, False), (0, False), (None, False)])
def test_small_unbucketed_inputs_do_not_fail_a_check(size: int | None, small: bool) -> None:
    finding = replace(WIDE, bytes_shuffled=size)
    report = accept(joined(finding, replace(MISMATCH, bytes_shuffled=size, accepted="allow")), {}, {})
    assert (exit_code(accept(joined(finding), {}, {}), "warning") == 0) == small
    assert ("1 below 1.0 MiB" in written("text", report)) == small


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
    ("number", "bars", "title", "caption"),
    [
        (2, 2, "bucket 0: 0 rows, 0 bytes", "1 of 2 buckets without rows"),
        (1, 1, "bucket 0: 0 rows", "Not shown: 1 file outside these buckets."),
        (300, 150, "buckets 0 to 1: 0 rows", "Bytes per 2 adjacent buckets: largest 8.6 KiB, mean 8.2 KiB"),
    ],
)
def test_each_bucket_is_in_a_bar(number: int, bars: int, title: str, caption: str) -> None:
    files = FILES if number == 300 else (DataFile("/00001_0", 3, 5),)
    found = bucket_bars(SpecFiles(replace(CLICKS, num_buckets=number), files))
    ((_, marks),) = found.groups
    assert (len(marks), sum(mark.is_special for mark in marks)) == (bars, 1)
    assert marks[0].title.startswith(title) and caption in found.caption


# The type of the range column, the values of each file, and the start, the length and the overlap of each line.
@pytest.mark.parametrize(
    ("kind", "values", "lines"),
    [
        ("bigint", [("15", "20"), ("0", "9"), ("10", "19")], [(0, 45, False), (50, 45, False), (75, 25, True)]),
        ("decimal(3,1)", [("-1.0", "1.0"), ("1.0", "1.0")], [(0, 100, False), (100, 0, True)]),
        ("date", [("2024-01-01", "2024-01-02"), ("2024-01-04", "2024-01-05")], [(0, 25, False), (75, 25, False)]),
        ("timestamp", [("1969-12-31 23:59:59.5", "1970-01-01 00:00:01.5")], [(0, 100, False)]),
        ("string", [("1", "2")], None), ("date", [("+12345-01-01", "+12345-01-02")], None), ("int", [(None, None)], None),
    ],
)  # fmt: skip
def test_ranges_of_numbers_and_dates_are_on_one_axis(kind: str, values: list[Any], lines: list[Any] | None) -> None:
    files = tuple(FileStats(f"{number}", 1, 2, "covered", None, *ends) for number, ends in enumerate(values))
    of = organized(files, kind).organized
    found = file_ranges(of, files) if of else None
    marks = found and [(mark.start, mark.length, mark.is_special) for _, group in found.groups for mark in group]
    assert marks == lines
    assert len(file_bars(files).groups[0][1]) == len(values)
    assert "Only the first 200 of 201 files" in file_bars(files[:1] * 201).caption
