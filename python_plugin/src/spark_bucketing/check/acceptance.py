"""Findings that are accepted: by a model's meta, or because a baseline, the file of those of one day, has them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spark_bucketing.check.outcome import LEVELS
from spark_bucketing.check.results import Acceptance, Finding, OperatorResult, Report, Verdict, map_findings
from spark_bucketing.errors import ProjectError

BASELINE_VERSION = 2
# A model that could not be planned, and an operator that was not understood, in a baseline.
UNPLANNED, UNKNOWN = "unplanned", "unknown"
_BADNESS = {Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3, Verdict.UNKNOWN: 4}
_EXPRESSION_ID = re.compile(r"#\d+L?")

Badness = tuple[int, int]
"""How bad a finding is: its level, and its operator's verdict; higher numbers are worse."""
Baseline = Mapping[str, Sequence[Badness]]
"""How bad accepted findings are, by fingerprint."""


def allowed_reasons(meta: Mapping[str, Any], model: str, known: Collection[str]) -> frozenset[str]:
    """Reasons that a model's meta allows: `bucketing: {allow: [slug]}`.

    Raises:
        ProjectError: meta is not of that form, or names a reason that there is not.
    """
    bucketing = meta.get("bucketing")
    if bucketing is None:
        return frozenset()
    allow = bucketing.get("allow", []) if isinstance(bucketing, Mapping) else bucketing
    slugs = [allow] if isinstance(allow, str) else allow
    others = [str(key) for key in bucketing if key != "allow"] if isinstance(bucketing, Mapping) else []
    if others or not isinstance(bucketing, Mapping) or not isinstance(slugs, list):
        raise ProjectError(
            f"Invalid `meta.bucketing` of model {model!r}.\n  found:    {others[0] if others else bucketing}\n"
            "  expected: allow, with a list of reasons, and nothing else\n"
            "  instead:  bucketing: {allow: [bucket-count-mismatch]}"
        )
    if unknown := [str(slug) for slug in slugs if not isinstance(slug, str) or slug not in known]:
        raise ProjectError(
            f"Invalid `meta.bucketing.allow` of model {model!r}.\n  found:    {unknown[0]}\n"
            f"  expected: reasons of the check: {', '.join(sorted(known))}\n"
            "  instead:  one of these; `spark-bucketing explain` tells what they mean"
        )
    return frozenset(slugs)


def fingerprint(model: str, operator: OperatorResult | None, finding: Finding) -> str:
    """What stays the same of a finding when lines move, files grow and other findings come and go.

    Args:
        model: its unique id, or the file's path; empty for the project.
        operator: the finding's; None for the project's own.
        finding: the finding.
    """
    parts = [model, finding.reason]
    if operator:
        parts += [operator.kind, _EXPRESSION_ID.sub("", operator.description), *sorted(finding.tables)]
    else:
        # Of the project's tables there are more from day to day, but its settings are what is wrong.
        parts += sorted({name for fix in finding.fixes for name in fix.settings})
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def badness(operator: OperatorResult | None, finding: Finding) -> Badness:
    """How bad a finding is, in numbers of which each is higher for what is worse."""
    level = LEVELS.index(finding.level)
    return -level, _BADNESS.get(operator.verdict, 0) if operator else 0


def accept(report: Report, allowed: Mapping[str, Collection[str]], baseline: Baseline) -> Report:
    """Mark what is accepted; models' own permissions, which are by unique id, go before the baseline.

    A baseline accepts what was as bad or worse when it was written: a shuffle is new where there was a sort only.
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
        return replace(finding, accepted=take(model, operator, finding))

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
    """How bad the findings are that a baseline accepts, by fingerprint.

    Raises:
        ProjectError: there is no such file, or it is no baseline.
    """
    accepted: dict[str, list[Badness]] = {}
    for entry in _read(path):
        level, verdict = entry["badness"]
        accepted.setdefault(entry["fingerprint"], []).append((level, verdict))
    return accepted


def write_baseline(report: Report, path: Path, part: bool = False) -> int:
    """Write what a report has found, but for what models allow, so that the next run accepts it; return how many.

    Where only a part of the project was checked, what the file says of other models, and of the project, stays.

    Raises:
        ProjectError: the run was interrupted, or the file cannot be written, or to be kept and is no baseline.
    """
    if report.unfinished:
        raise ProjectError(f"The run was interrupted: the baseline {path} is left as it was.")
    entries = list(_entries(report))
    if part and path.exists():
        checked, new = {model.key for model in report.models}, {entry["fingerprint"] for entry in entries}
        # Findings of the project have no model.
        entries += [
            entry
            for entry in _read(path)
            if entry["model"] not in checked and (entry["model"] or entry["fingerprint"] not in new)
        ]
    entries.sort(key=lambda entry: (entry["model"], entry["reason"], entry["message"], entry["fingerprint"]))
    text = json.dumps({"version": BASELINE_VERSION, "findings": entries}, indent=2, ensure_ascii=False) + "\n"
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ProjectError(f"The baseline {path} cannot be written: {error.strerror}.") from error
    return len(entries)


def _entries(report: Report) -> Iterator[dict[str, Any]]:
    for model in report.models:
        if model.error:
            yield _entry(model.key, None, Finding(UNPLANNED, model.error))
        for operator in model.operators:
            if operator.verdict is Verdict.UNKNOWN:
                yield _entry(model.key, operator, Finding(UNKNOWN, f"{operator.kind}: {operator.description}"))
            yield from (_entry(model.key, operator, found) for found in operator.findings if found.accepted != "allow")
    yield from (_entry("", None, found) for found in report.project)


def _entry(model: str, operator: OperatorResult | None, finding: Finding) -> dict[str, Any]:
    # The rest is for whoever reads the file; only the fingerprint and how bad it is are read back.
    return {
        "fingerprint": fingerprint(model, operator, finding),
        "badness": list(badness(operator, finding)),
        "model": model,
        "reason": finding.reason,
        "message": finding.message,
    }


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != BASELINE_VERSION:
            raise ProjectError(
                f"The baseline {path} has version {data['version']}, and this program reads {BASELINE_VERSION}: "
                "write it anew with --write-baseline."
            )
        return [_checked(entry) for entry in data["findings"]]
    except OSError as error:
        raise ProjectError(
            f"The baseline {path} cannot be read: {error.strerror}. Write it with --write-baseline."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ProjectError(f"{path} is no baseline ({error!r}): write it anew with --write-baseline.") from error


def _checked(entry: dict[str, Any]) -> dict[str, Any]:
    level, verdict = map(int, entry["badness"])
    # The others are for whoever reads the file, and say which entries another run leaves as they are.
    texts = {name: str(entry.get(name, "")) for name in ("model", "reason", "message")}
    return {"fingerprint": str(entry["fingerprint"]), "badness": [level, verdict], **texts}
