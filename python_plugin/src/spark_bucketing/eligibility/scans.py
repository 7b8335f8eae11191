"""How a scan reads its table: by which buckets, in which order, or why plainly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.eligibility.partitions import spec_of_selected
from spark_bucketing.eligibility.settings import ORDERING, Settings
from spark_bucketing.plan import Node
from spark_bucketing.plan.folders import Folders
from spark_bucketing.spec import BucketSpec

# Bucketed: true (8 Hive buckets, sorted)     Bucketed: false [not-sealed] (no seal in the metastore)
_NOTE = re.compile(r"^(?P<bucketed>true|false)(?: \[(?P<code>[a-z-]+)\])?(?: \((?P<words>.*)\))?$", re.DOTALL)
_NUMBER = re.compile(r"^(?P<buckets>\d+) (?:Hive|Spark) buckets")
# Why a table is read plainly, by the code that EXPLAIN has; codes that are not here say that nobody needs its buckets.
SEAL_CODES = ("not-sealed", "seal-broken", "seal-unreadable", "columns-changed")
MIXED_CODES = ("mixed-specs",)
COLUMN_CODES = ("unsupported-column", "ambiguous-column", "bucketing-version", "positional-columns")


@dataclass(frozen=True)
class ScanNote:
    """What EXPLAIN says in the line `Bucketed:` of a scan.

    Args:
        bucketed: whether it is read as bucketed; None without such a line.
        code: why it is not, where the extension says so.
        words: the same for people, or how it is read; stock Spark says nothing of that.
    """

    bucketed: bool | None = None
    code: str = ""
    words: str = ""

    @property
    def objection(self) -> str:
        """The code, where it is one that keeps buckets from being read that could be of use; else empty."""
        return self.code if self.code in (*SEAL_CODES, *MIXED_CODES, *COLUMN_CODES) else ""

    @property
    def by_extension(self) -> bool:
        """Whether the extension reads the buckets."""
        return bool(self.bucketed and self.words)

    @property
    def ordered(self) -> bool:
        """Whether the extension reads each bucket in the order of the sort columns."""
        return self.words.endswith(("sorted", "merged"))


def note_of(scan: Node) -> ScanNote:
    """What EXPLAIN says of a scan's buckets."""
    found = _NOTE.match(scan.details.get("Bucketed", ""))
    if found is None:
        return ScanNote()
    return ScanNote(found["bucketed"] == "true", found["code"] or "", found["words"] or "")


def reads_all_partitions(scan: Node) -> bool:
    """Whether no filter has left out partitions before Spark listed them."""
    return scan.details.get("Location", "").startswith("CatalogFileIndex")


def partitions_read(scan: Node, facts: TableFacts) -> int:
    """How many partitions of a table a scan reads, as far as EXPLAIN tells; 1 for a table without partitions.

    EXPLAIN prints one path and counts the others; where all partitions are read, it prints the table's own, and there
    are taken to be two.
    """
    if not facts.partition_columns:
        return 1
    if reads_all_partitions(scan):
        return 2
    more = re.search(r"\.\.\. (\d+) entries\]$", scan.details.get("Location", ""))
    return 1 + (int(more[1]) if more else 0)


def is_readable(scan: Node, facts: TableFacts, settings: Settings) -> bool:
    """Whether a scan's table can be read as bucketed, by what EXPLAIN and the metastore say."""
    note = note_of(scan)
    if note.bucketed or facts.spec is None:
        return bool(note.bucketed)
    if note.objection or not settings.on("spark.sql.sources.bucketing.enabled"):
        return False
    columns = {column.name.lower() for column in scan.output or ()}
    # Spark reads these with its own readers, which know buckets; Hive's reader does not.
    hive = facts.spec.bucket_hash == "hive" and not (settings.extension and scan.title.startswith(("parquet", "orc")))
    return not hive and {name.lower() for name in facts.spec.bucket_columns} <= columns


def is_sorted(scan: Node, facts: TableFacts, settings: Settings) -> bool:
    """Whether the rows of each bucket come in the order of the table's sort columns."""
    if facts.spec is None or not facts.spec.sort_columns or not is_readable(scan, facts, settings):
        return False
    note = note_of(scan)
    return note.ordered if note.by_extension else settings.on(ORDERING) and is_one_file(scan, facts)


def is_one_file(scan: Node, facts: TableFacts) -> bool:
    """Whether each bucket that a scan reads is a single file."""
    return (facts.files_per_bucket or 1) * partitions_read(scan, facts) == 1


def is_left_to_stock(scan: Node, facts: TableFacts, settings: Settings) -> bool:
    """Whether a session with the extension reads a table of the Spark layout as stock Spark does: it is not sealed."""
    spark = facts.spec is not None and facts.spec.bucket_hash == "spark"
    note = note_of(scan)
    return settings.extension and spark and bool(note.bucketed) and not note.by_extension


def files_as_read(scans: Sequence[Node], facts: TableFacts) -> int:
    """How many files of a bucket these scans read, at most."""
    partitions = max((partitions_read(scan, facts) for scan in scans), default=1)
    return (facts.files_per_bucket or 1) * partitions


def spec_as_read(scans: Sequence[Node], facts: TableFacts, folders: Folders) -> BucketSpec | None:
    """The spec by which a hypothetical table is planned as these scans are: None for one that is read plainly."""
    spec = facts.spec
    for scan in scans:
        note = note_of(scan)
        if spec is None or note.code in (*SEAL_CODES, *MIXED_CODES):
            return None
        number = _NUMBER.match(note.words) if note.bucketed else None
        together = spec_of_selected(scan, facts, folders) if facts.partitions else spec
        if number:
            spec = replace(together or spec, num_buckets=int(number["buckets"]))
        elif together is None:
            return None
        else:
            spec = together
    return spec
