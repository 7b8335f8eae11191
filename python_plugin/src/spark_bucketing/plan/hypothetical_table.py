"""Define tables that exist only for planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from spark_bucketing.plan.document import spec_data
from spark_bucketing.spec import BucketSpec

Table = TypeVar("Table", bound="HypotheticalTable")
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

    def retyped(self: Table, types: Mapping[str, str]) -> Table:
        """Return a copy in which some columns have other types; the keys are column names in lower case."""
        return replace(self, columns={name: types.get(name.lower(), kind) for name, kind in self.columns.items()})

    def as_data(self) -> dict[str, Any]:
        """Return the table in the form in which EXPLAIN BUCKETS ASSUMING takes it."""
        return {
            "name": self.name,
            "columns": [{"name": name, "type": kind} for name, kind in self.columns.items()],
            "partition_columns": list(self.partition_columns),
            "spec": spec_data(self.spec),
            "size_bytes": self.size_bytes,
            "size_known": self.knows_size,
            "format": self.file_format if self.file_format in PLANNED_FORMATS else "parquet",
            "files_per_bucket": self.files_per_bucket,
        }
