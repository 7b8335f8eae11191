"""Accept findings that a model's meta allows or that a baseline file contains."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_bucketing.checks.results import (
    LEVELS,
    RANKS,
    SMALLEST,
    Finding,
    Found,
    Report,
    all_findings,
    map_all_findings,
)
from spark_bucketing.errors import ProjectError

BASELINE_VERSION = 2
_OF_SIZE = ("side-not-bucketed",)
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


def fingerprint(found: Found) -> str:
    """Return an id for a finding. The id does not depend on line numbers, file sizes or other findings."""
    finding, operator = found.finding, found.operator
    parts = [found.key, finding.reason]
    if operator:
        parts += [operator.kind, _EXPRESSION_ID.sub("", operator.description), *sorted(finding.tables)]
    else:
        # A project finding is about the project's settings; the list of affected tables changes over time.
        parts += sorted({name for fix in finding.fixes for name in fix.settings})
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def badness(found: Found) -> Badness:
    """Return how severe a finding is, as a tuple of numbers that is greater for a worse finding."""
    return -LEVELS.index(found.finding.level), RANKS.get(found.operator.verdict, 0) if found.operator else 0


def accept(report: Report, allowed: Mapping[str, Collection[str]], baseline: Baseline) -> Report:
    """Mark findings that a model's meta allows, that the baseline contains, or that are about small tables.

    The baseline accepts a finding that is no worse than it was. For example, it accepts a sort, but no later shuffle.
    """
    left = {key: sorted(values) for key, values in baseline.items()}

    def marked(found: Found) -> Finding:
        finding, now = replace(found.finding, fingerprint=fingerprint(found)), badness(found)
        if finding.reason in allowed.get(found.key, ()):
            return replace(finding, accepted="allow")
        known = left.get(finding.fingerprint, [])
        if enough := next((one for one in known if one[0] >= now[0] and one[1] >= now[1]), None):
            known.remove(enough)
            return replace(finding, accepted="baseline")
        is_small = finding.reason in _OF_SIZE and 0 < (finding.bytes_shuffled or 0) < SMALLEST
        return replace(finding, accepted="small" if is_small else None)

    return map_all_findings(report, marked)


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
    # Only the fingerprint and the severity are read back; the other fields are for people.
    entries: list[dict[str, Any]] = [
        {
            "fingerprint": found.finding.fingerprint,
            "badness": list(badness(found)),
            "model": found.key,
            "reason": found.finding.reason,
            "message": found.finding.message,
        }
        for found in all_findings(report)
        if found.finding.accepted not in ("allow", "small")
    ]
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
