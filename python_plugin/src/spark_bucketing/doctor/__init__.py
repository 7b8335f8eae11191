"""Whether a dbt target, its server and what is installed here fit together."""
