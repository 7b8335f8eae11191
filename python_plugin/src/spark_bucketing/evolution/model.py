"""A table whose partitions have bucket specs of their own, as the metastore has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import Enum

from spark_bucketing.spec import BucketSpec

# What Hive calls a partition whose value is NULL.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# What is told of partitions that are read plainly.
NO_BUCKETS = "no buckets, by record"
BROKEN = "broken record"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


class RecordState(str, Enum):
    """What a partition's parameters say of its buckets."""

    BUCKETED = "bucketed"
    UNBUCKETED = "without buckets"
    MISSING = "no record"
    BROKEN = "broken record"


@dataclass(frozen=True)
class Column:
    """A partition column: its name and its Spark SQL type."""

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
    """A partition and what the metastore says of its buckets.

    Args:
        name: in Hive's form: ds=2024-01-01/hour=3.
        values: of the partition columns, as text; None for NULL.
        location: its folder, as the metastore has it.
        state: of its record.
        spec: of its record, where that is bucketed.
        problem: what is wrong with a broken record.
        descriptor: the buckets in its own StorageDescriptor, which Hive and Trino go by; None without buckets.
        described: whether the metastore could be asked for that descriptor.
    """

    name: str
    values: tuple[str | None, ...]
    location: str
    state: RecordState
    spec: BucketSpec | None = None
    problem: str = ""
    descriptor: BucketSpec | None = None
    described: bool = True

    def has(self, spec: BucketSpec | None) -> bool:
        """Whether record and descriptor both say this; None for no buckets."""
        recorded = self.state is (RecordState.BUCKETED if spec else RecordState.UNBUCKETED) and self.spec == spec
        return recorded and (not self.described or self.descriptor == spec)


@dataclass(frozen=True)
class Table:
    """A partitioned table of the Hive layout.

    Args:
        name: qualified: db.t.
        spec: by which new partitions are written; None for none.
        columns: the partition columns.
        evolved: some spec was altered once, so that readers ask for the partitions' records.
        partitions: in the order of their values.
        external: its files outlive it, and others may read them by their path.
        file_format: of its files, parquet or orc.
        hash_version: bucketing_version among its properties; Hive's default without one is 1.
        lenient: options of its own by which Spark leaves out rows without an error, as they are written.
    """

    name: str
    spec: BucketSpec | None
    columns: tuple[Column, ...]
    evolved: bool
    partitions: tuple[Partition, ...] = ()
    external: bool = False
    file_format: str = "parquet"
    hash_version: str = "1"
    lenient: tuple[str, ...] = ()

    def claim(self, partition: Partition) -> BucketSpec | str:
        """By which spec the extension reads a partition, as far as its files fit; or why by none.

        The same as the extension's SelectedPartitions says.
        """
        if self.evolved and partition.state is RecordState.UNBUCKETED:
            return NO_BUCKETS
        if self.evolved and partition.state is RecordState.BROKEN:
            return f"{BROKEN}: {partition.problem}"
        spec = partition.spec if self.evolved and partition.spec else self.spec
        return spec or "no record"

    @property
    def hidden(self) -> tuple[Partition, ...]:
        """Partitions whose records contradict the table's spec, in a table whose records no reader asks for."""
        stated = (RecordState.BUCKETED, RecordState.UNBUCKETED)
        found = (
            partition for partition in self.partitions if partition.state in stated and partition.spec != self.spec
        )
        return () if self.evolved else tuple(found)

    def recorded(self) -> Table:
        """The same as readers see it once they ask for the records that it has."""
        return replace(self, evolved=self.evolved or bool(self.hidden))

    def without(self, name: str) -> Table:
        """The same without one of its partitions."""
        return replace(self, partitions=tuple(found for found in self.partitions if found.name != name))

    def ordered(self) -> Table:
        """The same with the partitions in the order of their values."""
        return replace(self, partitions=tuple(sorted(self.partitions, key=self._order)))

    def _order(self, partition: Partition) -> tuple[tuple[int, Decimal, str], ...]:
        return tuple(_rank(column, value) for column, value in zip(self.columns, partition.values, strict=True))


def _rank(column: Column, value: str | None) -> tuple[int, Decimal, str]:
    if value is None:
        return 0, Decimal(0), ""
    try:
        return 1, Decimal(value if column.is_number else 0), value
    except InvalidOperation:
        return 1, Decimal(0), value


def columns_of(names: Sequence[str]) -> str:
    """Columns in brackets, as SQL has them."""
    return f"({', '.join(names)})"


def words(spec: BucketSpec | None) -> str:
    """A spec for people: 8 buckets by (user_id), sorted by (user_id)."""
    if spec is None:
        return "no buckets"
    order = f", sorted by {columns_of(spec.sort_columns)}" if spec.sort_columns else ", not sorted"
    number = f"{spec.num_buckets:,} bucket{'' if spec.num_buckets == 1 else 's'}"
    return f"{number} by {columns_of(spec.bucket_columns)}{order}"
