"""Extract the requirements of queries: the keys that Spark shuffles and sorts tables by, and the tables' sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from spark_bucketing.plan.document import PhysicalPlan, PlanCounts, PlanNode
from spark_bucketing.plan.operators import Operator, Side, TableInput, find_operators, table_inputs

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
        for side in op.sides:
            for one in _inputs(op, side):
                for source in (key.source for key in one.keys[: len(side.keys or ())] if key):
                    if source and source.cast and one.table and source.scan.table == one.table:
                        yield (one.table, source.column.lower(), source.cast), f"{query} ({op.kind})"


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


def _inputs(op: Operator, side: Side) -> list[TableInput]:
    """Return the tables below the Exchange that an operator requires, by its keys and its order; nothing without it."""
    if side.needed is None or not side.keys:
        return []
    entries = side.needed.children if _is_inside(op, side.needed) else (side.entry,)
    return table_inputs(entries, (*side.keys, *(order.value for order in op.order)))


def _is_inside(op: Operator, exchange: PlanNode) -> bool:
    """Return whether an Exchange is below the operator, rather than between a partial and a final aggregate."""
    return any(exchange is node for side in op.sides for node in side.entry.walk())


def _requirements(op: Operator, side: Side, sizes: Mapping[int, float]) -> tuple[Requirement, ...]:
    """Return the requirement for one table, or for each input of a UNION ALL, or nothing if buckets cannot help."""
    found: dict[tuple[str, tuple[str | None, ...]], Requirement] = {}
    for one in _inputs(op, side):
        keys = one.columns[: len(side.keys or ())]
        # A join requires all of its keys to be columns; a grouping can use any one of its keys.
        if one.table is None or not any(keys) or (op.kind == "join" and None in keys):
            return ()
        is_sorted = op.kind in ("join", "window") and all(order.is_of_files for order in op.order)
        order = tuple(dict.fromkeys(filter(None, one.columns))) if is_sorted and None not in one.columns else ()
        size = sizes.get(one.entry.number, 0.0)
        # Spark reads a table twice if it occurs twice.
        there = found.get((one.table, keys), Requirement(one.table, keys, 0, 0))
        sorts = there.sorted + (size * len(side.local_sorts) if order else 0.0)
        shuffled = there.shuffled + size * _shuffled_share(op, side)
        found[one.table, keys] = Requirement(one.table, keys, shuffled, sorts, order)
    if all(requirement.order for requirement in found.values()):
        return tuple(found.values())
    # A union is sorted only if all of its inputs are sorted.
    return tuple(replace(requirement, sorted=0.0, order=()) for requirement in found.values())


def _shuffled_share(op: Operator, side: Side) -> float:
    """Return the share of an input's bytes that the Exchange shuffles that the operator requires."""
    if side.needed is None or side.needed.number not in side.own:
        # A reused Exchange shuffles its rows once, for the input for which Spark planned it.
        return 0.0
    return PARTIAL_SHARE if op.kind in _GROUPING and not _is_inside(op, side.needed) else 1.0
