"""A dbt project as data."""
