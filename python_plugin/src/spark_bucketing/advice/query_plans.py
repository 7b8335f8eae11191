"""Plan the queries of a project with the current bucket specs, without buckets, and with proposed specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.advice.advice import QueryProof
from spark_bucketing.advice.requirements import CastKey, RequiredLayout, cast_keys, planned, required_layouts
from spark_bucketing.checks.checker import TimeLimit, selectable
from spark_bucketing.checks.stub_tables import StubTables
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan.document import PhysicalPlan, TableFacts
from spark_bucketing.plan.planner import StubPlanner
from spark_bucketing.project.manifest import Manifest, Node
from spark_bucketing.spec import BucketSpec

Specs = Mapping[str, BucketSpec]
"""The new bucket specs, by table name."""


@dataclass
class Plans:
    """The queries of one project; each query is planned as few times as possible."""

    planner: StubPlanner
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
