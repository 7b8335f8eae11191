"""Tests of the command `check` without Spark: arguments, accepted findings, output and exit codes."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from case_tables import cases
from click.testing import CliRunner, Result
from dbt_projects import dbt_project
from sample_report import BROKEN, CAST, CLEAN, JOINED, LATER, MISMATCH, NOT_RECOGNIZED, REPORT, TOO_OLD, WIDE, joined

from spark_bucketing.checks import project
from spark_bucketing.checks.acceptance import accept, fingerprint, read_baseline, write_baseline
from spark_bucketing.checks.project import CheckRequest, OnProgress
from spark_bucketing.checks.reasons import EVERY_REASON
from spark_bucketing.checks.report import FORMATS
from spark_bucketing.checks.results import Fix, Found, Report, Verdict, exit_code, open_findings
from spark_bucketing.cli import main
from spark_bucketing.errors import ProjectError

DONE = replace(REPORT, unfinished=())
Asked = Callable[[Report], list[CheckRequest]]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """Replace the check with a function that returns a given report and records requests, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def answer(report: Report) -> list[CheckRequest]:
        requests: list[CheckRequest] = []

        def check_project(request: CheckRequest, on_progress: OnProgress) -> Report:
            requests.append(request)
            on_progress("m", 0, 1)
            return report

        monkeypatch.setattr(project, "check_project", check_project)
        return requests

    return answer


@pytest.mark.parametrize(
    ("report", "arguments", "code"),
    [(CLEAN, "", 0), (DONE, "", 1), (DONE, "--fail-on error", 1), (DONE, "--fail-on never", 2), (REPORT, "", 2), (Report(()), "", 0)],
)  # fmt: skip
def test_exit_code_comes_from_the_report(report: Report, arguments: str, code: int, asked: Asked) -> None:
    asked(report)
    assert run(*arguments.split()).exit_code == code


def test_one_run_can_write_several_reports(asked: Asked) -> None:
    asked(DONE)
    result = run("--format", "json", "--output", "o.json")
    assert (result.exit_code, result.stdout) == (1, "")
    result = run("--format", "github", "--format", "sarif=r.sarif", "--format", "json=r.json")
    assert result.exit_code == 1 and result.stdout.startswith("::warning")
    found = {name: json.loads(Path(name).read_text()) for name in ("o.json", "r.json", "r.sarif")}
    assert found["o.json"]["models"] == found["r.json"]["models"] != [] and found["r.sarif"]["runs"]


def test_baseline_of_a_selection_keeps_the_other_models(asked: Asked) -> None:
    asked(CLEAN)
    result = run("--write-baseline", "b")
    assert result.exit_code == 0 and "accepts 0 findings" in result.stderr
    assert json.loads(Path("b").read_text()) == {"version": 2, "findings": []}
    asked(DONE)
    assert run("--write-baseline", "b").exit_code == 0
    whole = Path("b").read_text()
    asked(Report((REPORT.models[1],)))
    assert run("--write-baseline", "b", "--select", "joined").exit_code == 0
    assert Path("b").read_text() == whole
    asked(REPORT)
    assert run("--write-baseline", "b").exit_code == 2
    assert Path("b").read_text() == whole


# An internal error must not have the exit code of findings.
ERRORS = {
    "Interrupted before any model was checked.": KeyboardInterrupt(),
    "KeyError: 'unique_id'": KeyError("unique_id"),
}


@pytest.mark.parametrize(("said", "error"), ERRORS.items())
def test_error_during_the_check_never_passes(error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "check_project", Mock(side_effect=error))
    result = run()
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output


@pytest.mark.parametrize("rule", EVERY_REASON, ids=lambda rule: str(rule.slug))
def test_every_reason_is_explained_and_listed(rule: Any) -> None:
    text, listed = (CliRunner().invoke(main, ["explain", *reason]).output for reason in ([rule.slug], []))
    assert text.startswith(f"{rule.slug}: {rule.summary}\n") and rule.documentation in text
    assert rule.documentation.splitlines()[0].endswith(".")
    assert 0 < text.index("**Anti-pattern**") < text.index("**Best practice**")
    assert any(line.split()[0] == rule.slug for line in listed.splitlines())


@cases("commands/selections", arguments=..., select="", exclude="", files="")
def test_select_and_exclude_accept_several_words_like_dbt(
    arguments: str, select: str, exclude: str, files: str, asked: Asked, tmp_path: Path
) -> None:
    Path("models").mkdir()
    for file in ("q.sql", "models/foo.sql"):
        Path(file).write_text("select 1")
    requests = asked(CLEAN)
    result = run(*shlex.split(arguments))
    assert result.exit_code == 0, result.output
    selection = requests[0].selection
    assert (selection.select, selection.exclude) == (tuple(select.split()), tuple(exclude.split()))
    assert requests[0].offline == ("--offline" in arguments)
    assert requests[0].files == tuple(tmp_path / file for file in files.split())


INVALID = {
    "requires an argument": ("--select", "--exclude", "--select --offline", "-s a --exclude -v", "--select="),
    "cannot be written": ("--output none/file", "--write-baseline none/file"),
    "several reports would go to standard output": ("--format github --format json",),
    "'--format': 'pdf' is not one of": ("--format pdf=r.pdf",),
}


@pytest.mark.parametrize(("arguments", "said"), [(given, said) for said, of in INVALID.items() for given in of])
def test_invalid_arguments_are_rejected_before_anything_runs(arguments: str, said: str, asked: Asked) -> None:
    requests = asked(CLEAN)
    result = run(*arguments.split())
    assert result.exit_code == 2 and said in result.output and requests == []


@pytest.mark.parametrize("form", FORMATS)
def test_reports_support_every_character(form: str, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(Report((replace(JOINED, name="q\udcff", path="m/\udcff\N{GRINNING FACE}.sql"),)))
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding="cp1252"))
    for place in ((), ("--output", "report")):
        with pytest.raises(SystemExit) as left:
            main(["check", "--format", form, *place])
        assert left.value.code == 1
    sys.stdout.flush()
    # Text uses the terminal's encoding; SARIF uses URIs.
    assert ("\N{GRINNING FACE}".encode() in terminal.getvalue()) is (form not in ("text", "sarif"))
    assert Path("report").stat().st_size


def test_report_file_has_no_colors_even_if_they_are_forced(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(REPORT)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    run("--output", "report")
    text = Path("report").read_text()
    assert "\x1b" not in text and MISMATCH.message in text


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ({"method": "thrift"}, "failed to connect"), ({"method": "http", "token": "x", "cluster": "c"}, "failed to connect"),
        ({"method": "odbc", "driver": "Simba", "endpoint": "e", "token": "x"}, "dbt-spark[ODBC]"),
    ],
)  # fmt: skip
def test_unreachable_server_or_missing_driver_is_an_error_with_dbt_spark_s_message(
    method: dict[str, str],
    said: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyodbc", None)
    dbt_project(tmp_path, host="127.0.0.1", port=1, connect_retries=0, **method)
    (tmp_path / "q.sql").write_text("select 1 as a group by 1")
    place = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path), str(tmp_path / "q.sql")]
    result = run("--format", "json", *place)
    # dbt's own log would mix with the report.
    assert result.exit_code == 2 and result.stdout == capfd.readouterr().out == ""
    assert said in result.stderr and "Traceback" not in result.stderr


# The findings of a run, without acceptance.
RAW = accept(replace(REPORT, unfinished=()), {}, {})


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Write a baseline that accepts all findings, and return its path."""
    write_baseline(RAW, tmp_path / "baseline.json")
    return tmp_path / "baseline.json"


def test_baseline_accepts_all_findings_of_the_report_that_it_was_written_from(tmp_path: Path) -> None:
    assert exit_code(RAW, "note") == 1
    whole = replace(RAW, unfinished=(), models=RAW.models[:4])
    assert write_baseline(whole, tmp_path / "b") == 7
    accepted = accept(whole, {}, read_baseline(tmp_path / "b"))
    assert open_findings(accepted) == open_findings(accepted, unknown=True) == [] and exit_code(accepted, "note") == 0
    # The file does not depend on the order of models.
    write_baseline(replace(whole, models=tuple(reversed(whole.models))), tmp_path / "two")
    assert (tmp_path / "b").read_text() == (tmp_path / "two").read_text()


def test_baseline_ignores_changed_lines_and_numbers_but_accepts_no_second_finding(baseline: Path) -> None:
    moved = replace(MISMATCH, line=99, bytes_shuffled=1, message="64 against 25.")
    found = joined(moved, description="inner join on user_id#7L = user_id")
    assert open_findings(accept(found, {}, read_baseline(baseline))) == []
    report = accept(joined(MISMATCH, MISMATCH), {}, read_baseline(baseline))
    assert [found.finding.accepted for found in open_findings(report)] == [None]
    assert exit_code(report, "warning") == 1


def test_fingerprint_depends_on_model_operator_reason_and_table_or_on_settings() -> None:
    first, second, _ = JOINED.operators
    others = [
        Found(MISMATCH, JOINED, first), Found(MISMATCH, LATER, first), Found(MISMATCH, JOINED, second),
        Found(MISMATCH, JOINED), Found(WIDE, JOINED, first),
        Found(replace(MISMATCH, tables=("shop.users",)), JOINED, first),
        # A finding about the project depends on its settings, and not on its tables.
        *(Found(replace(TOO_OLD, fixes=(Fix("setting", "", {name: "true"}),))) for name in ("spark.a", "spark.b")),
    ]  # fmt: skip
    assert len({fingerprint(one) for one in others}) == len(others)
    assert fingerprint(Found(TOO_OLD)) == fingerprint(Found(replace(TOO_OLD, tables=("shop.new",))))


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "No such file"), ("{", "is not a baseline"), ('{"version": 9, "findings": []}', "version 9"), ("[]", "is not a baseline")],
)  # fmt: skip
def test_unreadable_or_unwritable_baseline_is_an_error(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "b").write_text(text)
    with pytest.raises(ProjectError, match=said):
        read_baseline(tmp_path / "b")
    with pytest.raises(ProjectError, match="cannot be written"):
        write_baseline(RAW, tmp_path / "missing" / "b")


KNOWN = replace(BROKEN, findings=(replace(BROKEN.findings[0], accepted="baseline"),))


@pytest.mark.parametrize(
    ("report", "fail_on", "code"),
    [
        (joined(), "note", 0), (joined(CAST), "note", 1), (joined(CAST), "warning", 0), (joined(WIDE), "warning", 1),
        (joined(WIDE), "error", 0), (joined(TOO_OLD), "error", 1), (joined(TOO_OLD), "never", 0),
        (joined(replace(TOO_OLD, accepted="allow")), "note", 0),
        # Unknown never passes, and an interruption outranks findings.
        (Report((BROKEN,)), "never", 2), (joined(NOT_RECOGNIZED), "never", 2), (replace(CLEAN, unfinished=("m",)), "never", 2),
        (Report((BROKEN, JOINED)), "warning", 1), (Report((JOINED,), unfinished=("m",)), "warning", 2), (Report((KNOWN,)), "note", 0),
    ],
)  # fmt: skip
def test_findings_at_or_above_the_level_fail(report: Report, fail_on: Any, code: int) -> None:
    assert exit_code(report, fail_on) == code


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("shuffle-free note", "shuffled note", False), ("shuffled note", "shuffled warning", False),
        ("shuffled warning", "shuffled warning", True), ("shuffled warning", "one-sided note", True),
    ],
)  # fmt: skip
def test_baseline_accepts_improvements_but_not_regressions(
    before: str, after: str, accepted: bool, tmp_path: Path
) -> None:
    of: Any = (one.split() for one in (before, after))
    earlier, later = (joined(replace(CAST, level=level), verdict=Verdict(verdict)) for verdict, level in of)
    write_baseline(earlier, tmp_path / "b")
    assert (open_findings(accept(later, {}, read_baseline(tmp_path / "b"))) == []) == accepted


def test_allowed_finding_is_not_in_the_baseline_and_does_not_hide_an_unknown_operator(tmp_path: Path) -> None:
    report = joined(CAST, NOT_RECOGNIZED, verdict=Verdict.UNKNOWN)
    allowed = accept(report, {"model.shop.joined": [CAST.reason]}, {})
    assert open_findings(allowed) == [] and exit_code(allowed, "note") == 2
    assert write_baseline(allowed, tmp_path / "b") == 1 and CAST.reason not in (tmp_path / "b").read_text()
    assert write_baseline(report, tmp_path / "b") == 2
    assert exit_code(accept(report, {}, read_baseline(tmp_path / "b")), "note") == 0


def test_partial_check_keeps_other_entries_of_the_baseline(baseline: Path) -> None:
    whole = baseline.read_text()
    for findings in ((), RAW.project):
        write_baseline(replace(RAW, models=RAW.models[:2], project=findings), baseline, part=True)
        assert baseline.read_text() == whole
    with pytest.raises(ProjectError, match="interrupted"):
        write_baseline(replace(RAW, models=(), unfinished=("m",)), baseline)
    assert baseline.read_text() == whole
    write_baseline(replace(RAW, models=(replace(JOINED, operators=()),)), baseline, part=True)
    assert "bucket-count-mismatch" not in baseline.read_text() and "side-not-bucketed" in baseline.read_text()
