"""Read from Spark event logs how much statements, tables and models cost."""
