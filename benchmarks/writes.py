"""Measure how long it takes to write a table, and how much of this time is due to its buckets."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from rich.table import Table
from tables import BUCKETS, TABLES

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
