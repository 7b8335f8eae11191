"""By what a project's tables are to be bucketed, and how many buckets: asked of Spark's own planner."""
