"""Write the result of `advise` as text, as JSON that follows docs/reference/advise.schema.json, or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TextIO

from spark_bucketing import output
from spark_bucketing.advice.advice import Advice, QueryProof, RejectedTable
from spark_bucketing.advice.query_plans import PlanSizes
from spark_bucketing.checks.report import short_name
from spark_bucketing.edits import unified_diff
from spark_bucketing.event_log.plan_costs import Cost
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
    output.write_json(advice_data(advice), file)


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
    counts = planned.counts
    return f"{count(counts.exchanges, 'Exchange')}, {count(counts.sorts, 'Sort')}, {bytes_text(planned.bytes)}"


# The names of fields in JSON, if they differ. These fields are numbers of bytes.
_NAMES = {
    "size_bytes": "bytes",
    "gain": "gain_bytes",
    "write_cost": "write_bytes",
    "alone": "alone_bytes",
    "beside": "beside_bytes",
}
_LEFT_OUT = ("parents", "tables", "cost")


def advice_data(advice: Advice) -> dict[str, Any]:
    """Convert the result of `advise` to JSON types."""
    total = {when: {**vars(advice.counts(when)), "bytes": round(advice.bytes(when))} for when in ("before", "after")}
    planned = sum(1 for one in advice.proof if one.before and one.after)
    parts = {
        name: _data(value)
        for name, value in vars(advice).items()
        if name not in ("proof", "suggestions", "edits", "costly", "costly_proof")
    }
    return {
        "version": 1,
        **parts,
        "worse": [one.unique_id for one in advice.worse],
        "total": {"models": len(advice.proof), "planned": planned, **total, "write_bytes": round(advice.write_cost)},
        "models": _data(advice.proof),
        "sources": _data(advice.suggestions),
        "measured": [{**_data(one), **vars(one.cost)} for one in advice.measured],
        "diff": unified_diff(advice.edits),
    }


def _data(value: Any) -> Any:
    if isinstance(value, Cost):
        return vars(value)
    if isinstance(value, PlanSizes):
        return {**vars(value.counts), "shuffled_bytes": round(value.shuffled), "sorted_bytes": round(value.sorted)}
    if is_dataclass(value):
        # A plan without an error has an empty text.
        found: dict[str, Any] = {name: one or None if name == "error" else one for name, one in vars(value).items()}
        return {
            _NAMES.get(name, name): round(one) if name in _NAMES else _data(one)
            for name, one in found.items()
            if name not in _LEFT_OUT
        }
    if isinstance(value, (list, tuple)):
        return list(map(_data, value))
    return dict(value) if isinstance(value, Mapping) else value
