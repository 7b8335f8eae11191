"""Compare joins of bucketed tables with joins of unbucketed tables: `make bench`.

To set the scale, the repetitions or the folder, run this file with --scale, --repetitions or --folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import local_spark
from measurement import BASELINE, SCANNED, VARIANTS, Measured, measure, measure_planning
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from tables import create, generate, many_partitions
from writes import time_rewrites, time_writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDE_QUERY = "select a.k, count(*) from {table} a join {table} b on a.k = b.k group by a.k"


def main() -> None:
    """Create the tables, run the queries, and write the results as a table, a chart and raw numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor")
    parser.add_argument("--repetitions", type=int, default=5, help="number of timed runs of each query")
    parser.add_argument(
        "--partitions", type=int, default=2000, help="number of partitions in the planning benchmark; 0 skips it"
    )
    parser.add_argument(
        "--evolved", type=int, default=5000, help="number of partitions in the benchmark of mixed specs; 0 skips it"
    )
    parser.add_argument("--conf", nargs="*", default=[], metavar="NAME=VALUE", help="Spark settings")
    parser.add_argument("--folder", type=Path, default=Path(".demo/bench"), help="folder for data, tables and results")
    options = parser.parse_args()
    folder = options.folder.absolute() / f"scale-{options.scale:g}"
    generate(folder, options.scale)
    spark = session(folder, dict(pair.split("=", 1) for pair in options.conf))
    create(spark, folder)
    console = Console(record=True, width=150)
    results = measure(spark, options.repetitions)
    console.print(_table(results, options))
    console.save_svg(str(folder / "bench.svg"), title="spark-bucketing benchmark", clear=False)
    figures = {
        query: {variant: vars(seen) for variant, seen in variants.items()} for query, variants in results.items()
    }
    (folder / "bench.json").write_text(json.dumps(figures, indent=2))
    console.print(time_writes(spark, options.repetitions))
    console.print(time_rewrites(spark, options.repetitions))
    if options.partitions:
        console.print(_planning(spark, "wide", options.partitions, 64))
    if options.evolved:
        console.print(_planning(spark, "evolved", options.evolved, 4, 8))
    console.print(f"Chart and raw numbers: {folder}/bench.svg, bench.json")
    spark.stop()


def session(folder: Path, settings: dict[str, str]) -> SparkSession:
    """Start an embedded Spark session with the extension, using all cores."""
    large = {
        "spark.master": "local[*]",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    return local_spark.session(folder, {**large, **settings})


def _table(results: dict[str, dict[str, Measured]], options: argparse.Namespace) -> Table:
    columns = ("query", "tables", "seconds", "ratio", "x scan only", "exchanges", "sorts", "peak memory MiB")
    title = f"TPC-H scale {options.scale:g}, medians of {options.repetitions}; ratio to unbucketed tables"
    table = Table(*columns, "seconds, less is better", title=title)
    for query, variants in results.items():
        longest = max(seen.median for seen in variants.values())
        for variant, seen in variants.items():
            ratio = variants[BASELINE.name].median / seen.median
            figures = (
                f"{seen.median:.2f}",
                f"{ratio:.2f}x",
                f"{seen.median / variants[SCANNED].median:.2f}x",
                str(seen.exchanges),
                str(seen.sorts),
                f"{seen.memory_mib:.0f}",
            )
            bar = Bar(longest, 0, seen.median, width=30)
            table.add_row(query if variant == BASELINE.name else "", variant, *figures, bar)
        table.add_section()
    return table


def _planning(spark: SparkSession, name: str, partitions: int, *buckets: int) -> Table:
    many_partitions(spark, name, partitions, *buckets)
    numbers = " or ".join(map(str, buckets))
    title = f"Planning a self join of {partitions:,} partitions x {numbers} buckets and listing its files"
    table = Table("extension", "seconds, cold", "seconds, warm", "metastore calls", "files listed", title=title)
    for variant, seen in measure_planning(spark, VARIANTS[3:5], name, WIDE_QUERY.format(table=name), 3).items():
        seconds = [f"{statistics.median(times):.2f}" for times in (seen.cold, seen.warm)]
        table.add_row(variant, *seconds, str(seen.calls), f"{seen.files:,}")
    return table


if __name__ == "__main__":
    main()
