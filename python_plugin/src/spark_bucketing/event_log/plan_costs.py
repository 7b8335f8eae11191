"""Attribute the cost of the Exchanges and Sorts of a statement to tables and their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spark_bucketing.plan.document import Expression, PhysicalPlan, PlanNode
from spark_bucketing.plan.operators import table_inputs
from spark_bucketing.units import size

Kind = Literal["join", "aggregate", "window", "other"]
_SHUFFLES = ("exchange", "broadcast", "reused")


@dataclass
class Cost:
    """The cost of Exchanges and Sorts, as measured by Spark."""

    shuffle_bytes: int = 0  # bytes that Exchanges wrote
    spill_bytes: int = 0  # in-memory bytes of the rows that Sorts spilled
    # Run time of the tasks that wrote shuffle files, without their scans, plus the time to fetch the files and to sort.
    task_ms: float = 0.0

    def __str__(self) -> str:
        seconds = self.task_ms / 1000
        time = f"{seconds / 3600:,.1f} task hours" if seconds >= 3600 else f"{seconds:,.1f} task seconds"
        return f"{size(self.shuffle_bytes)} shuffled, {size(self.spill_bytes)} spilled, {time}"

    @property
    def is_notable(self) -> bool:
        """Return whether the text shows any number other than zero."""
        return bool(self.shuffle_bytes or self.spill_bytes or self.task_ms >= 50)

    def add(self, other: Cost) -> None:
        """Add another cost."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def share(self, part: float) -> Cost:
        """Return a part of this cost, from 0 to 1."""
        return Cost(round(self.shuffle_bytes * part), round(self.spill_bytes * part), self.task_ms * part)


@dataclass(frozen=True)
class TableKeys:
    """The columns of one table that an operator shuffles or sorts by."""

    table: str  # qualified name
    columns: tuple[str | None, ...]  # the column of each key; None if a key is not a column


UNATTRIBUTED = TableKeys("", ())
"""Stands for Exchanges and Sorts by expressions, of rows without a table, or of rows that were shuffled before."""


@dataclass(frozen=True)
class MeasuredOperator:
    """An operator for which Spark shuffles or sorts rows, and the tables from which these rows come."""

    kind: Kind
    sides: tuple[TableKeys, ...]


Operators = dict[MeasuredOperator, dict[TableKeys, Cost]]
"""The costs of operators, by table and keys."""


@dataclass(frozen=True)
class Accumulators:
    """The measurements of a statement's metrics, by accumulator id."""

    values: Mapping[int, int]
    # Run time of the tasks in the stages that update the metric, in milliseconds.
    run_ms: Mapping[int, int] = field(default_factory=dict)

    def metrics(self, node: PlanNode) -> dict[str, int]:
        """Return the measured metrics of a plan node by name."""
        return {name: self.values[id_] for name, id_ in node.metrics.items() if id_ in self.values}


def plan_costs(plan: PhysicalPlan, measured: Accumulators) -> Operators:
    """Return the operators for which Spark shuffled or sorted rows of tables, with their costs by table and keys.

    Rows that were shuffled before count for no table, because buckets cannot avoid a second shuffle. The tables below
    a UNION share the cost by their rows.
    """
    found: Operators = {}
    rest, seen = Cost(), set[int]()
    waiting: list[tuple[PlanNode, dict[TableKeys, Cost] | None]] = [(root, None) for root in plan.roots]
    consumers: list[tuple[Kind, dict[TableKeys, Cost]]] = []
    while waiting:
        node, costs = waiting.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        kind = _kind(node)
        if kind:
            costs = {}
            consumers.append((kind, costs))
        if node.shuffle or node.sort:
            # Without an operator, such as for the shuffle of a write, nothing would use the buckets.
            cost, shares = _cost(node, measured), _keys(node, measured) if costs is not None else {}
            for keys, part in shares.items():
                costs.setdefault(keys, Cost()).add(cost.share(part))  # type: ignore[union-attr]
            rest.add(cost.share(max(1 - sum(shares.values()), 0)))
        waiting += ((child, costs) for child in reversed(node.children))
    for operator, by_keys in consumers:
        if by_keys:
            add_operators(found, {MeasuredOperator(operator, tuple(by_keys)): by_keys})
    if rest != Cost():
        found[MeasuredOperator("other", ())] = {UNATTRIBUTED: rest}
    return found


def add_operators(into: Operators, operators: Operators) -> None:
    """Add the costs of operators."""
    for operator, costs in operators.items():
        add_keys(into.setdefault(operator, {}), costs)


def add_keys(into: dict[TableKeys, Cost], costs: Mapping[TableKeys, Cost]) -> None:
    """Add costs by table and keys."""
    for keys, cost in costs.items():
        into.setdefault(keys, Cost()).add(cost)


def bucketed_tables(plan: PhysicalPlan) -> set[str]:
    """Return the tables that the plan reads with bucketed scans."""
    return {node.scan.table.lower() for node in plan.walk() if node.scan and node.scan.bucketed}


def _kind(node: PlanNode) -> Kind | None:
    kind = node.kind if node.is_known else node.guess
    if kind == "join":
        return None if node.operator.startswith("Broadcast") else "join"
    return kind if kind in ("aggregate", "window") else None  # type: ignore[return-value]


def _cost(node: PlanNode, measured: Accumulators) -> Cost:
    """Return the cost of an Exchange or Sort.

    Spark does not measure the time that tasks spend on a shuffle: its write time contains only writes to disk, and no
    serialization. Each stage before a shuffle writes the files of one Exchange.
    """
    values = measured.metrics(node)
    time = values.get("fetchWaitTime", 0) + values.get("sortTime", 0)
    if "shuffleBytesWritten" in node.metrics:
        scans = sum(measured.metrics(one).get("scanTime", 0) for one in _stage(node.children))
        time += max(measured.run_ms.get(node.metrics["shuffleBytesWritten"], 0) - scans, 0)
    return Cost(values.get("shuffleBytesWritten", 0), values.get("spillSize", 0), time)


def _stage(nodes: Sequence[PlanNode]) -> Iterator[PlanNode]:
    """Yield nodes and the nodes below them, up to the next Exchanges."""
    for node in nodes:
        if node.kind not in _SHUFFLES:
            yield node
            yield from _stage(node.children)


def _keys(node: PlanNode, measured: Accumulators) -> dict[TableKeys, float]:
    """Return the tables whose rows reach an Exchange or Sort without an earlier shuffle, and their shares of rows."""
    keys: Sequence[Expression] = ()
    if node.sort:
        below = node
        while len(below.children) == 1 and not (below is not node and (below.sort or _kind(below))):
            below = below.children[0]
            if below.shuffle:
                return _keys(below, measured)
        keys = () if node.sort.is_global else [order.value for order in node.sort.order]
    elif node.shuffle and node.shuffle.kind == "hash":
        keys = node.shuffle.keys
    inputs = table_inputs(node.children, keys)
    rows = [_rows(one.entry, measured) for one in inputs]
    total = sum(number or 0 for number in rows)
    found: dict[TableKeys, float] = {}
    for one, number in zip(inputs, rows, strict=True):
        if one.table and any(one.columns):
            part = 1 / len(rows) if len(rows) == 1 or None in rows or not total else (number or 0) / total
            by = TableKeys(one.table.lower(), one.columns)
            found[by] = found.get(by, 0.0) + part
    return found


def _rows(branch: PlanNode, measured: Accumulators) -> int | None:
    """Return the number of rows that a branch passes on; None if it is unknown."""
    while True:
        found = measured.metrics(branch)
        number = found.get("numOutputRows", found.get("shuffleRecordsWritten"))
        if number is not None or len(branch.children) != 1:
            return number
        (branch,) = branch.children
