"""Spark's physical plan, as the session extension describes it."""
