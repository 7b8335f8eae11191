"""The words of messages."""

from __future__ import annotations

from collections.abc import Sequence

from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
from spark_bucketing.plan import PlanNode
from spark_bucketing.plan.operators import Operator
from spark_bucketing.spec import BucketSpec


def series(items: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" and {items[-1]}" if items else "nothing"


def buckets(spec: BucketSpec) -> str:
    """`8 buckets of k`."""
    return f"{spec.num_buckets:,} bucket{'' if spec.num_buckets == 1 else 's'} of {series(spec.bucket_columns)}"


def purpose(exchange_or_sort: ExchangeOrSort) -> str:
    """What the operator does by which keys: `joined by d.t.k`."""
    done = {"join": "joined by", "aggregate": "grouped by", "distinct": "made distinct by", "window": "partitioned by"}
    by = done[exchange_or_sort.op.kind]
    return f"{by} {series(exchange_or_sort.key_texts)}" if exchange_or_sort.key_texts else by.removesuffix(" by")


_DOINGS = {
    "GlobalLimit": "a LIMIT brings the rows into one partition",
    "TakeOrderedAndProject": "an ORDER BY with a LIMIT brings the rows into one partition",
    "CollectLimit": "a LIMIT brings the rows into one partition",
    "Expand": "ROLLUP, CUBE, GROUPING SETS or several DISTINCT aggregates copy each row under other keys",
    "Coalesce": "COALESCE joins partitions together",
    "Union": "a UNION puts the partitions of its inputs one after the other",
    "BroadcastNestedLoopJoin": "a join without equal keys comes in between",
    "CartesianProduct": "a join without equal keys comes in between",
    "Project": "a select list computes the key anew",
    "Scan": "it is read from a cache",
    "InMemoryRelation": "it is read from a cache",
    "Exchange": "the rows are brought together otherwise",
}


def doing(node: PlanNode, exchange_or_sort: ExchangeOrSort) -> str:
    """What an operator does to the rows that came by buckets."""
    if node.operator == "Exchange" and node.shuffle and node.shuffle.requested:
        return "a REPARTITION, DISTRIBUTE BY, CLUSTER BY or REBALANCE in the query moves the rows"
    if node.is_global_sort or (node.shuffle and node.shuffle.kind == "range"):
        return "an ORDER BY of all rows moves them"
    operators = exchange_or_sort.query.operators
    op = operators.get(node.number)
    if node.operator == "Exchange":
        op = next((op for op in operators.values() if any(node in side.exchanges for side in op.sides)), None)
    if op is not None and op is not exchange_or_sort.op:
        return _operator_doing(op, exchange_or_sort)
    return _DOINGS.get(node.operator, f"the operator {node.operator} comes in between")


def _operator_doing(op: Operator, exchange_or_sort: ExchangeOrSort) -> str:
    if op.foreign:
        return f"the operator {op.node.operator} comes in between"
    sides = [ExchangeOrSort(exchange_or_sort.query, op, place, op.node) for place in range(len(op.sides))]
    if any(side.needed for side in op.sides):
        keys = next((side.key_texts for side in sides if side.key_texts), ())
        return f"the {op.kind} by {series(keys)} below moves the rows"
    if op.node.join_type.startswith("FullOuter"):
        return "after a full outer join the keys of either side may be NULL"
    if op.kind == "join" and not op.keyless:
        return f"after a {op.node.join_type} join the rows lie by the keys of its other side"
    return f"the {op.kind} below does not keep the buckets"
