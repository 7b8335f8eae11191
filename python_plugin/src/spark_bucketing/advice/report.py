"""Write the result of `advise` as text, as JSON that follows docs/reference/advise.schema.json, or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from spark_bucketing import output
from spark_bucketing.advice.advice import Advice, PlanSizes, QueryProof, RejectedTable
from spark_bucketing.checks.report import short_name
from spark_bucketing.edits import unified_diff
from spark_bucketing.output import one_line
from spark_bucketing.spec import BucketSpec
from spark_bucketing.units import count, size, some

_MOST_LINES = 20


def write_text(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    notable = [one for one in advice.measured if one.cost.is_notable]
    lists = {
        "better": sorted(
            (one for one in advice.proof if one.gain > 0 and not one.is_worse), key=lambda one: (-one.gain, one.model)
        ),
        "unknown": [one for one in advice.proof if one.error],
        "measured": [f"{one.table} by {', '.join(one.columns) or 'expressions'}: {one.cost}" for one in notable],
        "rejected": list(_left_out(advice.left_out)),
    }
    numbers = {"planned": sum(1 for one in advice.proof if one.before and one.after), "most": _MOST_LINES}
    template = output.template_beside(__file__, "report.txt", count, size, bytes_text, one_line, spec_text, proof_text)
    file.write(template.render(advice=advice, diff=unified_diff(advice.edits), **lists, **numbers))


def write_json(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    total = {when: {**vars(advice.counts(when)), "bytes": round(advice.bytes(when))} for when in ("before", "after")}
    planned = sum(1 for one in advice.proof if one.before and one.after)
    data = {
        "version": 1,
        **output.json_data(advice),
        "worse": [one.unique_id for one in advice.worse],
        "total": {"models": len(advice.proof), "planned": planned, **total, "write_bytes": advice.write_bytes},
        "models": advice.proof,
        "sources": advice.suggestions,
        "measured": [{**output.json_data(one), **vars(one.cost)} for one in advice.measured],
        "diff": unified_diff(advice.edits),
    }
    output.write_json(data, file)


def write_html(advice: Advice, file: TextIO) -> None:
    """Write the result as a self-contained HTML page."""
    template = output.template_beside(__file__, "report.html", size, bytes_text, spec_text, proof_text, short_name)
    # The models that get worse, those that Spark cannot plan, and the others by their gain.
    models = sorted(
        advice.proof, key=lambda one: (not one.is_worse, bool(one.before and one.after), -one.gain, one.model)
    )
    file.write(template.render(advice=advice, diff=unified_diff(advice.edits), models=models) + "\n")


def spec_text(spec: BucketSpec | None) -> str:
    """Describe a bucket spec in a short phrase."""
    if spec is None:
        return "no buckets"
    order = f", sorted by {', '.join(spec.sort_columns)}" if spec.sort_columns != spec.bucket_columns else ""
    return f"{count(spec.num_buckets, 'bucket')} by {', '.join(spec.bucket_columns)}{order} ({spec.bucket_hash})"


def bytes_text(number: float) -> str:
    """Format a number of bytes, which may be negative."""
    return ("-" if number < 0 else "") + size(round(abs(number)))


def proof_text(one: QueryProof) -> str:
    """Describe how much a model shuffles and sorts with its current and with the proposed bucket specs."""
    return f"{one.model}: {_planned(one.before)} -> {_planned(one.after)}"


def _left_out(found: Sequence[RejectedTable]) -> Iterator[str]:
    """Return one line for each rejected combination of keys, and one for each reason to reject whole tables."""
    tables: dict[str, list[str]] = {}
    for left in found:
        if not left.keys:
            tables.setdefault(left.reason, []).append(left.table)
    yield from (f"{left.table} by {', '.join(left.keys)}: {left.reason}" for left in found if left.keys)
    yield from (f"{some(sorted(names))}: {reason}" for reason, names in sorted(tables.items()))


def _planned(planned: PlanSizes | None) -> str:
    if planned is None:
        return "not planned"
    return f"{count(planned.exchanges, 'Exchange')}, {count(planned.sorts, 'Sort')}, {bytes_text(planned.bytes)}"
