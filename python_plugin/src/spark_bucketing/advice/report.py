"""Write the result of `advise` as text, as JSON that follows docs/reference/advise.schema.json, or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TextIO

from spark_bucketing import output
from spark_bucketing.advice.advice import Advice, Candidates, QueryProof, RejectedTable
from spark_bucketing.advice.requirements import PlanSizes
from spark_bucketing.checks.report import short_name
from spark_bucketing.edits import unified_diff
from spark_bucketing.event_log.plan_costs import Cost
from spark_bucketing.output import one_line, spec_data
from spark_bucketing.spec import BucketSpec
from spark_bucketing.units import count, size, some

_MOST_LINES = 20


def write_text(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    file.writelines(f"{line}\n" for line in _lines(advice))


def write_json(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    output.write_json(advice_data(advice), file)


def write_html(advice: Advice, file: TextIO) -> None:
    """Write the result as a self-contained HTML page."""
    template = output.page_beside(__file__, size, bytes_text, spec_text, proof_text, short_name)
    file.write(template.render(advice=advice, diff=unified_diff(advice.edits)) + "\n")


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


def _lines(advice: Advice) -> Iterator[str]:
    if advice.explained:
        yield from _explained(advice.explained)
        return
    if advice.worse:
        yield f"Worse: {count(len(advice.worse), 'model')}"
        yield from (f"  {proof_text(one)}" for one in advice.worse)
        yield ""
    if not advice.changes:
        yield "No change saves more than it costs."
    for change in advice.changes:
        yield f"{change.model}: {spec_text(change.before)} -> {spec_text(change.after)}"
        yield f"  estimate: saves {bytes_text(change.gain)}, writing costs {bytes_text(change.write_cost)} more"
        yield f"  rewrites {size(change.rewritten_bytes)} of {size(change.size_bytes)}; {change.how}"
        yield from [f"  measured: {change.measured}"] if change.measured else []
        yield from (f"  the new buckets no longer help {lost}" for lost in change.lost)
    if advice.changes:
        yield ""
    yield from _totals(advice)
    if better := [one for one in advice.proof if one.gain > 0 and not one.is_worse]:
        yield "\nBetter:"
        yield from (f"  {proof_text(one)}" for one in sorted(better, key=lambda one: (-one.gain, one.model)))
    if unknown := [one for one in advice.proof if one.error]:
        yield "\nSpark could not plan these models, so the advice does not cover them:"
        yield from (f"  {one.model}: {one_line(one.error)[:300]}" for one in unknown)
    yield from _measured(advice)
    yield from _not_touched(advice)
    yield from _edits(advice)


def _measured(advice: Advice) -> Iterator[str]:
    if advice.event_logs:
        yield "\nMeasured by Spark in models, tests and other queries, over all runs:"
        notable = [one for one in advice.measured if one.cost.is_notable]
        yield from _first(
            [f"  {one.table} by {', '.join(one.columns) or 'expressions'}: {one.cost}" for one in notable]
        )
        if advice.unattributed and advice.unattributed.is_notable:
            yield f"  not attributed to a table and key: {advice.unattributed}"
        yield f"  Event logs: {advice.event_logs}"


def _not_touched(advice: Advice) -> Iterator[str]:
    if advice.suggestions:
        yield "\nTables that dbt does not build, with the savings from bucketing them:"
        yield from (
            f"  {one.table}: {spec_text(one.spec)} would save up to {bytes_text(one.gain)}"
            for one in advice.suggestions
        )
    lines = list(_left_out(advice.left_out))
    if lines:
        yield "\nRejected:"
        yield from _first(lines)


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  and {len(lines) - _MOST_LINES:,} more (--format json shows all)"


def _left_out(found: Sequence[RejectedTable]) -> Iterator[str]:
    """Return one line for each rejected combination of keys, and one for each reason to reject whole tables."""
    tables: dict[str, list[str]] = {}
    for left in found:
        if not left.keys:
            tables.setdefault(left.reason, []).append(left.table)
    yield from (f"  {left.table} by {', '.join(left.keys)}: {left.reason}" for left in found if left.keys)
    yield from (f"  {some(sorted(names))}: {reason}" for reason, names in sorted(tables.items()))


def _edits(advice: Advice) -> Iterator[str]:
    for refusal in advice.refusals:
        yield f"\nNot edited: {refusal.model}: {refusal.reason}\n  instead: {refusal.instead}"
    if advice.edits:
        done = f"Edited {count(len(advice.edits), 'file')}:" if advice.applied else "Pass --apply to make these edits:"
        yield f"\n{done}\n{unified_diff(advice.edits)}"


def _totals(advice: Advice) -> Iterator[str]:
    both = [one for one in advice.proof if one.before and one.after]
    before, after = advice.counts("before"), advice.counts("after")
    models = f"{len(both):,} of {count(len(advice.proof), 'model')}"
    yield f"Planned by Spark ({advice.planner}): {models}, without and with the changes"
    yield f"  Exchanges {before.exchanges:,} to {after.exchanges:,}, Sorts {before.sorts:,} to {after.sorts:,}"
    sizes = bytes_text(advice.bytes("before")), bytes_text(advice.bytes("after"))
    cost = bytes_text(advice.write_cost)
    yield f"  shuffled and sorted over all runs: {sizes[0]} to {sizes[1]}; writing costs {cost} more (estimate)"
    if advice.changes:
        yield f"  net savings: {bytes_text(advice.bytes('before') - advice.bytes('after') - advice.write_cost)}"
    if advice.refusals:
        refused = count(len(advice.refusals), "config")
        yield f"  these numbers assume that you edit {refused} by hand"


def _planned(planned: PlanSizes | None) -> str:
    if planned is None:
        return "not planned"
    counts = planned.counts
    return f"{count(counts.exchanges, 'Exchange')}, {count(counts.sorts, 'Sort')}, {bytes_text(planned.bytes)}"


def _explained(found: Candidates) -> Iterator[str]:
    yield f"{found.table}: {count(len(found.candidates), 'candidate')}"
    for one in found.candidates:
        yield f"  {spec_text(one.spec)}: {one.verdict}"
        yield f"    net savings on its own {bytes_text(one.alone)}, with the other specs {bytes_text(one.beside)}"
        yield f"    used by {', '.join(one.serves) or 'no query'}"
    for left in found.left_out:
        yield f"  rejected{' by ' + ', '.join(left.keys) if left.keys else ''}: {left.reason}"


# The names of fields in JSON, if they differ. These fields are numbers of bytes.
_NAMES = {
    "size_bytes": "bytes",
    "gain": "gain_bytes",
    "write_cost": "write_bytes",
    "alone": "alone_bytes",
    "beside": "beside_bytes",
}
_LEFT_OUT = ("parents", "cost")


def advice_data(advice: Advice) -> dict[str, Any]:
    """Convert the result of `advise` to JSON types."""
    total = {when: {**vars(advice.counts(when)), "bytes": round(advice.bytes(when))} for when in ("before", "after")}
    planned = sum(1 for one in advice.proof if one.before and one.after)
    parts = {
        name: _data(value) for name, value in vars(advice).items() if name not in ("proof", "suggestions", "edits")
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
    if isinstance(value, BucketSpec):
        return spec_data(value)
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
