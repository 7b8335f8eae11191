"""Check compiled SQL: plan queries with Spark and judge how the plans use buckets."""
