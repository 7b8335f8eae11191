"""Spark's physical plan as a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spark_bucketing.plan.expression_lists import (
    Attribute,
    NamedExpression,
    arguments,
    attribute_of,
    attributes,
    canonical,
    elements,
    named_expressions,
)
from spark_bucketing.spec import HASHES, BucketHash

JOINS = ("SortMergeJoin", "ShuffledHashJoin", "BroadcastHashJoin", "BroadcastNestedLoopJoin", "CartesianProduct")
AGGREGATES = ("HashAggregate", "SortAggregate", "ObjectHashAggregate")
# An operator that reads the output of an exchange elsewhere in the plan again; its child is that exchange.
REUSED = "ReusedExchange"
# Tables in this catalog and in other catalogs may have the same schema and name.
SESSION_CATALOG = "spark_catalog."
_SHUFFLE = re.compile(r"^(?P<how>.*), (?P<origin>[A-Z_]+), \[plan_id=\d+\].*$", re.DOTALL)
# Spark's own hash has no prefix in Spark's plans.
_HASHES: Mapping[str, BucketHash] = {name.replace("spark", "") + "hashpartitioning": name for name in HASHES}
_HASH = re.compile(rf"^(?P<name>{'|'.join(_HASHES)})\((?P<keys>.*), (?P<n>\d+)\)$", re.DOTALL)


@dataclass(frozen=True)
class Shuffle:
    """The partitioning that an Exchange gives its rows."""

    kind: str  # a bucket hash, range, round robin, single, or unknown
    keys: tuple[str, ...] = ()  # canonical expressions of a hash partitioning
    partitions: int | None = None  # number of partitions, if Spark prints it
    requested: bool = False  # whether a hint or REPARTITION requested it, instead of an operator

    @property
    def bucket_hash(self) -> BucketHash | None:
        """Return the hash function of the shuffle, or None if it does not partition rows by a hash."""
        return next((name for name in HASHES if name == self.kind), None)


@dataclass(frozen=True, eq=False)
class PlanNode:
    """An operator of the plan."""

    number: int  # its number in EXPLAIN, unique in the plan
    operator: str  # its name, such as SortMergeJoin
    title: str = ""  # the text after the name in the tree, such as Inner
    # The detail lines by key: the text before the colon, without the number of elements.
    details: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # numbers of elements of the details
    children: tuple[PlanNode, ...] = ()  # its inputs
    # Cache for properties of expressions over the operator's output.
    remembered: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Return the node's children, with the reused Exchange in place of a ReusedExchange."""
        return tuple(
            child.children[0] if child.operator == REUSED and child.children else child for child in self.children
        )

    def walk(self) -> Iterator[PlanNode]:
        """Yield this operator and all operators below it, depth first, and a reused operator only once."""
        seen: set[int] = set()
        waiting: list[PlanNode] = [self]
        while waiting:
            node = waiting.pop()
            if node.number not in seen:
                seen.add(node.number)
                yield node
                waiting += reversed(node.children)

    @cached_property
    def scans(self) -> tuple[PlanNode, ...]:
        """Return the table scans below this node, or the node itself if it is a scan."""
        return tuple(node for node in self.walk() if node.table)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the distinct tables that the scans below this node read."""
        return tuple(dict.fromkeys(node.table for node in self.scans if node.table))

    def way_from(self, scan: PlanNode) -> tuple[PlanNode, ...]:
        """Return the nodes from a scan up to this one, or nothing if the scan is not below this node."""
        above: dict[int, PlanNode | None] = {}
        # Do not recurse, because plans may be deep and have reused parts.
        waiting: list[tuple[PlanNode, PlanNode | None]] = [(self, None)]
        while waiting and scan.number not in above:
            node, parent = waiting.pop()
            if node.number not in above:
                above[node.number] = parent
                waiting += ((child, node) for child in reversed(node.children))
        way, found = [], above.get(scan.number)
        while found:
            way.append(found)
            found = above[found.number]
        return tuple(way)

    @cached_property
    def table(self) -> str | None:
        """Return the table that a scan reads, or None for other operators.

        The name does not include Spark's own catalog.
        """
        if self.operator not in ("Scan", "BatchScan") or self.title.startswith("In-memory"):
            return None
        kind, _, name = self.title.partition(" ")
        if self.operator == "BatchScan":
            # A title with a space is the format and path of files that the query reads without a table.
            name = "" if name else kind
        elif not kind.isidentifier():
            # A data source relation, such as JDBCRelation(...) [numPartitions=1], precedes its table.
            name = name.rpartition(" ")[2]
        return name.removeprefix(SESSION_CATALOG) if re.fullmatch(r"[^\[\]()]+\.[^\[\]()]+", name) else None

    @cached_property
    def shuffle(self) -> Shuffle | None:
        """Return how an Exchange partitions its rows, or None for other operators."""
        return _shuffle(self.details.get("Arguments", "")) if self.operator == "Exchange" else None

    @property
    def is_global_sort(self) -> bool:
        """Return whether this is a Sort of all rows, such as the Sort for an ORDER BY."""
        return self.operator == "Sort" and ", true, " in self.details.get("Arguments", "")

    def expressions(self, key: str) -> tuple[str, ...] | None:
        """Parse a list in the node's details, such as `Left keys`, or return None if this fails."""
        return elements(self.details.get(key) or "[]", self.counts.get(key, 0 if not self.details.get(key) else None))

    @cached_property
    def results(self) -> tuple[NamedExpression, ...] | None:
        """Return the columns that this operator outputs, with their expressions, or None if they cannot be parsed."""
        return named_expressions(self.expressions("Results" if self.operator in AGGREGATES else "Output"))

    @cached_property
    def output(self) -> tuple[Attribute, ...] | None:
        """Return the columns that this operator outputs, or None if they cannot be parsed."""
        if self.operator in AGGREGATES or self.operator == "Project":
            return None if self.results is None else tuple(item.attribute for item in self.results)
        if "Output" in self.details:
            return attributes(self.details["Output"], self.counts.get("Output"))
        return self._passed()

    def _passed(self) -> tuple[Attribute, ...] | None:
        if self.operator in JOINS:
            return self._joined()
        if self.operator == "Expand":
            parts = arguments(self.details.get("Arguments", ""))
            return attributes(parts[-1], None)
        if not self.children:
            return None
        below, parts = self.children[0].output, arguments(self.details.get("Arguments", ""))
        if self.operator == "Generate":
            kept, made = (attributes(part, None) for part in (parts[-3], parts[-1]))
            return None if kept is None or made is None else (*kept, *made)
        if self.operator == "Window":
            added = named_expressions(elements(parts[0], None))
            return None if below is None or added is None else (*below, *(item.attribute for item in added))
        return below

    def _joined(self) -> tuple[Attribute, ...] | None:
        left, right = (child.output for child in self.children)
        if left is None or re.search(r"Left(Semi|Anti)", self.join_type):
            return left
        if existence := re.search(r"ExistenceJoin\((.+#\d+)\)", self.join_type):
            found = attribute_of(existence[1])
            return (*left, found) if found else None
        return None if right is None else (*left, *right)

    @property
    def join_type(self) -> str:
        """Return the join type, such as Inner or LeftOuter."""
        return self.details.get("Join type") or self.title


@dataclass(frozen=True, order=True)
class PlanCounts:
    """The numbers of Exchanges and Sorts in a plan. A comparison compares the Exchanges first, and then the Sorts."""

    exchanges: int = 0
    sorts: int = 0

    def __add__(self, other: PlanCounts) -> PlanCounts:
        return PlanCounts(self.exchanges + other.exchanges, self.sorts + other.sorts)


@dataclass(frozen=True)
class PhysicalPlan:
    """The plan of a query: its tree, the trees of its subqueries, and all operators, with children before parents."""

    roots: tuple[PlanNode, ...]  # the query's own tree, and then the trees of its subqueries
    nodes: tuple[PlanNode, ...]

    def walk(self) -> Iterator[PlanNode]:
        """Yield all operators of the query and its subqueries."""
        for root in self.roots:
            yield from root.walk()

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the distinct tables that the query reads, as `schema.table`, in the order of the plan."""
        return tuple(dict.fromkeys(table for root in self.roots for table in root.tables))

    @property
    def counts(self) -> PlanCounts:
        """Return the numbers of Exchanges and Sorts in the plan."""
        operators = [node.operator for node in self.walk()]
        return PlanCounts(operators.count("Exchange"), operators.count("Sort"))


def _shuffle(text: str) -> Shuffle:
    found = _SHUFFLE.match(text)
    if found is None:
        return Shuffle("unknown")
    how, requested = found["how"], found["origin"] != "ENSURE_REQUIREMENTS"
    if hashed := _HASH.match(how):
        keys = elements(f"[{hashed['keys']}]", None) or ()
        return Shuffle(_HASHES[hashed["name"]], tuple(canonical(key) for key in keys), int(hashed["n"]), requested)
    for start, kind in (("rangepart", "range"), ("RoundRobin", "round robin"), ("SinglePartition", "single")):
        if how.startswith(start):
            return Shuffle(kind, requested=requested)
    return Shuffle("unknown", requested=requested)
