"""Define the command `spark-bucketing`.

Each subcommand has its own module. Only this package turns errors into messages.
"""

from spark_bucketing.cli.root import main

__all__ = ["main"]
