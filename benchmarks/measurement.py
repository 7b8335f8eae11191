"""How the benchmark measures: time, exchanges and sorts, memory; the ways take turns, so that noise hits all alike."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from join_queries import QUERIES, SCANS, WAYS, Way
from tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


class WrongRowsError(Exception):
    """Two ways of running a query gave different rows."""


@dataclass
class Measured:
    """What was seen of one query, run in one way."""

    seconds: list[float] = field(default_factory=list)
    memory_mib: float = 0
    exchanges: int = 0
    sorts: int = 0

    @property
    def median(self) -> float:
        """Median of the runs, in seconds."""
        return statistics.median(self.seconds)


def measure(spark: SparkSession, repetitions: int) -> dict[str, dict[str, Measured]]:
    """Run every query in every way.

    Args:
        spark: a session with the extension, and the tables in its current database.
        repetitions: timed runs of each; one more, which is not timed, comes first.

    Returns: for each query, for each way, what was measured.

    Raises:
        WrongRowsError: two ways gave different rows.
    """
    results = {query: {way.name: Measured() for way in WAYS} for query in QUERIES}
    for query, text in QUERIES.items():
        expected = None
        for repetition in range(repetitions + 1):
            for way in WAYS:
                sql = _sql(SCANS[query] if way.scan else text, way)
                rows, seconds = _run(spark, way, sql, results[query][way.name])
                expected = expected or rows
                if rows != expected and not way.scan:
                    raise WrongRowsError(f"{query}, {way.name}: {rows} instead of {expected}")
                if repetition:
                    results[query][way.name].seconds.append(seconds)
    return results


@dataclass
class Planned:
    """Seconds until a query's files are known: at first, and again; and what it took at first."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    calls: int = 0
    files: int = 0


def planning(spark: SparkSession, ways: Sequence[Way], table: str, query: str, repetitions: int) -> dict[str, Planned]:
    """Time and effort of planning a query and listing its files, without running it.

    Stock Spark lists files when the query starts to run, the extension when it is planned; so both are taken together.

    Returns: for each way, what was measured; the first repetition is not.
    """
    metrics = cast(Any, spark._jvm).org.apache.spark.metrics.source.HiveCatalogMetrics
    results = {way.name: Planned() for way in ways}
    for repetition in range(repetitions + 1):
        for way in ways:
            _configure(spark, way)
            spark.catalog.refreshTable(table)
            metrics.reset()
            cold = _plan_and_list(spark, query)
            planned = results[way.name]
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


def _sql(text: str, way: Way) -> str:
    return text.format(**{name: f"{name}_{way.layout} as {name}" for name in TABLES})


def _configure(spark: SparkSession, way: Way) -> None:
    spark.conf.set("spark.bucketing.enabled", str(way.extension).lower())


def _run(spark: SparkSession, way: Way, sql: str, into: Measured) -> tuple[list[Row], float]:
    _configure(spark, way)
    context = spark.sparkContext
    group = f"run {time.perf_counter()}"
    context.setJobGroup(group, sql[:80])
    start = time.perf_counter()
    frame = spark.sql(sql)
    rows = frame.collect()
    seconds = time.perf_counter() - start
    plan = frame._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    # The shuffle of the final count into one row is in all of them, and is not counted.
    into.exchanges = len(re.findall(r"\bExchange (?!SinglePartition)", plan))
    into.sorts = len(re.findall(r"\bSort \[", plan))
    store = context._jsc.sc().statusStore()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job for stage in job.stageIds}
    peaks = [store.lastStageAttempt(stage).peakExecutionMemory() for stage in stages]
    into.memory_mib = max(into.memory_mib, max(peaks, default=0) / 2**20)
    return rows, seconds
