"""What is changed about a partition in the metastore."""

from __future__ import annotations

from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.spec import BucketSpec


def record(warehouse: Warehouse, table: Table, partition: Partition, spec: BucketSpec | None) -> None:
    """Record the buckets of a partition; None for none."""
    _alter(warehouse, table, partition, sql.clause(spec))


def set_location(warehouse: Warehouse, table: Table, partition: Partition, folder: str) -> None:
    """Let a partition be the files of a folder. Its record stays, and its descriptor loses its buckets."""
    _alter(warehouse, table, partition, f"set location {sql.text(folder)}")


def _alter(warehouse: Warehouse, table: Table, partition: Partition, what: str) -> None:
    warehouse.change(f"alter table {sql.table(table.name)} {sql.partition_spec(table.columns, partition)} {what}")
