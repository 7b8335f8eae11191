"""Add bucketing to an existing dbt project: the package, the profile's settings and a first bucketed model."""
