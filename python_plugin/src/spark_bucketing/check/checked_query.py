"""Define a query to check: its plan, session settings and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from spark_bucketing.check.scans import BucketedScan, TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.plan import PhysicalPlan, PlanNode
from spark_bucketing.plan.operators import Operator, find_operators


@dataclass(frozen=True)
class Query:
    """A plan, with the facts from which `check` derives verdicts and reasons."""

    plan: PhysicalPlan  # Spark's plan of the query
    # Facts about the tables that the query reads (PhysicalPlan.tables), by schema and name.
    tables: Mapping[str, TableFacts]
    settings: Settings  # the session's settings
    sql: str = ""  # the query's text
    functions: tuple[str, ...] = ()  # statements that create the temporary functions that it may call

    @cached_property
    def operators(self) -> Mapping[int, Operator]:
        """Return the joins, aggregates and windows by node number, in order from the top of the plan."""
        return {op.node.number: op for root in self.plan.roots for op in find_operators(root)}

    def bucketed(self, node: PlanNode) -> BucketedScan | None:
        """Return a scan as a bucketed scan if the table is bucketed according to its metadata, or None otherwise."""
        facts = self.tables.get(node.table or "")
        if node.scan is None or facts is None or facts.spec is None:
            return None
        return BucketedScan(node, node.scan, facts, facts.spec, self.settings)
