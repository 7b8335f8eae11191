"""Define tables that exist only for planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from spark_bucketing.plan.explain_cost import NO_SIZE
from spark_bucketing.spec import BucketSpec

PLANNED_FORMATS = ("parquet", "orc", "csv", "json", "text")


@dataclass(frozen=True)
class HypotheticalTable:
    """A table as the planner sees it: its columns, layout and size, and sealed files without content.

    If the partitions have different specs, the spec is the one with which a single query can read all of them.
    """

    name: str  # schema.table
    columns: Mapping[str, str] = field(hash=False)  # names and Spark SQL types, including partition columns
    spec: BucketSpec | None = None  # its bucket spec; None if it is not bucketed
    partition_columns: tuple[str, ...] = ()  # names of the partition columns
    size_bytes: int | None = None  # total size, which affects broadcasts; None counts as large
    # Whether Spark knows the size before it lists the files. Without statistics, Spark does not know the size when it
    # scans all partitions of a table.
    knows_size: bool = True
    file_format: str = "parquet"  # parquet, orc, csv, json or text; other formats are planned as unbucketed parquet
    # Several files are each sorted separately. A table with files of several partitions is planned as unpartitioned.
    files_per_bucket: int = 1

    @property
    def format(self) -> str:
        """Return the file format that is used for planning."""
        return self.file_format if self.file_format in PLANNED_FORMATS else "parquet"

    @property
    def size(self) -> int:
        """Return the size in bytes that is used for planning."""
        return self.file_bytes if self.knows_size else NO_SIZE

    @property
    def file_bytes(self) -> int:
        """Return the total size of the files in bytes."""
        # Spark must not broadcast a table of unknown size just because it is empty here, so it counts as large.
        return NO_SIZE if self.size_bytes is None else max(self.size_bytes, 1)

    @property
    def has_files(self) -> bool:
        """Return whether the table gets placeholder files, because plans depend on files.

        File sizes decide whether Spark combines buckets. Numbers of files per bucket decide whether Spark sorts.

        Only unpartitioned tables of known size get files, because the files of a partitioned table would need partition
        values.
        """
        partitioned = bool(self.partition_columns) and self.files_per_bucket == 1
        return self.spec is not None and not partitioned and (self.size_bytes is not None or self.files_per_bucket > 1)

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the partition columns that are used for planning."""
        return () if self.has_files else self.partition_columns

    def data_columns(self) -> dict[str, str]:
        """Return the columns that the table's files contain, in order."""
        partitions = {name.lower() for name in self.folders}
        return {name: kind for name, kind in self.columns.items() if name.lower() not in partitions}

    def folder_columns(self) -> dict[str, str]:
        """Return the partition columns in the order of the directories."""
        types = {name.lower(): (name, kind) for name, kind in self.columns.items()}
        found = (types.get(name.lower(), (name, "string")) for name in self.folders)
        return dict(found)

    def retyped(self, types: Mapping[str, str]) -> HypotheticalTable:
        """Return a copy in which some columns have other types; the keys are column names in lower case."""
        return replace(self, columns={name: types.get(name.lower(), kind) for name, kind in self.columns.items()})

    @property
    def content(self) -> str:
        """Return a name that identifies these columns, this layout and this size, and that the metastore allows."""
        schema, _, table = self.name.lower().rpartition(".")
        readable = "".join(letter if letter.isalnum() else "_" for letter in f"{schema}_{table}")[:60]
        size = (self.size_bytes, self.knows_size)
        layout = (self.spec, self.partition_columns, size, self.format, self.files_per_bucket)
        described = repr((self.name, list(self.columns.items()), *layout))
        return f"{readable}_{sha256(described.encode()).hexdigest()[:16]}"
