"""Partitions with bucket specs of their own: which ones a scan selects, and how these are read together."""

from __future__ import annotations

from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.evolution.model import Partition, Table, one_spelling
from spark_bucketing.evolution.together import Merging, read_together
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
    wanted = {one_spelling(folder) for folder in read}
    found = {partition.name: one_spelling(partition.location) for partition in table.partitions}
    # A folder that is of none of them is spelled in a way that is not known here.
    if not wanted <= set(found.values()):
        return table.partitions
    return tuple(partition for partition in table.partitions if found[partition.name] in wanted)


def spec_of_selected(scan: Node, facts: TableFacts, folders: Folders) -> BucketSpec | None:
    """The spec by which the partitions that a scan selects can be read together; the table's where all have that."""
    if facts.partitions is None:
        return facts.spec
    selected = selected_partitions(scan, facts.partitions, folders)
    return read_together(facts.partitions, selected, MERGING).spec if selected else facts.spec
