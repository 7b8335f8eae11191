"""The verdict on an operator, from the plan."""

from __future__ import annotations

from collections.abc import Mapping

from spark_bucketing.eligibility.known import GATHERING, is_known
from spark_bucketing.eligibility.model import TableFacts, Verdict
from spark_bucketing.eligibility.operators import Operator, Side
from spark_bucketing.plan import Node

# From good to bad; only these can be compared.
RANKS = {Verdict.SORT_FREE: 0, Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3}


def needed_exchange(side: Side) -> Node | None:
    """The Exchange that the operator itself needs, and nothing on the way: the uppermost one by its keys."""
    for node in side.exchanges:
        if node.operator in GATHERING:
            continue
        shuffle = node.shuffle
        if node.operator == "ReusedExchange" or shuffle is None:
            return node
        by_keys = shuffle.kind in ("hash", "hive") or (shuffle.kind == "single" and not side.keys)
        if not shuffle.requested and by_keys:
            return node
    return None


def local_sorts(side: Side) -> tuple[Node, ...]:
    """Sorts within partitions."""
    return tuple(node for node in side.sorts if not node.is_global_sort)


def is_understood(op: Operator) -> bool:
    """Whether keys and ways could be read, and everything on the ways is known."""
    if op.foreign or any(side.keys is None for side in op.sides):
        return False
    return all(is_known(node) for side in op.sides for node in side.way)


def is_described(op: Operator, tables: Mapping[str, TableFacts]) -> bool:
    """Whether the metastore says of all tables below how they are bucketed, or that they are not."""
    return all(scan.table in tables for side in op.sides for scan in side.scans)


def why_unknown(op: Operator, tables: Mapping[str, TableFacts]) -> str:
    """What is not known of an operator whose verdict is unknown, for the user."""
    foreign = {node.operator for side in op.sides for node in side.way if not is_known(node)}
    if op.foreign or foreign:
        names = ", ".join(sorted(foreign | ({op.node.operator} if op.foreign else set())))
        return f"not an operator of Spark's: {names}"
    if not is_understood(op):
        return "its keys cannot be read"
    missing = {scan.table for side in op.sides for scan in side.scans if scan.table and scan.table not in tables}
    return f"Spark cannot describe {', '.join(sorted(missing))}"


def reads_buckets(op: Operator, tables: Mapping[str, TableFacts]) -> bool:
    """Whether a table below is bucketed by its metadata."""
    found = (tables.get(scan.table or "") for side in op.sides for scan in side.scans)
    return any(facts is not None and facts.spec is not None for facts in found)


def verdict(op: Operator, tables: Mapping[str, TableFacts]) -> Verdict:
    """How rows come together.

    Args:
        op: the operator.
        tables: what is known of the plan's tables.
    """
    if not is_understood(op):
        return Verdict.UNKNOWN
    if op.broadcast:
        return Verdict.BROADCAST
    if not is_described(op, tables):
        return Verdict.UNKNOWN
    if not reads_buckets(op, tables):
        return Verdict.NOT_BUCKETED
    if op.kind == "join" and op.keyless:
        return Verdict.SHUFFLED
    moved = [bool(side.exchanges) for side in op.sides]
    if any(moved):
        return Verdict.SHUFFLED if all(moved) else Verdict.ONE_SIDED
    return Verdict.SHUFFLE_FREE if any(side.sorts for side in op.sides) else Verdict.SORT_FREE
