"""Tools for bucketed tables on Spark: their files, and how Spark's planner uses them."""
