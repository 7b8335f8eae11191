"""Spark's physical plan as a tree."""

from spark_bucketing.plan.parse import parse_plan
from spark_bucketing.plan.statistics import Statistics, parse_statistics
from spark_bucketing.plan.tree import Node, Plan, Shuffle

__all__ = ["Node", "Plan", "Shuffle", "Statistics", "parse_plan", "parse_statistics"]
