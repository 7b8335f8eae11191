"""What a reason looks at: an Exchange or a Sort on the way from an input to an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from spark_bucketing.eligibility.arrivals import Arrival, arrivals
from spark_bucketing.eligibility.changes import Change
from spark_bucketing.eligibility.known import GATHERING
from spark_bucketing.eligibility.lineage import Source, describe, source_of, sources_of
from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.eligibility.operators import Operator, Side, find_operators
from spark_bucketing.eligibility.partitions import spec_of_selected
from spark_bucketing.eligibility.scans import ScanNote, is_readable, note_of
from spark_bucketing.eligibility.settings import ALL_KEYS, Settings
from spark_bucketing.plan import Node, Plan
from spark_bucketing.plan.folders import Folders
from spark_bucketing.plan.lists import canonical
from spark_bucketing.spec import BucketSpec

# The place of what stands above an operator, instead of below one of its inputs.
ABOVE = -1
_ASCENDING = " ASC NULLS FIRST"


@dataclass(frozen=True)
class Query:
    """A plan, and what is known of its session and tables.

    Args:
        plan: the plan.
        settings: of the session.
        tables: by name.
        folders: those of the partitions that scans select, where Spark tells them.
    """

    plan: Plan
    settings: Settings
    tables: Mapping[str, TableFacts]
    folders: Folders = field(default_factory=dict)

    @cached_property
    def operators(self) -> Mapping[int, Operator]:
        """Joins, aggregates and windows by the numbers of their nodes, from the top."""
        return {op.node.number: op for root in self.plan.roots for op in find_operators(root)}

    @cached_property
    def owners(self) -> Mapping[int, Operator]:
        """The operator that an Exchange or Sort leads to, by its number."""
        return {
            node.number: op
            for op in reversed(list(self.operators.values()))
            for side in op.sides
            for node in (*side.exchanges, *side.sorts)
        }

    @cached_property
    def parents(self) -> Mapping[int, tuple[Node, ...]]:
        """What reads a node: several nodes, where an Exchange is reused."""
        found: dict[int, tuple[Node, ...]] = {}
        for node in self.plan.walk():
            for child in node.children:
                found[child.number] = (*found.get(child.number, ()), node)
        return found

    def way_up(self, scan: Node, entry: Node) -> list[Node]:
        """The nodes above a scan up to an operator's input; none when the scan is not below it."""
        reached: dict[int, Node | None] = {scan.number: None}
        waiting = [scan]
        while waiting:
            node = waiting.pop()
            if node.number == entry.number:
                return list(self._back(node, reached))[::-1][1:]
            for parent in self.parents.get(node.number, ()):
                if parent.number not in reached:
                    reached[parent.number] = node
                    waiting.append(parent)
        return []

    @staticmethod
    def _back(node: Node | None, reached: Mapping[int, Node | None]) -> Iterator[Node]:
        while node is not None:
            yield node
            node = reached[node.number]


@dataclass(frozen=True)
class Explanation:
    """A reason that applies: what was found, and what could be changed, the cheapest first."""

    message: str
    tables: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, eq=False)
class Movement:
    """An Exchange or a Sort, and where it is.

    Args:
        query: what it is a part of.
        op: the operator that it leads to.
        place: which of the operator's inputs it belongs to.
        node: the Exchange or Sort; for a join without keys the join itself.
        needed: the operator itself needs it, rather than something on the way.
    """

    query: Query
    op: Operator
    place: int
    node: Node
    needed: bool = True

    @property
    def settings(self) -> Settings:
        """Of the session."""
        return self.query.settings

    @property
    def tables(self) -> Mapping[str, TableFacts]:
        """What is known of the query's tables."""
        return self.query.tables

    @property
    def about(self) -> str:
        """What has to be explained: an Exchange, a Sort, or a Join without keys."""
        if self.node.operator in ("Exchange", "ReusedExchange", *GATHERING):
            return "Exchange"
        return "Sort" if self.node.operator == "Sort" else "Join"

    @property
    def side(self) -> Side:
        """The input."""
        return self.op.sides[self.place]

    @cached_property
    def other(self) -> Movement | None:
        """The same for the other input of a join."""
        if len(self.op.sides) < 2:
            return None
        return Movement(self.query, self.op, 1 - self.place, self.node)

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
    def scan(self) -> Node | None:
        """The scan of a bucketed table that the keys come from, or else the first one below."""
        own = [source.scan for source in self.columns if self.spec_of(source.scan.table)]
        for scan in own:
            if set(self._bucket_columns(scan)) & self._key_columns(scan):
                return scan
        return next(iter(own), next((scan for scan in self.side.scans if self.spec_of(scan.table)), None))

    @property
    def facts(self) -> TableFacts | None:
        """What is known of that scan's table."""
        return self.tables.get(self.scan.table or "") if self.scan else None

    @property
    def table(self) -> str:
        """That table's name."""
        return self.facts.name if self.facts else ""

    @property
    def spec(self) -> BucketSpec | None:
        """How that table is bucketed by its metadata."""
        return self.facts.spec if self.facts else None

    def spec_of(self, table: str | None) -> BucketSpec | None:
        """How a table is bucketed by its metadata."""
        facts = self.tables.get(table or "")
        return facts.spec if facts else None

    def spec_read(self, scan: Node) -> BucketSpec | None:
        """The spec by which the partitions that a scan selects are read together."""
        facts = self.tables.get(scan.table or "")
        return spec_of_selected(scan, facts, self.query.folders) if facts else None

    @cached_property
    def readable(self) -> bool:
        """Whether that table can be read as bucketed here."""
        return self.scan is not None and self.facts is not None and is_readable(self.scan, self.facts, self.settings)

    @property
    def note(self) -> ScanNote:
        """What EXPLAIN says of that scan's buckets."""
        return note_of(self.scan) if self.scan else ScanNote()

    @property
    def by_extension(self) -> bool:
        """Whether the extension reads that table, rather than stock Spark."""
        return self.settings.extension and (self.note.by_extension or not self.note.bucketed)

    @cached_property
    def arrivals(self) -> tuple[Arrival, ...]:
        """Hashes of the input whose columns are all among the keys."""
        return arrivals(self)

    @property
    def usable(self) -> bool:
        """Whether a join by the keys can use one of them."""
        every = frozenset(range(len(self.keys)))
        return any(
            arrival.kind == "hive" or not self.settings.on(ALL_KEYS) or frozenset[int]().union(*arrival.places) == every
            for arrival in self.arrivals
        )

    @cached_property
    def closest(self) -> tuple[Arrival, Arrival] | None:
        """A hash of either side by the same keys of the join, whatever their kinds and numbers; None without one."""
        if self.other is None:
            return None
        pairs = ((here, there) for here in self.arrivals for there in self.other.arrivals)
        return next(((here, there) for here, there in pairs if here.pairs_with(there)), None)

    @cached_property
    def uncovered(self) -> tuple[str, ...]:
        """Bucket columns of the table that are not among the keys, not even in an expression."""
        if self.scan is None:
            return ()
        known = self._key_columns(self.scan)
        return tuple(name for name in self._bucket_columns(self.scan) if name not in known)

    @property
    def key_texts(self) -> tuple[str, ...]:
        """The keys for people."""
        pairs = zip(self.keys, self.side.texts, strict=False)
        return tuple(describe(key, text.rpartition(" AS ")[0] or text, self.side.entry) for key, text in pairs)

    def order_columns(self) -> tuple[str, ...] | None:
        """The table's columns by which the operator wants its rows in order; None when no file can be in that order."""
        orders = [canonical_order(text) for text in self.op.order]
        if not all(order.endswith(_ASCENDING) for order in orders):
            return None
        found = []
        for key in (*dict.fromkeys(self.keys), *(order.removesuffix(_ASCENDING) for order in orders)):
            source = source_of(key, self.side.entry)
            if source is None or source.wrapped or self.scan is None or source.scan.number != self.scan.number:
                return None
            found.append(source.column.name.lower())
        return tuple(dict.fromkeys(found))

    def plain_columns(self) -> tuple[str, tuple[str, ...]] | None:
        """The table and its columns that the keys are, where all are plain columns of one table."""
        if not self.sources or any(source is None or source.wrapped for source in self.sources):
            return None
        scans = {source.scan.number: source.scan for source in self.sources if source}
        table = next(iter(scans.values())).table
        if len(scans) != 1 or table is None or table not in self.tables:
            return None
        return table, tuple(source.column.name.lower() for source in self.sources if source)

    def _bucket_columns(self, scan: Node) -> tuple[str, ...]:
        spec = self.spec_of(scan.table)
        return tuple(name.lower() for name in spec.bucket_columns) if spec else ()

    def _key_columns(self, scan: Node) -> set[str]:
        return {s.column.name.lower() for s in self.columns if s.scan.number == scan.number}


class Reason(ABC):
    """Why an Exchange or a Sort stands in a plan.

    Class variables:
        slug: its name, as users write it to allow it.
        summary: one line for lists.
        about: what it explains: Exchanges, Sorts, or joins that have no keys.
    """

    slug: ClassVar[str]
    summary: ClassVar[str]
    about: ClassVar[tuple[str, ...]] = ("Exchange",)

    @abstractmethod
    def explain(self, movement: Movement) -> Explanation | None:
        """Say why, where this is the reason; None where it is not."""


def canonical_order(text: str) -> str:
    """An element of ORDER BY with attributes named by their ids."""
    for ending in (_ASCENDING, " DESC NULLS LAST", " ASC NULLS LAST", " DESC NULLS FIRST"):
        if text.endswith(ending):
            return canonical(text.removesuffix(ending)) + ending
    return canonical(text)
