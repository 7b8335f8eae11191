"""How rows come to an operator: by the buckets of a table, by an earlier shuffle, or in disarray.

Followed in the plan at hand, from a scan up to the operator. What Spark would do otherwise is asked of Spark (whatif).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_bucketing.eligibility.lineage import source_of
from spark_bucketing.eligibility.scans import is_readable, is_sorted
from spark_bucketing.eligibility.verdicts import needed_exchange
from spark_bucketing.plan import Node

if TYPE_CHECKING:
    from spark_bucketing.eligibility.movements import Movement

_SPREADING = (
    "Union", "Expand", "Coalesce", "CartesianProduct", "GlobalLimit", "TakeOrderedAndProject", "CollectLimit",
    "CollectTail", "InMemoryRelation", "Scan",
)  # fmt: skip
_DISORDERING = (*_SPREADING, "HashAggregate", "ObjectHashAggregate", "ShuffledHashJoin", "Exchange")
_KEEPING_LEFT = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle")
_KEEPING_RIGHT = ("Inner", "Cross", "RightOuter")


@dataclass(frozen=True)
class Arrival:
    """Rows that come by a hash of some keys of an operator.

    Args:
        kind: hive or spark.
        places: for each hashed column the places of the operator's keys where it stands.
        partitions: their number.
        table: whose buckets these are; None where an Exchange made them.
    """

    kind: str
    places: tuple[frozenset[int], ...]
    partitions: int
    table: str | None = None

    def pairs_with(self, other: Arrival) -> bool:
        """Whether both hash the same keys of a join, whatever the number of partitions."""
        return len(self.places) == len(other.places) and all(
            here & there for here, there in zip(self.places, other.places, strict=True)
        )


def divides(left: int, right: int) -> bool:
    """Whether one number of buckets is a multiple of the other."""
    return max(left, right) % min(left, right) == 0


def arrivals(movement: Movement) -> tuple[Arrival, ...]:
    """The hashes by keys of the operator by which an input's rows come, those of its own scan first."""
    scans = [movement.scan, *(source.scan for source in movement.sources if source)]
    found = (_arrival(movement, scan) for scan in {scan.number: scan for scan in scans if scan}.values())
    return tuple(dict.fromkeys(arrival for arrival in found if arrival))


def broken_at(movement: Movement) -> Node | None:
    """The lowest node above the scan where the scan's buckets are lost; None when they reach the operator."""
    if movement.scan is None:
        return None
    above = _upwards(movement, movement.scan)
    return next((node for below, node in above if node.operator == "Exchange" or not _keeps(node, below)), None)


def disordered_at(movement: Movement) -> Node | None:
    """The lowest node above the scan whose rows are in no order; None when the order reaches the operator."""
    if movement.scan is None:
        return None
    above = _upwards(movement, movement.scan)
    return next((node for below, node in above if node.operator in _DISORDERING or not _keeps(node, below)), None)


def reads_in_order(movement: Movement) -> bool:
    """Whether the scan's buckets are read in the order of their sort columns."""
    facts = movement.facts
    return movement.scan is not None and facts is not None and is_sorted(movement.scan, facts, movement.settings)


def _arrival(movement: Movement, scan: Node) -> Arrival | None:
    state = _of_buckets(movement, scan)
    for below, node in _upwards(movement, scan):
        if node.operator == "Exchange":
            state = _of_shuffle(movement, node)
        elif not _keeps(node, below):
            state = None
    return state


def _of_buckets(movement: Movement, scan: Node) -> Arrival | None:
    facts = movement.tables.get(scan.table or "")
    if facts is None or facts.spec is None or not is_readable(scan, facts, movement.settings):
        return None
    spec = movement.spec_read(scan) or facts.spec
    places = tuple(
        frozenset(
            place
            for place, source in enumerate(movement.sources)
            if source
            and not source.wrapped
            and source.scan.number == scan.number
            and source.column.name.lower() == name.lower()
        )
        for name in spec.bucket_columns
    )
    return Arrival(spec.bucket_hash, places, spec.num_buckets, facts.name) if all(places) else None


def _of_shuffle(movement: Movement, exchange: Node) -> Arrival | None:
    shuffle = exchange.shuffle
    if shuffle is None or shuffle.kind not in ("hash", "hive") or not shuffle.partitions:
        return None
    places = []
    for key in shuffle.keys:
        made = source_of(key, exchange.children[0])
        if made is None or made.wrapped:
            return None
        places.append(
            frozenset(
                place
                for place, source in enumerate(movement.sources)
                if source
                and not source.wrapped
                and (source.scan.number, source.column.id) == (made.scan.number, made.column.id)
            )
        )
    kind = "hive" if shuffle.kind == "hive" else "spark"
    return Arrival(kind, tuple(places), shuffle.partitions) if places and all(places) else None


def _upwards(movement: Movement, scan: Node) -> Iterator[tuple[Node, Node]]:
    """The nodes above a scan, with the one below each, up to the operator; but for what the operator itself needs."""
    own = needed_exchange(movement.side)
    below = scan
    for node in movement.query.way_up(scan, movement.side.entry):
        if node is not own:
            yield below, node
        below = node


def _keeps(node: Node, below: Node) -> bool:
    """Whether the rows of an input are where they were, under the same keys."""
    if node.operator in _SPREADING:
        return False
    if "Join" not in node.operator or len(node.children) < 2:
        return True
    left = node.children[0] is below
    if node.operator.startswith("Broadcast"):
        return left is ("BuildRight" in node.title)
    return node.join_type.startswith(_KEEPING_LEFT if left else _KEEPING_RIGHT)
