"""What queries want of tables: the keys by which rows are shuffled and sorted, and how many bytes that are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from spark_bucketing.plan.lineage import source_of
from spark_bucketing.plan.operators import Operator, Side, find_operators, is_operator
from spark_bucketing.plan.statistics import Statistics
from spark_bucketing.plan.tree import PhysicalPlan, PlanCounts, PlanNode

# How much of its input a partial aggregate leaves to be shuffled, where nobody knows how many groups there are.
PARTIAL_SHARE = 0.1


@dataclass(frozen=True)
class Demand:
    """An input of an operator that Spark shuffles, which buckets of one table would spare."""

    table: str  # by schema and name
    # Columns of the table at the places of the operator's keys; None for a key that is no plain column of it.
    keys: tuple[str | None, ...]
    shuffled: float  # bytes
    sorted: float  # bytes

    @property
    def bytes(self) -> float:
        """Bytes that are shuffled or sorted; each counts as often as it is either."""
        return self.shuffled + self.sorted

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which it can be served."""
        return tuple(dict.fromkeys(key for key in self.keys if key is not None))


@dataclass(frozen=True)
class Wanted:
    """What one operator of a query wants."""

    query: str  # its name
    kind: str  # join, aggregate, distinct, window
    sides: tuple[Demand, ...]  # one, or two of a join
    runs: float = 1.0  # of the query

    @property
    def is_join(self) -> bool:
        """Whether its sides have to fit together."""
        return self.kind == "join"


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
    partial = {node.number for op in _operators(plan) for node in _partial(op)}
    moved = {
        kind: sum(
            _bytes(node, statistics) * (PARTIAL_SHARE if node.number in partial else 1)
            for node in plan.walk()
            if node.operator == kind
        )
        for kind in ("Exchange", "Sort")
    }
    return Planned(plan.counts, moved["Exchange"], moved["Sort"])


def wanted(query: str, plan: PhysicalPlan, statistics: Statistics, runs: float = 1.0) -> tuple[Wanted, ...]:
    """What the operators of a plan want of the tables that reach them by way of nothing that shuffles rows."""
    found = []
    for op in _operators(plan):
        if op.broadcast or op.foreign or op.keyless:
            continue
        demands = (_demand(op, side, statistics) for side in op.sides)
        if sides := tuple(demand for demand in demands if demand):
            found.append(Wanted(query, op.kind, sides, runs))
    return tuple(found)


def _operators(plan: PhysicalPlan) -> Iterator[Operator]:
    for root in plan.roots:
        yield from find_operators(root)


def _demand(op: Operator, side: Side, statistics: Statistics) -> Demand | None:
    needed = side.needed
    if needed is None or not side.keys:
        return None
    table = _table(side.entry)
    sources = [source_of(key, side.entry) for key in side.keys]
    keys = tuple(
        source.column.name.lower() if source and not source.wrapped and source.scan.table == table else None
        for source in sources
    )
    if table is None or not any(keys):
        return None
    # A join needs all of its keys; a grouping is served by any of them.
    if op.kind == "join" and None in keys:
        return None
    share = PARTIAL_SHARE if needed in _partial(op) else 1
    # The order of a window is its own, and a table's files have another one.
    sorts = side.local_sorts if op.kind == "join" else ()
    return Demand(table, keys, _bytes(needed, statistics) * share, sum(_bytes(sort, statistics) for sort in sorts))


def _partial(op: Operator) -> tuple[PlanNode, ...]:
    """The Exchanges of an aggregate between its parts."""
    if op.kind not in ("aggregate", "distinct"):
        return ()
    inside = {node.number for side in op.sides for node in side.entry.walk()}
    return tuple(node for side in op.sides for node in side.exchanges if node.number not in inside)


def _table(entry: PlanNode) -> str | None:
    """The table whose rows an operator gets as its files have them: below projections, filters and broadcast joins.

    BroadcastHashJoin BuildRight
    :- Scan facts                 this one
    +- BroadcastExchange
       +- Scan dimension
    """
    node = entry
    while node.table is None:
        if node.operator == "BroadcastHashJoin":
            streamed = [child for child in node.children if child.operator != "BroadcastExchange"]
            if len(streamed) != 1 or streamed[0].operator == "ReusedExchange":
                return None
            node = streamed[0]
        elif is_operator(node) or len(node.children) != 1 or node.operator in ("ReusedExchange", "Expand", "Generate"):
            return None
        else:
            node = node.children[0]
    return node.table


def _bytes(node: PlanNode, statistics: Statistics) -> float:
    """What the scans below a node read."""
    reads: Mapping[int, tuple[str, int]] = statistics.reads
    total = 0
    for scan in node.scans:
        known = [reads[column.id][1] for column in scan.output or () if column.id in reads]
        total += max(known, default=0)
    return total
