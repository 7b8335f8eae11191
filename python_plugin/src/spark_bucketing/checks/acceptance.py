"""Accept findings that a model's meta allows or that a baseline file contains."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spark_bucketing.checks.results import (
    LEVELS,
    SMALLEST,
    Acceptance,
    Finding,
    OperatorResult,
    Report,
    Verdict,
    map_findings,
)
from spark_bucketing.errors import ProjectError

BASELINE_VERSION = 2
# Baseline entries for a model that could not be planned, and for an operator that was not recognized.
UNPLANNED, UNKNOWN = "unplanned", "unknown"
_OF_SIZE = ("side-not-bucketed",)
_BADNESS = {Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3, Verdict.UNKNOWN: 4}
_EXPRESSION_ID = re.compile(r"#\d+L?")

Badness = tuple[int, int]
"""How severe a finding is: its level, and its operator's verdict. Higher numbers are worse."""
Baseline = Mapping[str, Sequence[Badness]]
"""How severe the accepted findings are, by fingerprint."""


def allowed_reasons(meta: Mapping[str, Any], model: str, known: Collection[str]) -> frozenset[str]:
    """Return the reasons that a model's meta allows with `bucketing: {allow: [slug]}`."""
    bucketing = meta.get("bucketing")
    if bucketing is None:
        return frozenset()
    allow = bucketing.get("allow", []) if isinstance(bucketing, Mapping) else bucketing
    slugs = [allow] if isinstance(allow, str) else allow
    others = [str(key) for key in bucketing if key != "allow"] if isinstance(bucketing, Mapping) else []
    if others or not isinstance(bucketing, Mapping) or not isinstance(slugs, list):
        raise ProjectError(
            f"Model `{model}` has an invalid `meta.bucketing`.",
            found=others[0] if others else bucketing,
            expected="only the key `allow`, with a list of reasons",
            instead="bucketing: {allow: [bucket-count-mismatch]}",
        )
    if unknown := [str(slug) for slug in slugs if not isinstance(slug, str) or slug not in known]:
        raise ProjectError(
            f"Model `{model}` has an invalid `meta.bucketing.allow`.",
            found=unknown[0],
            expected=f"reasons that check can report: {', '.join(sorted(known))}",
            instead="choose one of them; `spark-bucketing explain` describes each reason",
        )
    return frozenset(slugs)


def fingerprint(model: str, operator: OperatorResult | None, finding: Finding) -> str:
    """Return an id for a finding. The id does not depend on line numbers, file sizes or other findings."""
    parts = [model, finding.reason]
    if operator:
        parts += [operator.kind, _EXPRESSION_ID.sub("", operator.description), *sorted(finding.tables)]
    else:
        # A project finding is about the project's settings; the list of affected tables changes over time.
        parts += sorted({name for fix in finding.fixes for name in fix.settings})
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def badness(operator: OperatorResult | None, finding: Finding) -> Badness:
    """Return how severe a finding is, as a tuple of numbers that is greater for a worse finding."""
    level = LEVELS.index(finding.level)
    return -level, _BADNESS.get(operator.verdict, 0) if operator else 0


def accept(report: Report, allowed: Mapping[str, Collection[str]], baseline: Baseline) -> Report:
    """Mark findings that a model's meta allows, that the baseline contains, or that are about small tables.

    The baseline accepts a finding that is no worse than it was. For example, it accepts a sort, but no later shuffle.
    """
    left = {key: sorted(values) for key, values in baseline.items()}

    def take(model: str, operator: OperatorResult | None, finding: Finding) -> Acceptance | None:
        known, found = left.get(fingerprint(model, operator, finding), []), badness(operator, finding)
        enough = next((one for one in known if one[0] >= found[0] and one[1] >= found[1]), None)
        if enough is None:
            return None
        known.remove(enough)
        return "baseline"

    def marked(model: str, operator: OperatorResult | None, finding: Finding) -> Finding:
        if finding.reason in allowed.get(model, ()):
            return replace(finding, accepted="allow")
        is_small = finding.reason in _OF_SIZE and 0 < (finding.bytes_shuffled or 0) < SMALLEST
        return replace(finding, accepted=take(model, operator, finding) or ("small" if is_small else None))

    models = []
    for model in report.models:
        unknown = Finding(UNKNOWN, "")
        operators = tuple(
            replace(one, accepted=take(model.key, one, unknown)) if one.verdict is Verdict.UNKNOWN else one
            for one in map_findings(model, partial(marked, model.key)).operators
        )
        accepted = take(model.key, None, Finding(UNPLANNED, "")) if model.error else None
        models.append(replace(model, operators=operators, accepted=accepted))
    project = tuple(marked("", None, finding) for finding in report.project)
    return replace(report, models=tuple(models), project=project)


def read_baseline(path: Path) -> Baseline:
    """Read the severities of the findings that a baseline accepts, by fingerprint."""
    accepted: dict[str, list[Badness]] = {}
    for entry in _read(path):
        accepted.setdefault(entry["fingerprint"], []).append(tuple(entry["badness"]))
    return accepted


def write_baseline(report: Report, path: Path, part: bool = False) -> int:
    """Write the findings of a report to a baseline, except findings that a model's meta allows; return their number.

    With `part`, only part of the project was checked. The file then keeps its entries for other models and for the
    project.
    """
    if report.unfinished:
        raise ProjectError(
            f"The baseline `{path}` was not changed, because the run was interrupted.",
            instead="run the command again",
        )
    entries = list(_entries(report))
    if part and path.exists():
        checked, new = {model.key for model in report.models}, {entry["fingerprint"] for entry in entries}
        # Project findings have no model.
        entries += [
            entry
            for entry in _read(path)
            if entry["model"] not in checked and (entry["model"] or entry["fingerprint"] not in new)
        ]
    entries.sort(key=lambda entry: (entry["model"], entry["reason"], entry["message"], entry["fingerprint"]))
    text = json.dumps({"version": BASELINE_VERSION, "findings": entries}, indent=2, ensure_ascii=False) + "\n"
    expected, instead = "a path that this user can write", "grant access to the path, or choose another path"
    with ProjectError.replacing(OSError, f"The baseline `{path}` cannot be written.", expected, instead):
        path.write_text(text, encoding="utf-8", errors="replace")
    return len(entries)


def _entries(report: Report) -> Iterator[dict[str, Any]]:
    for model in report.models:
        if model.error:
            yield _entry(model.key, None, Finding(UNPLANNED, model.error))
        for operator in model.operators:
            if operator.verdict is Verdict.UNKNOWN:
                yield _entry(model.key, operator, Finding(UNKNOWN, f"{operator.kind}: {operator.description}"))
            yield from (
                _entry(model.key, operator, found)
                for found in operator.findings
                if found.accepted not in ("allow", "small")
            )
    yield from (_entry("", None, found) for found in report.project)


def _entry(model: str, operator: OperatorResult | None, finding: Finding) -> dict[str, Any]:
    # Only the fingerprint and the severity are read back; the other fields are for people.
    return {
        "fingerprint": fingerprint(model, operator, finding),
        "badness": list(badness(operator, finding)),
        "model": model,
        "reason": finding.reason,
        "message": finding.message,
    }


def _read(path: Path) -> list[dict[str, Any]]:
    expected, instead = "a file that `--write-baseline` wrote", "run with `--write-baseline` to create it"
    with ProjectError.replacing(OSError, f"The baseline `{path}` cannot be read.", expected, instead):
        text = path.read_bytes()
    kinds, instead = (ValueError, LookupError, TypeError), "run with `--write-baseline` to write it again"
    with ProjectError.replacing(kinds, f"The file `{path}` is not a baseline.", expected, instead):
        data = json.loads(text)
        if data["version"] != BASELINE_VERSION:
            raise ProjectError(
                f"The baseline `{path}` has the format of another version of spark-bucketing.",
                found=f"version {data['version']}",
                expected=f"version {BASELINE_VERSION}",
                instead=instead,
            )
        # The texts are for people, and identify the entries that a partial run keeps.
        return [
            {
                "fingerprint": str(entry["fingerprint"]),
                "badness": [int(entry["badness"][0]), int(entry["badness"][1])],
                **{name: str(entry.get(name, "")) for name in ("model", "reason", "message")},
            }
            for entry in data["findings"]
        ]
