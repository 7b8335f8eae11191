"""The verdict on an operator, from the plan at hand or from the model of one."""

from __future__ import annotations

from spark_bucketing.eligibility.known import GATHERING, is_known
from spark_bucketing.eligibility.model import Verdict
from spark_bucketing.eligibility.operators import Operator, Side
from spark_bucketing.eligibility.planner import Outcome, Planner
from spark_bucketing.eligibility.world import World
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


def outcome_of(op: Operator) -> Outcome:
    """What an operator does to its inputs in the plan at hand."""
    if op.broadcast or (op.kind == "join" and op.keyless):
        return Outcome(tuple(False for _ in op.sides), tuple(False for _ in op.sides))
    return Outcome(
        tuple(needed_exchange(side) is not None for side in op.sides),
        tuple(bool(local_sorts(side)) for side in op.sides),
    )


def is_understood(op: Operator) -> bool:
    """Whether keys and ways could be read, and everything on the ways is known."""
    if op.foreign or any(side.keys is None for side in op.sides):
        return False
    return all(is_known(node) for side in op.sides for node in side.way)


def is_described(op: Operator, world: World) -> bool:
    """Whether the metastore says of all tables below how they are bucketed, or that they are not."""
    return all(scan.table in world.tables for side in op.sides for scan in side.scans)


def why_unknown(op: Operator, world: World) -> str:
    """What is not known of an operator whose verdict is unknown, for the user."""
    foreign = {node.operator for side in op.sides for node in side.way if not is_known(node)}
    if op.foreign or foreign:
        names = ", ".join(sorted(foreign | ({op.node.operator} if op.foreign else set())))
        return f"not an operator of Spark's: {names}"
    if not is_understood(op):
        return "its keys cannot be read"
    missing = {scan.table for side in op.sides for scan in side.scans if scan.table and scan.table not in world.tables}
    return f"Spark cannot describe {', '.join(sorted(missing))}"


def reads_buckets(op: Operator, world: World) -> bool:
    """Whether a table below is bucketed by its metadata."""
    return any(world.spec(scan.table) for side in op.sides for scan in side.scans)


def verdict(op: Operator, outcome: Outcome, world: World) -> Verdict:
    """How rows come together.

    Args:
        op: the operator.
        outcome: what it does to its inputs.
        world: settings and tables.
    """
    if not is_understood(op):
        return Verdict.UNKNOWN
    if op.broadcast:
        return Verdict.BROADCAST
    if not is_described(op, world):
        return Verdict.UNKNOWN
    if not reads_buckets(op, world):
        return Verdict.NOT_BUCKETED
    if op.kind == "join" and op.keyless:
        return Verdict.SHUFFLED
    moved = [
        by_itself or _moved_on_the_way(side, world) for side, by_itself in zip(op.sides, outcome.shuffled, strict=True)
    ]
    if any(moved):
        return Verdict.SHUFFLED if all(moved) else Verdict.ONE_SIDED
    return (
        Verdict.SHUFFLE_FREE
        if any(outcome.sorted) or any(side.sorts for side in op.sides if _global(side))
        else (Verdict.SORT_FREE)
    )


def modelled(planner: Planner) -> dict[int, Verdict]:
    """Verdicts of all operators by their number, as a model has them."""
    return {number: verdict(op, planner.outcomes[number], planner.world) for number, op in planner.operators.items()}


def _global(side: Side) -> bool:
    return any(node.is_global_sort for node in side.sorts)


def _moved_on_the_way(side: Side, world: World) -> bool:
    needed = needed_exchange(side)
    return any(node is not needed and node.number not in world.skipped for node in side.exchanges)
