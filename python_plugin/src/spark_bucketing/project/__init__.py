"""Read dbt projects."""
