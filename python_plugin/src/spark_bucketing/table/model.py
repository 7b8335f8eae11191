"""A table whose partitions have bucket specs of their own, as the metastore has it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from spark_bucketing.spec import BucketSpec

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")
_ROOT = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?:///|/(?!/))")


class Status:
    """What bucket_specs() and SEAL BUCKETS say of a partition; any other is the code of why it is read plainly."""

    SEALED = "sealed"
    # Of SEAL BUCKETS, for one that was sealed before.
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    EMPTY = "empty"
    NOT_SEALED = "not-sealed"
    SEAL_BROKEN = "seal-broken"


@dataclass(frozen=True)
class Column:
    """A column: its name and its Spark SQL type."""

    name: str
    type: str

    @property
    def is_number(self) -> bool:
        """Whether its values are in the order of numbers, rather than of their text."""
        return self.type.lower().split("(")[0] in _NUMBERS

    @property
    def is_ordered(self) -> bool:
        """Whether the order of its values here is that of Spark's comparisons."""
        return self.is_number or self.type.lower() in ("string", "date")


@dataclass(frozen=True)
class Partition:
    """A partition, and what the metastore and its files say of its buckets."""

    name: str  # in Hive's form: ds=2024-01-01/hour=3; empty for all of a table without partitions
    values: tuple[str | None, ...]  # of the partition columns, as text; None for NULL
    location: str  # its folder, as the metastore has it
    status: str  # in bucket_specs() or of SEAL BUCKETS
    spec: BucketSpec | None = None  # of its seal, where that is what its files are
    problem: str = ""  # what is wrong with the seal or the files
    files: int = 0
    size: int = 0  # bytes of its files
    files_per_bucket: int | None = None  # most files that a bucket has, by their names; None where a name has no bucket
    files_read: int = 0  # of how many SEAL BUCKETS has read the keys

    @property
    def has_files(self) -> bool:
        """Whether there is anything of which a spec could be true or wrong: without files it fits every one."""
        return self.status != Status.EMPTY

    @property
    def summary(self) -> str:
        """What its files are, for people: the spec of the seal, or the code of the reason why they are read plainly."""
        if self.spec is None:
            return f"[{self.status}] {self.problem}".rstrip() if self.has_files else Status.EMPTY
        several = (self.files_per_bucket or 0) > 1
        return words(self.spec) + (f", up to {self.files_per_bucket:,} files of a bucket" if several else "")

    def has(self, spec: BucketSpec) -> bool:
        """Whether its files are sealed as the buckets of this spec, with one file for each at most."""
        return self.spec == spec and self.files_per_bucket in (0, 1)


@dataclass(frozen=True)
class Table:
    """A table as DESCRIBE TABLE EXTENDED and bucket_specs() show it."""

    name: str  # qualified: db.t
    spec: BucketSpec | None  # by which new partitions are written; None for none
    columns: tuple[Column, ...]  # the partition columns
    partitions: tuple[Partition, ...] = ()  # they are put into the order of their values
    all_columns: tuple[Column, ...] = ()  # the partition columns last
    details: Mapping[str, str] = field(default_factory=dict)  # the detailed information, by name
    properties: Mapping[str, str] = field(default_factory=dict)  # its TBLPROPERTIES
    options: Mapping[str, str] = field(default_factory=dict)  # its SERDEPROPERTIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", tuple(sorted(self.partitions, key=self._order)))

    @property
    def location(self) -> str:
        """Its folder, as the metastore has it."""
        return self.details.get("Location", "")

    @property
    def identity(self) -> str:
        """What no later table of the same name has: the id of its build by dbt, or else when it was created."""
        return self.properties.get("bucketing.build") or self.details.get("Created Time", "")

    def _order(self, partition: Partition) -> tuple[tuple[int, Decimal, str], ...]:
        return tuple(_rank(column, value) for column, value in zip(self.columns, partition.values, strict=True))


def _rank(column: Column, value: str | None) -> tuple[int, Decimal, str]:
    if value is None:
        return 0, Decimal(0), ""
    try:
        return 1, Decimal(value if column.is_number else 0), value
    except InvalidOperation:
        return 1, Decimal(0), value


def total_size(partitions: Sequence[Partition]) -> int:
    """Bytes of all their files."""
    return sum(partition.size for partition in partitions)


def one_spelling(location: str) -> str:
    """A folder as the metastore, Hadoop and Spark all may spell it: file:/x and file:///x are the same."""
    return _ROOT.sub(r"\1:///", location).rstrip("/")


def words(spec: BucketSpec | None) -> str:
    """A spec for people: 8 buckets by (user_id), sorted by (user_id)."""
    if spec is None:
        return "no buckets"
    order = f", sorted by ({', '.join(spec.sort_columns)})" if spec.sort_columns else ", not sorted"
    number = f"{spec.num_buckets:,} bucket{'' if spec.num_buckets == 1 else 's'}"
    return f"{number} by ({', '.join(spec.bucket_columns)}){order}"
