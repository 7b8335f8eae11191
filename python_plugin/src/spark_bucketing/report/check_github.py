"""Write the report of `check` as GitHub Actions workflow commands, which annotate a pull request."""

from __future__ import annotations

from typing import TextIO

from spark_bucketing.check.outcome import Found, alike_findings, open_findings, unknown_models
from spark_bucketing.check.results import Report
from spark_bucketing.report.formatting import from_root, one_line, size, summary, why_unknown

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


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
    lines = [finding.message, *(f"Fix: {fix.text}" for fix in finding.fixes)]
    title = finding.reason + (f" ({size(finding.bytes_shuffled)})" if finding.bytes_shuffled else "")
    path = from_root(report, model.path if model else "dbt_project.yml")
    return _command(_COMMANDS[finding.level], path, finding.line, title, "\n".join(lines))


def _command(command: str, path: str | None, line: int | None, title: str, message: str) -> str:
    properties = {"file": path, "line": str(line) if line else None, "title": title}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{command} {given}::{_data(message)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
