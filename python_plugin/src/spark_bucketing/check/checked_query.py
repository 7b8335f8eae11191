"""A query as it is judged: its plan, and what is known of its session and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from spark_bucketing.check.clauses import Clauses
from spark_bucketing.check.scans import BucketedScan, TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.plan import PhysicalPlan, PlanNode, Statistics
from spark_bucketing.plan.operators import Operator, find_operators


@dataclass(frozen=True)
class Query:
    """A plan with its surroundings."""

    plan: PhysicalPlan  # the plan
    # What is known of the tables that it reads (PhysicalPlan.tables), by schema and name.
    tables: Mapping[str, TableFacts]
    settings: Settings  # of the session
    sql: str = ""  # the query's text
    # Sizes of tables, and of what the query reads of them, where Spark prints them.
    statistics: Statistics = field(default_factory=Statistics)

    @cached_property
    def operators(self) -> Mapping[int, Operator]:
        """Joins, aggregates and windows by the numbers of their nodes, from the top."""
        return {op.node.number: op for root in self.plan.roots for op in find_operators(root)}

    @cached_property
    def clauses(self) -> Clauses:
        """Where the operators come from in the query's text."""
        return Clauses(self.sql, tuple(self.operators.values()))

    def bucketed(self, scan: PlanNode) -> BucketedScan | None:
        """A scan of a table that is bucketed by its metadata; None for any other."""
        facts = self.tables.get(scan.table or "")
        if facts is None or facts.spec is None:
            return None
        return BucketedScan(scan, facts, facts.spec, self.settings, self.statistics.folders)
