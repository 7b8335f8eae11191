"""Determine which findings of a report count, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from spark_bucketing.check.results import Finding, ModelResult, OperatorResult, Report, Verdict
from spark_bucketing.errors import CLEAN, COULD_NOT_RUN, FINDINGS

FailOn = Literal["error", "warning", "note", "never"]
LEVELS = ("error", "warning", "note")


class Found(NamedTuple):
    """A finding with its model and operator; both are None for project findings."""

    finding: Finding
    model: ModelResult | None = None
    operator: OperatorResult | None = None


def all_findings(report: Report) -> Iterator[Found]:
    """Yield all findings: first the project's, then the models' in the order of the report."""
    for finding in report.project:
        yield Found(finding)
    for model in report.models:
        for operator in model.operators:
            for finding in operator.findings:
                yield Found(finding, model, operator)


def open_findings(report: Report) -> list[Found]:
    """Return the findings that are not accepted, sorted by bytes (most first), level (worst first) and model."""

    def order(found: Found) -> tuple[int, int, str, int]:
        finding, name = found.finding, found.model.name if found.model else ""
        return -(finding.bytes_shuffled or 0), LEVELS.index(finding.level), name, finding.line or 0

    return sorted((found for found in all_findings(report) if not found.finding.accepted), key=order)


def alike_findings(found: Iterable[Found]) -> list[Found]:
    """Merge findings of one operator with the same reason and fixes, such as the findings of both sides of a join.

    The merged finding has all messages, one per line, and the total number of bytes.
    """
    groups: dict[tuple[object, ...], list[Found]] = {}
    for each in found:
        finding = each.finding
        fixes = tuple(fix.text for fix in finding.fixes)
        whose = id(each.operator) if each.operator else id(finding)
        key = (whose, finding.reason, finding.level, finding.accepted, fixes)
        groups.setdefault(key, []).append(each)
    return list(map(_together, groups.values()))


def _together(alike: Sequence[Found]) -> Found:
    findings = [found.finding for found in alike]
    messages = dict.fromkeys(finding.message for finding in findings)
    size = sum(finding.bytes_shuffled or 0 for finding in findings)
    return alike[0]._replace(finding=replace(findings[0], message="\n".join(messages), bytes_shuffled=size or None))


def unknown_models(report: Report) -> list[ModelResult]:
    """Return models without a usable plan, unless they are accepted.

    Spark could not plan them, or `check` did not recognize an operator of the plan.
    """
    return [
        model
        for model in report.models
        if (model.error and not model.accepted) or any(map(is_unclear, model.operators))
    ]


def failing_levels(fail_on: FailOn) -> tuple[str, ...]:
    """Return the levels of findings that make the check fail."""
    return LEVELS[: LEVELS.index(fail_on) + 1] if fail_on != "never" else ()


def exit_code(report: Report, fail_on: FailOn) -> int:
    """Return 0 for no findings, 1 for findings at this level or worse, 2 for an unknown result or an interruption.

    An interruption takes precedence over findings, and findings take precedence over unknown results.
    """
    if report.unfinished:
        return COULD_NOT_RUN
    if any(found.finding.level in failing_levels(fail_on) for found in open_findings(report)):
        return FINDINGS
    return COULD_NOT_RUN if unknown_models(report) else CLEAN


def is_unclear(operator: OperatorResult) -> bool:
    """Return whether an operator was not recognized, and no accepted finding covers it."""
    return operator.verdict is Verdict.UNKNOWN and not operator.accepted
