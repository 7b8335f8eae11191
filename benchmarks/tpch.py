"""Run TPC-H's 22 queries over bucketed tables, with the extension and on stock Spark: `make bench-tpch`.

Each query reads either the whole tables, or inputs that Spark finds to be small or empty only at run time. In a stock
plan, adaptive execution learns the size of such an input from a shuffle. A bucketed plan has no such shuffle.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from local_spark import session
from rich.console import Console
from rich.table import Table
from tables import WrongRowsError, generate
from tpch_project import CASES, queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "tpch"
INPUTS: dict[str, dict[str, str]] = {
    "whole": {},
    "few orders": {"orders": "o_orderkey % 997 = 5"},
    "no orders": {"orders": "o_comment = 'none of them'"},
    "no lineitem": {"lineitem": "l_comment = 'none of them'"},
}
VARIANTS = {"stock": "false", "extension": "true"}


def main() -> None:
    """Create the tables, run the queries, and write the results as a table and as raw numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor")
    parser.add_argument("--repetitions", type=int, default=3, help="number of timed runs of each query and variant")
    parser.add_argument(
        "--layout",
        default="hive",
        choices=["hive", "mixed_hive"],
        help="bucket layout to use, defined by the test cases",
    )
    parser.add_argument("--queries", nargs="*", help="run only these queries, such as q03")
    parser.add_argument(
        "--inputs", nargs="*", choices=INPUTS, default=list(INPUTS), help="run the queries only over these inputs"
    )
    parser.add_argument(
        "--jobs", action="store_true", help="also print when each job of a query's last run started and ended"
    )
    parser.add_argument("--folder", type=Path, default=Path(".demo/bench"), help="folder for data, tables and results")
    options = parser.parse_args()
    folder = options.folder.absolute() / f"tpch-{options.scale:g}"
    described = yaml.safe_load((CASES / "tables.yml").read_text())
    generate(folder, options.scale, list(described["tables"]))
    settings = {"spark.master": "local[*]", "spark.driver.memory": "6g", "spark.sql.shuffle.partitions": "16"}
    spark = session(folder, settings)
    _create(spark, folder, described, options.layout)
    texts = queries()
    chosen = {name: texts[name] for name in options.queries or texts}
    console = Console(width=150)
    results = {}
    for name in options.inputs:
        jobs: list[tuple[str, ...]] = []
        results[name] = measure(spark, described, options, name, chosen, jobs)
        if options.jobs:
            console.print(_job_table(name, jobs))
        console.print(_table(f"{name}, scale {options.scale:g}, medians of {options.repetitions}", results[name]))
        (folder / "tpch.json").write_text(json.dumps(results, indent=2))
    spark.stop()


def _create(spark: SparkSession, folder: Path, described: dict[str, Any], layout: str) -> None:
    spark.sql(f"create database if not exists {DATABASE}_{layout}")
    spark.sql(f"use {DATABASE}_{layout}")
    buckets = described["layouts"][layout]["buckets"]
    for name in described["tables"]:
        if spark.catalog.tableExists(f"{DATABASE}_{layout}.{name}"):
            continue
        source = spark.read.parquet(str(folder / f"{name}.parquet"))
        source.createOrReplaceTempView(f"{name}_source")
        columns = ", ".join(f"{column} {kind}" for column, kind in source.dtypes)
        column, number = buckets.get(name, (None, 0))
        clustered = f"clustered by ({column}) sorted by ({column}) into {number} buckets" if column else ""
        # Version 1 would leave half of the buckets of lineitem and orders empty.
        spark.sql(
            f"create table {name} ({columns}) {clustered} stored as parquet tblproperties ('bucketing_version' = '2')"
        )
        spark.sql(f"insert into {name} select * from {name}_source")


def measure(
    spark: SparkSession,
    described: dict[str, Any],
    options: argparse.Namespace,
    inputs: str,
    queries: dict[str, str],
    jobs: list[tuple[str, ...]],
) -> dict[str, dict[str, dict[str, float]]]:
    """Run queries over these inputs, alternating between all variants.

    Args:
        spark: the session.
        described: the tables and layouts that the test cases define.
        options: command line options.
        inputs: a key of INPUTS.
        queries: query texts by name.
        jobs: list to which the function adds the jobs of each query's last run, see _jobs().

    Returns:
        The median seconds to plan a query and to run it, by query and variant.

    Raises:
        WrongRowsError: two variants returned different rows.
    """
    for name in described["tables"]:
        where = INPUTS[inputs].get(name, "true")
        table = f"{DATABASE}_{options.layout}.{name}"
        spark.sql(f"create or replace temporary view {name} as select * from {table} where {where}")
    results = {}
    for query, text in queries.items():
        seen: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
        expected = None
        for repetition in range(options.repetitions + 1):
            for variant, enabled in VARIANTS.items():
                spark.conf.set("spark.bucketing.enabled", enabled)
                _wait_for_tasks(spark)
                before, began = len(all_jobs(spark)), time.time()
                start = time.perf_counter()
                frame = spark.sql(text)
                frame._jdf.queryExecution().executedPlan()
                planned = time.perf_counter() - start
                rows = [_round(row) for row in frame.collect()]
                if repetition:
                    seen[variant].append((planned, time.perf_counter() - start))
                if repetition == options.repetitions:
                    _wait_for_tasks(spark)
                    jobs.extend((query, variant, *job) for job in _jobs(all_jobs(spark)[before:], began))
                rows.sort(key=repr)
                expected = expected or rows
                if rows != expected:
                    raise WrongRowsError(f"{query} over {inputs}: different rows with variant {variant}")
        results[query] = {
            variant: dict(zip(("planning", "whole"), map(statistics.median, zip(*runs, strict=True)), strict=True))
            for variant, runs in seen.items()
        }
    return results


def _wait_for_tasks(spark: SparkSession) -> None:
    # Over an empty input, adaptive execution returns before its cancelled tasks end. Without this wait, the next query
    # would compete with them for cores.
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        time.sleep(0.01)


def all_jobs(spark: SparkSession) -> list[Any]:
    """Return all jobs that are still in Spark's status store, ordered by job id."""
    found = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return sorted((found.apply(i) for i in range(found.size())), key=lambda job: int(job.jobId()))


def _jobs(found: list[Any], began: float) -> list[tuple[str, ...]]:
    # Each row has the job's purpose, its start and end in seconds after the query's start, and its status.
    def moment(time: Any) -> str:
        return f"{time.get().getTime() / 1000 - began:.2f}" if time.isDefined() else ""

    def purpose(job: Any) -> str:
        # Spark tags only the jobs of broadcasts.
        return "broadcast" if "broadcast exchange" in job.jobTags().mkString(" ") else "shuffle, or result"

    times = ((job, moment(job.submissionTime()), moment(job.completionTime())) for job in found)
    return [(purpose(job), *both, str(job.numTasks()), job.status().toString().lower()) for job, *both in times]


def _job_table(inputs: str, jobs: list[tuple[str, ...]]) -> Table:
    table = Table("query", "variant", "job", "start s", "end s", "tasks", "status", title=f"Jobs, {inputs}")
    for job in jobs:
        table.add_row(*job)
    return table


def _round(row: tuple[object, ...]) -> tuple[object, ...]:
    # Floating-point sums depend on the order of rows.
    return tuple(round(value, 2) if isinstance(value, float) else value for value in row)


def _table(title: str, results: dict[str, dict[str, dict[str, float]]]) -> Table:
    table = Table(title=title)
    for column in ("query", "stock s", "extension s", "extension / stock", "planning s", "with extension"):
        table.add_column(column, justify="right")
    kinds = ("planning", "whole")
    sums = {
        variant: {kind: sum(each[variant][kind] for each in results.values()) for kind in kinds} for variant in VARIANTS
    }
    for query, seen in {**results, "sum": sums}.items():
        stock, ours = seen["stock"], seen["extension"]
        figures = [stock["whole"], ours["whole"], ours["whole"] / stock["whole"], stock["planning"], ours["planning"]]
        table.add_row(query, *(f"{figure:.2f}" for figure in figures))
    return table


if __name__ == "__main__":
    main()
