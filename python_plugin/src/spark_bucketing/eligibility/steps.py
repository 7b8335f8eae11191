"""What a reason looks at: one Exchange or Sort on the way from an input to an operator, and what could be changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from spark_bucketing.eligibility.joining import Usable, usable, within
from spark_bucketing.eligibility.known import GATHERING
from spark_bucketing.eligibility.layout import Layout, ascending
from spark_bucketing.eligibility.lineage import Source, describe, source_of, sources_of
from spark_bucketing.eligibility.model import FixKind, TableFacts
from spark_bucketing.eligibility.operators import Operator, Side
from spark_bucketing.eligibility.planner import Planner, canonical_order
from spark_bucketing.eligibility.world import World, bucket_read
from spark_bucketing.plan import Node
from spark_bucketing.spec import BucketSpec

# The place of what stands above an operator, instead of below one of its inputs.
ABOVE = -1


@dataclass(frozen=True)
class Change:
    """Something that could be done about it; whether it helps is found out by planning anew.

    Args:
        kind: what is changed.
        text: for the user: what to write.
        world: settings and tables after the change.
        fields: further fields of the Fix.
    """

    kind: FixKind
    text: str
    world: World
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Explanation:
    """A reason that applies: what was found, and what could be changed, the cheapest first."""

    message: str
    tables: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, eq=False)
class Step:
    """An Exchange or a Sort, and where it is.

    Args:
        planner: the model of the plan as it is.
        op: the operator that it leads to.
        place: which of the operator's inputs it belongs to.
        node: the Exchange or Sort; for a join without keys the join itself.
        needed: the operator itself needs it, rather than something on the way.
    """

    planner: Planner
    op: Operator
    place: int
    node: Node
    needed: bool = True

    @property
    def world(self) -> World:
        """Settings and tables as they are."""
        return self.planner.world

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
    def other(self) -> Step | None:
        """The same for the other input of a join."""
        if len(self.op.sides) < 2:
            return None
        return Step(self.planner, self.op, 1 - self.place, self.node)

    @cached_property
    def layout(self) -> Layout:
        """How the input's rows lie before the operator moves or sorts them."""
        return self.planner.inputs.get((self.op.node.number, self.place), Layout())

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
        own = [source.scan for source in self.columns if self.world.spec(source.scan.table)]
        for scan in own:
            if set(self._bucket_columns(scan)) & self._key_columns(scan):
                return scan
        return next(iter(own), next((scan for scan in self.side.scans if self.world.spec(scan.table)), None))

    @property
    def facts(self) -> TableFacts | None:
        """What is known of that scan's table."""
        return self.world.tables.get(self.scan.table or "") if self.scan else None

    @property
    def table(self) -> str:
        """That table's name."""
        return self.facts.name if self.facts else ""

    @property
    def spec(self) -> BucketSpec | None:
        """How that table is bucketed by its metadata."""
        return self.facts.spec if self.facts else None

    @cached_property
    def readable(self) -> bool:
        """Whether that table can be read as bucketed here."""
        return self.scan is not None and bucket_read(self.scan, self.world) is not None

    @cached_property
    def within(self) -> list[Usable]:
        """Hashes of the input whose columns are all among the keys."""
        return within(self.layout, self.keys)

    @cached_property
    def usable(self) -> list[Usable]:
        """Hashes of the input that a join by the keys can use."""
        return usable(self.layout, self.keys, self.world)

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

    @cached_property
    def wanted_order(self) -> tuple[str, ...]:
        """The order in which the operator wants the input's rows."""
        keys = [ascending(key) for key in dict.fromkeys(self.keys)]
        return (*keys, *(canonical_order(text) for text in self.op.order))

    def order_columns(self) -> tuple[str, ...] | None:
        """The table's columns by which the operator wants its rows in order; None when no file can be in that order."""
        found = []
        for key in self.wanted_order:
            if not key.endswith(ascending("")):
                return None
            source = source_of(key.removesuffix(ascending("")), self.side.entry)
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
        if len(scans) != 1 or table is None or table not in self.world.tables:
            return None
        return table, tuple(source.column.name.lower() for source in self.sources if source)

    def _bucket_columns(self, scan: Node) -> tuple[str, ...]:
        spec = self.world.spec(scan.table)
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
    def explain(self, step: Step) -> Explanation | None:
        """Say why, where this is the reason; None where it is not."""
