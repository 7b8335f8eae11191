"""Read Spark event logs: what statements, tables and models cost."""
