"""Attribute the cost of the Exchanges and Sorts in an event log's plan to tables and their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spark_bucketing.event_log.columns import (
    Plan,
    branch_columns,
    list_items,
    plan_nodes,
    rows_of,
    scanned_columns,
    table_of,
    with_plain_names,
)
from spark_bucketing.units import size

Kind = Literal["join", "aggregate", "window", "other"]

# These expressions take linear time, even with long literals in a plan.
# a#1, b#2L ASC NULLS FIRST
_ONLY_ATTRIBUTE = re.compile(r"[\w`. ]+#(\d+)L?(?: (?:ASC|DESC) NULLS (?:FIRST|LAST))?")
_ALIAS = re.compile(r"[\w`.]#(\d+)L? AS [^#,\]]+#(\d+)L?")
# hashpartitioning(a#1, b#2L, 200)
_PARTITIONING = re.compile(r"(?i:hash)\w*\(")
# Nodes that do not preserve the partitioning of rows: a table below them needs another shuffle anyway.
_BREAKS = ("Exchange", "ShuffleQueryStage", "ReusedExchange", "Subquery", "BroadcastExchange", "BroadcastQueryStage")
# The keys of both sides; an inner join passes on only rows with equal keys.
_BROADCAST = re.compile(r"BroadcastHashJoin \[(.*?\]), \[(.*?\]), Inner, Build(Left|Right)\b")
_BUCKETED = re.compile(r"\bBucketed: true\b")


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
class Keys:
    """The columns of one table that an operator shuffles or sorts by."""

    table: str  # qualified name
    columns: tuple[str | None, ...]  # the column of each key; None if a key is not a column


UNATTRIBUTED = Keys("", ())
"""Stands for Exchanges and Sorts by expressions, of rows without a table, or of rows that were shuffled before."""


@dataclass(frozen=True)
class MeasuredOperator:
    """An operator for which Spark shuffles or sorts rows, and the tables from which these rows come."""

    kind: Kind
    sides: tuple[Keys, ...]


@dataclass
class _Consumer:
    kind: Kind
    costs: dict[Keys, Cost] = field(default_factory=dict)


@dataclass(frozen=True)
class Accumulators:
    """The measurements of a plan's metrics, by accumulator id."""

    values: Mapping[int, int]
    # Run time of the tasks in the stages that update the metric, in milliseconds.
    run_ms: Mapping[int, int] = field(default_factory=dict)

    def metrics(self, node: Plan) -> dict[str, int]:
        """Return the measured metrics of a plan node by name."""
        found = {metric["name"]: metric["accumulatorId"] for metric in node["metrics"]}
        return {name: self.values[id_] for name, id_ in found.items() if id_ in self.values}


def plan_costs(plan: Plan, measured: Accumulators) -> list[tuple[MeasuredOperator, dict[Keys, Cost]]]:
    """Return the operators for which Spark shuffled or sorted rows of tables.

    For each operator, return the costs by table and keys.

    Rows that another operator has already shuffled count for no table, because buckets cannot avoid a second shuffle.
    The tables below a UNION share the cost by their rows. The last operator has the costs of no table and key.

    Args:
        plan: the final plan of the execution.
        measured: the measurements of the plan.
    """
    found: list[_Consumer] = []
    rest, without_operator = Cost(), _Consumer("other")
    _walk(with_plain_names(plan), without_operator, found, measured, set(), rest)
    # Such as the shuffle of a write. No join, aggregate or window would use the buckets.
    for cost in without_operator.costs.values():
        rest.add(cost)
    operators = [(MeasuredOperator(one.kind, tuple(one.costs)), one.costs) for one in found if one.costs]
    if rest != Cost():
        operators.append((MeasuredOperator("other", ()), {UNATTRIBUTED: rest}))
    return operators


def bucketed_tables(plan: Plan) -> set[str]:
    """Return the tables that the plan reads with bucketed scans."""
    return {table_of(node) for node in plan_nodes(plan) if table_of(node) and _BUCKETED.search(node["simpleString"])}


def _walk(
    node: Plan, consumer: _Consumer, found: list[_Consumer], measured: Accumulators, seen: set[int], rest: Cost
) -> None:
    kind = _kind(node["nodeName"])
    if kind:
        consumer = _Consumer(kind)
        found.append(consumer)
    ids = {metric["accumulatorId"] for metric in node["metrics"]}
    # A reused Exchange appears again with the same accumulators.
    if node["nodeName"] in ("Exchange", "Sort") and seen.isdisjoint(ids):
        seen.update(ids)
        cost, shares = _cost(node, measured), _keys(node, measured)
        for keys, part in shares.items():
            consumer.costs.setdefault(keys, Cost()).add(cost.share(part))
        if sum(shares.values()) < 1:
            rest.add(cost.share(1 - sum(shares.values())))
    for child in node["children"]:
        _walk(child, consumer, found, measured, seen, rest)


def _kind(name: str) -> Kind | None:
    if name.endswith("Join") and not name.startswith("Broadcast"):
        return "join"
    if "Aggregate" in name:
        return "aggregate"
    return "window" if name.startswith("Window") and "Group" not in name else None


def _cost(node: Plan, measured: Accumulators) -> Cost:
    """Return the cost of an Exchange or Sort.

    Spark does not measure the time that tasks spend on a shuffle: `shuffle write time` contains only writes to disk,
    and no serialization. Each stage before a shuffle writes the files of one Exchange.
    """
    values = measured.metrics(node)
    time = values.get("fetch wait time", 0) + values.get("sort time", 0)
    written = [metric["accumulatorId"] for metric in node["metrics"] if metric["name"] == "shuffle bytes written"]
    if written:
        of_stage = plan_nodes(*node["children"], without=_BREAKS)
        scans = sum(measured.metrics(one).get("scan time", 0) for one in of_stage)
        time += max(measured.run_ms.get(written[0], 0) - scans, 0)
    return Cost(values.get("shuffle bytes written", 0), values.get("spill size", 0), time)


def _keys(node: Plan, measured: Accumulators) -> dict[Keys, float]:
    """Return the tables whose rows reach an Exchange or Sort without an earlier shuffle, and their shares of rows."""
    if node["nodeName"] == "Sort":
        below = _exchange_below(node)
        if below:
            return _keys(below, measured)
        # Sort [a#1 ASC NULLS FIRST, b#2 ASC NULLS FIRST], false, 0
        text = node["simpleString"].partition("[")[2] if node["simpleString"].endswith("false, 0") else ""
        keys = list_items(text)
    else:
        matched = _PARTITIONING.search(node["simpleString"])
        keys = list_items(node["simpleString"][matched.end() :])[:-1] if matched else []
    return _tables(node["children"], list(map(_column, keys)), measured)


def _tables(nodes: Sequence[Plan], keys: Sequence[int | None], measured: Accumulators) -> dict[Keys, float]:
    """Return the table that contains keys in the output of nodes; for a UNION, several tables with their shares."""
    scans, same, unions = _reachable(nodes)
    owners = {column: (table, name) for table, columns in scans for column, name in columns.items()}
    origins = [None if number is None else _origin(number, same) for number in keys]
    columns = [None if number is None else owners.get(number) for number in origins]
    tables = {column[0] for column in columns if column}
    if len(tables) == 1:
        return {Keys(tables.pop(), tuple(column[1] if column else None for column in columns)): 1.0}
    found: dict[Keys, float] = {}
    for union in [] if tables else unions:
        rows = [rows_of(branch, measured.metrics) for branch in union["children"]]
        total = sum(number or 0 for number in rows)
        for branch, number, of_branch in zip(union["children"], rows, branch_columns(union, origins), strict=True):
            part = 1 / len(rows) if None in rows or not total else (number or 0) / total
            for one, inner in _tables([branch], of_branch, measured).items():
                found[one] = found.get(one, 0.0) + part * inner
    return found


def _column(key: str) -> int | None:
    """Return the id of the attribute that a key consists of, or None for an expression, which buckets cannot serve."""
    matched = _ONLY_ATTRIBUTE.fullmatch(key)
    return int(matched[1]) if matched else None


def _exchange_below(node: Plan) -> Plan | None:
    """Return the Exchange below a Sort."""
    while len(node["children"]) == 1:
        node = node["children"][0]
        if node["nodeName"] == "Exchange":
            return node
        if _kind(node["nodeName"]) or node["nodeName"] == "Sort":
            return None
    return None


def _reachable(nodes: Sequence[Plan]) -> tuple[list[tuple[str, dict[int, str]]], dict[int, int], list[Plan]]:
    """Return the tables in or below nodes, without tables below another shuffle or below a UNION.

    Also return their columns, all aliases of columns, and the UNIONs.
    """
    scans: list[tuple[str, dict[int, str]]] = []
    same: dict[int, int] = {}
    unions: list[Plan] = []
    waiting = list(nodes)
    while waiting:
        one = waiting.pop()
        if one["nodeName"].startswith(_BREAKS) or _kind(one["nodeName"]) == "join":
            continue
        if one["nodeName"] == "Union":
            unions.append(one)
            continue
        table = table_of(one)
        if table:
            scans.append((table, {number: name.lower() for number, name in scanned_columns(one).items()}))
        same |= {int(alias): int(number) for number, alias in _ALIAS.findall(one["simpleString"])}
        same |= _broadcast_columns(one["simpleString"])
        waiting += one["children"]
    return scans, same, unions


def _broadcast_columns(text: str) -> dict[int, int]:
    """Return for each key of the broadcast side of a join the equal key of the other side."""
    matched = _BROADCAST.match(text)
    if not matched:
        return {}
    sides = [list(map(_column, list_items(matched[side]))) for side in (1, 2)]
    built, streamed = sides if matched[3] == "Left" else reversed(sides)
    pairs = zip(built, streamed, strict=True)
    return {one: other for one, other in pairs if one is not None and other is not None}


def _origin(number: int, same: Mapping[int, int]) -> int:
    for _ in range(len(same)):
        if number not in same:
            break
        number = same[number]
    return number
