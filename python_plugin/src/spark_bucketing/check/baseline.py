"""Baselines: files of the findings of one day, which a later run accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_bucketing.check.acceptance import UNKNOWN, UNPLANNED, Badness, Baseline, badness, fingerprint
from spark_bucketing.check.results import Finding, OperatorResult, Report, Verdict
from spark_bucketing.errors import ProjectError

BASELINE_VERSION = 2


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
    """Write what a report has found, but for what models allow, so that the next run accepts it.

    Args:
        report: of a run, accepted or not.
        path: the file.
        part: only a part of the project was checked: what the file says of other models, and of the project, stays.

    Returns:
        How many findings it holds.

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
