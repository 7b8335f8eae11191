"""Write the report of `check` for CI systems.

The formats are the workflow commands of GitHub Actions, which annotate a pull request, and SARIF 2.1.0 for code
scanning.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any, TextIO
from urllib.parse import quote

from spark_bucketing.check.acceptance import UNKNOWN, UNPLANNED, fingerprint
from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.check.reasons.reason import Reason
from spark_bucketing.check.results import (
    Acceptance,
    Finding,
    Found,
    ModelResult,
    OperatorResult,
    Report,
    alike_findings,
    all_findings,
    is_unclear,
    open_findings,
    unknown_models,
)
from spark_bucketing.report import output
from spark_bucketing.report.formatting import from_root, one_line, size, summary, why_unknown

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Relative paths start at the directory of the check.
_BASE = "SRCROOT"
_KINDS: dict[Acceptance, str] = {"allow": "inSource", "baseline": "external", "small": "external"}


def _message(finding: Finding) -> str:
    return "\n".join([finding.message, *(f"Fix: {fix.text}" for fix in finding.fixes)])


def write_github(report: Report, file: TextIO) -> None:
    """Write one workflow command for each finding that is not accepted, and then the summary."""
    for found in alike_findings(open_findings(report)):
        file.write(_annotation(report, found))
    for model in unknown_models(report):
        why = why_unknown(model)
        file.write(_command("error", from_root(report, model.path), None, f"Could not check {model.name}", why))
    if report.unfinished:
        file.write(_command("error", None, None, "interrupted", f"Not checked: {', '.join(report.unfinished)}"))
    file.write(f"{one_line(summary(report))}\n")


def _annotation(report: Report, found: Found) -> str:
    finding, model = found.finding, found.model
    title = finding.reason + (f" ({size(finding.bytes_shuffled)})" if finding.bytes_shuffled else "")
    path = from_root(report, model.path if model else "dbt_project.yml")
    return _command(_COMMANDS[finding.level], path, finding.line, title, _message(finding))


def _command(command: str, path: str | None, line: int | None, title: str, message: str) -> str:
    properties = {"file": path, "line": str(line) if line else None, "title": title}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{command} {given}::{_data(message)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def write_sarif(report: Report, file: TextIO) -> None:
    """Write the report as a SARIF log with one run."""
    driver = {"name": "spark-bucketing", "version": version("spark-bucketing"), "rules": list(map(_rule, EVERY_REASON))}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_BASE: {"description": {"text": "The directory in which the check ran."}}},
        "invocations": [
            {
                "executionSuccessful": not report.unfinished and not unknown_models(report),
                "toolExecutionNotifications": list(_notifications(report)),
            }
        ],
        "results": [_result(report, found) for found in all_findings(report)],
    }
    output.write_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, file)


def _rule(reason: Reason) -> dict[str, Any]:
    text = reason.documentation
    return {
        "id": reason.slug,
        "shortDescription": {"text": reason.summary},
        "help": {"text": text, "markdown": text},
    }


def _result(report: Report, found: Found) -> dict[str, Any]:
    finding, model = found.finding, found.model
    key = model.key if model else ""
    result: dict[str, Any] = {
        "ruleId": finding.reason,
        "level": finding.level,
        "message": {"text": _message(finding)},
        "partialFingerprints": {"sparkBucketing/v1": fingerprint(key, found.operator, finding)},
    }
    # A project-wide finding points to the project file.
    result["locations"] = [_location(report, model.path if model else "dbt_project.yml", finding.line)]
    if finding.accepted:
        result["suppressions"] = [{"kind": _KINDS[finding.accepted]}]
    if finding.bytes_shuffled is not None:
        result["properties"] = {"bytesShuffled": finding.bytes_shuffled}
    return result


def _notifications(report: Report) -> Iterator[dict[str, Any]]:
    """Yield a notification for each model that could not be planned, and for each operator that was not recognized."""
    for model in report.models:
        if model.error:
            level = "none" if model.accepted else "error"
            yield _notification(report, model, UNPLANNED, None, level, f"could not be checked: {model.error}")
        for operator in filter(is_unclear, model.operators):
            why = f"has an operator that was not recognized: {operator.description}"
            yield _notification(report, model, UNKNOWN, operator, "error", why)


def _notification(
    report: Report, model: ModelResult, kind: str, operator: OperatorResult | None, level: str, text: str
) -> dict[str, Any]:
    return {
        "descriptor": {"id": kind},
        "level": level,
        "message": {"text": f"{model.name} {text}"},
        "locations": [_location(report, model.path, None)],
        "properties": {"fingerprint": fingerprint(model.key, operator, Finding(kind, ""))},
    }


def _location(report: Report, path: str, line: int | None) -> dict[str, Any]:
    # File names may contain bytes that are not valid text.
    uri = quote(from_root(report, path), errors="replace")
    artifact = {"uri": f"file://{uri}"} if PurePosixPath(path).is_absolute() else {"uri": uri, "uriBaseId": _BASE}
    # Code scanning ignores results without a line.
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line or 1}}}
