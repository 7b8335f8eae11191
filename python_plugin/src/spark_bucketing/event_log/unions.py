"""Follow columns from the output of a UNION in an event log's plan to its branches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_bucketing.event_log.columns import Plan

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
_NUMBER = re.compile(r"#(\d+)L?\s*$")
# Rows that a node passes on, with the most reliable metric first.
_ROWS = ("number of output rows", "shuffle records written")


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
    waiting: list[Any] = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node["children"]
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
    return [int(matched[1]) if (matched := _NUMBER.search(item)) else None for item in list_items(columns)]


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
