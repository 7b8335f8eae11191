"""What EXPLAIN answers, and the settings under which it answers in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# With these, EXPLAIN prints lists in full; Spark's defaults cut them off. The last one is for the folders that a scan
# reads, which tell its partitions. Each may be 100 characters.
PLAN_SETTINGS: Mapping[str, str] = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxMetadataValueLength": "100000",
    "spark.sql.maxPlanStringLength": "2147483632",
    "spark.sql.maxMetadataStringLength": "10000000",
}


@dataclass(frozen=True)
class Explained:
    """Spark's answers for one query.

    Args:
        formatted: the text of EXPLAIN FORMATTED.
        cost: the text of EXPLAIN COST; empty where nobody asked for it.
    """

    formatted: str
    cost: str = ""
