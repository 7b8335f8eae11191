"""Tests of accepted findings, and of the resulting exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sample_report import BROKEN, CAST, CLEAN, JOINED, MISMATCH, REPORT, TOO_OLD, WIDE, joined

from spark_bucketing.checks.acceptance import accept, allowed_reasons, fingerprint, read_baseline, write_baseline
from spark_bucketing.checks.results import (
    FailOn,
    Finding,
    Fix,
    Level,
    Report,
    Verdict,
    exit_code,
    open_findings,
    unknown_models,
)
from spark_bucketing.errors import ProjectError

SLUGS = ("bucket-count-mismatch", "union")
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
    assert open_findings(accepted) == [] and unknown_models(accepted) == []
    assert exit_code(accepted, "note") == 0


def test_baseline_ignores_changed_lines_and_numbers_but_accepts_no_second_finding(baseline: Path) -> None:
    moved = replace(MISMATCH, line=99, bytes_shuffled=1, message="64 against 25.")
    found = joined(moved, description="inner join on user_id#7L = user_id")
    assert open_findings(accept(found, {}, read_baseline(baseline))) == []
    report = accept(joined(MISMATCH, MISMATCH), {}, read_baseline(baseline))
    assert [found.finding.accepted for found in open_findings(report)] == [None]
    assert exit_code(report, "warning") == 1


@pytest.mark.parametrize(
    "other",
    [
        fingerprint("model.shop.other", JOINED.operators[0], MISMATCH),
        fingerprint("model.shop.joined", JOINED.operators[1], MISMATCH),
        fingerprint("model.shop.joined", None, MISMATCH),
        fingerprint("model.shop.joined", JOINED.operators[0], WIDE),
        fingerprint("model.shop.joined", JOINED.operators[0], replace(MISMATCH, tables=("shop.users",))),
    ],
)
def test_fingerprint_depends_on_model_operator_reason_and_table(other: str) -> None:
    assert other != fingerprint("model.shop.joined", JOINED.operators[0], MISMATCH)


def test_baseline_file_does_not_depend_on_the_order_of_models(baseline: Path, tmp_path: Path) -> None:
    write_baseline(replace(RAW, models=tuple(reversed(RAW.models))), tmp_path / "two")
    assert baseline.read_text() == (tmp_path / "two").read_text()


def test_allowed_findings_are_not_in_the_baseline(tmp_path: Path) -> None:
    allowed = accept(RAW, {"model.shop.joined": ["bucket-count-mismatch"]}, {})
    assert [found.finding.accepted for found in open_findings(allowed) if found.finding.reason == MISMATCH.reason] == []
    write_baseline(allowed, tmp_path / "b")
    assert "bucket-count-mismatch" not in (tmp_path / "b").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "is not a baseline"),
        ('{"version": 9, "findings": []}', "version 9"),
        ("[]", "is not a baseline"),
    ],
)
def test_unreadable_baseline_is_an_error(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "b").write_text(text)
    with pytest.raises(ProjectError, match=said):
        read_baseline(tmp_path / "b")


def test_unwritable_baseline_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="cannot be written"):
        write_baseline(RAW, tmp_path / "missing" / "b")


@pytest.mark.parametrize(
    ("meta", "allowed"),
    [
        ({}, set()),
        ({"owner": "me"}, set()),
        ({"bucketing": {}}, set()),
        ({"bucketing": {"allow": ["union"]}}, {"union"}),
        ({"bucketing": {"allow": "union"}}, {"union"}),
        ({"bucketing": {"allow": list(SLUGS)}}, set(SLUGS)),
    ],
)
def test_meta_allows_reasons(meta: dict[str, object], allowed: set[str]) -> None:
    assert allowed_reasons(meta, "m", SLUGS) == allowed


@pytest.mark.parametrize(
    ("bucketing", "found"),
    [
        ({"allow": ["unoin"]}, r"unoin\n  expected: .*bucket-count-mismatch, union"),
        ({"allow": [["union"]]}, r"\['union'\]"),
        ({"allow": [5]}, "5"),
        ({"allow": {}}, r"\{'allow': \{\}\}"),
        ({"allowed": ["union"]}, r"allowed\n  expected: only the key `allow`"),
        (["union"], r"\['union'\]"),
    ],
)
def test_invalid_meta_is_an_error_that_shows_the_valid_form(bucketing: object, found: str) -> None:
    with pytest.raises(ProjectError, match=rf"`orders`[\s\S]*found:    {found}[\s\S]*instead:"):
        allowed_reasons({"bucketing": bucketing}, "orders", SLUGS)


@pytest.mark.parametrize(
    ("findings", "fail_on", "code"),
    [
        ((), "note", 0),
        ((CAST,), "note", 1),
        ((CAST,), "warning", 0),
        ((WIDE,), "warning", 1),
        ((WIDE,), "error", 0),
        ((TOO_OLD,), "error", 1),
        ((TOO_OLD,), "never", 0),
        ((replace(TOO_OLD, accepted="allow"),), "note", 0),
    ],
)
def test_findings_at_or_above_the_level_fail(findings: tuple[Finding, ...], fail_on: FailOn, code: int) -> None:
    assert exit_code(joined(*findings), fail_on) == code


def test_unknown_never_passes_and_an_interruption_outranks_findings() -> None:
    for report in (Report((BROKEN,)), joined(verdict=Verdict.UNKNOWN), replace(CLEAN, unfinished=("m",))):
        assert exit_code(report, "never") == 2
    assert exit_code(Report((BROKEN, JOINED)), "warning") == 1
    assert exit_code(Report((JOINED,), unfinished=("m",)), "warning") == 2
    assert exit_code(Report((replace(BROKEN, accepted="baseline"),)), "note") == 0


def test_project_finding_is_identified_by_its_settings() -> None:
    assert fingerprint("", None, TOO_OLD) == fingerprint("", None, replace(TOO_OLD, tables=("shop.new",)))
    first, second = (replace(TOO_OLD, fixes=(Fix("setting", "", {name: "true"}),)) for name in ("spark.a", "spark.b"))
    assert fingerprint("", None, first) != fingerprint("", None, second)


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ((Verdict.SHUFFLE_FREE, "note"), (Verdict.SHUFFLED, "note"), False),
        ((Verdict.SHUFFLED, "note"), (Verdict.SHUFFLED, "warning"), False),
        ((Verdict.SHUFFLED, "warning"), (Verdict.SHUFFLED, "warning"), True),
        ((Verdict.SHUFFLED, "warning"), (Verdict.ONE_SIDED, "note"), True),
    ],
)
def test_baseline_accepts_improvements_but_not_regressions(
    before: tuple[Verdict, Level], after: tuple[Verdict, Level], accepted: bool, tmp_path: Path
) -> None:
    earlier, later = (joined(replace(CAST, level=level), verdict=verdict) for verdict, level in (before, after))
    write_baseline(earlier, tmp_path / "b")
    assert (open_findings(accept(later, {}, read_baseline(tmp_path / "b"))) == []) == accepted


def test_accepted_finding_does_not_hide_an_unknown_operator(tmp_path: Path) -> None:
    report = joined(CAST, verdict=Verdict.UNKNOWN)
    allowed = accept(report, {"model.shop.joined": [CAST.reason]}, {})
    assert open_findings(allowed) == [] and exit_code(allowed, "note") == 2
    assert write_baseline(report, tmp_path / "b") == 2
    assert exit_code(accept(report, {}, read_baseline(tmp_path / "b")), "note") == 0


def test_partial_check_keeps_other_entries_of_the_baseline(baseline: Path) -> None:
    whole = baseline.read_text()
    for project in ((), RAW.project):
        write_baseline(replace(RAW, models=RAW.models[:2], project=project), baseline, part=True)
        assert baseline.read_text() == whole
    with pytest.raises(ProjectError, match="interrupted"):
        write_baseline(replace(RAW, models=(), unfinished=("m",)), baseline)
    assert baseline.read_text() == whole
    write_baseline(replace(RAW, models=(replace(JOINED, operators=()),)), baseline, part=True)
    assert "bucket-count-mismatch" not in baseline.read_text() and "side-not-bucketed" in baseline.read_text()
