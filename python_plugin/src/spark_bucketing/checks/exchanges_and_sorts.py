"""Examine an Exchange or a Sort below an operator.

The analysis determines the partitioning and the ordering of the operator's input.

The analysis follows the given plan from a scan up to the operator. Alternative plans come only from Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from spark_bucketing.checks.checked_query import BucketedScan, Query
from spark_bucketing.plan.document import Expression, PlanNode, Source
from spark_bucketing.plan.operators import Operator, Side
from spark_bucketing.spec import BucketHash

# What to explain: an Exchange that the operator requires, an Exchange below it, a Sort within partitions, a join
# without keys, or nodes above all operators.
EXCHANGE, EXCHANGE_BELOW, SORT, JOIN, END = "Exchange", "Exchange below", "Sort", "Join", "end"
# Operators that redistribute rows, operators with unordered output, and joins that preserve the partitioning of their
# left or right input.
_SPREADING = (
    "Union", "Expand", "Coalesce", "CartesianProduct", "GlobalLimit", "TakeOrderedAndProject", "CollectLimit",
    "CollectTail", "InMemoryRelation", "InMemoryTableScan",
)  # fmt: skip
_DISORDERING = ("HashAggregate", "ObjectHashAggregate", "ShuffledHashJoin", "Exchange")
_KEEPING_LEFT = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle")
_KEEPING_RIGHT = ("Inner", "Cross", "RightOuter")


@dataclass(frozen=True)
class Partitioning:
    """The partitioning of rows by a hash of some of an operator's keys."""

    kind: BucketHash  # hash of the keys
    places: tuple[frozenset[int], ...]  # for each hashed column, the positions of the keys that are this column
    number: int  # number of partitions
    table: str | None = None  # the bucketed table; None if an Exchange partitioned the rows


@dataclass(frozen=True, eq=False)
class ExchangeOrSort:
    """An Exchange or a Sort, and its position in the plan."""

    query: Query  # the query
    op: Operator  # the operator above it
    place: int  # index of the operator's input
    node: PlanNode  # the Exchange or Sort; for a join without keys, the join itself
    about: str = EXCHANGE  # what to explain
    explains: tuple[int, ...] = ()  # numbers of the nodes that this explanation covers

    @property
    def side(self) -> Side:
        """Return the operator's input that contains this Exchange or Sort."""
        return self.op.sides[self.place]

    @property
    def is_reused(self) -> bool:
        """Return whether Spark runs the Exchange for another operator, and this operator only reuses its output."""
        ways = (node.number for side in self.op.sides for node in side.way)
        return self.node.number not in self.op.own and self.node.number in ways

    @cached_property
    def other(self) -> ExchangeOrSort | None:
        """Return the corresponding Exchange or Sort on the other side of a join."""
        return None if len(self.op.sides) < 2 else ExchangeOrSort(self.query, self.op, 1 - self.place, self.node)

    @cached_property
    def keys(self) -> tuple[Expression, ...]:
        """Return the operator's keys, over the columns of this input."""
        return self.side.keys or ()

    @cached_property
    def sources(self) -> tuple[Source | None, ...]:
        """Return the origin of each key."""
        return tuple(key.source for key in self.keys)

    @cached_property
    def columns(self) -> tuple[Source, ...]:
        """Return the table columns that are keys themselves, or from which Spark computes keys."""
        return tuple(source for key in self.keys for source in key.sources)

    @cached_property
    def table(self) -> BucketedScan | None:
        """Return the bucketed table from which the keys come.

        If no key comes from a bucketed table, return the first bucketed table below the operator.
        """
        scans = (*(source.scan for source in self.columns), *self.side.entry.scans)
        found = [table for scan in scans if (table := self.query.bucketed(scan))]
        matching = [table for table in found if set(table.columns) & self.names_of(table.node)]
        return next(iter(matching or found), None)

    @property
    def read(self) -> BucketedScan | None:
        """Return the table if Spark can read its buckets, or None otherwise."""
        return self.table if self.table and self.table.readable else None

    @cached_property
    def partitionings(self) -> tuple[Partitioning, ...]:
        """Return the partitionings of the input by hashes of the operator's keys, starting with the table's scan."""
        scans = [self.table.node] if self.table else []
        scans += [source.scan for source in self.sources if source]
        found = (self._partitioning(scan) for scan in {scan.number: scan for scan in scans}.values())
        return tuple(dict.fromkeys(one for one in found if one))

    @property
    def lost_at(self) -> PlanNode | None:
        """Return the lowest node above the table's scan that does not preserve the buckets, or None if all nodes do."""
        return self._first_above(("Exchange",))

    @property
    def disordered_at(self) -> PlanNode | None:
        """Return the lowest node above the table's scan that does not preserve the order, or None if all nodes do."""
        return self._first_above(_DISORDERING)

    @cached_property
    def closest(self) -> tuple[Partitioning, Partitioning] | None:
        """Return a partitioning for each side, such that both are by the same join keys.

        The two partitionings may have different hashes and different numbers of partitions.
        """
        if self.other is None:
            return None
        for here, there in itertools.product(self.partitionings, self.other.partitionings):
            if len(here.places) == len(there.places) and all(map(frozenset.__and__, here.places, there.places)):
                return here, there
        return None

    @property
    def key_texts(self) -> tuple[str, ...]:
        """Return the keys in the form that messages show."""
        return tuple(key.readable for key in self.keys)

    def order_columns(self) -> tuple[str, ...] | None:
        """Return the sort columns that the operator requires, or None if files cannot have this order."""
        if self.table is None or not all(order.is_of_files for order in self.op.order):
            return None
        found = [key.source for key in (*self.keys, *(order.value for order in self.op.order))]
        scan = self.table.node.number
        plain = [key.column.lower() for key in found if key and not key.wrapped and key.scan.number == scan]
        return tuple(dict.fromkeys(plain)) if len(plain) == len(found) else None

    def plain_columns(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the table and its key columns if every key is a column of the same table, not an expression."""
        plain = [source for source in self.sources if source and not source.wrapped]
        scans = {source.scan.number: source.scan.table for source in plain}
        table = next(iter(scans.values()), None)
        if len(plain) != len(self.sources) or len(scans) != 1 or table is None or table not in self.query.tables:
            return None
        return table, tuple(source.column.lower() for source in plain)

    def names_of(self, scan: PlanNode) -> set[str]:
        """Return the names of those columns of this scan from which Spark computes the keys."""
        return {source.column.lower() for source in self.columns if source.scan.number == scan.number}

    def _first_above(self, operators: tuple[str, ...]) -> PlanNode | None:
        if self.table is None:
            return None
        above = self._upwards(self.table.node)
        return next((node for below, node in above if node.operator in operators or not _keeps(node, below)), None)

    def _partitioning(self, scan: PlanNode) -> Partitioning | None:
        found = self._of_buckets(scan)
        for below, node in self._upwards(scan):
            if node.operator == "Exchange":
                found = self._of_shuffle(node)
            elif not _keeps(node, below):
                found = None
        return found

    def _of_buckets(self, scan: PlanNode) -> Partitioning | None:
        table = self.query.bucketed(scan)
        if table is None or not table.readable:
            return None
        ids = {column.text.lower(): column.id for column in scan.output}
        places = tuple(self._places(scan, ids.get(name)) for name in table.columns)
        return Partitioning(table.spec.bucket_hash, places, table.spec.num_buckets, table.name) if all(places) else None

    def _of_shuffle(self, exchange: PlanNode) -> Partitioning | None:
        shuffle = exchange.shuffle
        if shuffle is None or shuffle.bucket_hash is None or not shuffle.partitions:
            return None
        keys = [key.source for key in shuffle.keys]
        places = tuple(self._places(key.scan, key.id) if key and not key.wrapped else () for key in keys)
        if not places or not all(places):
            return None
        return Partitioning(shuffle.bucket_hash, tuple(map(frozenset, places)), shuffle.partitions)

    def _places(self, scan: PlanNode, column: int | None) -> frozenset[int]:
        """Return the positions of those operator keys that are this column of a scan."""
        return frozenset(
            place
            for place, source in enumerate(self.sources)
            if source and not source.wrapped and (source.scan.number, source.id) == (scan.number, column)
        )

    def _upwards(self, scan: PlanNode) -> Iterator[tuple[PlanNode, PlanNode]]:
        """Yield the nodes from a scan up to the operator, without its required Exchange, each with the one below it."""
        below = scan
        for node in self.side.entry.way_from(scan):
            if node is not self.side.needed:
                yield below, node
            below = node


def _keeps(node: PlanNode, below: PlanNode) -> bool:
    """Return whether a node preserves the partitioning of its input and the columns that define it."""
    if node.operator in _SPREADING:
        return False
    if node.join is None or len(node.children) < 2:
        return True
    left = node.children[0] is below
    if node.operator.startswith("Broadcast"):
        return left is (node.join.build == "right")
    return node.join_type.startswith(_KEEPING_LEFT if left else _KEEPING_RIGHT)
