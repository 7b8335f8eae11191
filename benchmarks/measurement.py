"""Measure the run time, Exchanges, Sorts and memory use of the queries of the join benchmark.

The variants of a query run alternately, so that other load on the machine affects all of them equally.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

JOIN = "join {orders} on l_orderkey = o_orderkey"
SUMS = "select count(*), sum(l_extendedprice), max(o_orderdate)"

# The text of each query, and the tables that it joins with orders. {name} stands for the table with that name in the
# tested layout.
QUERIES: dict[str, tuple[str, Sequence[str]]] = {
    "join": (f"{SUMS} from {{lineitem}} {JOIN}", ["lineitem"]),
    "join, group by the key": (
        "select count(*), sum(total) from (select o_orderkey, sum(l_extendedprice) as total"
        f" from {{lineitem}} {JOIN} group by o_orderkey)",
        ["lineitem"],
    ),
    "join, group by a superset of the key": (
        "select count(*), sum(total) from (select o_orderkey, o_orderdate, sum(l_extendedprice) as total"
        f" from {{lineitem}} {JOIN} group by o_orderkey, o_orderdate)",
        ["lineitem"],
    ),
    "one-to-many: 64 buckets against 16": (f"{SUMS} from {{lineitem_fine}} {JOIN}", ["lineitem_fine"]),
    "union of two tables, joined": (
        f"{SUMS} from (select * from {{lineitem_old}} union all select * from {{lineitem_new}}) {JOIN}",
        ["lineitem_old", "lineitem_new"],
    ),
    "seven partitions, joined": (f"{SUMS} from {{lineitem_years}} {JOIN}", ["lineitem_years"]),
}


def _scan_query(lineitems: Sequence[str]) -> str:
    """Return the lower bound of a query: it scans and sums the same columns of orders and of these tables."""
    sums = [f"(select count(l_orderkey), sum(l_extendedprice) from {{{name}}})" for name in lineitems]
    orders = "(select count(o_orderkey), max(o_orderdate) from {orders})"
    return f"select * from {' cross join '.join([*sums, orders])}"


@dataclass(frozen=True)
class Variant:
    """A variant of the benchmark: the layout of the tables, with or without the extension, or a scan of the inputs."""

    name: str
    layout: str
    extension: bool = False
    scan: bool = False


VARIANTS = (
    Variant("unbucketed tables", "plain"),
    Variant("Spark layout, stock", "spark"),
    Variant("Spark layout, extension", "spark", extension=True),
    Variant("Hive layout, stock", "hive"),
    Variant("Hive layout, extension", "hive", extension=True),
    Variant("Hive layout, scan only", "hive", scan=True),
)
BASELINE = VARIANTS[0]
SCANNED = VARIANTS[-1].name


class WrongRowsError(Exception):
    """Two variants of a query returned different rows."""


@dataclass
class Measured:
    """The measurements of one query with one variant."""

    seconds: list[float] = field(default_factory=list)
    memory_mib: float = 0
    exchanges: int = 0
    sorts: int = 0

    @property
    def median(self) -> float:
        """Return the median run time in seconds."""
        return statistics.median(self.seconds)


def measure(spark: SparkSession, repetitions: int) -> dict[str, dict[str, Measured]]:
    """Run every query in every variant.

    Args:
        spark: a session with the extension, whose current database contains the tables.
        repetitions: number of timed runs of each query, after one warm-up run.

    Returns:
        The measurements, by query and then by variant.

    Raises:
        WrongRowsError: two variants returned different rows.
    """
    results = {query: {variant.name: Measured() for variant in VARIANTS} for query in QUERIES}
    for query, (text, lineitems) in QUERIES.items():
        expected = None
        for repetition in range(repetitions + 1):
            for variant in VARIANTS:
                sql = _sql(_scan_query(lineitems) if variant.scan else text, variant)
                rows, seconds = _run(spark, variant, sql, results[query][variant.name])
                expected = expected or rows
                if rows != expected and not variant.scan:
                    raise WrongRowsError(f"{query}, {variant.name}: found {rows}, expected {expected}")
                if repetition:
                    results[query][variant.name].seconds.append(seconds)
    return results


@dataclass
class Planned:
    """The cost of planning a query and listing its files.

    The times, in seconds, are with cold and with warm caches. The other figures are with cold caches.
    """

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    calls: int = 0
    files: int = 0


def measure_planning(
    spark: SparkSession, variants: Sequence[Variant], table: str, query: str, repetitions: int
) -> dict[str, Planned]:
    """Measure the time and the resources that Spark uses to plan a query and to list its files, without running it.

    Stock Spark lists files when a query starts, but the extension lists them during planning. Therefore, the time
    covers both steps.

    Returns:
        The measurements by variant. The measurements exclude the first repetition.
    """
    metrics = cast(Any, spark._jvm).org.apache.spark.metrics.source.HiveCatalogMetrics
    results = {variant.name: Planned() for variant in variants}
    for repetition in range(repetitions + 1):
        for variant in variants:
            _configure(spark, variant)
            spark.catalog.refreshTable(table)
            metrics.reset()
            cold = _plan_and_list(spark, query)
            planned = results[variant.name]
            planned.calls = metrics.METRIC_HIVE_CLIENT_CALLS().getCount()
            planned.files = metrics.METRIC_FILES_DISCOVERED().getCount()
            warm = _plan_and_list(spark, query)
            if repetition:
                planned.cold.append(cold)
                planned.warm.append(warm)
    return results


def _plan_and_list(spark: SparkSession, query: str) -> float:
    start = time.perf_counter()
    for scan in _leaves(spark.sql(query)._jdf.queryExecution().executedPlan()):
        scan.selectedPartitions()
    return time.perf_counter() - start


def _leaves(plan: Any) -> list[Any]:
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.initialPlan()
    children = plan.children()
    below = [leaf for i in range(children.size()) for leaf in _leaves(children.apply(i))]
    return below or [plan]


def _sql(text: str, variant: Variant) -> str:
    return text.format(**{name: f"{name}_{variant.layout} as {name}" for name in TABLES})


def _configure(spark: SparkSession, variant: Variant) -> None:
    spark.conf.set("spark.bucketing.enabled", str(variant.extension).lower())


def _run(spark: SparkSession, variant: Variant, sql: str, into: Measured) -> tuple[list[Row], float]:
    _configure(spark, variant)
    context = spark.sparkContext
    group = f"run {time.perf_counter()}"
    context.setJobGroup(group, sql[:80])
    start = time.perf_counter()
    frame = spark.sql(sql)
    rows = frame.collect()
    seconds = time.perf_counter() - start
    plan = frame._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    # Every plan shuffles partial counts into one row, so the benchmark does not count that Exchange.
    into.exchanges = len(re.findall(r"\bExchange (?!SinglePartition)", plan))
    into.sorts = len(re.findall(r"\bSort \[", plan))
    store = context._jsc.sc().statusStore()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job for stage in job.stageIds}
    peaks = [store.lastStageAttempt(stage).peakExecutionMemory() for stage in stages]
    into.memory_mib = max(into.memory_mib, max(peaks, default=0) / 2**20)
    return rows, seconds
