"""A table whose partitions have bucket specs of their own, as the metastore has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from spark_bucketing.spec import BucketSpec

# What Hive calls a partition whose value is NULL.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


class RecordState:
    """What bucket_specs() says of a partition; any other status is the code of a reason why it is read plainly."""

    BUCKETED = "sealed"
    EMPTY = "empty"
    UNBUCKETED = "not-sealed"
    BROKEN = "seal-broken"


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
    """A partition, and what the metastore and its files say of its buckets.

    Args:
        name: in Hive's form: ds=2024-01-01/hour=3.
        values: of the partition columns, as text; None for NULL.
        location: its folder, as the metastore has it.
        state: its status in bucket_specs().
        spec: of its seal, where that is what its files are.
        problem: what is wrong with the seal.
        files: their number.
        size: bytes of its files.
        files_per_bucket: most files that a bucket has, by their names; None where a name has no bucket.
    """

    name: str
    values: tuple[str | None, ...]
    location: str
    state: str
    spec: BucketSpec | None = None
    problem: str = ""
    files: int = 0
    size: int = 0
    files_per_bucket: int | None = None

    def has(self, spec: BucketSpec) -> bool:
        """Whether its files are sealed as the buckets of this spec, with one file for each at most."""
        return self.state == RecordState.BUCKETED and self.spec == spec and self.files_per_bucket in (0, 1)


@dataclass(frozen=True)
class Table:
    """A partitioned table of the Hive layout.

    Args:
        name: qualified: db.t.
        spec: by which new partitions are written; None for none.
        columns: the partition columns.
        partitions: in the order of their values.
        names: of all columns, the partition columns last.
        types: of all columns.
        location: its folder.
        identity: by which a table is told from a later one of the same name.
        hash_version: bucketing_version among its properties; Hive's default without one is 1.
        lenient: options of its own by which Spark leaves out rows without an error, as they are written.
    """

    name: str
    spec: BucketSpec | None
    columns: tuple[Column, ...]
    partitions: tuple[Partition, ...] = ()
    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    location: str = ""
    identity: str = ""
    hash_version: str = "1"
    lenient: tuple[str, ...] = ()

    def claim(self, partition: Partition) -> BucketSpec | str:
        """By which spec the extension reads a partition; or the code of the reason why by none.

        Without files it fits every spec.
        """
        if partition.state == RecordState.EMPTY:
            return self.spec or RecordState.UNBUCKETED
        return partition.spec or partition.state

    def named(self, names: Collection[str]) -> tuple[Partition, ...]:
        """The partitions of these names, in their order."""
        return tuple(partition for partition in self.partitions if partition.name in names)

    def with_partitions(self, partitions: Sequence[Partition]) -> Table:
        """The same with these partitions, in the order of their values."""
        return replace(self, partitions=tuple(partitions)).ordered()

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
