"""Determine how a scan reads a table's buckets and in what order, or why it is an ordinary scan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spark_bucketing.check.session_settings import BUCKETING, ORDERING, Settings
from spark_bucketing.plan.document import PlanNode, Scan
from spark_bucketing.plan.hypothetical_table import HypotheticalTable
from spark_bucketing.spec import BucketSpec
from spark_bucketing.table.model import Partition, Table, one_spelling

# Codes that give the reason for an ordinary scan; with other codes, the query does not need buckets.
SEAL_CODES = ("not-sealed", "seal-stale", "seal-unreadable", "columns-changed", "files-missing")
MIXED_CODES = ("mixed-specs",)
TASK_CODES = ("too-few-buckets",)
COLUMN_CODES = (
    "unsupported-column", "ambiguous-column",
    "positional-columns", "field-ids", "unsupported-reader",
)  # fmt: skip


@dataclass(frozen=True)
class TableFacts(HypotheticalTable):
    """The facts about a table from the metastore and its files.

    The name is in the form that Spark prints, and the columns are in lower case.
    """

    partitions: Table | None = None  # the specs of its partitions, if they may differ from the table's
    is_empty: bool = False  # whether it is known to have no files


def objection(scan: Scan) -> str:
    """Return the ordinary-scan code if its cause rules out a useful bucketed scan, or an empty string otherwise."""
    return scan.code if scan.code in (*SEAL_CODES, *MIXED_CODES, *COLUMN_CODES, *TASK_CODES) else ""


@dataclass(frozen=True)
class BucketedScan:
    """A scan of a table that is bucketed according to its metadata."""

    node: PlanNode  # the scan's node in the plan
    scan: Scan  # how Spark reads the table
    facts: TableFacts  # facts about the table
    spec: BucketSpec  # the table's spec
    settings: Settings  # the session's settings

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.facts.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the bucket columns in lower case."""
        return tuple(name.lower() for name in self.spec.bucket_columns)

    @property
    def by_hive_reader(self) -> bool:
        """Return whether Spark does not use its own file readers, but the reader of Hive, which ignores buckets."""
        return self.scan.format == "hive"

    @property
    def by_extension(self) -> bool:
        """Return whether the extension, not stock Spark, reads the table or would read it."""
        return self.settings.extension and (self.scan.by_extension or not self.scan.bucketed)

    @property
    def left_to_stock(self) -> bool:
        """Return whether stock Spark reads the table although the extension is enabled.

        Stock Spark reads unsealed tables in the Spark layout.

        A table without files needs no seal: the extension reads it if an operator uses its buckets.
        """
        stock = bool(self.scan.bucketed) and not self.scan.by_extension
        return stock and self.settings.extension and self.spec.bucket_hash == "spark" and not self.facts.is_empty

    @cached_property
    def readable(self) -> bool:
        """Return whether Spark can read the table's buckets, according to the plan and the metastore."""
        if self.scan.bucketed:
            return True
        if objection(self.scan) or not self.settings.on(BUCKETING):
            return False
        # Spark's own readers for these formats support buckets, but Hive's reader does not.
        known = self.settings.extension and self.scan.format in ("parquet", "orc")
        read = {column.text.lower() for column in self.node.output}
        return (known or not self.spec.in_hive_layout) and read.issuperset(self.columns)

    @property
    def ordered(self) -> bool:
        """Return whether Spark reads the rows of each bucket in the order of the table's sort columns."""
        if not self.spec.sort_columns or not self.readable:
            return False
        if self.scan.by_extension:
            return self.scan.sorted
        return self.settings.on(ORDERING) and self.files == 1

    @property
    def partitions_read(self) -> int:
        """Return how many partitions the scan reads.

        Without known partitions, for example in an offline check, this is 2 for a partitioned table.
        """
        if not self.facts.partition_columns:
            return 1
        return 2 if self.scan.partitions is None else self.scan.partitions

    @property
    def files(self) -> int:
        """Return the largest number of files that the scan reads for any bucket."""
        return self.facts.files_per_bucket * self.partitions_read


def selected_partitions(scan: Scan, table: Table) -> tuple[Partition, ...]:
    """Return the partitions that Spark selects for a scan during planning, or all partitions if they are unknown."""
    if scan.folders is None:
        return table.partitions
    wanted = {one_spelling(folder) for folder in scan.folders}
    found = {partition.name: one_spelling(partition.location) for partition in table.partitions}
    # An unmatched directory has an unexpected name.
    if not wanted <= set(found.values()):
        return table.partitions
    return tuple(partition for partition in table.partitions if found[partition.name] in wanted)
