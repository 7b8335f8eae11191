"""Sealing the files of others: ALTER TABLE ... SEAL BUCKETS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.records import names_in
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.spec import BucketSpec

SEALED, REFUSED = "sealed", "refused"


@dataclass(frozen=True)
class Sealed:
    """What became of a partition.

    Args:
        partition: its name; empty for a table without partitions.
        status: sealed, unchanged, empty, or refused.
        spec: of the seal; None without one.
        files: their number.
        size: their bytes.
        files_read: of how many the keys were read.
        problem: what is wrong, or what of the spec does not hold.
    """

    partition: str
    status: str
    spec: BucketSpec | None
    files: int
    size: int
    files_read: int
    problem: str


def seal_table(warehouse: Warehouse, table: str, where: str | None, dry_run: bool) -> list[Sealed]:
    """Read the keys of files that are not sealed, and seal those that are what the table says.

    Args:
        warehouse: with an open session.
        table: qualified: db.t.
        where: a predicate on the partition columns; all partitions without one.
        dry_run: write nothing.

    Raises:
        TableError: there is no such table.
        SparkError: the session lacks the extension, or Spark refuses the statement.
    """
    warehouse.require_extension(table)
    # A comment at the predicate's end must not hide what follows.
    condition = f" where {where}\n" if where else ""
    statement = f"alter table {sql.table(table)} seal buckets{condition}{' dry run' if dry_run else ''}"
    try:
        rows = warehouse.rows(statement)
    except SparkError as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            raise TableError(
                f"There is no table {table}. Check the name, and the target's schema and metastore."
            ) from error
        raise
    return [_sealed(row) for row in rows]


def _sealed(row: dict[str, object]) -> Sealed:
    number, columns, sorts = row["num_buckets"], names_in(row["bucket_columns"]), names_in(row["sort_columns"])
    return Sealed(
        partition=str(row["partition"] or ""),
        status=str(row["status"]),
        spec=BucketSpec(int(str(number)), columns, sorts, "hive") if number and columns else None,
        files=int(str(row["files"] or 0)),
        size=int(str(row["bytes"] or 0)),
        files_read=int(str(row["files_read"] or 0)),
        problem=str(row["problem"] or ""),
    )


def all_hold(found: Sequence[Sealed]) -> bool:
    """Whether nothing was refused."""
    return all(item.status != REFUSED for item in found)
