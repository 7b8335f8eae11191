"""Plan the queries of a project with its bucket specs, without buckets and with proposed specs.

Also extract what the queries require: the keys that Spark shuffles and sorts tables by, and the tables' sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from spark_bucketing.advice.advice import PlanSizes, QueryProof
from spark_bucketing.checks.checker import TimeLimit, selectable
from spark_bucketing.checks.stub_tables import StubTables
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan.document import PhysicalPlan, PlanNode, TableFacts
from spark_bucketing.plan.operators import Operator, Side, TableInput, find_operators, table_inputs
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.manifest import Manifest, Node
from spark_bucketing.spec import BucketSpec

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


def planned(plan: PhysicalPlan) -> PlanSizes:
    """Return how many bytes a plan shuffles and sorts."""
    sizes = _sizes(plan)
    shuffled, ordered = (
        round(sum(sizes[node.number] for node in plan.walk() if node.kind == kind)) for kind in ("exchange", "sort")
    )
    return PlanSizes(plan.counts.exchanges, plan.counts.sorts, shuffled, ordered)


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


Specs = Mapping[str, BucketSpec]
"""The new bucket specs, by table name."""


@dataclass
class Plans:
    """The queries of one project; each query is planned as few times as possible."""

    planner: Planner
    stub: StubTables
    manifest: Manifest
    runs_of: Callable[[Node], float]
    limit: TimeLimit
    queries: dict[str, QueryProof] = field(default_factory=dict)  # with the current specs, by unique id, parents first
    required: list[RequiredLayout] = field(default_factory=list)  # of all queries
    cast_keys: dict[CastKey, dict[str, None]] = field(default_factory=dict)  # with the operators that cast them
    _known: dict[tuple[str, frozenset[tuple[str, BucketSpec]]], QueryProof] = field(default_factory=dict)

    def plan_all(self, on_progress: Callable[[str], None]) -> None:
        """Plan every query with the current specs, after the stub tables that it reads, which may include its own."""
        names = set(selectable(self.manifest))
        for name in self.manifest.order:
            node = self.manifest.nodes[name]
            if node.resource_type == "test":
                continue
            reads_itself = node.relation is not None and node.relation in (node.sql or "")
            if reads_itself and self.limit.is_free():
                self.stub.create(node)
            if name in names:
                on_progress(f"planning {len(self.queries) + 1:,} of {len(names):,} models ({node.name})")
                self.queries[name] = self._planned(node)
            if not reads_itself and self.limit.is_free():
                self.stub.create(node)

    def _planned(self, node: Node) -> QueryProof:
        parents = tuple(name for name in node.depends_on if name in self.manifest.nodes)
        query = QueryProof(node.name, node.unique_id, self.runs_of(node), None, None, parents=parents)
        if node.language != "sql" or node.sql is None:
            return replace(query, error="The model has no compiled SQL to plan.")
        try:
            plan = self._plan_of(node, ())
            sizes = planned(plan)
            tables = [table for name in plan.tables if (table := self.planner.table(name))]
            query = replace(query, before=sizes, after=sizes, tables=tuple(table.name.lower() for table in tables))
            # Existing buckets already meet some requirements, so only a plan over unbucketed tables shows them.
            if any(table.spec for table in tables):
                plan = self._plan_of(node, [replace(table, spec=None) for table in tables])
            self.required += required_layouts(node.name, plan, self.runs_of(node))
            for key, operator in cast_keys(node.name, plan):
                self.cast_keys.setdefault(key, {})[operator] = None
        except BucketingError as error:
            return replace(query, error=self.stub.why(str(error)))
        # A query whose plan cannot be analyzed must not affect the others.
        except Exception as error:
            return replace(query, error=f"{type(error).__name__}: {error}; this is a bug in spark-bucketing")
        return query

    def proof(self, specs: Specs) -> tuple[QueryProof, ...]:
        """Plan the queries again that read a table with a changed spec, and return the plans of all queries."""
        return tuple(self._with(query, specs) for query in self.queries.values())

    def _with(self, query: QueryProof, specs: Specs) -> QueryProof:
        found = [table for name in query.tables if name in specs and (table := self.planner.table(name))]
        if not found:
            return query
        tables = [replace(table, spec=specs[table.name.lower()]) for table in found]
        key = (query.unique_id, frozenset((table.name, table.spec) for table in tables if table.spec))
        if key not in self._known:
            try:
                after = planned(self._plan_of(self.manifest.nodes[query.unique_id], tables))
                self._known[key] = replace(query, after=after)
            except BucketingError as error:
                self._known[key] = replace(query, after=None, error=str(error))
        return self._known[key]

    def _plan_of(self, node: Node, tables: Sequence[TableFacts]) -> PhysicalPlan:
        sql = self.stub.rewritten(node.sql or "")
        return self.limit.run(lambda _: self.planner.plan(sql, tables))
