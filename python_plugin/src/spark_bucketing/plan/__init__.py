"""Spark's physical plan, as the session extension describes it."""

from spark_bucketing.plan.document import PhysicalPlan, PlanCounts, PlanNode, Shuffle

__all__ = ["PhysicalPlan", "PlanCounts", "PlanNode", "Shuffle"]
