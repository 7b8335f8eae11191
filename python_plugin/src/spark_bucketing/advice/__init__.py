"""Propose bucket columns and numbers of buckets for a project's tables, based on plans from Spark's own planner."""
