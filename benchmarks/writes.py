"""Measure how long it takes to write a table, and how much of this time is due to its buckets.

The module also times `spark-bucketing table rewrite` for partitions of 9 MB, with one command per partition and with
one for all.
"""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING

from rich.table import Table
from tables import BUCKETS, TABLES

from spark_bucketing.session import SessionStatements
from spark_bucketing.tables.metadata import read_table
from spark_bucketing.tables.model import total_size
from spark_bucketing.tables.rewrite import plan_rewrite, rewrite_batch
from spark_bucketing.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = "unbucketed CTAS"
# Each statement adds one operation to the previous statement.
STEPS = {
    PLAIN: "create table {new} using parquet as {query}",
    "and a shuffle": "create table {new} using parquet as select /*+ repartition({buckets}, {key}) */ * from ({query})",
    "and a sort": "create table {new} using parquet as"
    " select * from (select /*+ repartition({buckets}, {key}) */ * from ({query})) sort by {key}",
    "bucketed, sealed": "insert into {new} {query}",
}
# The table whose partitions are rewritten.
PARTITIONS = 5
ROWS = 230_000  # 9 MB per partition


def time_writes(spark: SparkSession, repetitions: int) -> Table:
    """Write orders and lineitem with each statement in turn.

    Return the median times, and their ratios to the time for the unbucketed table.
    """
    title = f"Writing a table with {BUCKETS} buckets, medians of {repetitions}"
    table = Table("table", "written as", "seconds", "x unbucketed", title=title)
    for name in ("orders", "lineitem"):
        query, key, buckets, _ = TABLES[name]
        taken: dict[str, list[float]] = {step: [] for step in STEPS}
        # The first run is a warm-up.
        for turn in range(repetitions + 1):
            for step, statement in STEPS.items():
                _drop_and_create(spark, query, key if "insert" in statement else None, buckets)
                begin = time.perf_counter()
                spark.sql(statement.format(new="written", query=query, key=key, buckets=buckets))
                if turn:
                    taken[step].append(time.perf_counter() - begin)
        plain = statistics.median(taken[PLAIN])
        for step, seconds in taken.items():
            median = statistics.median(seconds)
            table.add_row(name if step == PLAIN else "", step, f"{median:.2f}", f"{median / plain:.2f}x")
        table.add_section()
    return table


def _drop_and_create(spark: SparkSession, query: str, key: str | None, buckets: int) -> None:
    spark.sql("drop table if exists written")
    if key:
        columns = ", ".join(f"{column} {kind}" for column, kind in spark.sql(query).dtypes)
        clustered = f"clustered by ({key}) sorted by ({key}) into {buckets} buckets"
        spark.sql(f"create table written ({columns}) {clustered} stored as parquet")


def time_rewrites(spark: SparkSession, repetitions: int) -> Table:
    """Rewrite one partition, then all partitions together, from 8 to 16 buckets, and return the median times."""
    printed = Table("partitions", "MB", "seconds", title=f"table rewrite, medians of {repetitions}")
    for number in (1, PARTITIONS):
        taken = []
        # The first run is a warm-up.
        for turn in range(repetitions + 1):
            _create_rewritten(spark)
            with closing(SessionStatements(spark)) as statements:
                warehouse = Warehouse(statements.rows)
                table = read_table(warehouse, f"{spark.catalog.currentDatabase()}.rewritten")
                todo = plan_rewrite(table, table.partitions[:number]).todo
                begin = time.perf_counter()
                rewrite_batch(warehouse, table, todo, lambda _: None)
            if turn:
                taken.append(time.perf_counter() - begin)
        printed.add_row(str(number), f"{total_size(todo) / 1e6:.0f}", f"{statistics.median(taken):.1f}")
    return printed


def _create_rewritten(spark: SparkSession) -> None:
    clustered = "clustered by (k) sorted by (k) into {} buckets"
    spark.sql("drop table if exists rewritten")
    spark.sql(
        f"create table rewritten (k bigint, v string) partitioned by (ds int) {clustered.format(8)} stored as parquet"
    )
    rows = f"select id, sha1(string(id)), cast(id % {PARTITIONS} as int) from range({PARTITIONS * ROWS})"
    spark.sql(f"insert into rewritten {rows}")
    spark.sql(f"alter table rewritten {clustered.format(16)}")
