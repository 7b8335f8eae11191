"""Findings that are accepted: by a model's meta, or because a baseline has them already."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_bucketing.eligibility.model import Acceptance, Finding, ModelResult, OperatorResult, Report
from spark_bucketing.errors import ProjectError

BASELINE_VERSION = 1
# A model that could not be planned, in a baseline.
UNPLANNED = "unplanned"
_EXPRESSION_ID = re.compile(r"#\d+L?")

Accept = Callable[[str, Finding], "Acceptance | None"]


def allowed_reasons(meta: Mapping[str, Any], model: str, known: Collection[str]) -> frozenset[str]:
    """Reasons that a model's meta allows: `bucketing: {allow: [slug]}`.

    Args:
        meta: the model's.
        model: its name, for errors.
        known: slugs of all reasons.

    Raises:
        ProjectError: meta is not of that form, or names a reason that there is not.
    """
    bucketing = meta.get("bucketing")
    if bucketing is None:
        return frozenset()
    allow = bucketing.get("allow", []) if isinstance(bucketing, Mapping) else bucketing
    slugs = [allow] if isinstance(allow, str) else allow
    if not isinstance(bucketing, Mapping) or not isinstance(slugs, list):
        raise ProjectError(
            f"Invalid `meta.bucketing` of model {model!r}.\n  found:    {bucketing}\n"
            "  expected: a list of reasons under `allow`\n  instead:  bucketing: {allow: [bucket-count-mismatch]}"
        )
    if others := [str(key) for key in bucketing if key != "allow"]:
        raise ProjectError(
            f"Invalid `meta.bucketing` of model {model!r}.\n  found:    {others[0]}\n"
            "  expected: allow, and nothing else\n  instead:  bucketing: {allow: [bucket-count-mismatch]}"
        )
    if unknown := [str(slug) for slug in slugs if not isinstance(slug, str) or slug not in known]:
        raise ProjectError(
            f"Invalid `meta.bucketing.allow` of model {model!r}.\n  found:    {unknown[0]}\n"
            f"  expected: reasons of the check: {', '.join(sorted(known))}\n"
            "  instead:  one of these; `spark-bucketing explain-reason` tells what they mean"
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
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def accept(report: Report, allowed: Mapping[str, Collection[str]], baseline: Mapping[str, int]) -> Report:
    """Mark what is accepted; models' own permissions go before the baseline.

    Args:
        report: of a run.
        allowed: reasons that models allow, by unique id.
        baseline: how many findings of each fingerprint are accepted.
    """
    left = Counter(baseline)

    def take(key: str) -> Acceptance | None:
        if left[key] < 1:
            return None
        left[key] -= 1
        return "baseline"

    def marked(model: str, operator: OperatorResult | None, finding: Finding) -> Finding:
        if finding.reason in allowed.get(model, ()):
            return replace(finding, accepted="allow")
        return replace(finding, accepted=take(fingerprint(model, operator, finding)))

    models = []
    for model in report.models:
        key = model_key(model)
        operators = tuple(
            replace(operator, findings=tuple(marked(key, operator, finding) for finding in operator.findings))
            for operator in model.operators
        )
        accepted = take(fingerprint(key, None, Finding(UNPLANNED, ""))) if model.error else None
        models.append(replace(model, operators=operators, accepted=accepted))
    project = tuple(marked("", None, finding) for finding in report.project)
    return replace(report, models=tuple(models), project=project)


def model_key(model: ModelResult) -> str:
    """What a model is called in fingerprints."""
    return model.unique_id or model.path


def read_baseline(path: Path) -> Mapping[str, int]:
    """How many findings of each fingerprint a baseline accepts.

    Raises:
        ProjectError: there is no such file, or it is no baseline.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != BASELINE_VERSION:
            raise ProjectError(
                f"The baseline {path} has version {data['version']}, and this program reads {BASELINE_VERSION}: "
                "write it anew with --write-baseline."
            )
        return Counter(str(entry["fingerprint"]) for entry in data["findings"])
    except OSError as error:
        raise ProjectError(
            f"The baseline {path} cannot be read: {error.strerror}. Write it with --write-baseline."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ProjectError(f"{path} is no baseline ({error!r}): write it anew with --write-baseline.") from error


def write_baseline(report: Report, path: Path) -> int:
    """Write what a report has found, but for what models allow, so that the next run accepts it.

    Args:
        report: of a run, accepted or not.
        path: the file.

    Returns:
        How many findings it holds.

    Raises:
        ProjectError: the file cannot be written.
    """
    entries = []
    for model in report.models:
        key = model_key(model)
        if model.error:
            entries.append(_entry(key, None, Finding(UNPLANNED, model.error)))
        for operator in model.operators:
            entries += [_entry(key, operator, found) for found in operator.findings if found.accepted != "allow"]
    entries += [_entry("", None, found) for found in report.project]
    entries.sort(key=lambda entry: (entry["model"], entry["reason"], entry["message"], entry["fingerprint"]))
    text = json.dumps({"version": BASELINE_VERSION, "findings": entries}, indent=2, ensure_ascii=False) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ProjectError(f"The baseline {path} cannot be written: {error.strerror}.") from error
    return len(entries)


def _entry(model: str, operator: OperatorResult | None, finding: Finding) -> dict[str, str]:
    # For whoever reads the file; only the fingerprint is read back.
    return {
        "fingerprint": fingerprint(model, operator, finding),
        "model": model,
        "reason": finding.reason,
        "message": finding.message,
    }
