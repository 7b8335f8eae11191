"""How rows come to an operator: by the buckets of a table, by an earlier shuffle, or in disarray.

Followed in the plan at hand, from a scan up to the operator. What Spark would do otherwise is asked of Spark (whatif).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_bucketing.plan import PlanNode
from spark_bucketing.plan.lineage import source_of

if TYPE_CHECKING:
    from spark_bucketing.check.reasons.movements import Movement

_SPREADING = (
    "Union", "Expand", "Coalesce", "CartesianProduct", "GlobalLimit", "TakeOrderedAndProject", "CollectLimit",
    "CollectTail", "InMemoryRelation", "Scan",
)  # fmt: skip
_DISORDERING = ("HashAggregate", "ObjectHashAggregate", "ShuffledHashJoin", "Exchange")
_KEEPING_LEFT = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle")
_KEEPING_RIGHT = ("Inner", "Cross", "RightOuter")


@dataclass(frozen=True)
class Partitioning:
    """Rows that come by a hash of some keys of an operator."""

    kind: str  # hive or spark
    places: tuple[frozenset[int], ...]  # for each hashed column the places of the operator's keys where it stands
    number: int  # of partitions
    table: str | None = None  # whose buckets these are; None where an Exchange made them


def partitionings(movement: Movement) -> tuple[Partitioning, ...]:
    """The hashes by keys of the operator by which an input's rows come, those of its own scan first."""
    scans = [movement.table.node] if movement.table else []
    scans += [source.scan for source in movement.sources if source]
    found = (_partitioning(movement, scan) for scan in {scan.number: scan for scan in scans}.values())
    return tuple(dict.fromkeys(one for one in found if one))


def lost_at(movement: Movement) -> PlanNode | None:
    """The lowest node above the scan where the scan's buckets are lost; None when they reach the operator."""
    return _first(movement, ("Exchange",))


def disordered_at(movement: Movement) -> PlanNode | None:
    """The lowest node above the scan whose rows are in no order; None when the order reaches the operator."""
    return _first(movement, _DISORDERING)


def _first(movement: Movement, operators: tuple[str, ...]) -> PlanNode | None:
    if movement.table is None:
        return None
    above = _upwards(movement, movement.table.node)
    return next((node for below, node in above if node.operator in operators or not _keeps(node, below)), None)


def _partitioning(movement: Movement, scan: PlanNode) -> Partitioning | None:
    found = _of_buckets(movement, scan)
    for below, node in _upwards(movement, scan):
        if node.operator == "Exchange":
            found = _of_shuffle(movement, node)
        elif not _keeps(node, below):
            found = None
    return found


def _of_buckets(movement: Movement, scan: PlanNode) -> Partitioning | None:
    table = movement.query.bucketed(scan)
    if table is None or not table.readable:
        return None
    ids = {column.name.lower(): column.id for column in scan.output or ()}
    places = tuple(_places(movement, scan, ids.get(name)) for name in table.columns)
    return Partitioning(table.spec.bucket_hash, places, table.spec.num_buckets, table.name) if all(places) else None


def _of_shuffle(movement: Movement, exchange: PlanNode) -> Partitioning | None:
    shuffle = exchange.shuffle
    if shuffle is None or shuffle.kind not in ("hash", "hive") or not shuffle.partitions:
        return None
    keys = [source_of(key, exchange.children[0]) for key in shuffle.keys]
    places = tuple(_places(movement, key.scan, key.column.id) if key and not key.wrapped else () for key in keys)
    kind = "hive" if shuffle.kind == "hive" else "spark"
    return Partitioning(kind, tuple(map(frozenset, places)), shuffle.partitions) if places and all(places) else None


def _places(movement: Movement, scan: PlanNode, column: int | None) -> frozenset[int]:
    """The places of the operator's keys that are this column of a scan."""
    return frozenset(
        place
        for place, source in enumerate(movement.sources)
        if source and not source.wrapped and (source.scan.number, source.column.id) == (scan.number, column)
    )


def _upwards(movement: Movement, scan: PlanNode) -> Iterator[tuple[PlanNode, PlanNode]]:
    """The nodes above a scan, with the one below each, up to the operator; but for what the operator itself needs."""
    below = scan
    for node in movement.side.entry.way_from(scan):
        if node is not movement.side.needed:
            yield below, node
        below = node


def _keeps(node: PlanNode, below: PlanNode) -> bool:
    """Whether the rows of an input are where they were, under the same keys."""
    if node.operator in _SPREADING:
        return False
    if "Join" not in node.operator or len(node.children) < 2:
        return True
    left = node.children[0] is below
    if node.operator.startswith("Broadcast"):
        return left is ("BuildRight" in node.title)
    return node.join_type.startswith(_KEEPING_LEFT if left else _KEEPING_RIGHT)
