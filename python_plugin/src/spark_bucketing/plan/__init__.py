"""Spark's physical plan as a tree."""

from spark_bucketing.plan.explain_cost import Statistics, parse_statistics
from spark_bucketing.plan.explain_parser import parse_plan
from spark_bucketing.plan.tree import PhysicalPlan, PlanNode, Shuffle

__all__ = ["PhysicalPlan", "PlanNode", "Shuffle", "Statistics", "parse_plan", "parse_statistics"]
