"""The command `spark-bucketing`, a module for each of its commands: only here do errors become messages."""

from spark_bucketing.cli.root import main

__all__ = ["main"]
