"""Write the report of `check` for CI systems.

The formats are the workflow commands of GitHub Actions, which annotate a pull request; JUnit XML, with one test case
per query; and SARIF 2.1.0, for code scanning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any, TextIO
from urllib.parse import quote

# This module only writes XML, so attacks through parsed XML do not apply.
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from spark_bucketing.check.acceptance import UNKNOWN, UNPLANNED, fingerprint
from spark_bucketing.check.outcome import (
    FailOn,
    Found,
    alike_findings,
    all_findings,
    failing_levels,
    is_unclear,
    open_findings,
    unknown_models,
)
from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.check.reasons.reason import Reason
from spark_bucketing.check.results import Acceptance, Finding, ModelResult, OperatorResult, Report
from spark_bucketing.report import output
from spark_bucketing.report.formatting import from_root, one_line, size, summary, why_unknown

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
# Characters that XML 1.0 cannot represent.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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


def write_junit(report: Report, file: TextIO, fail_on: FailOn) -> None:
    """Write the report as JUnit XML."""
    failing = failing_levels(fail_on)
    suite = Element("testsuite", name="spark-bucketing check")
    project = SubElement(suite, "testcase", name="project", classname="spark_bucketing")
    _add_findings(project, [(None, finding) for finding in report.project], failing)
    for model in report.models:
        _case(suite, model, failing)
    for name in report.unfinished:
        SubElement(SubElement(suite, "testcase", name=_text(name)), "error", message="not checked")
    for what, tags in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        suite.set(what, str(len(suite.findall(f".//{tags}"))))
    SubElement(suite, "system-out").text = _text(f"{summary(report)}\nPlanned by: {report.planner}")
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n')


def _case(suite: Element, model: ModelResult, failing: tuple[str, ...]) -> None:
    folder = ".".join(PurePosixPath(model.path).parent.parts) or "."
    case = SubElement(suite, "testcase", name=_text(model.name), classname=_text(folder), file=_text(model.path))
    if model.error and not model.accepted:
        SubElement(case, "error", message=_text(one_line(model.error))).text = _text(model.error)
    for operator in filter(is_unclear, model.operators):
        SubElement(case, "error", message=_text(f"operator not recognized: {operator.kind}: {operator.description}"))
    findings = [(operator, finding) for operator in model.operators for finding in operator.findings]
    _add_findings(case, findings, failing)


def _add_findings(
    case: Element, findings: Sequence[tuple[OperatorResult | None, Finding]], failing: tuple[str, ...]
) -> None:
    mild = []
    for operator, finding in findings:
        lines = [f"{operator.verdict.value} {operator.kind}: {operator.description}"] if operator else []
        lines.append(_message(finding))
        if finding.level in failing and not finding.accepted:
            failure = SubElement(case, "failure", type=finding.reason, message=_text(one_line(finding.message)))
            failure.text = _text("\n".join(lines))
        else:
            mild.append("\n".join([f"{finding.level} {finding.reason} ({finding.accepted or 'not failing'})", *lines]))
    if mild:
        SubElement(case, "system-out").text = _text("\n\n".join(mild))


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


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
