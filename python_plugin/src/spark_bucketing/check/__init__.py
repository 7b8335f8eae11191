"""Check compiled SQL: plan queries with Spark and determine how the plans use buckets."""
