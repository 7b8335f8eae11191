"""Model a table and its partitions, as the metastore stores them.

Each partition has its own bucket spec.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from spark_bucketing.spec import BucketSpec, stated_version

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")
_ROOT = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?:///|/(?!/))")


class Status:
    """The states in bucket_specs() and SEAL BUCKETS, see docs/reference/sql.md; others are ordinary-scan codes."""

    SEALED = "sealed"
    EMPTY = "empty"
    NOT_SEALED = "not-sealed"
    SEAL_STALE = "seal-stale"
    FILES_MISSING = "files-missing"
    # Only in SEAL BUCKETS: already sealed, can be sealed (in a dry run), and cannot be sealed.
    UNCHANGED = "unchanged"
    SEALABLE = "sealable"
    REFUSED = "refused"


@dataclass(frozen=True)
class Column:
    """A column, with its name and its Spark SQL type."""

    name: str
    type: str

    @property
    def is_number(self) -> bool:
        """Return whether the column's values are sorted as numbers instead of as text."""
        return self.type.lower().split("(")[0] in _NUMBERS


@dataclass(frozen=True)
class Partition:
    """A partition, with bucket metadata from the metastore and from its files."""

    name: str  # as in Hive: ds=2024-01-01/hour=3; empty for an unpartitioned table
    values: tuple[str | None, ...]  # of the partition columns, as text; None for NULL
    location: str  # its folder in the metastore
    status: str  # in bucket_specs() or SEAL BUCKETS
    spec: BucketSpec | None = None  # of its seal, if the files match it
    problem: str = ""  # violation in the seal or the files
    files: int = 0
    size: int = 0  # bytes of its files
    files_per_bucket: int | None = None  # files of the largest bucket; None if a name has no bucket id
    files_read: int = 0  # number of files whose keys SEAL BUCKETS read

    @property
    def has_files(self) -> bool:
        """Return whether the partition has files. A partition without files matches every spec."""
        return self.status != Status.EMPTY

    @property
    def summary(self) -> str:
        """Describe the partition's files by the spec in their seal, or by an ordinary-scan code."""
        if self.spec is None:
            return f"[{self.status}] {self.problem}".rstrip() if self.has_files else Status.EMPTY
        several = (self.files_per_bucket or 0) > 1
        return str(self.spec) + (f", up to {self.files_per_bucket:,} files per bucket" if several else "")

    def has(self, spec: BucketSpec) -> bool:
        """Return whether the partition is sealed with this spec, and each bucket has at most one file."""
        return self.spec == spec and self.files_per_bucket in (0, 1)


@dataclass(frozen=True)
class TableMetadata:
    """A table, as described by DESCRIBE TABLE EXTENDED and bucket_specs()."""

    name: str  # qualified: db.t
    spec: BucketSpec | None  # for new partitions; None without buckets
    columns: tuple[Column, ...]  # the partition columns
    partitions: tuple[Partition, ...] = ()  # sorted by their values
    all_columns: tuple[Column, ...] = ()  # with the partition columns last
    details: Mapping[str, str] = field(default_factory=dict)  # the detailed information, by name
    options: Mapping[str, str] = field(default_factory=dict)  # its SERDEPROPERTIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", tuple(sorted(self.partitions, key=self._order)))

    @property
    def location(self) -> str:
        """Return the table's directory in the metastore."""
        return self.details.get("Location", "")

    @property
    def version(self) -> str:
        """Return the bucketing version that a table in the Hive layout states."""
        return stated_version(self.details)

    @property
    def file_format(self) -> str:
        """Return the file format like SealedFormats.scala, or the class that reads an unknown format."""
        provider = self.details.get("Provider", "").lower()
        if provider not in ("", "hive"):
            return provider
        # Spark reads a Hive table by its SerDe, and other engines by its input format, so both must have the format.
        classes = [self.details.get(name, "") for name in ("InputFormat", "Serde Library")]
        known = (one for one in ("parquet", "orc") if all(one in of.lower() for of in classes))
        return next(known, classes[0].rpartition(".")[2])

    def _order(self, partition: Partition) -> list[tuple[int, Decimal, str]]:
        ranks = []
        for column, value in zip(self.columns, partition.values, strict=True):
            number = Decimal(0)
            with suppress(InvalidOperation):
                number = Decimal(value if column.is_number and value is not None else 0)
            ranks.append((int(value is not None), number, value or ""))
        return ranks


def total_size(partitions: Sequence[Partition]) -> int:
    """Return the total size in bytes of all files in these partitions."""
    return sum(partition.size for partition in partitions)


def one_spelling(location: str) -> str:
    """Normalize a location, because the metastore, Hadoop and Spark may write file:/x or file:///x."""
    return _ROOT.sub(r"\1:///", location).rstrip("/")
