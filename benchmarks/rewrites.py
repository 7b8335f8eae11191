"""Time `spark-bucketing table rewrite` for partitions of 9 MB, with one command per partition and with one for all."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING

from rich.table import Table as Printed

from spark_bucketing.session import SessionStatements
from spark_bucketing.table.metadata import read_table
from spark_bucketing.table.model import total_size
from spark_bucketing.table.rewrite import plan_rewrite, rewrite_batch
from spark_bucketing.table.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 5
ROWS = 230_000  # 9 MB per partition


def time_rewrites(spark: SparkSession, repetitions: int) -> Printed:
    """Rewrite one partition, then all partitions together, from 8 to 16 buckets, and return the median times."""
    printed = Printed("partitions", "MB", "seconds", title=f"table rewrite, medians of {repetitions}")
    for number in (1, PARTITIONS):
        taken = []
        # The first run is a warm-up.
        for turn in range(repetitions + 1):
            _make(spark)
            with closing(SessionStatements(spark)) as statements:
                warehouse = Warehouse(statements.rows)
                table = read_table(warehouse, "default.rewritten")
                todo = plan_rewrite(table, table.partitions[:number]).todo
                begin = time.perf_counter()
                rewrite_batch(warehouse, table, todo, lambda _: None)
            if turn:
                taken.append(time.perf_counter() - begin)
        printed.add_row(str(number), f"{total_size(todo) / 1e6:.0f}", f"{statistics.median(taken):.1f}")
    return printed


def _make(spark: SparkSession) -> None:
    clustered = "clustered by (k) sorted by (k) into {} buckets"
    spark.sql("drop table if exists rewritten")
    spark.sql(
        f"create table rewritten (k bigint, v string) partitioned by (ds int) {clustered.format(8)} stored as parquet"
    )
    rows = f"select id, sha1(string(id)), cast(id % {PARTITIONS} as int) from range({PARTITIONS * ROWS})"
    spark.sql(f"insert into rewritten {rows}")
    spark.sql(f"alter table rewritten {clustered.format(16)}")
