"""Reads the sizes of tables out of the text of EXPLAIN COST."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_bucketing.plan.tree import SESSION_CATALOG

# A relation prints as `Relation spark_catalog.d.t[k#1,v#2L] parquet, Statistics(sizeInBytes=1.5 MiB, rowCount=3)`.
_RELATION = re.compile(
    r"Relation (?P<table>\S+?)\[[^\n]*Statistics\(sizeInBytes=(?P<size>[\d.,E+]+) (?P<unit>[KMGTPE]i)?B"
)
_UNITS = {unit: 1024**power for power, unit in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}


def parse_statistics(text: str) -> Mapping[str, int]:
    """Bytes that Spark expects to read of each table, by schema and name; empty where it tells none.

    Args:
        text: the answer of EXPLAIN COST.
    """
    sizes: dict[str, int] = {}
    for found in _RELATION.finditer(text):
        name = found["table"].removeprefix(SESSION_CATALOG)
        size = int(float(found["size"].replace(",", "")) * _UNITS[found["unit"] or ""])
        # A table may be read several times, of some partitions only.
        sizes[name] = max(size, sizes.get(name, 0))
    return sizes
