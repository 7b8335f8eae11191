"""Create the benchmark tables: TPC-H lineitem and orders, without buckets and in both bucket layouts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench_project import location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUTS = ("plain", "spark", "hive")
BUCKETS = 16
FINE_BUCKETS = 64

# Table name: (query, bucket column, buckets, partition column).
TABLES: dict[str, tuple[str, str, int, str | None]] = {
    "orders": ("select * from orders", "o_orderkey", BUCKETS, None),
    "lineitem": ("select * from lineitem", "l_orderkey", BUCKETS, None),
    "lineitem_fine": ("select * from lineitem", "l_orderkey", FINE_BUCKETS, None),
    "lineitem_old": ("select * from lineitem where l_shipdate < '1995-07-01'", "l_orderkey", BUCKETS, None),
    "lineitem_new": ("select * from lineitem where l_shipdate >= '1995-07-01'", "l_orderkey", BUCKETS, None),
    "lineitem_years": ("select *, year(l_shipdate) as ship_year from lineitem", "l_orderkey", BUCKETS, "ship_year"),
}


def generate(folder: Path, scale: float, names: Sequence[str] = ("orders", "lineitem")) -> None:
    """Write TPC-H tables as Parquet files, except tables whose files already exist.

    Args:
        folder: target folder, which may not exist yet, with one file per table.
        scale: TPC-H scale factor. At scale 1, lineitem has 6 million rows.
        names: names of the tables, including lineitem.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "lineitem.parquet").exists():
        command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "--scale-factor", str(scale)]
        subprocess.run([*command, "--tables", ",".join(names), "--output-dir", str(folder)], check=True)


def create(spark: SparkSession, folder: Path, names: Sequence[str] = tuple(TABLES)) -> None:
    """Write these tables in every layout; the extension writes one file per bucket."""
    spark.sql("create database if not exists bench")
    spark.sql("use bench")
    for source in ("orders", "lineitem"):
        spark.read.parquet(str(folder / f"{source}.parquet")).createOrReplaceTempView(source)
    for name in names:
        query, key, buckets, partition = TABLES[name]
        for layout in LAYOUTS:
            _write(spark, f"{name}_{layout}", layout, query, key, buckets, partition)


def _write(
    spark: SparkSession, table: str, layout: str, query: str, key: str, buckets: int, partition: str | None
) -> None:
    if spark.catalog.tableExists(f"bench.{table}"):
        return
    columns = [(column, kind) for column, kind in spark.sql(query).dtypes if column != partition]
    partitioned = f"partitioned by ({partition} int)" if partition else ""
    definitions = ", ".join(f"{column} {kind}" for column, kind in columns)
    clustered = "" if layout == "plain" else f"clustered by ({key}) sorted by ({key}) into {buckets} buckets"
    using, stored = ("", "stored as parquet") if layout == "hive" else ("using parquet", "")
    spark.sql(f"create table {table} ({definitions}) {using} {partitioned} {clustered} {stored}")
    spark.sql(f"insert into {table} {query}")


def many_partitions(spark: SparkSession, table: str, partitions: int, *buckets: int) -> None:
    """Create a table whose partitions are directories of hard links to a few files.

    Each of the given bucket counts is the number of buckets in equally many partitions.
    """
    if spark.catalog.tableExists(f"bench.{table}"):
        return
    clustered = "clustered by (k) sorted by (k) into {} buckets"
    spark.sql(
        f"create table {table} (k bigint, v bigint) partitioned by (p int)"
        f" {clustered.format(buckets[0])} stored as parquet"
    )
    root = location(spark, table)
    each = partitions // len(buckets)
    for kind, number in enumerate(buckets):
        if kind:
            spark.sql(f"alter table {table} {clustered.format(number)}")
        first = kind * each
        spark.sql(f"insert into {table} select id, id, {first} from range({number * 10})")
        for other in range(first + 1, first + each):
            shutil.copytree(root / f"p={first}", root / f"p={other}", copy_function=os.link)
        spark.sql(f"msck repair table {table}")
