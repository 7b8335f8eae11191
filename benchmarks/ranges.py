"""Time a filter on the range column of a table with many files, with and without file statistics: `make bench-ranges`.

The table has 200 partitions. Within a partition, the files' ranges do not overlap. The filter selects a thousandth of
the values in every partition. To find out whether a file contains selected values, stock Spark reads the file's footer.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from local_spark import temporary_session
from rich.console import Console
from rich.table import Table

from spark_bucketing.session import SessionStatements
from spark_bucketing.tables.file_statistics import organized_table, repair_file_statistics
from spark_bucketing.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 200
ROWS_OF_FILE = 50


def make(spark: SparkSession, folder: Path, files: int) -> float:
    """Write the table and its file statistics, and return the seconds to write the statistics."""
    each = files // PARTITIONS
    spark.sql(
        "create table t (o bigint, v double, w string, p int) using parquet partitioned by (p)"
        """ tblproperties ('bucketing.range_by' = '["o"]')"""
    )
    # spark.range assigns consecutive numbers to each task, so each file has its own range.
    rows = spark.range(0, each * ROWS_OF_FILE, 1, each)
    rows.selectExpr("id as o", "rand(1) as v", "'text' as w", "0 as p").write.insertInto("t")
    first = folder / "warehouse" / "t" / "p=0"
    for number in range(1, PARTITIONS):
        shutil.copytree(first, first.with_name(f"p={number}"))
    spark.sql("msck repair table t")
    warehouse = Warehouse(SessionStatements(spark).rows)
    start = time.monotonic()
    repair_file_statistics(warehouse, organized_table(warehouse, "t"))
    return time.monotonic() - start


def run(spark: SparkSession, query: str) -> tuple[float, int, object]:
    """Run a query; return the seconds, the number of files that the scan reads, and the result rows."""
    spark.catalog.refreshTable("t")
    start = time.monotonic()
    frame = spark.sql(query)
    answer = frame.collect()
    seconds = time.monotonic() - start
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return seconds, leaves.apply(0).metrics().apply("numFiles").value(), answer


def main() -> None:
    """Create the table, and print the query times and the numbers of files read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="number of files")
    parser.add_argument("--runs", type=int, default=5, help="number of timed runs of each query")
    arguments = parser.parse_args()
    with temporary_session("3g", {"spark.sql.adaptive.enabled": "false"}, durable=True) as (spark, folder):
        mapped = make(spark, folder, arguments.files)
        least = arguments.files // PARTITIONS * ROWS_OF_FILE // 2
        select = "select count(*), max(v), sum(o) from t"
        queries = {
            "a thousandth of the rows": f"{select} where o between {least} and {least + least // 500}",
            "one value in one partition": f"{select} where p = 7 and o = {least}",
            "all rows": select,
        }
        table = Table("rows", "stock", "files", "file statistics", "files", "speedup")
        for name, query in queries.items():
            runs: dict[str, list[tuple[float, int, object]]] = {"false": [], "true": []}
            for _ in range(arguments.runs):
                for enabled, seen in runs.items():
                    spark.conf.set("spark.bucketing.enabled", enabled)
                    seen.append(run(spark, query))
            if len({str(answer) for seen in runs.values() for _, _, answer in seen}) != 1:
                raise SystemExit(f"{name}: the rows differ")
            stock, ours = (statistics.median(seconds for seconds, _, _ in runs[which]) for which in ("false", "true"))
            files = [f"{runs[which][0][1]:,}" for which in ("false", "true")]
            first = runs["true"][0][0]
            table.add_row(name, f"{stock:.2f} s", files[0], f"{ours:.2f} s", files[1], f"{stock / ours:.1f}")
            Console().print(f"{name}: first run with file statistics {first:.2f} s")
        Console().print(f"{arguments.files:,} files; writing their statistics took {mapped:.1f} s")
        Console().print(table)


if __name__ == "__main__":
    main()
