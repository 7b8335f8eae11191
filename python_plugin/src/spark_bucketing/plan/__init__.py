"""Spark's physical plan as a tree."""

from spark_bucketing.plan.parse import parse_plan
from spark_bucketing.plan.statistics import Statistics, parse_statistics
from spark_bucketing.plan.tree import Node, Plan, Shuffle

# With these, EXPLAIN prints lists in full; Spark's defaults cut them off.
EXPLAIN_SETTINGS = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxMetadataValueLength": "100000",
    "spark.sql.maxPlanStringLength": "2147483632",
}

__all__ = ["EXPLAIN_SETTINGS", "Node", "Plan", "Shuffle", "Statistics", "parse_plan", "parse_statistics"]
