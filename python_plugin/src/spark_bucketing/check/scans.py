"""What is known of a table, and how a scan reads its buckets: which ones, in which order, or why it reads none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from spark_bucketing.check.session_settings import BUCKETING, ORDERING, Settings
from spark_bucketing.evolution.compatibility import Merging
from spark_bucketing.evolution.model import Partition, Table, one_spelling
from spark_bucketing.plan import PlanNode
from spark_bucketing.plan.explain_cost import Folders, scan_key
from spark_bucketing.plan.whatif import HypotheticalTable
from spark_bucketing.spec import BucketSpec

# Bucketed: true (8 Hive buckets, sorted)     Bucketed: false [not-sealed] (no seal in the metastore)
_NOTE = re.compile(r"^(?P<bucketed>true|false)(?: \[(?P<code>[a-z-]+)\])?(?: \((?P<words>.*)\))?$", re.DOTALL)
_NUMBER = re.compile(r"^(?P<buckets>\d+) (?:Hive|Spark) buckets")
# Why a table is read plainly, by the code that EXPLAIN has; with other codes nobody needs its buckets.
SEAL_CODES = ("not-sealed", "seal-broken", "seal-unreadable", "columns-changed")
MIXED_CODES = ("mixed-specs",)
TASK_CODES = ("too-few-buckets",)
COLUMN_CODES = (
    "unsupported-column", "ambiguous-column", "bucketing-version",
    "positional-columns", "field-ids", "unsupported-reader",
)  # fmt: skip
# As far as it is known here: the extension's own note in EXPLAIN goes before it.
MERGING = Merging()


@dataclass(frozen=True)
class TableFacts(HypotheticalTable):
    """A table as the metastore and its files describe it; its name is as Spark prints it, its columns in lower case."""

    partitions: Table | None = None  # the specs of its partitions, where these differ from the table's or may do so
    is_empty: bool = False  # whether there is no file, as far as that is known


@dataclass(frozen=True)
class ScanAnnotation:
    """What EXPLAIN prints in the line `Bucketed:` of a scan."""

    bucketed: bool | None = None  # whether it is read as bucketed; None without such a line
    code: str = ""  # why it is not, where the extension has a reason
    words: str = ""  # the same for people, or how it is read; stock Spark prints nothing of that

    @property
    def objection(self) -> str:
        """The code, where it is one that keeps buckets from being read that could be of use; else empty."""
        return self.code if self.code in (*SEAL_CODES, *MIXED_CODES, *COLUMN_CODES, *TASK_CODES) else ""

    @property
    def by_extension(self) -> bool:
        """Whether the extension reads the buckets."""
        return bool(self.bucketed and self.words)


def note_of(scan: PlanNode) -> ScanAnnotation:
    """What EXPLAIN prints of a scan's buckets."""
    found = _NOTE.match(scan.details.get("Bucketed", ""))
    if found is None:
        return ScanAnnotation()
    return ScanAnnotation(found["bucketed"] == "true", found["code"] or "", found["words"] or "")


@dataclass(frozen=True)
class BucketedScan:
    """A scan of a table that is bucketed by its metadata."""

    node: PlanNode  # of the plan
    facts: TableFacts  # of the table
    spec: BucketSpec  # the table's
    settings: Settings  # of the session
    folders: Folders = field(default_factory=dict)  # that Spark reads, by scan

    @property
    def name(self) -> str:
        """The table's name."""
        return self.facts.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The bucket columns in lower case."""
        return tuple(name.lower() for name in self.spec.bucket_columns)

    @cached_property
    def note(self) -> ScanAnnotation:
        """What EXPLAIN prints of its buckets."""
        return note_of(self.node)

    @property
    def by_extension(self) -> bool:
        """Whether the extension reads it, or would do so, rather than stock Spark."""
        return self.settings.extension and (self.note.by_extension or not self.note.bucketed)

    @property
    def left_to_stock(self) -> bool:
        """Whether a session with the extension reads a table of the Spark layout as stock Spark does: not sealed.

        Without files there is nothing to seal: the extension reads it, where something makes use of its buckets.
        """
        stock = bool(self.note.bucketed) and not self.note.by_extension
        return stock and self.settings.extension and self.spec.bucket_hash == "spark" and not self.facts.is_empty

    @cached_property
    def readable(self) -> bool:
        """Whether it can be read as bucketed, by EXPLAIN and the metastore."""
        if self.note.bucketed:
            return True
        if self.note.objection or not self.settings.on(BUCKETING):
            return False
        # Spark reads these with its own readers, which know buckets; Hive's reader does not.
        known = self.settings.extension and self.node.title.startswith(("parquet", "orc"))
        read = {column.name.lower() for column in self.node.output or ()}
        return (known or self.spec.bucket_hash != "hive") and read.issuperset(self.columns)

    @property
    def ordered(self) -> bool:
        """Whether the rows of each bucket come in the order of the table's sort columns."""
        if not self.spec.sort_columns or not self.readable:
            return False
        if self.note.by_extension:
            return self.note.words.endswith(("sorted", "merged"))
        return self.settings.on(ORDERING) and self.files == 1

    @property
    def reads_all_partitions(self) -> bool:
        """Whether no filter has left out partitions before Spark listed them."""
        return self.node.details.get("Location", "").startswith("CatalogFileIndex")

    @property
    def partitions_read(self) -> int:
        """How many partitions it reads, as far as EXPLAIN shows; 1 for a table without partitions.

        EXPLAIN prints one path and counts the others; where all partitions are read, it prints the table's own, and
        there are taken to be two.
        """
        if not self.facts.partition_columns:
            return 1
        if self.reads_all_partitions:
            return 2
        more = re.search(r"\.\.\. (\d+) entries\]$", self.node.details.get("Location", ""))
        return 1 + (int(more[1]) if more else 0)

    @property
    def files(self) -> int:
        """How many files of a bucket it reads, at most."""
        return self.facts.files_per_bucket * self.partitions_read

    @property
    def spec_as_read(self) -> BucketSpec | None:
        """The spec by which a hypothetical table is planned as this scan is; None where it is read plainly."""
        if self.note.objection:
            return None
        number = _NUMBER.match(self.note.words) if self.note.bucketed else None
        return replace(self.spec, num_buckets=int(number["buckets"])) if number else self.spec


def spec_as_read(scans: Sequence[BucketedScan]) -> BucketSpec | None:
    """The spec by which a hypothetical table is planned as all of these scans of a table are."""
    specs = [scan.spec_as_read for scan in sorted(scans, key=lambda scan: bool(scan.note.bucketed))]
    return None if None in specs or not specs else specs[-1]


def selected_partitions(scan: PlanNode, table: Table, folders: Folders) -> tuple[Partition, ...]:
    """The partitions that a scan selects, before it runs; all of them where that is not known."""
    read = folders.get(scan_key(scan))
    if read is None:
        return table.partitions
    wanted = {one_spelling(folder) for folder in read}
    found = {partition.name: one_spelling(partition.location) for partition in table.partitions}
    # A folder that is of none of them is spelled in a way that is not known here.
    if not wanted <= set(found.values()):
        return table.partitions
    return tuple(partition for partition in table.partitions if found[partition.name] in wanted)
