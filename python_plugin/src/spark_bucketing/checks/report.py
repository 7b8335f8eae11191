"""Write the report of `check` as text, JSON, SARIF, an HTML page or workflow commands of GitHub Actions.

The JSON has the fields of the report classes. See docs/reference/check.schema.json.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import PurePath, PurePosixPath
from typing import Any, TextIO
from urllib.parse import quote

from spark_bucketing import output
from spark_bucketing.checks.acceptance import UNKNOWN, UNPLANNED, fingerprint
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
    is_unclear,
    open_findings,
    unknown_models,
    worst_first,
)
from spark_bucketing.checks.verdicts import required_specs, worse_for
from spark_bucketing.output import console_on, one_line, print_template, template_beside
from spark_bucketing.units import count, size, some


def write_html(report: Report, file: TextIO) -> None:
    """Write the report as an HTML page."""
    page = template_beside(
        __file__,
        "report.html",
        count,
        effect,
        kind,
        place,
        size,
        verdict_counts,
        why_unknown,
        worse_for,
        worst_first,
        short_name,
        zip,
    )
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
        unknown=unknown_models(report),
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
    # Models that have the same error.
    groups: dict[str, list[ModelResult]] = {}
    for model in unknown_models(report):
        groups.setdefault(model.error or model.key, []).append(model)
    functions = (count, effect, is_unclear, place, size, some, summary, verdict_counts)
    values = {
        "found": alike_findings(open_findings(report)),
        "unknown": list(groups.values()),
        "required": required_specs(report.models),
        "verbose": verbose,
        "levels": _LEVELS,
        "verdicts": _VERDICTS,
    }
    print_template(console_on(file, plain), __file__, "report.txt", *functions, report=report, **values)


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
        finding, model = found.finding, found.model
        title = finding.reason + (f" ({size(finding.bytes_shuffled)})" if finding.bytes_shuffled else "")
        path = from_root(report, model.path if model else "dbt_project.yml")
        file.write(_command(_COMMANDS[finding.level], path, finding.line, title, _message(finding)))
    for model in unknown_models(report):
        why = why_unknown(model)
        file.write(_command("error", from_root(report, model.path), None, f"Could not check {model.name}", why))
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
                "executionSuccessful": not report.unfinished and not unknown_models(report),
                "toolExecutionNotifications": list(_notifications(report)),
            }
        ],
        "results": [_result(report, found) for found in all_findings(report)],
    }
    output.write_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, file)


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
        found: list[tuple[str, OperatorResult | None, str, str]] = []
        if model.error:
            level = "none" if model.accepted else "error"
            found.append((UNPLANNED, None, level, f"could not be checked: {model.error}"))
        for operator in filter(is_unclear, model.operators):
            why = f"has an operator that was not recognized: {operator.description}"
            found.append((UNKNOWN, operator, "error", why))
        for kind, about, level, text in found:
            yield {
                "descriptor": {"id": kind},
                "level": level,
                "message": {"text": f"{model.name} {text}"},
                "locations": [_location(report, model.path, None)],
                "properties": {"fingerprint": fingerprint(model.key, about, Finding(kind, ""))},
            }


def _location(report: Report, path: str, line: int | None) -> dict[str, Any]:
    # File names may contain bytes that are not valid text.
    uri = quote(from_root(report, path), errors="replace")
    artifact = {"uri": f"file://{uri}"} if PurePosixPath(path).is_absolute() else {"uri": uri, "uriBaseId": _BASE}
    # Code scanning ignores results without a line.
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line or 1}}}


# Increase this version when a field is removed or changes its meaning, but not when a field is added.
SCHEMA_VERSION = 1
FORMATS = ("text", "json", "sarif", "github", "html")


def write_report(report: Report, form: str, file: TextIO, verbose: bool = False, plain: bool = False) -> None:
    """Write the report in one of FORMATS. The arguments `verbose` and `plain` apply only to text."""
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
        "models": [
            {
                **{name: value for name, value in vars(model).items() if name != "plan"},
                "operators": [
                    {**vars(one), "findings": [_finding(model.key, one, finding) for finding in one.findings]}
                    for one in model.operators
                ],
                "inputs": list(map(vars, model.inputs)),
            }
            for model in report.models
        ],
        "project": [_finding("", None, finding) for finding in report.project],
        "unfinished": list(report.unfinished),
        "about": dict(report.about),
        "required_specs": [
            {"table": table, "specs": [{"config": text, "serves": list(names)} for text, names in specs.items()]}
            for table, specs in required_specs(report.models).items()
        ],
    }
    output.write_json(data, file)


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


def place(found: Found) -> str:
    """Return the file of a finding, and its line if known, or `project` for the whole project."""
    if found.model is None:
        return "project"
    return f"{found.model.path}:{found.finding.line}" if found.finding.line else found.model.path


def from_root(report: Report, path: str) -> str:
    """Convert a path in the project to a path relative to the working directory, usually the root of a repository."""
    return path if not report.folder or PurePath(path).is_absolute() else f"{report.folder}/{path}"


def why_unknown(model: ModelResult) -> str:
    """Explain why a model has no verdict: an error from Spark, or operators that were not recognized."""
    unclear = "; ".join(f"{op.kind}: {op.description}" for op in filter(is_unclear, model.operators))
    return model.error or f"Operators not recognized: {unclear}"


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
    parts = [count(levels[level], level) for level in ("error", "warning", "note") if levels[level]]
    accepted = Counter(found.finding.accepted for found in all_findings(report))
    parts += [f"{accepted['baseline']:,} in the baseline"] if accepted["baseline"] else []
    parts += [f"{accepted['allow']:,} allowed"] if accepted["allow"] else []
    parts += [f"{accepted['small']:,} below {size(SMALLEST)}"] if accepted["small"] else []
    unknown = len(unknown_models(report))
    parts += [f"{unknown:,} unknown"] if unknown else []
    parts += [f"{len(report.unfinished):,} not checked"] if report.unfinished else []
    return f"{first}{': ' + verdicts if verdicts else ''}. {', '.join(parts) or 'No findings'}."
