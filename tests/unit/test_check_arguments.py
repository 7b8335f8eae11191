"""Arguments of `check` that dbt's users are used to, and where its report goes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reported import CLEAN, JOINED, REPORT

import spark_bucketing.cli.check
from spark_bucketing.check.artifacts import Request
from spark_bucketing.check.command import OnProgress
from spark_bucketing.check.results import Report
from spark_bucketing.cli import main
from spark_bucketing.report.check_report import FORMATS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Report], list[Request]]:
    """Function that makes the check report this, and returns the list of what it is asked, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def answer(report: Report) -> list[Request]:
        requests: list[Request] = []

        def check_project(request: Request, on_progress: OnProgress) -> Report:
            requests.append(request)
            return report

        monkeypatch.setattr(spark_bucketing.cli.check, "check_project", check_project)
        return requests

    return answer


def test_select_and_exclude_take_words_as_dbt_does(asked: Callable[[Report], list[Request]], tmp_path: Path) -> None:
    Path("q.sql").write_text("select 1")
    requests = asked(CLEAN)
    result = run("--select", "+a", "tag:b", "-s", "c d", "--exclude", "e", "--offline", "q.sql", "--select=f")
    assert result.exit_code == 0, result.output
    selection = requests[0].selection
    assert (selection.select, selection.exclude) == (("+a", "tag:b", "c", "d", "f"), ("e",))
    assert requests[0].offline and requests[0].files == (tmp_path / "q.sql",)


@pytest.mark.parametrize(
    ("arguments", "select", "files"),
    [
        (("--select", "models/foo.sql"), ("models/foo.sql",), ()),
        (("--select", "path:models/foo.sql", "tag:a"), ("path:models/foo.sql", "tag:a"), ()),
        (("--select", "a", "path:b.sql", "models/foo.sql"), ("a", "path:b.sql"), ("models/foo.sql",)),
        (("--select=models/foo.sql", "b"), ("models/foo.sql", "b"), ()),
        (("-s", "a", "--", "models/foo.sql"), ("a",), ("models/foo.sql",)),
    ],
)
def test_a_path_after_select_is_its_value(
    arguments: tuple[str, ...],
    select: tuple[str, ...],
    files: tuple[str, ...],
    asked: Callable[[Report], list[Request]],
    tmp_path: Path,
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "foo.sql").write_text("select 1")
    requests = asked(CLEAN)
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert requests[0].selection.select == select
    assert requests[0].files == tuple(tmp_path / file for file in files)


@pytest.mark.parametrize(
    "arguments",
    [("--select",), ("--exclude",), ("--select", "--offline"), ("-s", "a", "--exclude", "-v"), ("--select=",)],
)
def test_a_selection_without_a_value_is_not_the_whole_project(
    arguments: tuple[str, ...], asked: Callable[[Report], list[Request]]
) -> None:
    requests = asked(CLEAN)
    result = run(*arguments)
    assert result.exit_code == 2 and "requires an argument" in result.output and requests == []


@pytest.mark.parametrize("option", ["--output", "--write-baseline"])
def test_a_file_that_cannot_be_written_is_told_before_anything_runs(
    option: str, asked: Callable[[Report], list[Request]]
) -> None:
    requests = asked(CLEAN)
    result = run(option, "none/file")
    assert result.exit_code == 2 and "cannot be written" in result.output and requests == []


def test_a_baseline_of_a_selection_keeps_the_other_models(asked: Callable[[Report], list[Request]]) -> None:
    asked(replace(REPORT, unfinished=()))
    assert run("--write-baseline", "b").exit_code == 0
    whole = Path("b").read_text()
    asked(Report((JOINED,)))
    assert run("--write-baseline", "b", "--select", "joined").exit_code == 0
    assert Path("b").read_text() == whole
    asked(REPORT)
    assert run("--write-baseline", "b").exit_code == 2
    assert Path("b").read_text() == whole


@pytest.mark.parametrize("form", FORMATS)
def test_no_character_is_a_reason_to_fail(
    form: str, asked: Callable[[Report], list[Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(Report((replace(JOINED, name="q\udcff", path="m/\udcff\N{GRINNING FACE}.sql"),)))
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", narrow)
    with pytest.raises(SystemExit) as left:
        main(["check", "--format", form])
    assert left.value.code == 1
    with pytest.raises(SystemExit) as left:
        main(["check", "--format", form, "--output", "report"])
    assert left.value.code == 1 and Path("report").stat().st_size


def test_a_report_in_a_file_has_no_colours_even_where_they_are_forced(
    asked: Callable[[Report], list[Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(REPORT)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    run("--output", "report")
    text = Path("report").read_text()
    assert "\x1b" not in text and "shop.clicks has 64 buckets and shop.users has 24: neither divides the other." in text
