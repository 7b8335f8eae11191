"""Run queries with Spark, and describe the rows and the plans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_bucketing.plan import PhysicalPlan, PlanNode, parse_plan
from spark_bucketing.session import setting, spark_call
from spark_bucketing.units import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Answer:
    """The distinct rows of a query's result, with the number of times that each occurs, and its plan."""

    rows: Rows
    plan: PhysicalPlan

    @property
    def shuffles_and_sorts(self) -> str:
        """Return the numbers of Exchanges and Sorts as text."""
        operators = Counter(node.operator for node in self.plan.walk())
        return f"{operators['Exchange']} Exchange, {operators['Sort']} Sort"


def ask(spark: SparkSession, query: str, extension: bool) -> Answer:
    """Run a query, either with the extension or on stock Spark.

    Raises:
        SparkError: the query fails.
    """
    with setting(spark, "spark.bucketing.enabled", str(extension).lower()), spark_call(""):
        frame = spark.sql(query)
        rows = Counter(map(tuple, frame.collect()))
        jvm: Any = spark.sparkContext._jvm
        formatted = jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
        # All rows have been collected, so adaptive execution has its final plan.
        return Answer(rows, parse_plan(frame._jdf.queryExecution().explainString(formatted)))


def difference(found: Rows, expected: Rows) -> str:
    """Describe how many rows are extra or missing, and show an example of each."""
    parts = ((found - expected, "too many"), (expected - found, "missing"))
    return "; ".join(f"{count(rows.total(), 'row')} {what}, such as {next(iter(rows))}" for rows, what in parts if rows)


def plan_lines(node: PlanNode) -> Iterator[str]:
    """Yield the joins, aggregates, Exchanges, Sorts and scans of a plan, one per line.

    The line of a scan includes what EXPLAIN says about its buckets.
    """
    line = None
    if node.operator == "Scan":
        said = node.details.get("Bucketed")
        line = f"Scan {node.table}" + (f", Bucketed: {said}" if said else "")
    elif node.operator == "Exchange":
        how = re.sub("#[0-9]+L?", "", node.details["Arguments"])
        line = f"Exchange {how[: how.index(', ENSURE_REQUIREMENTS')]}"
    elif re.search("^Sort$|Join|Aggregate", node.operator):
        line = node.operator
    if line:
        yield line
    for child in node.children:
        for below in plan_lines(child):
            yield f"  {below}" if line else below
