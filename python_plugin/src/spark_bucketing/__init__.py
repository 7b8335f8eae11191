"""Bucketed tables on Spark: what the disk holds and what the planner makes of it."""
