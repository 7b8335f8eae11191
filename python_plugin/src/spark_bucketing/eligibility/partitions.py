"""Partitions with bucket specs of their own: which ones a scan selects, and how these are read together."""

from __future__ import annotations

from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.evolution.locations import plain
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.reading import Merging, common_buckets
from spark_bucketing.plan import Node
from spark_bucketing.plan.folders import Folders, scan_key
from spark_bucketing.spec import BucketSpec

# As far as it is known here: the extension's own note in EXPLAIN goes before it.
MERGING = Merging()


def selected_partitions(scan: Node, table: Table, folders: Folders) -> tuple[Partition, ...]:
    """The partitions that a scan selects, before it runs; all of them where that cannot be told.

    Args:
        scan: of the table.
        table: with its partitions.
        folders: that Spark reads, by scan.
    """
    read = folders.get(scan_key(scan))
    if read is None:
        return table.partitions
    wanted = {plain(folder) for folder in read}
    found = {partition.name: plain(partition.location) for partition in table.partitions}
    # A folder that is of none of them is spelled in a way that is not known here.
    if not wanted <= set(found.values()):
        return table.partitions
    return tuple(partition for partition in table.partitions if found[partition.name] in wanted)


def spec_of_selected(scan: Node, facts: TableFacts, folders: Folders) -> BucketSpec | None:
    """The spec by which the partitions that a scan selects can be read together; the table's where all have that."""
    if facts.partitions is None:
        return facts.spec
    table = facts.partitions
    claims = [table.claim(partition) for partition in selected_partitions(scan, table, folders)]
    specs = [claim for claim in claims if isinstance(claim, BucketSpec)]
    if not claims:
        return facts.spec
    common = common_buckets(specs, MERGING) if len(specs) == len(claims) else None
    if common is None:
        return None
    shared = zip(*(spec.sort_columns for spec in specs), strict=False)
    order: list[str] = []
    for names in shared:
        if len(set(names)) > 1:
            break
        order.append(names[0])
    return BucketSpec(common, specs[0].bucket_columns, tuple(order), "hive")
