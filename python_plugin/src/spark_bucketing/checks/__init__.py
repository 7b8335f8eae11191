"""Check compiled SQL: plan the queries with Spark, and determine how the plans use buckets."""
