"""Define a reason, and the phrases of its messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any

from spark_bucketing.checks.checked_query import ExchangeOrSort, Topic
from spark_bucketing.checks.results import Change, Finding, Level
from spark_bucketing.plan.document import PlanNode
from spark_bucketing.plan.operators import Operator


@dataclass(frozen=True)
class Reason:
    """A reason for an Exchange or a Sort in a plan, or for a finding about the whole project."""

    slug: str  # its name, with which users allow it
    summary: str  # one line for lists
    about: tuple[str, ...]  # the values of ExchangeOrSort.about that it explains
    # Returns a finding, or None if the reason does not apply; for a project, yields findings.
    find: Callable[..., Any]

    @property
    def documentation(self) -> str:
        """Return its section of the page: explanation, **Anti-pattern** and **Best practice**."""
        return _sections()[self.slug]


@cache
def _sections() -> Mapping[str, str]:
    # docs/reference/reasons.md is a link to this page.
    text = Path(__file__).with_name("reasons.md").read_text(encoding="utf-8")
    return {slug: body.strip() for slug, body in re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text, re.M | re.S)}


def explained(
    message: str, tables: Iterable[str | None] = (), changes: Iterable[Change] = (), level: Level = "note"
) -> Finding:
    """Return the finding of a reason that applies, with possible changes in order of their cost, cheapest first."""
    return Finding("", message, tuple(filter(None, tables)), level, changes=tuple(changes))


def reason(*about: str, of: str = "") -> Callable[[Callable[..., Any]], Reason]:
    """Turn a function into a Reason, by default for Exchanges that operators require. Its docstring is the summary.

    With `of`, the function also gets the table below the Exchange or Sort: `read` is one whose buckets Spark can read.
    """

    def made(function: Callable[..., Any]) -> Reason:
        slug, summary = function.__name__.replace("_", "-"), str(function.__doc__).removesuffix(".")
        summary = summary if summary.startswith("Spark") else summary[0].lower() + summary[1:]

        def find(step: ExchangeOrSort) -> Finding | None:
            table = getattr(step, of) if of else None
            found: Finding | None = function(step, table) if table else None if of else function(step)
            default = (table.name,) if table else ()
            return replace(found, reason=slug, tables=found.tables or default) if found else None

        def find_all(project: object) -> Iterator[Finding]:
            return (replace(found, reason=slug) for found in function(project))

        return Reason(slug, summary, about or (Topic.EXCHANGE,), find_all if isgeneratorfunction(function) else find)

    return made


def series(items: Sequence[str]) -> str:
    """Format a list as `a`, `a and b`, or `a, b and c`."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" and {items[-1]}" if items else "nothing"


def purpose(step: ExchangeOrSort) -> str:
    """Describe an operator and its keys, such as `joined on d.t.k`."""
    done = {"join": "joined on", "aggregate": "grouped by", "distinct": "deduplicated by", "window": "partitioned by"}
    by = done[step.op.kind]
    return f"{by} {series(step.key_texts)}" if step.key_texts else by.rpartition(" ")[0]


_DOINGS = {
    "GlobalLimit": "a LIMIT collects the rows in one partition",
    "TakeOrderedAndProject": "an ORDER BY with a LIMIT collects the rows in one partition",
    "CollectLimit": "a LIMIT collects the rows in one partition",
    "Expand": "ROLLUP, CUBE, GROUPING SETS or several DISTINCT aggregates copy each row with different keys",
    "Coalesce": "COALESCE combines partitions",
    "Union": "a UNION concatenates the partitions of its inputs",
    "BroadcastNestedLoopJoin": "a join without an equality condition does not preserve the buckets",
    "CartesianProduct": "a join without an equality condition does not preserve the buckets",
    "Project": "a select list recomputes the key",
    "InMemoryTableScan": "the rows come from a cache",
    "InMemoryRelation": "the rows come from a cache",
    "Exchange": "another shuffle redistributes the rows",
}


def doing(node: PlanNode, step: ExchangeOrSort) -> str:
    """Describe what an operator does to the partitioning of bucketed rows."""
    if node.operator == "Exchange" and node.shuffle and node.shuffle.requested:
        return "a REPARTITION, DISTRIBUTE BY, CLUSTER BY or REBALANCE in the query shuffles the rows"
    if node.is_global_sort or (node.shuffle and node.shuffle.kind == "range"):
        return "a global ORDER BY shuffles the rows"
    operators = step.query.operators
    op = operators.get(node.number)
    if node.operator == "Exchange":
        op = next((op for op in operators.values() if any(node in side.exchanges for side in op.sides)), None)
    if op is not None and op is not step.op:
        return _operator_doing(op, step)
    return _DOINGS.get(node.operator, f"the operator {node.operator} does not preserve the buckets")


def _operator_doing(op: Operator, step: ExchangeOrSort) -> str:
    if op.foreign:
        return f"the operator {op.node.operator} does not preserve the buckets"
    sides = [ExchangeOrSort(step.query, op, place, op.node) for place in range(len(op.sides))]
    if any(side.needed for side in op.sides):
        keys = next((side.key_texts for side in sides if side.key_texts), ())
        return f"the {op.kind} by {series(keys)} below shuffles the rows"
    if op.node.join_type.startswith("FullOuter"):
        return "after a full outer join, the keys of either side may be NULL"
    if op.kind == "join" and not op.keyless:
        return f"after a {op.node.join_type} join, the rows are partitioned by the keys of the other side"
    return f"the {op.kind} below does not preserve the buckets"
