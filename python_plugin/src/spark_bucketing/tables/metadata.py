"""Read a table and its partitions, with their bucket specs, from the metastore and the session extension.

Each partition has its own bucket spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
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
