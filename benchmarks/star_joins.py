"""Show what star joins of TPC-DS read with and without run-time filters: `make bench-star-joins`.

There are two tables of store sales: `by_day` is organized by ranges of the day, and `by_item` is bucketed by the item.
The queries come from the jar of Spark's tests, and the rows from Trino's generator. Each query runs on both tables in
turns, with and without run-time filters; the first round warms up. All variants must return the same rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from check_tpcds import queries, type_of
from local_spark import session
from tables import WrongRowsError

FILTERS = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
DIMENSIONS = ("date_dim", "item", "store", "promotion", "customer_demographics", "household_demographics", "time_dim")
LAYOUTS = {
    "by_day": "using parquet tblproperties "
    "('bucketing.range_by' = '[\"ss_sold_date_sk\"]', 'bucketing.rows_per_file' = '{rows_per_file}')",
    "by_item": "clustered by (ss_item_sk) sorted by (ss_item_sk) into {files} buckets stored as parquet "
    "tblproperties ('bucketing_version' = '2')",
}
VARIANTS = [(layout, filters) for layout in LAYOUTS for filters in (False, True)]
QUERIES = ["q3", "q7", "q42", "q43", "q52", "q53", "q55", "q63", "q89", "q96", "q98"]


class Cost(NamedTuple):
    """What a query read of the sales, and its seconds."""

    seconds: float
    files: int
    bytes: int


def generate(spark: Any, folder: Path, scale: float, table: str) -> None:
    """Create a temporary view of the rows of a table."""
    java = spark.sparkContext._jvm
    generator, empty = java.io.trino.tpcds, java.java.util.Optional.empty()
    of = generator.Table.getTable(table)
    target = generator.Session(float(scale), str(folder), ".dat", empty, "", "|", False, False, 1, True).withTable(of)
    generator.TableGenerator(target).generateTable(of)
    columns = ", ".join(f"{column.getName()} {type_of(column.getType())}" for column in of.getColumns())
    read = spark.read.csv(str(folder / f"{table}.dat"), f"{columns}, nothing string", sep="|")
    read.drop("nothing").write.parquet(str(folder / table))
    view = f"{table}_rows" if table == "store_sales" else table
    spark.read.parquet(str(folder / table)).createOrReplaceTempView(view)


def scans_of_sales(plan: Any) -> Any:
    """Return the scans of the sales in an executed plan."""
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from scans_of_sales(plan.executedPlan())
    elif name.endswith("QueryStageExec"):
        yield from scans_of_sales(plan.plan())
    elif plan.nodeName().startswith("Scan parquet") and "store_sales" in plan.nodeName():
        yield plan
    for place in range(plan.children().size()):
        yield from scans_of_sales(plan.children().apply(place))


def run(spark: Any, sql: str) -> tuple[list[Any], Cost]:
    """Run a query, and return its rows and what it cost."""
    start = time.perf_counter()
    frame = spark.sql(sql)
    rows = frame.collect()
    seconds = time.perf_counter() - start
    scans = list(scans_of_sales(frame._jdf.queryExecution().executedPlan()))
    files, size = (sum(scan.metrics().apply(name).value() for scan in scans) for name in ("numFiles", "filesSize"))
    return sorted(map(str, rows)), Cost(seconds, files, size)


def make_tables(spark: Any, folder: Path, scale: float, files: int) -> None:
    """Generate the rows, and create the tables."""
    for table in (*DIMENSIONS, "store_sales"):
        generate(spark, folder, scale, table)
    rows = spark.table("store_sales_rows")
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
    for name, layout in LAYOUTS.items():
        spark.sql(f"create database {name}")
        properties = layout.format(files=files, rows_per_file=rows.count() // files)
        spark.sql(f"create table {name}.store_sales ({columns}) {properties}")
        spark.sql(f"insert into {name}.store_sales select * from store_sales_rows")


def measure(spark: Any, sql: str) -> dict[tuple[str, bool], Cost]:
    """Run a query on each table without and with run-time filters.

    Raises:
        WrongRowsError: the rows differ.
    """
    costs, answers = {}, []
    for layout, filters in VARIANTS:
        spark.sql(f"use {layout}")
        spark.conf.set(FILTERS, filters)
        answer, costs[layout, filters] = run(spark, sql)
        answers.append(answer)
    if any(answer != answers[0] for answer in answers):
        raise WrongRowsError(sql)
    return costs


def main() -> None:
    """Print a row for each query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, required=True, help="folder of the two jars")
    parser.add_argument("--scale", type=float, default=1, help="TPC-DS scale factor")
    parser.add_argument("--files", type=int, default=64, help="number of files or buckets of the sales")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds that count")
    parser.add_argument("--names", nargs="+", default=QUERIES, help="queries to run")
    options = parser.parse_args()
    (tests,), (generator,) = options.jars.glob("spark-sql_*-tests.jar"), options.jars.glob("tpcds-*.jar")
    texts = {name: text for name, text in queries(tests).items() if name in options.names}
    settings = {"spark.master": "local[2]", "spark.driver.memory": "3g", "spark.driver.extraClassPath": str(generator)}
    costs = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder) / "spark", settings)
        make_tables(spark, Path(folder), options.scale, options.files)
        for turn in range(options.rounds + 1):
            for name, sql in texts.items():
                measured = measure(spark, sql)
                for variant in VARIANTS if turn else ():
                    costs[name, variant].append(measured[variant])
        spark.stop()
    print(
        "| query | " + " | ".join(f"{layout}, {'with' if on else 'without'} filters" for layout, on in VARIANTS) + " |"
    )
    print("| --- |" + " --- |" * len(VARIANTS))
    for name in texts:
        print(f"| {name} | " + " | ".join(cell(costs[name, variant]) for variant in VARIANTS) + " |")


def cell(costs: Sequence[Cost]) -> str:
    """Return files, MiB and the median of the seconds."""
    seconds = statistics.median(cost.seconds for cost in costs)
    return f"{costs[0].files} files, {costs[0].bytes / 2**20:.1f} MiB, {seconds:.2f} s"


if __name__ == "__main__":
    main()
