"""Recommend bucket columns and bucket counts for a project's tables, based on plans from Spark's own planner."""
