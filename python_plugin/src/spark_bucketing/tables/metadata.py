"""Read tables, partitions and seals from the metastore and the session extension."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.spec import BucketSpec, described_sections, listed_properties
from spark_bucketing.statements import settings_of
from spark_bucketing.tables import sql
from spark_bucketing.tables.compatibility import Merging
from spark_bucketing.tables.model import Column, Partition, Status, TableMetadata
from spark_bucketing.tables.warehouse import Warehouse

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


def merging_of(warehouse: Warehouse) -> Merging:
    """Return the session settings that control how Spark reads different numbers of buckets together."""
    tasks = warehouse.rows(
        "select max(task) + 1 as tasks from (select spark_partition_id() as task from range(100000))"
    )
    settings = settings_of(warehouse.rows)
    return Merging(
        settings.get("spark.bucketing.join.alignment", "auto"),
        int(tasks[0]["tasks"]),
        int(settings.get("spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio", "4")),
    )
