"""Read a table and its partitions, with their bucket specs, from the metastore and the session extension.

Each partition has its own bucket spec. Also decide which partitions Spark can read together as bucketed. The session
extension decides in the same way.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import reduce
from itertools import groupby, takewhile
from math import gcd
from typing import Any

from spark_bucketing import sql
from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.spec import BucketSpec, described_sections, listed_properties, stated_version
from spark_bucketing.tables.warehouse import Warehouse

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


# Hive's directory name for the partition value NULL.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def read_table(warehouse: Warehouse, name: str) -> TableMetadata:
    """Read the bucket spec of a table, and the bucket specs of its partitions."""
    warehouse.require_extension(name)
    table = existing_table(warehouse, name)
    _refuse_others(table)
    table = replace(table, partitions=read_partitions(warehouse, name))
    if table.spec is None and not any(partition.spec for partition in table.partitions):
        raise TableError(
            f"Table `{name}` has no buckets, and no partition is sealed.",
            expected="a bucketed table",
            instead=f"to add buckets without a rewrite, run `ALTER TABLE {name} CLUSTERED BY (...) INTO n BUCKETS`, "
            "or set on_bucket_change='evolve' in its dbt model with materialized='bucketed_incremental'",
        )
    return table


def existing_table(warehouse: Warehouse, name: str) -> TableMetadata:
    """Describe a table that must exist."""
    table = describe_table(warehouse, name)
    if table is None:
        raise TableError(
            f"Table `{name}` does not exist.",
            expected="a table in the target's schema and metastore",
            instead="check the name and the target",
        )
    return table


def describe_table(warehouse: Warehouse, name: str) -> TableMetadata | None:
    """Describe a table or view without its partitions, or return None if it does not exist."""
    try:
        rows = warehouse.rows(f"describe table extended {sql.table(name)}")
    except SparkError as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            return None
        raise
    types, partition_types, details = described_sections(rows)
    return TableMetadata(
        name,
        in_lower_case(BucketSpec.from_description(details)),
        columns=tuple(Column(*column) for column in partition_types.items()),
        all_columns=tuple(Column(*column) for column in types.items()),
        details=details,
        options=listed_properties(details.get("Storage Properties", "")),
    )


def read_partitions(warehouse: Warehouse, name: str) -> tuple[Partition, ...]:
    """Return the partitions of a table from bucket_specs(), in no particular order."""
    return tuple(map(partition_of, warehouse.rows(sql.bucket_specs(name))))


def seal_table(warehouse: Warehouse, table: str, where: str | None, dry_run: bool) -> list[Partition]:
    """Read the bucket and sort columns of unsealed files, and seal the files that match the table's bucket spec."""
    warehouse.require_extension(table)
    existing_table(warehouse, table)
    # The line break ends a comment at the end of the predicate.
    condition = f" where {where}\n" if where else ""
    statement = f"alter table {sql.table(table)} seal buckets{condition}{' dry run' if dry_run else ''}"
    return list(map(partition_of, warehouse.rows(statement)))


def partition_of(row: Mapping[str, Any]) -> Partition:
    """Convert a row from bucket_specs() or SEAL BUCKETS to a partition."""
    name, status = row["partition"] or "", str(row["status"])
    spec = None
    # A row with another status may have the spec of a stale seal.
    if row["num_buckets"] and status in (Status.SEALED, Status.UNCHANGED, Status.SEALABLE):
        spec = BucketSpec(row["num_buckets"], _names(row["bucket_columns"]), _names(row["sort_columns"]), row["hash"])
    return Partition(
        name=name,
        values=tuple(map(_value, name.split("/"))) if name else (),
        location=row.get("location") or "",
        status=status,
        spec=spec,
        problem=row["problem"] or "",
        files=row["files"] or 0,
        size=row["bytes"] or 0,
        files_per_bucket=row.get("max_files_per_bucket"),
        files_read=row.get("files_read") or 0,
    )


def _names(array: Any) -> tuple[str, ...]:
    # Some connections return an array as JSON.
    return tuple(json.loads(array) if isinstance(array, str) else array or ())


def _value(part: str) -> str | None:
    value = part.partition("=")[2]
    return None if value == _NULL else _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)


def in_lower_case(spec: BucketSpec | None) -> BucketSpec | None:
    """Return a copy of a spec with all column names in lower case, as in seals."""
    if spec is None:
        return None
    columns, sorts = (tuple(name.lower() for name in names) for names in (spec.bucket_columns, spec.sort_columns))
    return replace(spec, bucket_columns=columns, sort_columns=sorts)


def refuse_view(table: TableMetadata) -> None:
    """Reject a view."""
    if "VIEW" in table.details.get("Type", "").upper():
        instead = "name a table, such as a table that the view reads"
        raise TableError(f"`{table.name}` is a view.", expected="a table", instead=instead)


def _refuse_others(table: TableMetadata) -> None:
    """Reject tables whose partitions cannot have separate bucket specs."""
    name, details = table.name, table.details
    refuse_view(table)
    hive = details.get("Provider", "").lower() == "hive"
    if not hive and table.spec:
        raise TableError(
            f"Table `{name}` is in the Spark layout, in which all partitions have the same number of buckets.",
            found=f"{table.spec.num_buckets} buckets in the Spark layout; with several numbers, Spark would omit rows",
            expected="the Hive layout",
            instead="rebuild the table with bucket_hash='hive' (STORED AS PARQUET or ORC)",
        )
    if not table.columns:
        raise TableError(
            f"Table `{name}` has no partitions.",
            expected="a partitioned table",
            instead="to change the buckets of an unpartitioned table, rebuild it with `dbt run --full-refresh`",
        )
    if table.file_format not in ("parquet", "orc"):
        raise TableError(
            f"Table `{name}` has a file format for which Spark does not support buckets in the Hive layout.",
            found=table.file_format or "no file format",
            expected="Parquet or ORC",
            instead="rebuild the table with file_format='parquet' (STORED AS PARQUET or ORC)",
        )


# Adjacent partitions with the same status and bucket spec.
PartitionRun = tuple[Partition, ...]


@dataclass(frozen=True)
class Merging:
    """The session settings that decide whether Spark reads files with `many` buckets as `few` buckets."""

    alignment: str = "auto"  # spark.bucketing.join.alignment
    cores: int = 1  # number of cores in the cluster; with fewer tasks, cores are idle
    most_ratio: int = 4  # spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio

    def worth(self, few: int, many: int) -> bool:
        """Return whether combining buckets pays off, like BucketAlignment.worthMerging in the extension."""
        if few == many:
            return True
        if few < 2 or self.alignment == "off":
            return False
        return self.alignment != "auto" or few >= self.cores or many // few <= self.most_ratio


@dataclass(frozen=True)
class Read:
    """How one query reads certain partitions."""

    partitions: tuple[Partition, ...]  # all partitions, in order
    spec: BucketSpec | None = None  # common spec of the bucketed scan; None for an ordinary scan
    why: str = ""  # reason for an ordinary scan


def compatible_read(table: TableMetadata, partitions: Sequence[Partition], merging: Merging) -> Read:
    """Determine how one query reads these partitions of a table. Partitions without files have no effect."""
    chosen = tuple(partitions)
    if table.spec is None:
        return Read(chosen, why="the table has no buckets now (it is NOT CLUSTERED)")
    filled = [partition for partition in chosen if partition.has_files]
    plain = [partition for partition in filled if partition.spec is None]
    if plain:
        alike = [partition for partition in plain if partition.status == plain[0].status]
        more = f"s {plain[0].name} and {len(alike) - 1:,} more are" if len(alike) > 1 else f" {plain[0].name} is"
        return Read(chosen, why=f"partition{more} {plain[0].status}")
    first_of: dict[BucketSpec, str] = {}
    for partition in filled:
        if partition.spec:
            first_of.setdefault(partition.spec, partition.name)
    common = common_spec(list(first_of) or [table.spec], merging)
    kinds: dict[str, str] = {}
    for spec, name in first_of.items():
        kinds.setdefault(_kind(spec, first_of), name)
    differing = ", ".join(f"{kind} in {name}" for kind, name in kinds.items())
    return Read(chosen, common, "" if common else f"its bucket specs differ: {differing}")


def common_spec(specs: Sequence[BucketSpec], merging: Merging) -> BucketSpec | None:
    """Return the spec with which one scan can read files with any of these specs, or None if there is none."""
    if len({(spec.bucket_columns, spec.bucket_hash) for spec in specs}) != 1:
        return None
    counts = [spec.num_buckets for spec in specs]
    common = reduce(gcd, counts)
    if not merging.worth(common, max(counts)):
        return None
    levels = zip(*(spec.sort_columns for spec in specs), strict=False)
    order = tuple(names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels))
    return BucketSpec(common, specs[0].bucket_columns, order, specs[0].bucket_hash)


def _kind(spec: BucketSpec, others: Iterable[BucketSpec]) -> str:
    """Describe the first part of a spec that differs from the other specs."""
    if any(other.bucket_columns != spec.bucket_columns for other in others):
        return f"by {', '.join(spec.bucket_columns)}"
    if any(other.bucket_hash != spec.bucket_hash for other in others):
        return f"hash {spec.bucket_hash}"
    return f"{spec.num_buckets} buckets"


def runs(partitions: Iterable[Partition]) -> list[PartitionRun]:
    """Group adjacent partitions that have the same spec and the same status."""
    return [tuple(group) for _, group in groupby(partitions, lambda partition: (partition.status, partition.spec))]


def span(partitions: Sequence[Partition]) -> str:
    """Return the names of the first and the last of several adjacent partitions: ds=a .. ds=f."""
    first, last = partitions[0].name, partitions[-1].name
    return first if first == last else f"{first} .. {last}"


def readable_ranges(table: TableMetadata, merging: Merging) -> list[Read]:
    """Return the longest ranges of partitions that Spark can read together, and the partitions that are in no range.

    If Spark can read certain partitions together, it can also read any subset of them together. Therefore, as the start
    of a range moves forward, its end never moves back.
    """
    found = runs(table.partitions)

    def read(start: int, end: int) -> Read:
        return compatible_read(table, [partition for run in found[start:end] for partition in run], merging)

    reads: list[Read] = []
    end = 0
    for start in range(len(found)):
        last = max(end, start + 1)
        while last < len(found) and read(start, last + 1).spec:
            last += 1
        # A range with the same end as the previous range is contained in it.
        if last > end:
            reads.append(read(start, last))
        end = last
    return reads


def smallest_rewrite(table: TableMetadata, selected: Sequence[Partition], merging: Merging) -> tuple[Partition, ...]:
    """Return the partitions to rewrite so that one query can read all selected partitions together.

    The rewritten partitions get the table's spec, so Spark must be able to read all others with a number of buckets
    that divides the table's. Of all divisors and maximum numbers, the pair wins with which the most partitions stay.
    """
    if table.spec is None or compatible_read(table, selected, merging).spec:
        return ()
    own, target = table.spec.num_buckets, table.spec

    def is_alike(part: Partition) -> bool:
        keys = (target.bucket_columns, target.bucket_hash)
        return part.spec is not None and (part.spec.bucket_columns, part.spec.bucket_hash) == keys

    numbers = Counter(part.spec.num_buckets for part in selected if part.spec and is_alike(part))
    staying = (
        {number for number in numbers if number % few == 0 and number <= many}
        for few in range(1, own + 1)
        for many in {own, *numbers}
        if own % few == 0 and many >= own and merging.worth(few, many)
    )
    best = max(staying, key=lambda stay: sum(numbers[number] for number in stay))

    def stays(part: Partition) -> bool:
        return not part.has_files or (part.spec is not None and is_alike(part) and part.spec.num_buckets in best)

    return tuple(part for part in selected if not stays(part))
