"""Sealing the files of others: ALTER TABLE ... SEAL BUCKETS."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.evolution import sql
from spark_bucketing.evolution.metadata import partition_of, require_table
from spark_bucketing.evolution.model import Partition
from spark_bucketing.evolution.warehouse import Warehouse


def seal_table(warehouse: Warehouse, table: str, where: str | None, dry_run: bool) -> list[Partition]:
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
    spec = require_table(warehouse, table).spec
    # A comment at the predicate's end must not hide what follows.
    condition = f" where {where}\n" if where else ""
    statement = f"alter table {sql.table(table)} seal buckets{condition}{' dry run' if dry_run else ''}"
    found = map(partition_of, warehouse.rows(statement))
    # The hash is the table's.
    return [
        replace(part, spec=replace(part.spec, bucket_hash=spec.bucket_hash)) if part.spec and spec else part
        for part in found
    ]
