"""Write the report of `check` as JUnit XML, with one test case per query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TextIO

# This module only writes XML, so attacks through parsed XML do not apply.
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from spark_bucketing.check.outcome import FailOn, failing_levels, is_unclear
from spark_bucketing.check.results import Finding, ModelResult, OperatorResult, Report
from spark_bucketing.report.formatting import one_line, summary

# Characters that XML 1.0 cannot represent.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        lines += [finding.message, *(f"Fix: {fix.text}" for fix in finding.fixes)]
        if finding.level in failing and not finding.accepted:
            failure = SubElement(case, "failure", type=finding.reason, message=_text(one_line(finding.message)))
            failure.text = _text("\n".join(lines))
        else:
            mild.append("\n".join([f"{finding.level} {finding.reason} ({finding.accepted or 'not failing'})", *lines]))
    if mild:
        SubElement(case, "system-out").text = _text("\n\n".join(mild))


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
