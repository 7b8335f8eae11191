"""Plan the queries of a project with the current bucket specs, without buckets, and with proposed specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.advice.advice import QueryProof
from spark_bucketing.advice.requirements import CastKey, PlanSizes, RequiredLayout, cast_keys, planned, required_layouts
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
    before: dict[str, PlanSizes] = field(default_factory=dict)  # by unique id
    errors: dict[str, str] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)  # unique ids of the readers of each table
    tables: dict[str, list[str]] = field(default_factory=dict)  # names of the tables that each query reads
    required: list[RequiredLayout] = field(default_factory=list)  # of all queries, parents first
    cast_keys: dict[CastKey, dict[str, None]] = field(default_factory=dict)  # with the operators that cast them
    _known: dict[tuple[str, frozenset[tuple[str, BucketSpec]]], PlanSizes | str] = field(default_factory=dict)

    def plan_all(self, on_progress: Callable[[str], None]) -> None:
        """Plan every query with the current specs, after the stub tables that it reads, which may include its own."""
        queries = selectable(self.manifest)
        names, done = set(queries), 0
        for name in self.manifest.order:
            node = self.manifest.nodes[name]
            if node.resource_type == "test":
                continue
            reads_itself = node.relation is not None and node.relation in (node.sql or "")
            if reads_itself and self.limit.is_free():
                self.stub.create(node)
            if name in names:
                done += 1
                on_progress(f"planning {done:,} of {len(queries):,} models ({node.name})")
                self._plan(node)
            if not reads_itself and self.limit.is_free():
                self.stub.create(node)

    def _plan(self, node: Node) -> None:
        if node.language != "sql" or node.sql is None:
            self.errors[node.unique_id] = "The model has no compiled SQL to plan."
            return
        try:
            plan = self._plan_of(node, ())
            self.before[node.unique_id] = planned(plan)
            tables = [table for name in plan.tables if (table := self.planner.table(name))]
            for table in tables:
                self.readers.setdefault(table.name.lower(), []).append(node.unique_id)
                self.tables.setdefault(node.unique_id, []).append(table.name.lower())
            # Existing buckets already meet some requirements, so only a plan over unbucketed tables shows them.
            if any(table.spec for table in tables):
                plan = self._plan_of(node, [replace(table, spec=None) for table in tables])
            self.required += required_layouts(node.name, plan, self.runs_of(node))
            for key, operator in cast_keys(node.name, plan):
                self.cast_keys.setdefault(key, {})[operator] = None
        except BucketingError as error:
            self.errors[node.unique_id] = self.stub.why(str(error))
        # A query whose plan cannot be analyzed must not affect the others.
        except Exception as error:
            self.errors[node.unique_id] = f"{type(error).__name__}: {error}; this is a bug in spark-bucketing"

    def proof(self, specs: Specs) -> tuple[QueryProof, ...]:
        """Plan the queries again that read a table with a changed spec, and return the plans of all queries."""
        changed = {
            name: replace(table, spec=spec) for name, spec in specs.items() if (table := self.planner.table(name))
        }
        touched: dict[str, list[TableFacts]] = {}
        for name, table in changed.items():
            for reader in self.readers.get(name, ()):
                touched.setdefault(reader, []).append(table)
        return tuple(
            self._proof(self.manifest.nodes[name], touched.get(name, ())) for name in selectable(self.manifest)
        )

    def _proof(self, node: Node, tables: Sequence[TableFacts]) -> QueryProof:
        before = self.before.get(node.unique_id)
        after: PlanSizes | str | None = before
        if before and tables:
            key = (node.unique_id, frozenset((table.name, table.spec) for table in tables if table.spec))
            if key not in self._known:
                try:
                    self._known[key] = planned(self._plan_of(node, tables))
                except BucketingError as error:
                    self._known[key] = str(error)
            after = self._known[key]
        why, found = (after, None) if isinstance(after, str) else (self.errors.get(node.unique_id, ""), after)
        parents = tuple(name for name in node.depends_on if name in self.manifest.nodes)
        read = tuple(self.tables.get(node.unique_id, ()))
        return QueryProof(node.name, node.unique_id, self.runs_of(node), before, found, why, parents, read)

    def _plan_of(self, node: Node, tables: Sequence[TableFacts]) -> PhysicalPlan:
        sql = self.stub.rewritten(node.sql or "")
        return self.limit.run(lambda _: self.planner.plan(sql, tables))
