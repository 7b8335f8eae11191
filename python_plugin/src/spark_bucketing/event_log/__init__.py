"""Read the costs of statements, tables and models from Spark event logs."""
