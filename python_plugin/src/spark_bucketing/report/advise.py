"""Write the result of `advise` as text, as JSON that follows docs/reference/advise.schema.json, or as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from spark_bucketing.advise.advice import Advice, Change, Explanation, QueryProof, RejectedTable
from spark_bucketing.advise.requirements import Planned
from spark_bucketing.edits import unified_diff
from spark_bucketing.plan import PlanCounts
from spark_bucketing.report import output
from spark_bucketing.report.check_html import short_name
from spark_bucketing.report.formatting import one_line, size, some, spec_data
from spark_bucketing.spec import BucketSpec
from spark_bucketing.units import count

_MOST_LINES = 20


def write_text(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    file.writelines(f"{line}\n" for line in _lines(advice))


def write_json(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    output.write_json(advice_data(advice), file)


def write_html(advice: Advice, file: TextIO) -> None:
    """Write the result as a self-contained HTML page."""
    template = output.pages(size, bytes_text, spec_text, proof_text, short_name).get_template("advise.html")
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
        yield from _change(change)
    if advice.changes:
        yield ""
    yield from _totals(advice)
    yield from _models(advice)
    yield from _measured(advice)
    yield from _not_touched(advice)
    yield from _edits(advice)


def _models(advice: Advice) -> Iterator[str]:
    better = [one for one in advice.proof if one.gain > 0 and not one.is_worse]
    if better:
        yield "\nBetter:"
        yield from (f"  {proof_text(one)}" for one in sorted(better, key=lambda one: (-one.gain, one.model)))
    unknown = [one for one in advice.proof if one.error]
    if unknown:
        yield "\nSpark could not plan these models, so the advice does not cover them:"
        yield from (f"  {one.model}: {one_line(one.error)[:300]}" for one in unknown)


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
    """Return one line for each rejected combination of keys.

    If whole tables were rejected, return one line for each reason.
    """
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


def _change(change: Change) -> Iterator[str]:
    yield f"{change.model}: {spec_text(change.before)} -> {spec_text(change.after)}"
    yield f"  estimate: saves {bytes_text(change.gain)}, writing costs {bytes_text(change.write_cost)} more"
    yield f"  rewrites {size(change.rewritten_bytes)} of {size(change.size_bytes)}; {change.how}"
    if change.measured:
        yield f"  measured: {change.measured}"
    for lost in change.lost:
        yield f"  the new buckets no longer help {lost}"


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


def _planned(planned: Planned | None) -> str:
    if planned is None:
        return "not planned"
    counts = planned.counts
    return f"{count(counts.exchanges, 'Exchange')}, {count(counts.sorts, 'Sort')}, {bytes_text(planned.bytes)}"


def _explained(found: Explanation) -> Iterator[str]:
    yield f"{found.table}: {count(len(found.candidates), 'candidate')}"
    for one in found.candidates:
        yield f"  {spec_text(one.spec)}: {one.verdict}"
        yield f"    net savings on its own {bytes_text(one.alone)}, with the other specs {bytes_text(one.beside)}"
        yield f"    used by {', '.join(one.serves) or 'no query'}"
    for left in found.left_out:
        yield f"  rejected{' by ' + ', '.join(left.keys) if left.keys else ''}: {left.reason}"


def advice_data(advice: Advice) -> dict[str, Any]:
    """Convert the result of `advise` to JSON types."""
    return {
        "version": 1,
        "about": dict(advice.about),
        "planner": advice.planner,
        "worse": [one.unique_id for one in advice.worse],
        "total": {
            "models": len(advice.proof),
            "planned": sum(1 for one in advice.proof if one.before and one.after),
            "before": {**_counts_data(advice.counts("before")), "bytes": round(advice.bytes("before"))},
            "after": {**_counts_data(advice.counts("after")), "bytes": round(advice.bytes("after"))},
            "write_bytes": round(advice.write_cost),
        },
        "changes": [_change_data(change) for change in advice.changes],
        "models": [_proof_data(one) for one in advice.proof],
        "sources": [
            {"table": one.table, "spec": spec_data(one.spec), "gain_bytes": round(one.gain)}
            for one in advice.suggestions
        ],
        "left_out": [{"table": one.table, "keys": list(one.keys), "reason": one.reason} for one in advice.left_out],
        "explained": _explained_data(advice.explained) if advice.explained else None,
        "measured": [{"table": one.table, "columns": list(one.columns), **vars(one.cost)} for one in advice.measured],
        "unattributed": vars(advice.unattributed) if advice.unattributed else None,
        "event_logs": advice.event_logs,
        "applied": advice.applied,
        "diff": unified_diff(advice.edits),
        "refusals": [{"model": one.model, "reason": one.reason, "instead": one.instead} for one in advice.refusals],
    }


def _counts_data(counts: PlanCounts) -> dict[str, int]:
    return {"exchanges": counts.exchanges, "sorts": counts.sorts}


def _planned_data(planned: Planned | None) -> dict[str, int] | None:
    if planned is None:
        return None
    return {
        **_counts_data(planned.counts),
        "shuffled_bytes": round(planned.shuffled),
        "sorted_bytes": round(planned.sorted),
    }


def _proof_data(one: QueryProof) -> dict[str, Any]:
    return {
        "model": one.model,
        "unique_id": one.unique_id,
        "runs": one.runs,
        "before": _planned_data(one.before),
        "after": _planned_data(one.after),
        "error": one.error or None,
    }


def _change_data(change: Change) -> dict[str, Any]:
    return {
        "model": change.model,
        "unique_id": change.unique_id,
        "table": change.table,
        "before": spec_data(change.before),
        "after": spec_data(change.after),
        "config": dict(change.config),
        "bytes": change.size_bytes,
        "rewritten_bytes": change.rewritten_bytes,
        "how": change.how,
        "gain_bytes": round(change.gain),
        "write_bytes": round(change.write_cost),
        "lost": list(change.lost),
        "measured": vars(change.measured) if change.measured else None,
    }


def _explained_data(found: Explanation) -> dict[str, Any]:
    return {
        "table": found.table,
        "candidates": [
            {
                "spec": spec_data(one.spec),
                "alone_bytes": round(one.alone),
                "beside_bytes": round(one.beside),
                "verdict": one.verdict,
                "serves": list(one.serves),
            }
            for one in found.candidates
        ],
        "left_out": [{"keys": list(one.keys), "reason": one.reason} for one in found.left_out],
    }
