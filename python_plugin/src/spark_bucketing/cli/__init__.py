"""Define the command `spark-bucketing`, with one module per subcommand. Errors become messages only in this package."""

from spark_bucketing.cli.root import main

__all__ = ["main"]
