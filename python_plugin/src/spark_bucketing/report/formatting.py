"""Format words and numbers for all reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from spark_bucketing.check.acceptance import SMALLEST
from spark_bucketing.check.fixes import worse_for
from spark_bucketing.check.results import (
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
)
from spark_bucketing.spec import BucketSpec
from spark_bucketing.units import count
from spark_bucketing.units import size as size


def spec_data(spec: BucketSpec | None) -> dict[str, Any] | None:
    """Convert a bucket spec to JSON types."""
    if spec is None:
        return None
    columns, sorts = list(spec.bucket_columns), list(spec.sort_columns)
    return {"num_buckets": spec.num_buckets, "bucket_columns": columns, "sort_columns": sorts, "hash": spec.bucket_hash}


def place(found: Found) -> str:
    """Return the file of a finding, and the line if it is known.

    For a finding about the whole project, return `project`.
    """
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
    """Describe how a fix affects the whole query and other queries.

    The text is empty if Spark did not plan the fix.
    """
    if fix.before == fix.after:
        return ""
    pairs = [("Exchange", fix.before.exchanges, fix.after.exchanges), ("Sort", fix.before.sorts, fix.after.sorts)]
    parts = [f"{count(before, noun)} to {after:,}" for noun, before, after in pairs if before or after]
    text = f" [whole query: {', '.join(parts)}]"
    worse = worse_for(fix)
    better = [other.name for other in fix.others if other.name not in worse]
    text += f" [better: {some(better)}]" if better else ""
    return text + (f" [worse: {some(worse)}]" if worse else "")


def some(names: Sequence[str]) -> str:
    """List up to five names, and say how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def one_line(text: str) -> str:
    """Return a text without its line breaks."""
    return re.sub(r"\s+", " ", text).strip()


def verdict_counts(operators: Iterable[OperatorResult]) -> list[tuple[Verdict, int]]:
    """Count the operators with each verdict.

    The best verdict comes first. Verdicts without operators are left out.
    """
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
