"""Read the columns in an event log's plan, and follow them from the output of a UNION to its branches.

The names of columns can contain commas, spaces and other special characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

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
