"""Write the report of `check` as text, JSON, SARIF, an HTML page or workflow commands of GitHub Actions.

The JSON has the fields of the report classes. See docs/reference/check.schema.json.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import PurePath, PurePosixPath
from typing import Any, TextIO
from urllib.parse import quote

from spark_bucketing import output
from spark_bucketing.checks.reasons import EVERY_REASON
from spark_bucketing.checks.results import (
    LEVELS,
    SMALLEST,
    Acceptance,
    Finding,
    Fix,
    Found,
    ModelResult,
    OperatorResult,
    Report,
    Verdict,
    alike_findings,
    all_findings,
    open_findings,
    worst_first,
)
from spark_bucketing.checks.verdicts import required_specs, worse_for
from spark_bucketing.output import console_on, json_data, one_line, print_template, template_beside
from spark_bucketing.units import count, size, some


def write_html(report: Report, file: TextIO) -> None:
    """Write the report as an HTML page."""
    functions = (count, effect, kind, place, short_name, size, verdict_counts, worse_for, worst_first, zip)
    page = template_beside(__file__, "report.html", *functions)
    found = open_findings(report)
    # The models that read each table or model, with the worst verdict of their operators on the table.
    reads = defaultdict[str, list[tuple[ModelResult, Verdict | None]]](list)
    for model in report.models:
        for parent in model.inputs:
            reads[parent.unique_id].append((model, parent.verdict))
    parts = page.generate(
        report=report,
        operators=operators_of(report.models),
        found=alike_findings(found),
        accepted=alike_findings(each for each in all_findings(report) if each.finding.accepted),
        moved=sum(each.finding.bytes_shuffled or 0 for each in found),
        unknown=open_findings(report, unknown=True),
        wanted=required_specs(report.models),
        reads=dict(sorted(reads.items(), key=lambda one: short_name(one[0]))),
        levels=LEVELS,
        Verdict=Verdict,
    )
    file.writelines(parts)


def kind(verdict: Verdict | None) -> str:
    """Return the CSS class that gives a verdict its color."""
    return verdict.value.replace(" ", "-") if verdict else "none"


def short_name(unique_id: str) -> str:
    """Return the short name of a node, as the page displays it."""
    kind, (name, last) = unique_id.split(".")[0], ("", *unique_id.split("."))[-2:]
    # The id of a versioned model ends with its version.
    return f"{name}.{last}" if kind != "source" and re.fullmatch(r"v\w+", last) and unique_id.count(".") > 2 else last


_LEVELS = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_VERDICTS = {
    Verdict.SORT_FREE: "green",
    Verdict.SHUFFLE_FREE: "green",
    Verdict.ONE_SIDED: "yellow",
    Verdict.SHUFFLED: "red",
    Verdict.BROADCAST: "blue",
    Verdict.NOT_BUCKETED: "dim",
    Verdict.UNKNOWN: "magenta",
}


def write_text(report: Report, file: TextIO, verbose: bool = False, plain: bool = False) -> None:
    """Write the report. Colors and wrapped lines are used only on a terminal."""
    # Models that could not be checked, by the reason.
    groups: dict[str, list[ModelResult | None]] = {}
    for found in open_findings(report, unknown=True):
        groups.setdefault(found.finding.message, []).append(found.model)
    functions = (count, effect, place, size, some, summary, verdict_counts)
    values = {
        "found": alike_findings(open_findings(report)),
        "unknown": groups,
        "required": required_specs(report.models),
        "verbose": verbose,
        "levels": _LEVELS,
        "verdicts": _VERDICTS,
    }
    print_template(console_on(file, plain), __file__, "report.txt", *functions, report=report, **values)


_COMMANDS = {"error": "error", "warning": "warning", "note": "notice", "unknown": "error"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Relative paths start at the directory of the check.
_BASE = "SRCROOT"
_KINDS: dict[Acceptance, str] = {"allow": "inSource", "baseline": "external", "small": "external"}


def _message(finding: Finding) -> str:
    return "\n".join([finding.message, *(f"Fix: {fix.sentences}" for fix in finding.fixes)])


def write_github(report: Report, file: TextIO) -> None:
    """Write one workflow command for each finding that is not accepted, and then the summary."""
    for found in alike_findings([*open_findings(report), *open_findings(report, unknown=True)]):
        finding = found.finding
        title = finding.reason + (f" ({size(finding.bytes_shuffled)})" if finding.bytes_shuffled else "")
        if found.model and found.is_unknown:
            title = f"Could not check {found.model.name}"
        file.write(_command(_COMMANDS[finding.level], _path(report, found), finding.line, title, _message(finding)))
    if report.unfinished:
        file.write(_command("error", None, None, "interrupted", f"Not checked: {', '.join(report.unfinished)}"))
    file.write(f"{one_line(summary(report))}\n")


def _command(command: str, path: str | None, line: int | None, title: str, message: str) -> str:
    def escaped(text: object, signs: str = "%\r\n") -> str:
        return "".join(f"%{ord(sign):02X}" if sign in signs else sign for sign in str(text))

    properties = {"file": path, "line": line, "title": title}
    given = ",".join(f"{key}={escaped(value, '%:,' + chr(13) + chr(10))}" for key, value in properties.items() if value)
    return f"::{command} {given}::{escaped(message)}\n"


def write_sarif(report: Report, file: TextIO) -> None:
    """Write the report as a SARIF log with one run."""
    rules = [
        {
            "id": reason.slug,
            "shortDescription": {"text": reason.summary},
            "help": {"text": reason.documentation, "markdown": reason.documentation},
        }
        for reason in EVERY_REASON
    ]
    driver = {"name": "spark-bucketing", "version": version("spark-bucketing"), "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_BASE: {"description": {"text": "The directory in which the check ran."}}},
        "invocations": [
            {
                "executionSuccessful": not report.unfinished and not open_findings(report, unknown=True),
                "toolExecutionNotifications": [
                    _notification(report, one) for one in all_findings(report) if one.is_unknown
                ],
            }
        ],
        "results": [_result(report, one) for one in all_findings(report) if not one.is_unknown],
    }
    output.write_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, file)


def _result(report: Report, found: Found) -> dict[str, Any]:
    finding = found.finding
    result: dict[str, Any] = {
        "ruleId": finding.reason,
        "level": finding.level,
        "message": {"text": _message(finding)},
        "partialFingerprints": {"sparkBucketing/v1": finding.fingerprint},
        "locations": [_location(report, found)],
    }
    if finding.accepted:
        result["suppressions"] = [{"kind": _KINDS[finding.accepted]}]
    if finding.bytes_shuffled is not None:
        result["properties"] = {"bytesShuffled": finding.bytes_shuffled}
    return result


def _notification(report: Report, found: Found) -> dict[str, Any]:
    """Return the notification about a model that could not be planned, or an operator that was not recognized."""
    finding = found.finding
    return {
        "descriptor": {"id": finding.reason},
        "level": "none" if finding.accepted else "error",
        "message": {"text": f"{found.model.name if found.model else ''} could not be checked: {finding.message}"},
        "locations": [_location(report, found)],
        "properties": {"fingerprint": finding.fingerprint},
    }


def _location(report: Report, found: Found) -> dict[str, Any]:
    # File names may contain bytes that are not valid text.
    path = _path(report, found)
    uri = quote(path, errors="replace")
    artifact = {"uri": f"file://{uri}"} if PurePosixPath(path).is_absolute() else {"uri": uri, "uriBaseId": _BASE}
    # Code scanning ignores results without a line.
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": found.finding.line or 1}}}


# Increase this version when a field is removed or changes its meaning, but not when a field is added.
SCHEMA_VERSION = 1
FORMATS = ("text", "json", "sarif", "github", "html")


def write_report(report: Report, form: str, file: TextIO, verbose: bool = False, plain: bool = False) -> None:
    """Write the report in one of FORMATS. The arguments `verbose` and `plain` apply only to text."""
    if form == "text":
        write_text(report, file, verbose, plain)
    else:
        {"json": write_json, "sarif": write_sarif, "github": write_github, "html": write_html}[form](report, file)


def write_json(report: Report, file: TextIO) -> None:
    """Write the report as JSON."""
    required = [
        {"table": table, "specs": [{"config": text, "serves": names} for text, names in specs.items()]}
        for table, specs in required_specs(report.models).items()
    ]
    output.write_json({"schema_version": SCHEMA_VERSION, **json_data(report), "required_specs": required}, file)


def place(found: Found) -> str:
    """Return the file of a finding, and its line if known, or `project` for the whole project."""
    if found.model is None:
        return "project"
    return f"{found.model.path}:{found.finding.line}" if found.finding.line else found.model.path


def _path(report: Report, found: Found) -> str:
    """Return the path of a finding's file relative to the working directory, usually the root of a repository."""
    # A project-wide finding points to the project file.
    path = found.model.path if found.model else "dbt_project.yml"
    return path if not report.folder or PurePath(path).is_absolute() else f"{report.folder}/{path}"


def effect(fix: Fix) -> str:
    """Describe how a fix affects the whole query and other queries. The text is empty if Spark did not plan the fix."""
    if fix.before == fix.after:
        return ""
    pairs = [("Exchange", fix.before.exchanges, fix.after.exchanges), ("Sort", fix.before.sorts, fix.after.sorts)]
    parts = [f"{count(before, noun)} to {after:,}" for noun, before, after in pairs if before or after]
    text = f" [whole query: {', '.join(parts)}]"
    worse = worse_for(fix)
    better = [other.name for other in fix.others if other.name not in worse]
    text += f" [better: {some(better)}]" if better else ""
    return text + (f" [worse: {some(worse)}]" if worse else "")


def verdict_counts(operators: Iterable[OperatorResult]) -> list[tuple[Verdict, int]]:
    """Count the operators with each verdict. The best verdict comes first. Verdicts without operators are left out."""
    numbers = Counter(operator.verdict for operator in operators)
    return [(verdict, numbers[verdict]) for verdict in Verdict if numbers[verdict]]


def operators_of(models: Iterable[ModelResult]) -> list[OperatorResult]:
    """Return all operators of these models."""
    return [operator for model in models for operator in model.operators]


def summary(report: Report) -> str:
    """Summarize a report in two sentences, one about operators and one about findings."""
    operators = operators_of(report.models)
    verdicts = ", ".join(f"{number:,} {verdict.value}" for verdict, number in verdict_counts(operators))
    first = f"{count(len(report.models), 'query')}, {count(len(operators), 'operator')}"
    levels = Counter(str(found.finding.level) for found in alike_findings(open_findings(report)))
    parts = [count(levels[level], level) for level in LEVELS if levels[level]]
    accepted = Counter(found.finding.accepted for found in all_findings(report))
    parts += [f"{accepted['baseline']:,} in the baseline"] if accepted["baseline"] else []
    parts += [f"{accepted['allow']:,} allowed"] if accepted["allow"] else []
    parts += [f"{accepted['small']:,} below {size(SMALLEST)}"] if accepted["small"] else []
    unknown = len(open_findings(report, unknown=True))
    parts += [f"{unknown:,} unknown"] if unknown else []
    parts += [f"{len(report.unfinished):,} not checked"] if report.unfinished else []
    return f"{first}{': ' + verdicts if verdicts else ''}. {', '.join(parts) or 'No findings'}."
