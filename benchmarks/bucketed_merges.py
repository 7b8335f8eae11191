"""Compare statements on some partitions of a bucketed table with overwriting these partitions.

Spark's own `INSERT OVERWRITE` of the changed partitions is the baseline: it writes the same rows without looking for
them. The statements run alternately, so a warm JVM or other load favors none of them. The benchmark compares the
tables after each round, except for the last statement, which changes other rows. The byte ratio is the size of the
new files divided by the size of all files in the partitions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from local_spark import temporary_session
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The statement as Spark runs it, without `spark.bucketing.write.atomic`.
STOCK = "INSERT OVERWRITE by Spark"


def main() -> None:
    """Create the tables, run the statements alternately, and print their times and written bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100, help="number of partitions")
    parser.add_argument("--changed", type=int, default=10, help="number of partitions with changed rows")
    parser.add_argument("--buckets", type=int, default=8, help="number of buckets")
    parser.add_argument("--rows", type=int, default=20_000, help="number of rows per partition")
    parser.add_argument("--runs", type=int, default=5, help="number of runs after the first one, which does not count")
    options = parser.parse_args()
    with temporary_session("4g", {"spark.sql.shuffle.partitions": "8"}) as (spark, folder):
        spark.sql("create schema bench")
        Console(width=120).print(compare(spark, folder, options))


def compare(spark: SparkSession, folder: Path, options: argparse.Namespace) -> Table:
    """Run all statements alternately, and return a table of medians."""
    each = options.rows
    rows = f"select id, id * 0.25D as v, md5(cast(id as string)) as w, cast(id div {each} as int) as p"
    changed = f"p < {options.changed}"
    # The statements change every 101st row, in all buckets. The last statement changes only rows of the first bucket.
    one = f"id % {101 * options.buckets} = {options.buckets}"
    merge = (
        "merge into bench.t{{i}} as t using (select id, v, {w}, p from bench.source where {where}) as s"
        " on t.p = s.p and t.id = s.id when matched then update set * when not matched then insert *"
    )
    overwrite = (
        f"insert overwrite bench.t{{i}} select id, v, if(id % 101 = 7, concat('changed {{n}} ', id), w), p"
        f" from bench.source where {changed}"
    )
    statements = {
        STOCK: overwrite,
        "INSERT OVERWRITE": overwrite,
        "MERGE INTO": merge.format(w="concat('changed {n} ', id) as w", where=f"{changed} and id % 101 = 7"),
        "UPDATE": f"update bench.t{{i}} set w = concat('changed {{n}} ', id) where {changed} and id % 101 = 7",
        "MERGE INTO, one bucket": merge.format(w="w", where=f"{changed} and {one}"),
    }
    spark.sql(f"create table bench.source using parquet as {rows} from range(0, {options.partitions * each}, 1, 8)")
    for i in range(len(statements)):
        spark.sql(
            f"create table bench.t{i} (id bigint, v double, w string) partitioned by (p int)"
            f" clustered by (id) sorted by (id) into {options.buckets} buckets stored as parquet"
        )
        spark.sql(f"insert into bench.t{i} select * from bench.source")
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    ratios: dict[str, list[float]] = {name: [] for name in statements}
    for number in range(options.runs + 1):
        for i, (name, statement) in enumerate(statements.items()):
            before = files(folder, i, options.changed)
            spark.conf.set("spark.bucketing.write.atomic", str(name != STOCK).lower())
            began = time.monotonic()
            spark.sql(statement.format(i=i, n=number)).collect()
            seconds[name].append(time.monotonic() - began)
            after = files(folder, i, options.changed)
            ratios[name].append(sum(after[path] for path in after.keys() - before) / sum(before.values()))
        if len({checksum(spark, i) for i in range(4)}) != 1:
            raise SystemExit("The tables differ.")
    table = Table(
        "statement", "seconds", "times Spark's overwrite", "bytes written / bytes of the partitions",
        title=f"{options.changed} of {options.partitions} partitions with {each:,} rows in {options.buckets} buckets",
    )  # fmt: skip
    base = statistics.median(seconds[STOCK][1:])
    for name in statements:
        took = statistics.median(seconds[name][1:])
        table.add_row(name, f"{took:.2f}", f"{took / base:.2f}", f"{statistics.median(ratios[name][1:]):.2f}")
    return table


def files(folder: Path, table: int, changed: int) -> dict[Path, int]:
    """Return the sizes of the files in the changed partitions of a table."""
    root = folder / "warehouse" / "bench.db" / f"t{table}"
    return {path: path.stat().st_size for p in range(changed) for path in (root / f"p={p}").glob("[!._]*")}


def checksum(spark: SparkSession, table: int) -> tuple[object, ...]:
    """Return the number of rows of a table, and a hash of all values."""
    return tuple(spark.sql(f"select count(*), sum(cast(hash(*) as bigint)) from bench.t{table}").collect()[0])


if __name__ == "__main__":
    main()
