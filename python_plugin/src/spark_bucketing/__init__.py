"""Tools that inspect bucketed Spark tables: their files, and how Spark's planner uses their buckets."""
