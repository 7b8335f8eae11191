"""Use measurements from event logs.

The event logs contain model runs, queries from other tools, and the costs that a proposal would change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from spark_bucketing.advice.advice import MeasuredKeys, ProposedSpec
from spark_bucketing.advice.requirements import RequiredLayout, Requirement
from spark_bucketing.event_log.measured import Measured
from spark_bucketing.event_log.plan_costs import Cost, TableKeys

_KINDS = ("join", "aggregate", "window")


def measured_runs(measured: Measured, nodes: Mapping[str, str]) -> dict[str, float]:
    """Return how often each model ran, by unique id, or nothing if the logs contain no run of any model."""
    found: dict[str, float] = {}
    known, commented = ({node.lower() for node in some} for some in (nodes.values(), measured.runs))
    for node in measured.nodes():
        name = nodes.get(node.removeprefix("table."), node).lower()
        # Where runs have a model's query comment, other statements that write its table are not runs of the model.
        if name in known and (name == node.lower() or name not in commented):
            found[name] = found.get(name, 0) + len(measured.runs_of(node))
    # Other tools write sources.
    return {} if all(name.startswith("source.") for name in found) else found


def unplanned_layouts(measured: Measured, models: Collection[str]) -> tuple[RequiredLayout, ...]:
    """Return the requirements of statements that are not models of the project, such as queries of BI tools."""
    return tuple(
        RequiredLayout(node or "ad-hoc query", operator.kind, sides, united=operator.kind != "join" and len(sides) > 1)
        for node, operators in measured.operators.items()
        if node not in models
        for operator, costs in operators.items()
        if operator.kind in _KINDS
        if (
            sides := tuple(_requirement(keys, cost, operator.kind) for keys, cost in costs.items() if any(keys.columns))
        )
        and len(sides) <= 2
    )


def _requirement(keys: TableKeys, cost: Cost, kind: str) -> Requirement:
    # A join and a window sort the rows that they shuffle.
    ordered = float(cost.shuffle_bytes) if kind != "aggregate" else 0.0
    order = tuple(column for column in keys.columns if column) if ordered else ()
    return Requirement(keys.table, keys.columns, float(cost.shuffle_bytes), ordered, order)


def ranked(measured: Measured) -> tuple[MeasuredKeys, ...]:
    """Return all tables and keys, first those with the most shuffle bytes, then spilled bytes, then task time."""
    sums: dict[tuple[str, tuple[str, ...]], Cost] = {}
    for keys, cost in measured.costs().items():
        columns = tuple(dict.fromkeys(column for column in keys.columns if column))
        sums.setdefault((keys.table, columns), Cost()).add(cost)
    found = [MeasuredKeys(table, columns, cost) for (table, columns), cost in sums.items()]
    return tuple(
        sorted(found, key=lambda one: (-one.cost.shuffle_bytes, -one.cost.spill_bytes, -one.cost.task_ms, one.table))
    )


def with_costs(changes: Iterable[ProposedSpec], found: Collection[MeasuredKeys]) -> tuple[ProposedSpec, ...]:
    """Add to each change the measured costs of all keys that contain all of its bucket columns."""
    measured = []
    for change in changes:
        total = Cost()
        for one in found:
            if one.table == change.table and set(change.after.bucket_columns) <= set(one.columns):
                total.add(one.cost)
        measured.append(replace(change, measured=total))
    return tuple(measured)
