"""Determine how a scan reads a table's buckets and in what order, or why it is an ordinary scan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from spark_bucketing.check.session_settings import BUCKETING, ORDERING, Settings
from spark_bucketing.plan import PlanNode
from spark_bucketing.plan.explain_cost import Folders, scan_key
from spark_bucketing.plan.whatif import HypotheticalTable
from spark_bucketing.spec import HASHES, BucketSpec
from spark_bucketing.table.model import Partition, Table, one_spelling

# Bucketed: true (8 Hive buckets, sorted)     Bucketed: false [not-sealed] (no seal in the metastore)
_NOTE = re.compile(r"^(?P<bucketed>true|false)(?: \[(?P<code>[a-z-]+)\])?(?: \((?P<words>.*)\))?$", re.DOTALL)
_NUMBER = re.compile(rf"^(?P<buckets>\d+) (?:{'|'.join(map(str.capitalize, HASHES))}) buckets")
# EXPLAIN codes that give the reason for an ordinary scan; with other codes, the query does not need buckets.
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


@dataclass(frozen=True)
class ScanAnnotation:
    """The `Bucketed:` line of a scan in EXPLAIN."""

    bucketed: bool | None = None  # whether the scan is bucketed; None without such a line
    code: str = ""  # the code with which the extension explains an ordinary scan
    words: str = ""  # the reason or the kind of bucketed scan in words; empty for stock Spark

    @property
    def objection(self) -> str:
        """Return the ordinary-scan code if its cause rules out a useful bucketed scan, or an empty string otherwise."""
        return self.code if self.code in (*SEAL_CODES, *MIXED_CODES, *COLUMN_CODES, *TASK_CODES) else ""

    @property
    def by_extension(self) -> bool:
        """Return whether the extension, not stock Spark, reads the buckets."""
        return bool(self.bucketed and self.words)


def note_of(scan: PlanNode) -> ScanAnnotation:
    """Parse what EXPLAIN says about the buckets of a scan."""
    found = _NOTE.match(scan.details.get("Bucketed", ""))
    if found is None:
        return ScanAnnotation()
    return ScanAnnotation(found["bucketed"] == "true", found["code"] or "", found["words"] or "")


@dataclass(frozen=True)
class BucketedScan:
    """A scan of a table that is bucketed according to its metadata."""

    node: PlanNode  # the scan's node in the plan
    facts: TableFacts  # facts about the table
    spec: BucketSpec  # the table's spec
    settings: Settings  # the session's settings
    folders: Folders = field(default_factory=dict)  # directories that Spark reads, by scan

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.facts.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the bucket columns in lower case."""
        return tuple(name.lower() for name in self.spec.bucket_columns)

    @cached_property
    def note(self) -> ScanAnnotation:
        """Return what EXPLAIN says about the buckets of the scan."""
        return note_of(self.node)

    @property
    def by_hive_reader(self) -> bool:
        """Return whether Spark does not use its own file readers, but the reader of Hive, which ignores buckets."""
        return self.node.title.startswith("hive ")

    @property
    def by_extension(self) -> bool:
        """Return whether the extension, not stock Spark, reads the table or would read it."""
        return self.settings.extension and (self.note.by_extension or not self.note.bucketed)

    @property
    def left_to_stock(self) -> bool:
        """Return whether stock Spark reads the table although the extension is enabled.

        Stock Spark reads unsealed tables in the Spark layout.

        A table without files needs no seal: the extension reads it if an operator uses its buckets.
        """
        stock = bool(self.note.bucketed) and not self.note.by_extension
        return stock and self.settings.extension and self.spec.bucket_hash == "spark" and not self.facts.is_empty

    @cached_property
    def readable(self) -> bool:
        """Return whether Spark can read the table's buckets, according to EXPLAIN and the metastore."""
        if self.note.bucketed:
            return True
        if self.note.objection or not self.settings.on(BUCKETING):
            return False
        # Spark's own readers for these formats support buckets, but Hive's reader does not.
        known = self.settings.extension and self.node.title.startswith(("parquet", "orc"))
        read = {column.name.lower() for column in self.node.output or ()}
        return (known or not self.spec.in_hive_layout) and read.issuperset(self.columns)

    @property
    def ordered(self) -> bool:
        """Return whether Spark reads the rows of each bucket in the order of the table's sort columns."""
        if not self.spec.sort_columns or not self.readable:
            return False
        if self.note.by_extension:
            return self.note.words.endswith(("sorted", "merged"))
        return self.settings.on(ORDERING) and self.files == 1

    @property
    def reads_all_partitions(self) -> bool:
        """Return whether Spark listed all partitions, because no filter removed any of them earlier."""
        location = self.node.details.get("Location", "")
        if location.startswith("CurrentFiles"):
            # The extension's index prints the paths of Spark's index.
            return not any(f"/{column}=" in location for column in self.facts.partition_columns)
        return location.startswith("CatalogFileIndex")

    @property
    def partitions_read(self) -> int:
        """Return how many partitions the scan reads, as far as EXPLAIN shows; 1 for an unpartitioned table.

        EXPLAIN prints one path and the number of other paths. If the scan reads all partitions, EXPLAIN prints the
        table's path, and this property assumes 2 partitions.
        """
        if not self.facts.partition_columns:
            return 1
        if self.reads_all_partitions:
            return 2
        more = re.search(r"\.\.\. (\d+) entries\]$", self.node.details.get("Location", ""))
        return 1 + (int(more[1]) if more else 0)

    @property
    def files(self) -> int:
        """Return the largest number of files that the scan reads for any bucket."""
        return self.facts.files_per_bucket * self.partitions_read

    @property
    def spec_as_read(self) -> BucketSpec | None:
        """Return the bucket spec with which Spark plans a hypothetical table like this scan.

        Return None for an ordinary scan.
        """
        if self.note.objection:
            return None
        number = _NUMBER.match(self.note.words) if self.note.bucketed else None
        return replace(self.spec, num_buckets=int(number["buckets"])) if number else self.spec


def spec_as_read(scans: Sequence[BucketedScan]) -> BucketSpec | None:
    """Return the bucket spec with which Spark plans a hypothetical table like all these scans of one table."""
    specs = [scan.spec_as_read for scan in sorted(scans, key=lambda scan: bool(scan.note.bucketed))]
    return None if None in specs or not specs else specs[-1]


def selected_partitions(scan: PlanNode, table: Table, folders: Folders) -> tuple[Partition, ...]:
    """Return the partitions that Spark selects for a scan during planning, or all partitions if they are unknown."""
    read = folders.get(scan_key(scan))
    if read is None:
        return table.partitions
    wanted = {one_spelling(folder) for folder in read}
    found = {partition.name: one_spelling(partition.location) for partition in table.partitions}
    # An unmatched directory has an unexpected name.
    if not wanted <= set(found.values()):
        return table.partitions
    return tuple(partition for partition in table.partitions if found[partition.name] in wanted)
