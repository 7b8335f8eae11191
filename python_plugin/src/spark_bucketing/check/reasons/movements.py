"""What a reason looks at: an Exchange or a Sort on the way from an input to an operator."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

from spark_bucketing.check.query import Query
from spark_bucketing.check.reasons.partitioning import Partitioning, partitionings
from spark_bucketing.check.scans import BucketedScan
from spark_bucketing.plan import PlanNode
from spark_bucketing.plan.lineage import Source, key_text, source_of, sources_of
from spark_bucketing.plan.lists import canonical
from spark_bucketing.plan.operators import Operator, Side

# What has to be explained: an Exchange that the operator needs, or one of something below it; a Sort within partitions;
# a join that has no keys; and what stands above all operators.
EXCHANGE, EXCHANGE_BELOW, SORT, JOIN, END = "Exchange", "Exchange below", "Sort", "Join", "end"
_ASCENDING = " ASC NULLS FIRST"
_ORDERS = (_ASCENDING, " DESC NULLS LAST", " ASC NULLS LAST", " DESC NULLS FIRST")


@dataclass(frozen=True, eq=False)
class Movement:
    """An Exchange or a Sort, and where it is."""

    query: Query  # what it is a part of
    op: Operator  # the operator that it leads to
    place: int  # which of the operator's inputs it belongs to
    node: PlanNode  # the Exchange or Sort; for a join without keys the join itself
    about: str = EXCHANGE  # what has to be explained
    explains: tuple[int, ...] = ()  # the numbers of the nodes that are explained with it

    @property
    def side(self) -> Side:
        """The input."""
        return self.op.sides[self.place]

    @cached_property
    def other(self) -> Movement | None:
        """The same for the other input of a join."""
        return None if len(self.op.sides) < 2 else Movement(self.query, self.op, 1 - self.place, self.node)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The operator's keys, as canonical expressions over the input."""
        return self.side.keys or ()

    @cached_property
    def sources(self) -> tuple[Source | None, ...]:
        """Where each key comes from."""
        # The lowest part of an aggregate computes the keys that are expressions.
        return tuple(source_of(key, self.side.entry) for key in self.keys)

    @cached_property
    def columns(self) -> tuple[Source, ...]:
        """Columns of tables from which the keys are computed, or which they are."""
        return tuple(source for key in self.keys for source in sources_of(key, self.side.entry))

    @cached_property
    def table(self) -> BucketedScan | None:
        """The bucketed table that the keys come from, or else the first one below."""
        scans = (*(source.scan for source in self.columns), *self.side.entry.scans)
        found = [table for scan in scans if (table := self.query.bucketed(scan))]
        return next((table for table in found if set(table.columns) & self._names_of(table.node)), None) or next(
            iter(found), None
        )

    @property
    def read(self) -> BucketedScan | None:
        """The same, where it can be read as bucketed here."""
        return self.table if self.table and self.table.readable else None

    @cached_property
    def partitionings(self) -> tuple[Partitioning, ...]:
        """Hashes of the input whose columns are all among the keys."""
        return partitionings(self)

    @cached_property
    def closest(self) -> tuple[Partitioning, Partitioning] | None:
        """A hash of either side by the same keys of the join, whatever their kinds and numbers; None without one."""
        if self.other is None:
            return None
        for here, there in itertools.product(self.partitionings, self.other.partitionings):
            if len(here.places) == len(there.places) and all(map(frozenset.__and__, here.places, there.places)):
                return here, there
        return None

    @cached_property
    def uncovered(self) -> tuple[str, ...]:
        """Bucket columns of the table that are not among the keys, not even in an expression."""
        if self.table is None:
            return ()
        known = self._names_of(self.table.node)
        return tuple(name for name in self.table.columns if name not in known)

    @property
    def key_texts(self) -> tuple[str, ...]:
        """The keys for people."""
        pairs = zip(self.keys, self.side.texts, strict=False)
        return tuple(key_text(key, text.rpartition(" AS ")[0] or text, self.side.entry) for key, text in pairs)

    def order_columns(self) -> tuple[str, ...] | None:
        """The table's columns by which the operator wants its rows in order; None when no file can be in that order."""
        orders = [_canonical_order(text) for text in self.op.order]
        if self.table is None or not all(order.endswith(_ASCENDING) for order in orders):
            return None
        keys = dict.fromkeys((*self.keys, *(order.removesuffix(_ASCENDING) for order in orders)))
        found = [source_of(key, self.side.entry) for key in keys]
        scan = self.table.node.number
        plain = [key.column.name.lower() for key in found if key and not key.wrapped and key.scan.number == scan]
        return tuple(dict.fromkeys(plain)) if len(plain) == len(found) else None

    def plain_columns(self) -> tuple[str, tuple[str, ...]] | None:
        """The table and its columns that the keys are, where all are plain columns of one table."""
        plain = [source for source in self.sources if source and not source.wrapped]
        scans = {source.scan.number: source.scan.table for source in plain}
        table = next(iter(scans.values()), None)
        if len(plain) != len(self.sources) or len(scans) != 1 or table is None or table not in self.query.tables:
            return None
        return table, tuple(source.column.name.lower() for source in plain)

    def _names_of(self, scan: PlanNode) -> set[str]:
        """Columns of a scan from which the keys are computed."""
        return {source.column.name.lower() for source in self.columns if source.scan.number == scan.number}


def _canonical_order(text: str) -> str:
    """An element of ORDER BY with attributes named by their ids."""
    ending = next((ending for ending in _ORDERS if text.endswith(ending)), "")
    return canonical(text.removesuffix(ending)) + ending
