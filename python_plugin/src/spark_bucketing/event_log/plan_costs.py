"""Attribute the cost of the Exchanges and Sorts in an event log's plan to tables and their columns.

The names of columns can contain commas, spaces and other special characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from spark_bucketing.units import size

Plan = dict[str, Any]
"""Spark's SparkPlanInfo as parsed JSON, with the keys nodeName, simpleString, children and metrics."""
# The number at the end of a column in a list: a,b#12L]
_END = re.compile(r"#(\d+)L?\s*(,|\]|$)")
_NUMBER = re.compile(r"#(\d+)")
_PLAIN = re.compile(r"\w+")
_SCAN = re.compile(r"(?:Batch)?Scan\b.*?([\w`-]+\.[\w`.-]+)\s*$")
# Nodes with the same columns as their first child.
_SAME_COLUMNS = re.compile(
    r"(Filter|ColumnarToRow|RowToColumnar|InputAdapter|WholeStageCodegen|LocalLimit|Sample|Sort|Coalesce|Union|"
    r"Exchange|BroadcastExchange|ShuffleQueryStage|BroadcastQueryStage|AQEShuffleRead)\b"
)
# Nodes that list their columns between the first brackets.
_LISTED = re.compile(r"(Project|Scan|BatchScan|ReusedExchange)\b")
_JOIN = re.compile(r"\w*Join$|CartesianProduct$")
# Joins that pass on no columns of their right side.
_LEFT_ONLY = re.compile(r"\b(?:LeftSemi|LeftAnti|ExistenceJoin)\b")
# The lines of an aggregate in a formatted plan.
_RESULTS = re.compile(
    r"^Keys(?: \[\d+\])?: (\[.*\])\nFunctions(?: \[\d+\])?: (\[.*\])\nAggregate Attributes.*\n"
    r"Results(?: \[\d+\])?: \[(.*\])$",
    re.M,
)
# The attribute at the end of an item in a list: k#12L, or expression AS k#12L
_LAST_NUMBER = re.compile(r"#(\d+)L?\s*$")
# Rows that a node passes on, with the most reliable metric first.
_ROWS = ("number of output rows", "shuffle records written")


def table_of(node: Plan) -> str:
    """Return the table that a plan node scans, or an empty string."""
    return _table(node["nodeName"])


@lru_cache(maxsize=10_000)
def _table(name: str) -> str:
    matched = _SCAN.match(name)
    return matched[1].replace("`", "").lower().removeprefix("spark_catalog.") if matched else ""


def scanned_columns(node: Plan) -> dict[int, str]:
    """Return the columns of a scan by number.

    The names in a plan are not quoted, so a name ends where its number and then a comma or a bracket follow.
    """
    if "columns" in node:
        return dict(node["columns"])
    # FileScan parquet spark_catalog.tpch.part[p_partkey#528L,p_size#533] Batched: true, ...
    text = node["simpleString"]
    start = text.find("[") + 1
    found: dict[int, str] = {}
    if not start or text.startswith("]", start):
        return found
    for matched in _END.finditer(text, start):
        name = text[start : matched.start()].strip()
        if name.startswith("... "):  # ... 12 more fields
            break
        found[int(matched[1])] = name
        start = matched.end()
        if matched[2] != ",":
            break
    return found


def with_plain_names(plan: Plan) -> Plan:
    """Return a plan in which columns with special characters have a plain name, so that commas only separate items.

    The nodes of scans get the key `columns` with the original names.
    """
    names: dict[int, str] = {}
    for node in plan_nodes(plan):
        if table_of(node):
            names |= {number: name for number, name in scanned_columns(node).items() if not _PLAIN.fullmatch(name)}
    return _renamed(plan, names) if names else plan


def _renamed(node: Plan, names: Mapping[int, str]) -> Plan:
    found = dict(node)
    if table_of(node):
        found["columns"] = scanned_columns(node)
    for key in ("simpleString", "results"):
        if key in node:
            found[key] = _plain(node[key], names)
    found["children"] = [_renamed(child, names) for child in node["children"]]
    return found


def _plain(text: str, names: Mapping[int, str]) -> str:
    parts, start = [], 0
    for matched in _NUMBER.finditer(text):
        name = names.get(int(matched[1]))
        if name and text.endswith(name, start, matched.start()):
            parts += [text[start : matched.start() - len(name)], "_"]
            start = matched.start()
    return "".join([*parts, text[start:]])


def plan_nodes(*plans: Plan, without: tuple[str, ...] = ()) -> Iterator[Plan]:
    """Yield all nodes of plans, except nodes whose names start with one of these texts, and except nodes below them."""
    waiting = list(plans)
    while waiting:
        node = waiting.pop()
        if not node["nodeName"].startswith(without):
            yield node
            waiting += node["children"]


def branch_columns(union: Plan, keys: Sequence[int | None]) -> list[list[int | None]]:
    """Return the numbers of columns of a UNION in each branch; None for unknown columns.

    A UNION has the column numbers of its first branch. The columns of its other branches follow by position.
    """
    first, *others = (_output(branch) for branch in union["children"])
    places = [first.index(key) if key in first else None for key in keys]
    found = [
        [None if place is None or place >= len(output) else output[place] for place in places] for output in others
    ]
    return [list(keys), *found]


def add_results(plan: Plan, description: str) -> None:
    """Add to each aggregate of a plan with a UNION its output columns, which only the plan's description contains.

    Args:
        plan: the plan; its nodes get the key `results`.
        description: the same plan as text, in the format of EXPLAIN FORMATTED.
    """
    if "Union" not in description:
        return
    results = {f"{keys}, functions={functions})": found for keys, functions, found in _RESULTS.findall(description)}
    for node in plan_nodes(plan):
        # HashAggregate(keys=[k#1], functions=[sum(v#2)]), or SortAggregate(key=[k#1], ...
        text = node["simpleString"].partition("=")[2]
        if text in results:
            node["results"] = results[text]


def rows_of(branch: Plan, metrics: Callable[[Plan], Mapping[str, int]]) -> int | None:
    """Return the number of rows that a branch passes on; None if it is unknown."""
    while True:
        found = metrics(branch)
        number = next((found[name] for name in _ROWS if name in found), None)
        if number is not None or len(branch["children"]) != 1:
            return number
        (branch,) = branch["children"]


def _output(node: Plan) -> list[int | None]:
    """Return the numbers of a node's output columns; an empty list if they are unknown."""
    name, children = node["nodeName"], node["children"]
    if "results" in node:
        return _numbers(node["results"])
    if _LISTED.match(name):
        return _numbers(node["simpleString"].partition("[")[2])
    if _JOIN.match(name) and len(children) > 1:
        left = _output(children[0])
        return left if not left or _LEFT_ONLY.search(node["simpleString"]) else [*left, *_output(children[1])]
    return _output(children[0]) if _SAME_COLUMNS.match(name) and children else []


def _numbers(columns: str) -> list[int | None]:
    """Return the numbers of the columns in a list."""
    return [int(matched[1]) if (matched := _LAST_NUMBER.search(item)) else None for item in list_items(columns)]


def list_items(text: str) -> list[str]:
    """Split the text after an opening bracket at its commas, up to the closing bracket."""
    items, start, depth = [], 0, 0
    for number, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]" and depth:
            depth -= 1
        elif letter in ")]" or (letter == "," and not depth):
            items.append(text[start:number].strip())
            start = number + 1
            if letter != ",":
                break
    return items


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
