"""Write the result of `advise` as text, as JSON that follows docs/reference/advise.schema.json, or as an HTML page.

Also choose the first models of a project to bucket, for `spark-bucketing init`, and describe the choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from spark_bucketing import output
from spark_bucketing.advice.advice import Advice, PlanSizes, ProposedSpec, QueryProof, RejectedTable
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


_LEAST = 256 * 2**20
# Queries gain about the same if their gains differ by less than this factor.
_CLOSE = 0.9


@dataclass(frozen=True)
class FirstModels:
    """The new specs of the tables of one query. `costly` are further specs that cost more than they save."""

    description: str
    paying: tuple[ProposedSpec, ...] = ()
    costly: tuple[ProposedSpec, ...] = ()


def first_models(advice: Advice) -> FirstModels:
    """Choose the query that gains most from buckets and, if buckets do not pay off, the query that they help most."""
    further_of = {one.unique_id: one for one in advice.costly_proof if one.gain > 0}
    best = _best(advice.proof, further_of) if advice.changes else None
    if best and best.before and best.after:
        paying, further = _of(best, advice.changes), further_of.get(best.unique_id)
        costly = _of(best, advice.costly) if further else ()
        before, after = bytes_text(best.before.bytes), bytes_text(best.after.bytes)
        text = f"The query of {best.model} now shuffles and sorts {before}, and with these buckets {after}:"
        others = len(advice.changes) - len(paying)
        more = f"\nFor {count(others, 'more model')}, run spark-bucketing advise." if others else ""
        rest = f"\n\nFurther buckets {_costs(further, costly)}" if further and costly else ""
        return FirstModels(f"{text}{_list(paying)}{_sources(advice, best)}{more}{rest}", paying, costly)
    if further := _best(advice.costly_proof):
        costly = _of(further, advice.costly)
        text = "No buckets save more than they cost if each query runs once per build. The best ones"
        return FirstModels(f"{text} {_costs(further, costly)}", (), costly)
    return FirstModels(_why_none(advice))


def commands(changes: Iterable[ProposedSpec], options: str = "") -> list[str]:
    """Return the commands that bucket these models one by one."""
    return [
        f"spark-bucketing init{options} --model {change.model} "
        f"--clustered-by {','.join(change.after.bucket_columns)} --buckets {change.after.num_buckets}"
        for change in changes
    ]


def _best(proof: Sequence[QueryProof], further: Mapping[str, QueryProof] | None = None) -> QueryProof | None:
    """Return the query that gains most or, of those that gain about as much, the one that could gain most further."""
    most = max((one.gain for one in proof), default=0.0)
    close = [one for one in proof if one.gain > 0 and one.gain >= _CLOSE * most]
    rest = {name: one.gain for name, one in (further or {}).items()}
    return max(close, key=lambda one: (rest.get(one.unique_id, 0.0), one.gain), default=None)


def _of(query: QueryProof, changes: Sequence[ProposedSpec]) -> tuple[ProposedSpec, ...]:
    return tuple(change for change in changes if change.table in query.tables)


def _list(changes: Iterable[ProposedSpec]) -> str:
    return "".join(f"\n  {one.model} ({size(one.bytes)}): {spec_text(one.after)}" for one in changes)


def _sources(advice: Advice, query: QueryProof) -> str:
    """Name the sources that a query reads and that could be bucketed, too."""
    return "".join(
        f"\ndbt does not build {one.table}. As {spec_text(one.spec)}, it would save up to {bytes_text(one.gain_bytes)} "
        "more."
        for one in advice.suggestions
        if one.table in query.tables
    )


def _costs(query: QueryProof, changes: Sequence[ProposedSpec]) -> str:
    """Say how much a query saves with buckets that do not pay off, what they cost, and when they pay off."""
    cost = sum(change.write_bytes for change in changes)
    runs = max(2, math.floor(cost / query.gain) + 1)
    before, after = (bytes_text(one.bytes) if one else "" for one in (query.before, query.after))
    return (
        f"reduce what the query of {query.model} shuffles and sorts from {before} to {after}:{_list(changes)}\n"
        f"In each build, they shuffle and sort {bytes_text(cost)} more. They pay off if such queries run at least "
        f"{count(runs, 'time')} per build."
    )


def _why_none(advice: Advice) -> str:
    """Say why no model can get buckets."""
    most = max((one for one in advice.proof if one.before), key=lambda one: _moved(one), default=None)
    moved = _moved(most) if most else 0.0
    if not most or not moved:
        return "No model gets buckets: the project has no query that Spark can plan and that shuffles or sorts rows."
    text = f"No model gets buckets: the query of {most.model} shuffles and sorts the most, {bytes_text(moved)}"
    if moved < _LEAST:
        return f"{text}. Tables of less than 256 MiB do not need buckets."
    reasons = {one.table: one.reason for one in advice.left_out if not one.keys and one.table in most.tables}
    reasons |= {one.table: "a source, which dbt does not build" for one in advice.suggestions}
    why = [f"{name}: {reasons[name]}" for name in most.tables if name in reasons]
    why = [text.replace("smaller than --smallest", "smaller than 256 MiB") for text in why]
    return "\n  ".join(
        [f"{text}, but no buckets of its tables help it.", *why, "For details, run spark-bucketing advise."]
    )


def _moved(query: QueryProof) -> float:
    return query.before.bytes if query.before else 0.0
