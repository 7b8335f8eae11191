"""The verdict on an operator, from the plan."""

from __future__ import annotations

from collections.abc import Mapping

from spark_bucketing.check.results import Verdict
from spark_bucketing.check.table_facts import TableFacts
from spark_bucketing.plan.known import is_known
from spark_bucketing.plan.operators import Operator

# From good to bad; only these can be compared.
RANKS = {Verdict.SORT_FREE: 0, Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3}

Tables = Mapping[str, TableFacts]


def undescribed(op: Operator, tables: Tables) -> list[str]:
    """Tables below of which the metastore does not say whether they are bucketed."""
    return sorted(set(op.tables) - tables.keys())


def reads_buckets(op: Operator, tables: Tables) -> bool:
    """Whether a table below is bucketed by its metadata."""
    return any(name in tables and tables[name].spec is not None for name in op.tables)


def why_unknown(op: Operator, tables: Tables) -> str:
    """What is not known of an operator whose verdict is unknown, for the user."""
    nodes = [op.node, *(node for side in op.sides for node in side.way)]
    foreign = sorted({node.operator for node in nodes if not is_known(node)})
    if foreign:
        return f"not an operator of Spark's: {', '.join(foreign)}"
    if not op.understood:
        return "its keys cannot be read"
    return f"Spark cannot describe {', '.join(undescribed(op, tables))}"


def verdict(op: Operator, tables: Tables) -> Verdict:
    """How rows come together.

    Args:
        op: the operator.
        tables: what is known of the plan's tables.
    """
    if not op.understood:
        return Verdict.UNKNOWN
    if op.broadcast:
        return Verdict.BROADCAST
    if undescribed(op, tables):
        return Verdict.UNKNOWN
    if not reads_buckets(op, tables):
        return Verdict.NOT_BUCKETED
    if op.kind == "join" and op.keyless:
        return Verdict.SHUFFLED
    moved = [bool(side.exchanges) for side in op.sides]
    if any(moved):
        return Verdict.SHUFFLED if all(moved) else Verdict.ONE_SIDED
    return Verdict.SHUFFLE_FREE if any(side.sorts for side in op.sides) else Verdict.SORT_FREE
