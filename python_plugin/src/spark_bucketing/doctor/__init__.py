"""Check that a dbt target, its Spark server and the local installation are compatible."""
