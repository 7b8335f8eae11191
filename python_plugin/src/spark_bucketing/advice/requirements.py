"""Extract the requirements of queries: the keys that Spark shuffles and sorts tables by, and the tables' sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from spark_bucketing.plan.document import Expression, PhysicalPlan, PlanCounts, PlanNode
from spark_bucketing.plan.operators import Operator, Side, find_operators, is_operator, passes_rows

_GROUPING = ("aggregate", "distinct")
# Joins that return only rows of the left side.
_SEMI = re.compile(r"Left(Semi|Anti)")
# Estimated output of a partial aggregate, and of a whole aggregate, as a share of its input. They apply if the number
# of groups is unknown.
PARTIAL_SHARE = 0.1


@dataclass(frozen=True)
class Requirement:
    """An input of an operator that Spark would not have to shuffle if one table were suitably bucketed."""

    table: str  # qualified name
    # The table's column for each key of the operator; None if a key is not a plain column.
    keys: tuple[str | None, ...]
    shuffled: float  # bytes
    sorted: float  # bytes
    # The required sort columns. For a join, their order does not matter if the table is bucketed by all of them.
    order: tuple[str, ...] = ()

    @property
    def bytes(self) -> float:
        """Return the bytes shuffled plus the bytes sorted."""
        return self.shuffled + self.sorted

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the table columns that are candidate bucket columns."""
        return tuple(dict.fromkeys(key for key in self.keys if key is not None))


@dataclass(frozen=True)
class RequiredLayout:
    """The requirements of one operator in a query."""

    query: str  # the query's name
    kind: str  # join, aggregate, distinct, window
    sides: tuple[Requirement, ...]  # one side, or two for a join
    runs: float = 1.0  # number of runs of the query
    # True if the sides are inputs of one UNION ALL, which keeps buckets only if all inputs have the same spec.
    united: bool = False

    @property
    def is_join(self) -> bool:
        """Return whether the operator is a join, so that the bucket specs of its two sides must match."""
        return self.kind == "join"


CastKey = tuple[str, str, str]
"""A table, its column that an operator casts, and the target type of the cast."""


@dataclass(frozen=True)
class PlanSizes:
    """How much data the plan of a query shuffles and sorts."""

    counts: PlanCounts
    shuffled: float  # bytes that Exchanges shuffle, if sizes are known
    sorted: float  # bytes that Sorts sort

    @cached_property
    def bytes(self) -> float:
        """Return the bytes shuffled plus the bytes sorted."""
        return self.shuffled + self.sorted


def planned(plan: PhysicalPlan) -> PlanSizes:
    """Return how many bytes a plan shuffles and sorts."""
    sizes = _sizes(plan)
    shuffled, ordered = (
        sum(sizes[node.number] for node in plan.walk() if node.kind == kind) for kind in ("exchange", "sort")
    )
    return PlanSizes(plan.counts, shuffled, ordered)


def _sizes(plan: PhysicalPlan) -> Mapping[int, float]:
    """Estimate the output of each operator in bytes, from the sizes of scans, aggregations and semi joins.

    Spark itself estimates the output of joins only if the columns have statistics.
    """
    grouped = {side.entry.number for op in _operators(plan) if op.kind in _GROUPING for side in op.sides}
    found: dict[int, float] = {}
    for node in plan.nodes:
        below = [found.get(child.number, 0.0) for child in node.children]
        if node.scan:
            size = float(node.scan.read_bytes or 0)
        elif _SEMI.search(node.join_type):
            size = below[0]
        else:
            size = sum(below)
        if node.aggregate and node.children[0].number in grouped:
            size *= PARTIAL_SHARE
        found[node.number] = size
    return found


def required_layouts(query: str, plan: PhysicalPlan, runs: float = 1.0) -> tuple[RequiredLayout, ...]:
    """Return what operators require of tables whose rows reach them without a shuffle in between."""
    sizes = _sizes(plan)
    return tuple(one for op in _shuffling(plan) for one in _of_operator(query, op, sizes, runs))


def cast_keys(query: str, plan: PhysicalPlan) -> Iterator[tuple[CastKey, str]]:
    """Yield keys that are casts of columns, with the query and operator; buckets are of the values before the cast."""
    for op in _shuffling(plan):
        for side in (side for side in op.sides if side.needed):
            for branch in _branches(side.entry, side.keys or ()):
                for source in (key.source for key in branch.keys):
                    if source and source.cast and source.scan.table and source.scan.table == _table(branch.entry):
                        yield (source.scan.table, source.column.lower(), source.cast), f"{query} ({op.kind})"


def _shuffling(plan: PhysicalPlan) -> Iterator[Operator]:
    return (op for op in _operators(plan) if not (op.broadcast or op.foreign or op.keyless))


def _operators(plan: PhysicalPlan) -> Iterator[Operator]:
    for root in plan.roots:
        yield from find_operators(root)


def _of_operator(query: str, op: Operator, sizes: Mapping[int, float], runs: float) -> Iterator[RequiredLayout]:
    inputs = [found for side in op.sides if (found := _requirements(op, side, sizes))]
    if any(len(found) == 1 for found in inputs):
        # A union as one input of a join provides keys and buckets; the loop below counts its savings.
        sides = (found[0] if len(found) == 1 else replace(found[0], shuffled=0.0, sorted=0.0) for found in inputs)
        yield RequiredLayout(query, op.kind, tuple(sides), runs)
    for branches in inputs:
        # All inputs must match to save anything, so each pair counts half of every table that is in two pairs.
        last = len(branches) - 1
        for place, pair in enumerate(pairwise(branches)):
            shares = (1.0 if place == 0 else 0.5, 1.0 if place + 1 == last else 0.5)
            halves = (
                replace(one, shuffled=one.shuffled * share, sorted=one.sorted * share)
                for one, share in zip(pair, shares, strict=True)
            )
            yield RequiredLayout(query, op.kind, tuple(halves), runs, united=True)


def _requirements(op: Operator, side: Side, sizes: Mapping[int, float]) -> tuple[Requirement, ...]:
    """Return the requirement for one table, or for each input of a UNION ALL, or nothing if buckets cannot help."""
    if side.needed is None or not side.keys:
        return ()
    # The Exchanges between the partial aggregate and the final aggregate are not below the input.
    inside = {node.number for one in op.sides for node in one.entry.walk()}
    share = PARTIAL_SHARE if op.kind in _GROUPING and side.needed.number not in inside else 1.0
    if side.needed.number not in side.own:
        # A reused Exchange shuffles its rows once, for the input for which Spark planned it.
        share = 0.0
    found: dict[tuple[str, tuple[str | None, ...]], Requirement] = {}
    for branch in _branches(side.entry, side.keys):
        table, keys = _table(branch.entry), _columns(branch)
        # A join requires all of its keys to be columns; a grouping can use any one of its keys.
        if table is None or not any(keys) or (op.kind == "join" and None in keys):
            return ()
        size = sizes.get(branch.entry.number, 0.0)
        order = _order(op, branch)
        # Spark reads a table twice if it occurs twice.
        there = found.get((table, keys), Requirement(table, keys, 0, 0))
        sorts = there.sorted + (size * len(side.local_sorts) if order else 0.0)
        found[table, keys] = Requirement(table, keys, there.shuffled + size * share, sorts, order)
    if all(requirement.order for requirement in found.values()):
        return tuple(found.values())
    # A union is sorted only if all of its inputs are sorted.
    return tuple(replace(requirement, sorted=0.0, order=()) for requirement in found.values())


def _order(op: Operator, branch: _Branch) -> tuple[str, ...]:
    """Return the table columns that the operator requires in ascending order, or nothing for another order."""
    if op.kind not in ("join", "window"):
        return ()
    if not all(order.is_of_files for order in op.order):
        return ()
    columns = _columns(replace(branch, keys=(*branch.keys, *(order.value for order in op.order))))
    return () if None in columns else tuple(dict.fromkeys(column for column in columns if column))


@dataclass(frozen=True)
class _Branch:
    entry: PlanNode
    keys: tuple[Expression, ...]  # keys over its output


def _branches(entry: PlanNode, keys: tuple[Expression, ...]) -> tuple[_Branch, ...]:
    """Return the inputs of the UNION ALL between an operator and its tables, or else the operator's own input."""
    node = entry
    while node.kind != "union":
        below = _passing(node)
        # Spark pushes projections below unions.
        if below is None or node.kind == "project" or node.aggregate:
            return (_Branch(entry, keys),)
        node = below
    places = {column.id: place for place, column in enumerate(node.output)}
    found: list[_Branch] = []
    for child in node.children:
        if not all(key.id in places and places[key.id] < len(child.output) for key in keys):
            return (_Branch(entry, keys),)
        found += _branches(child, tuple(child.output[places[key.id]] for key in keys))
    return tuple(found)


def _columns(branch: _Branch) -> tuple[str | None, ...]:
    """Return the table column for each key, or None for a key that is not simply a column."""
    sources = [key.source for key in branch.keys]
    table = _table(branch.entry)
    return tuple(
        source.column.lower() if source and not source.wrapped and source.scan.table == table else None
        for source in sources
    )


def _table(entry: PlanNode) -> str | None:
    """Return the table whose rows pass only projections, filters and broadcast joins on the way to an operator."""
    node: PlanNode | None = entry
    while node and node.scan is None:
        node = _passing(node)
    return node.table if node else None


def _passing(node: PlanNode) -> PlanNode | None:
    """Return the input whose rows a node passes on in the same partitions, or None if there is no such input.

    BroadcastHashJoin BuildRight
    :- Scan facts                 this input
    +- BroadcastExchange
       +- Scan dimension
    """
    if node.operator == "BroadcastHashJoin":
        streamed = [child for child in node.inputs if child.kind != "broadcast"]
        return streamed[0] if len(streamed) == 1 else None
    if passes_rows(node):
        return node.children[0]
    if is_operator(node) or len(node.children) != 1 or node.operator in ("Expand", "Generate"):
        return None
    return node.children[0]
