"""Attribute the cost of the Exchanges and Sorts of a statement to tables and their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spark_bucketing.plan.document import Expression, PhysicalPlan, PlanNode, Source
from spark_bucketing.units import size

Kind = Literal["join", "aggregate", "window", "other"]
# Nodes that do not preserve the partitioning of rows: a table below them needs another shuffle anyway.
_BREAKS = ("exchange", "broadcast", "reused")
_Columns = Sequence[Expression | None]


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
        if node.kind not in _BREAKS:
            yield node
            yield from _stage(node.children)


def _keys(node: PlanNode, measured: Accumulators) -> dict[TableKeys, float]:
    """Return the tables whose rows reach an Exchange or Sort without an earlier shuffle, and their shares of rows."""
    keys: _Columns = ()
    if node.sort:
        below = node
        while len(below.children) == 1 and not (below is not node and (below.sort or _kind(below))):
            below = below.children[0]
            if below.shuffle:
                return _keys(below, measured)
        keys = () if node.sort.is_global else [order.value for order in node.sort.order]
    elif node.shuffle and node.shuffle.kind == "hash":
        keys = node.shuffle.keys
    return _tables(node.children, keys, measured)


def _tables(nodes: Sequence[PlanNode], keys: _Columns, measured: Accumulators) -> dict[TableKeys, float]:
    """Return the table that contains keys in the output of nodes; for a UNION, several tables with their shares."""
    scans: set[int] = set()
    unions: list[PlanNode] = []
    same: dict[Source, Source] = {}
    waiting = list(nodes)
    while waiting:
        one = waiting.pop()
        if one.kind in _BREAKS or _kind(one) == "join":
            continue
        if one.kind == "union":
            unions.append(one)
            continue
        if one.scan:
            scans.add(one.number)
        same |= _broadcast_columns(one)
        waiting += one.children
    columns = [_origin(key, same, scans) for key in keys]
    tables = {(column.scan.table or "").lower() for column in columns if column and column.scan.number in scans}
    if len(tables) == 1:
        names = tuple(one.column.lower() if one and one.scan.number in scans else None for one in columns)
        return {TableKeys(tables.pop(), names): 1.0}
    found: dict[TableKeys, float] = {}
    for union in [] if tables else unions:
        rows = [_rows(branch, measured) for branch in union.children]
        total = sum(number or 0 for number in rows)
        places = [_place(union, key) for key in keys]
        for branch, number in zip(union.children, rows, strict=True):
            part = 1 / len(rows) if None in rows or not total else (number or 0) / total
            output = branch.output
            of_branch = [output[place] if place is not None and place < len(output) else None for place in places]
            for one_keys, inner in _tables([branch], of_branch, measured).items():
                found[one_keys] = found.get(one_keys, 0.0) + part * inner
    return found


def _column(value: Expression | None) -> Source | None:
    """Return the column that a value consists of, or None for an expression, which buckets cannot serve."""
    source = value.source if value else None
    return source if source and not source.wrapped and source.scan.scan else None


def _origin(value: Expression | None, same: Mapping[Source, Source], scans: Collection[int]) -> Source | None:
    """Return the column of a value, or the equal column of a scan that the rows come from."""
    column = _column(value)
    for _ in same:
        if column is None or column.scan.number in scans or column not in same:
            break
        column = same[column]
    return column


def _broadcast_columns(node: PlanNode) -> dict[Source, Source]:
    """Return for each key of the broadcast side of an inner join the equal key of the other side."""
    join = node.join
    if join is None or join.type != "Inner" or not join.build:
        return {}
    built, streamed = join.left_keys, join.right_keys
    if join.build == "right":
        built, streamed = streamed, built
    pairs = ((_column(one), _column(other)) for one, other in zip(built, streamed, strict=True))
    return {one: other for one, other in pairs if one and other}


def _place(union: PlanNode, key: Expression | None) -> int | None:
    """Return the position of a column in the output of a UNION, whose sources are those of its first branch."""
    column = _column(key)
    places = [place for place, one in enumerate(union.output) if column and _column(one) == column]
    same_id = [place for place in places if key and union.output[place].id == key.id]
    return (same_id or places)[0] if same_id or len(places) == 1 else None


def _rows(branch: PlanNode, measured: Accumulators) -> int | None:
    """Return the number of rows that a branch passes on; None if it is unknown."""
    while True:
        found = measured.metrics(branch)
        number = found.get("numOutputRows", found.get("shuffleRecordsWritten"))
        if number is not None or len(branch.children) != 1:
            return number
        (branch,) = branch.children
