"""What Spark answers: the rows of a query, and the plan that was run."""

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
    """The rows of a query, each with how often it is there, and its plan."""

    rows: Rows
    plan: PhysicalPlan

    @property
    def moves(self) -> str:
        """How often the rows are moved, and sorted."""
        operators = Counter(node.operator for node in self.plan.walk())
        return f"{operators['Exchange']} Exchange, {operators['Sort']} Sort"


def ask(spark: SparkSession, query: str, extension: bool) -> Answer:
    """Run a query, with the extension or as stock Spark does.

    Raises:
        SparkError: it fails.
    """
    with setting(spark, "spark.bucketing.enabled", str(extension).lower()), spark_call(""):
        frame = spark.sql(query)
        rows = Counter(map(tuple, frame.collect()))
        jvm: Any = spark.sparkContext._jvm
        formatted = jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
        # Adaptive execution has come to its end by now: this is what was run.
        return Answer(rows, parse_plan(frame._jdf.queryExecution().explainString(formatted)))


def difference(found: Rows, expected: Rows) -> str:
    """Which rows are too many and which are missing, with one of each."""
    parts = ((found - expected, "too many"), (expected - found, "missing"))
    return "; ".join(f"{count(rows.total(), 'row')} {what}, such as {next(iter(rows))}" for rows, what in parts if rows)


def drawn(node: PlanNode) -> Iterator[str]:
    """What a plan does with the rows: joins, aggregates, exchanges, sorts, and scans with what they say of buckets."""
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
        for below in drawn(child):
            yield f"  {below}" if line else below
