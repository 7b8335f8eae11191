"""What is known of a table that a plan reads."""

from __future__ import annotations

from dataclasses import dataclass

from spark_bucketing.evolution.model import Table
from spark_bucketing.plan.whatif import HypotheticalTable


@dataclass(frozen=True)
class TableFacts(HypotheticalTable):
    """A table as the metastore and its files describe it; its name is as Spark prints it, its columns in lower case.

    Args:
        partitions: the specs of its partitions, where these differ from the table's or may do so.
    """

    partitions: Table | None = None
