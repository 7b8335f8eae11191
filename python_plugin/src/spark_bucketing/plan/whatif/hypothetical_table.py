"""Tables that are planned upon without being there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from spark_bucketing.plan.explain_cost import NO_SIZE
from spark_bucketing.spec import BucketSpec

# A table of unknown size is large: nothing is to be broadcast merely because it is empty here.
UNKNOWN_SIZE = NO_SIZE
PLANNED_FORMATS = ("parquet", "orc", "csv", "json", "text")


@dataclass(frozen=True)
class HypotheticalTable:
    """A table as the planner sees it: its columns and layout, a size, and sealed files with nothing in them.

    Partitions of several specs are planned as the spec by which a query can read them together.
    """

    name: str  # schema.table
    columns: Mapping[str, str] = field(hash=False)  # names and Spark SQL types, the partition columns among them
    spec: BucketSpec | None = None  # its buckets; None for a plain table
    partition_columns: tuple[str, ...] = ()  # names of the partition columns
    size_bytes: int | None = None  # of all files, which decides over broadcasts; None for a large one
    file_format: str = "parquet"  # parquet, orc, csv, json or text; anything else is planned as parquet without buckets
    # More than one are files that are sorted one by one. Those of several partitions are planned as files of a table
    # without partitions.
    files_per_bucket: int = 1

    @property
    def format(self) -> str:
        """The format that it is planned with."""
        return self.file_format if self.file_format in PLANNED_FORMATS else "parquet"

    @property
    def size(self) -> int:
        """Bytes that it is planned with."""
        return UNKNOWN_SIZE if self.size_bytes is None else max(self.size_bytes, 1)

    @property
    def has_files(self) -> bool:
        """Whether its files decide over plans: their sizes over how buckets are aligned, their number over sorts.

        Partitions would be needed for files, and values of these for partitions; nor is an unknown size one of a file.
        """
        partitioned = bool(self.partition_columns) and self.files_per_bucket == 1
        return self.spec is not None and not partitioned and (self.size_bytes is not None or self.files_per_bucket > 1)

    @property
    def folders(self) -> tuple[str, ...]:
        """The partition columns by which it is planned."""
        return () if self.has_files else self.partition_columns

    def data_columns(self) -> dict[str, str]:
        """The columns in its files, in their order."""
        partitions = {name.lower() for name in self.folders}
        return {name: kind for name, kind in self.columns.items() if name.lower() not in partitions}

    def folder_columns(self) -> dict[str, str]:
        """The partition columns in the order of the folders."""
        types = {name.lower(): (name, kind) for name, kind in self.columns.items()}
        found = (types.get(name.lower(), (name, "string")) for name in self.folders)
        return dict(found)

    def retyped(self, types: Mapping[str, str]) -> HypotheticalTable:
        """The same with other types of some columns, by lower-case names."""
        return replace(self, columns={name: types.get(name.lower(), kind) for name, kind in self.columns.items()})

    @property
    def content(self) -> str:
        """A name that no table with other columns, layout or size has; no longer than a metastore's names may be."""
        schema, _, table = self.name.lower().rpartition(".")
        readable = "".join(letter if letter.isalnum() else "_" for letter in f"{schema}_{table}")[:60]
        layout = (self.spec, self.partition_columns, self.size_bytes, self.format, self.files_per_bucket)
        described = repr((self.name, list(self.columns.items()), *layout))
        return f"{readable}_{sha256(described.encode()).hexdigest()[:16]}"
