"""Write the report of `check` in the format that the user selects.

The JSON has the fields of the report classes. See docs/reference/check.schema.json.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, TextIO

from spark_bucketing.check.acceptance import fingerprint
from spark_bucketing.check.fixes import required_specs
from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, Report
from spark_bucketing.report import output
from spark_bucketing.report.check_ci import write_github, write_sarif
from spark_bucketing.report.check_html import write_html
from spark_bucketing.report.check_text import write_text

# Increase this version when a field is removed or changes its meaning, but not when a field is added.
SCHEMA_VERSION = 1
FORMATS = ("text", "json", "sarif", "github", "html")


def write_report(report: Report, form: str, file: TextIO, verbose: bool = False, plain: bool = False) -> None:
    """Write the report in one of FORMATS.

    The arguments `verbose` and `plain` apply only to text.
    """
    if form == "text":
        write_text(report, file, verbose, plain)
    else:
        writers = {"json": write_json, "sarif": write_sarif, "github": write_github, "html": write_html}
        writers[form](report, file)


def write_json(report: Report, file: TextIO) -> None:
    """Write the report as JSON."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "planner": report.planner,
        "models": [_model(model) for model in report.models],
        "project": [_finding("", None, finding) for finding in report.project],
        "unfinished": list(report.unfinished),
        "about": dict(report.about),
        "required_specs": [
            {"table": table, "specs": [{"config": text, "serves": list(names)} for text, names in specs.items()]}
            for table, specs in required_specs(report.models).items()
        ],
    }
    output.write_json(data, file)


def _model(model: ModelResult) -> dict[str, Any]:
    operators = [_operator(model, operator) for operator in model.operators]
    return {**vars(model), "operators": operators, "inputs": [vars(parent) for parent in model.inputs]}


def _operator(model: ModelResult, operator: OperatorResult) -> dict[str, Any]:
    findings = [_finding(model.key, operator, finding) for finding in operator.findings]
    return {**vars(operator), "findings": findings}


def _finding(model: str, operator: OperatorResult | None, finding: Finding) -> dict[str, Any]:
    # Only the check itself uses these fields.
    data = {name: value for name, value in vars(finding).items() if name not in ("changes", "explains")}
    data |= {"fingerprint": fingerprint(model, operator, finding), "fixes": [_fix(fix) for fix in finding.fixes]}
    return data


def _fix(fix: Fix) -> dict[str, Any]:
    found = asdict(replace(fix, also=()))
    # Only the planning step uses these fields.
    for key in ("rewrite", "planned_as_if"):
        del found[key]
    return {"promises": found.pop("verdict"), **found, "also": [_fix(further) for further in fix.also]}
