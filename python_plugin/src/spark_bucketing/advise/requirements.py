"""What queries requirement of tables: the keys by which rows are shuffled and sorted, and how many bytes that are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from spark_bucketing.plan.explain_cost import Statistics
from spark_bucketing.plan.expression_lists import canonical
from spark_bucketing.plan.lineage import source_of
from spark_bucketing.plan.operators import PASSING, Operator, Side, find_operators, is_operator
from spark_bucketing.plan.tree import AGGREGATES, JOINS, PhysicalPlan, PlanCounts, PlanNode

_GROUPING = ("aggregate", "distinct")
# Joins that return rows of the left side alone.
_SEMI = re.compile(r"Left(Semi|Anti)")
# As files of buckets are sorted.
_ASCENDING = " ASC NULLS FIRST"
# How much of its input a partial aggregate leaves to be shuffled, and an aggregate to what is above it, where nobody
# knows how many groups there are.
PARTIAL_SHARE = 0.1


@dataclass(frozen=True)
class Requirement:
    """An input of an operator that Spark shuffles, which buckets of one table would spare."""

    table: str  # by schema and name
    # Columns of the table at the places of the operator's keys; None for a key that is no plain column of it.
    keys: tuple[str | None, ...]
    shuffled: float  # bytes
    sorted: float  # bytes
    # Columns by which rows have to be sorted; those of a join's keys in any order, where buckets are by all of them.
    order: tuple[str, ...] = ()

    @property
    def bytes(self) -> float:
        """Bytes that are shuffled or sorted; each counts as often as it is either."""
        return self.shuffled + self.sorted

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which it can be served."""
        return tuple(dict.fromkeys(key for key in self.keys if key is not None))


@dataclass(frozen=True)
class RequiredLayout:
    """What one operator of a query wants."""

    query: str  # its name
    kind: str  # join, aggregate, distinct, window
    sides: tuple[Requirement, ...]  # one, or two of a join
    runs: float = 1.0  # of the query
    # Whether the sides are inputs of one UNION ALL, which keeps buckets where all of them have the same.
    united: bool = False

    @property
    def is_join(self) -> bool:
        """Whether its sides have to fit together."""
        return self.kind == "join"


@dataclass(frozen=True)
class CastKey:
    """A column by which a table could be bucketed, did an operator not cast it."""

    query: str  # its name
    kind: str  # of the operator
    table: str  # by schema and name
    column: str
    type: str  # that the cast gives it


@dataclass(frozen=True)
class Planned:
    """A query's plan in numbers."""

    counts: PlanCounts
    shuffled: float  # bytes that Exchanges move, as far as sizes are known
    sorted: float  # bytes that Sorts sort

    @cached_property
    def bytes(self) -> float:
        """Both."""
        return self.shuffled + self.sorted


def planned(plan: PhysicalPlan, statistics: Statistics) -> Planned:
    """How much a plan shuffles and sorts."""
    sizes = _sizes(plan, statistics)
    shuffled, ordered = (
        sum(sizes[node.number] for node in plan.walk() if node.operator == kind) for kind in ("Exchange", "Sort")
    )
    return Planned(plan.counts, shuffled, ordered)


def _sizes(plan: PhysicalPlan, statistics: Statistics) -> Mapping[int, float]:
    """Bytes that come out of operators, by their numbers: what scans read, less where rows are grouped or only tested.

    Spark itself knows sizes above joins only where columns have statistics.
    """
    grouped = {side.entry.number for op in _operators(plan) if op.kind in _GROUPING for side in op.sides}
    found: dict[int, float] = {}
    for node in plan.nodes:
        below = [found.get(child.number, 0.0) for child in node.children]
        if node.table:
            known = [statistics.reads[column.id][1] for column in node.output or () if column.id in statistics.reads]
            size = float(max(known, default=0))
        elif node.operator in JOINS and _SEMI.search(node.join_type):
            size = below[0]
        else:
            size = sum(below)
        if node.operator in AGGREGATES and node.children[0].number in grouped:
            size *= PARTIAL_SHARE
        found[node.number] = size
    return found


def required(query: str, plan: PhysicalPlan, statistics: Statistics, runs: float = 1.0) -> tuple[RequiredLayout, ...]:
    """What the operators of a plan requirement of the tables that reach them by way of nothing that shuffles rows."""
    sizes = _sizes(plan, statistics)
    return tuple(one for op in _shuffling(plan) for one in _of_operator(query, op, sizes, runs))


def cast_keys(query: str, plan: PhysicalPlan) -> tuple[CastKey, ...]:
    """Keys of operators that are casts of tables' columns: buckets are of the values as they are stored."""
    return tuple(
        CastKey(query, op.kind, source.scan.table, source.column.name.lower(), source.cast)
        for op in _shuffling(plan)
        for side in op.sides
        if side.needed
        for branch in _branches(side.entry, side.keys or ())
        for source in (source_of(key, branch.entry) for key in branch.keys)
        if source and source.cast and source.scan.table and source.scan.table == _table(branch.entry)
    )


def _shuffling(plan: PhysicalPlan) -> Iterator[Operator]:
    return (op for op in _operators(plan) if not (op.broadcast or op.foreign or op.keyless))


def _operators(plan: PhysicalPlan) -> Iterator[Operator]:
    for root in plan.roots:
        yield from find_operators(root)


def _of_operator(query: str, op: Operator, sizes: Mapping[int, float], runs: float) -> Iterator[RequiredLayout]:
    inputs = [found for side in op.sides if (found := _requirements(op, side, sizes))]
    if any(len(found) == 1 for found in inputs):
        # An input that is a union is there for its keys and buckets; what is spared in it is said below.
        sides = (found[0] if len(found) == 1 else replace(found[0], shuffled=0.0, sorted=0.0) for found in inputs)
        yield RequiredLayout(query, op.kind, tuple(sides), runs)
    for branches in inputs:
        # All or nothing, in pairs: of three tables, the one in the middle has half of its bytes in each.
        last = len(branches) - 1
        for place, pair in enumerate(pairwise(branches)):
            shares = (1.0 if place == 0 else 0.5, 1.0 if place + 1 == last else 0.5)
            halves = (
                replace(one, shuffled=one.shuffled * share, sorted=one.sorted * share)
                for one, share in zip(pair, shares, strict=True)
            )
            yield RequiredLayout(query, op.kind, tuple(halves), runs, united=True)


def _requirements(op: Operator, side: Side, sizes: Mapping[int, float]) -> tuple[Requirement, ...]:
    """Of one table, or of each below a UNION ALL; none where buckets of one of them would not serve."""
    if side.needed is None or not side.keys:
        return ()
    share = PARTIAL_SHARE if side.needed in _partial(op) else 1
    found: dict[tuple[str, tuple[str | None, ...]], Requirement] = {}
    for branch in _branches(side.entry, side.keys):
        table, keys = _table(branch.entry), _columns(branch)
        # A join needs all of its keys; a grouping is served by any of them.
        if table is None or not any(keys) or (op.kind == "join" and None in keys):
            return ()
        size = sizes.get(branch.entry.number, 0.0)
        order = _order(op, branch)
        # The same table twice is one that is read twice.
        there = found.get((table, keys), Requirement(table, keys, 0, 0))
        sorts = there.sorted + (size * len(side.local_sorts) if order else 0.0)
        found[table, keys] = Requirement(table, keys, there.shuffled + size * share, sorts, order)
    if all(requirement.order for requirement in found.values()):
        return tuple(found.values())
    # A union has an order that all of its inputs have.
    return tuple(replace(requirement, sorted=0.0, order=()) for requirement in found.values())


def _order(op: Operator, branch: _Branch) -> tuple[str, ...]:
    """The table's columns by which the operator wants its rows sorted, upwards; none where it wants another order."""
    if op.kind not in ("join", "window"):
        return ()
    ascending = [text.removesuffix(_ASCENDING) for text in op.order]
    if any(text == given for text, given in zip(ascending, op.order, strict=True)):
        return ()
    columns = _columns(replace(branch, keys=(*branch.keys, *map(canonical, ascending))))
    return () if None in columns else tuple(dict.fromkeys(column for column in columns if column))


@dataclass(frozen=True)
class _Branch:
    entry: PlanNode
    keys: tuple[str, ...]  # canonical expressions of its output


def _branches(entry: PlanNode, keys: tuple[str, ...]) -> tuple[_Branch, ...]:
    """The inputs of a UNION ALL by whose way rows get to an operator; else the input itself."""
    node = entry
    while node.operator not in ("Union", "BucketUnion"):
        below = _passing(node)
        # Spark puts projections below unions.
        if below is None or node.operator in ("Project", *AGGREGATES):
            return (_Branch(entry, keys),)
        node = below
    places = {column.key: place for place, column in enumerate(node.children[0].output or ())}
    found: list[_Branch] = []
    for child in node.children:
        output = child.output or ()
        if not all(key in places and places[key] < len(output) for key in keys):
            return (_Branch(entry, keys),)
        found += _branches(child, tuple(output[places[key]].key for key in keys))
    return tuple(found)


def _columns(branch: _Branch) -> tuple[str | None, ...]:
    """The table's columns that the keys are; None for a key that is none."""
    sources = [source_of(key, branch.entry) for key in branch.keys]
    table = _table(branch.entry)
    return tuple(
        source.column.name.lower() if source and not source.wrapped and source.scan.table == table else None
        for source in sources
    )


def _partial(op: Operator) -> tuple[PlanNode, ...]:
    """The Exchanges of an aggregate between its parts."""
    if op.kind not in _GROUPING:
        return ()
    inside = {node.number for side in op.sides for node in side.entry.walk()}
    return tuple(node for side in op.sides for node in side.exchanges if node.number not in inside)


def _table(entry: PlanNode) -> str | None:
    """The table whose rows an operator gets as its files have them: below projections, filters and broadcast joins."""
    node: PlanNode | None = entry
    while node and node.table is None:
        node = _passing(node)
    return node.table if node else None


def _passing(node: PlanNode) -> PlanNode | None:
    """The input whose rows a node passes on where they are; None where it does not.

    BroadcastHashJoin BuildRight
    :- Scan facts                 this one
    +- BroadcastExchange
       +- Scan dimension
    """
    if node.operator == "BroadcastHashJoin":
        streamed = [child for child in node.children if child.operator != "BroadcastExchange"]
        return streamed[0] if len(streamed) == 1 and streamed[0].operator != "ReusedExchange" else None
    if node.operator in PASSING:
        return node.children[0]
    if is_operator(node) or len(node.children) != 1 or node.operator in ("ReusedExchange", "Expand", "Generate"):
        return None
    return node.children[0]
