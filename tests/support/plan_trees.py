"""Build plans of operators, without Spark."""

from __future__ import annotations

from typing import Any

from spark_bucketing.plan.document import (
    Aggregate,
    Expression,
    Join,
    PhysicalPlan,
    PlanNode,
    Scan,
    Shuffle,
    Sort,
    SortOrder,
    Source,
)

# The settings of a session that loads no extension and sets nothing.
SETTINGS = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "false",
    "spark.sql.bucketing.coalesceBucketsInJoin.enabled": "false",
    "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio": "4",
    "spark.sql.requireAllClusterKeysForCoPartition": "true",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.bucketing.enabled": "true",
    "spark.bucketing.write.distribute": "true",
}


def plan(root: PlanNode) -> PhysicalPlan:
    """Return the plan of a tree, whose operators are numbered from the bottom."""
    # Do not recurse, because plans may be deep.
    nodes, waiting = [], [root]
    while waiting:
        nodes.append(waiting.pop())
        waiting += [child for child in nodes[-1].children if nodes[-1].kind != "reused"]
    nodes.reverse()
    for number, node in enumerate(nodes, 1):
        node.number = number
    return PhysicalPlan((root,), tuple(nodes))


def op(name: str, *inputs: PlanNode, kind: str = "unknown", **properties: Any) -> PlanNode:
    """Return an operator that outputs the columns of its inputs."""
    output = properties.pop("output", tuple(column for node in inputs for column in node.output))
    output = output.output if isinstance(output, PlanNode) else output
    operator, _, title = name.partition(" ")
    return PlanNode(0, operator, kind, title, children=inputs, columns=output, **properties)


def scan(table: str, first: int, **how: Any) -> PlanNode:
    name = table if "." in table else f"d.{table}"
    node = op(f"Scan parquet {name}", kind="scan", scan=Scan(name, **{"bucketed": True, **how}))
    node.columns = tuple(
        Expression(column, "bigint", first + place, (Source(node, column, first + place),))
        for place, column in enumerate(("k", "v"))
    )
    return node


def column(node: PlanNode, name: str) -> Expression:
    return next(found for found in node.output if found.text == name)


def exchange(key: str, below: PlanNode, partitions: int = 8) -> PlanNode:
    shuffle = Shuffle("hash", "spark", (column(below, key),), partitions)
    return op("Exchange", below, kind="exchange", shuffle=shuffle)


def broadcast(below: PlanNode) -> PlanNode:
    return op("BroadcastExchange", below, kind="broadcast")


def reused(exchange: PlanNode, first: int) -> PlanNode:
    """Return an operator that reads an exchange again, whose columns have other ids there."""
    columns = (
        Expression(found.text, found.type, first + place, found.sources) for place, found in enumerate(exchange.output)
    )
    return op("ReusedExchange", exchange, kind="reused", output=tuple(columns))


def sort(key: str, below: PlanNode, kind: str = "sort", name: str = "Sort") -> PlanNode:
    return op(name, below, kind=kind, sort=Sort(order=(SortOrder(column(below, key)),)) if kind == "sort" else None)


def grouping(key: str, mode: str, below: PlanNode) -> PlanNode:
    """Return one node of count(*) by a key; without a mode, of DISTINCT."""
    keys = (column(below, key),)
    counted = (Expression("n", "bigint", 90),) if mode else ()
    aggregate = Aggregate(keys, (mode,) if mode else ())
    return op("HashAggregate", below, kind="aggregate", aggregate=aggregate, output=(*keys, *counted))


def join(
    left_key: str, right_key: str, left: PlanNode, right: PlanNode, kind: str = "Inner", name: str = "SortMergeJoin"
) -> PlanNode:
    output = left.output if kind in ("LeftSemi", "LeftAnti") else (*left.output, *right.output)
    build = "right" if name.startswith("Broadcast") else None
    has_keys = name != "BroadcastNestedLoopJoin"
    keys = [(column(side, key),) if has_keys else () for side, key in ((left, left_key), (right, right_key))]
    found = Join(kind, keys[0], keys[1], build)
    return op(f"{name} {kind}", left, right, kind="join", join=found, output=output)


def broadcast_join(left_key: str, right_key: str, left: PlanNode, right: PlanNode) -> PlanNode:
    return join(left_key, right_key, left, right, name="BroadcastHashJoin")


def union(*inputs: PlanNode) -> PlanNode:
    return op("Union", *inputs, kind="union", output=inputs[0].output)


def measured(node: PlanNode, **metrics: int) -> PlanNode:
    """Return a node with metrics, by accumulator id."""
    node.metrics = metrics
    return node


def moved(key: str, below: PlanNode) -> PlanNode:
    return measured(exchange(key, below), shuffleBytesWritten=1, spillSize=2, fetchWaitTime=3)


def branch(table: str, first: int, rows: int = 0) -> PlanNode:
    """Return a table scan whose number of rows is an accumulator with this id."""
    return measured(scan(table, first), **({"numOutputRows": rows} if rows else {}))


def kept(column: int, below: PlanNode) -> PlanNode:
    """Return a projection to the column with this id."""
    return op("Project", below, kind="project", output=tuple(one for one in below.output if one.id == column))


def built(tree: Any, nodes: dict[int, Any] | None = None) -> Any:
    """Return the node of a list of a builder's name and its arguments; a list that occurs twice is the same node."""
    nodes = {} if nodes is None else nodes
    if isinstance(tree, dict):
        return {name: built(value, nodes) for name, value in tree.items()}
    if not isinstance(tree, list):
        return tree
    if id(tree) not in nodes:
        arguments = [built(one, nodes) for one in tree[1:]]
        named = arguments.pop() if isinstance(arguments[-1], dict) else {}
        nodes[id(tree)] = globals()[tree[0]](*arguments, **named)
    return nodes[id(tree)]
