"""Read the column names in an event log's plan, also those with commas, spaces or other special characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

Plan = Mapping[str, Any]
"""Spark's SparkPlanInfo as parsed JSON, with the keys nodeName, simpleString, children and metrics."""
# The number at the end of a column in a list: a,b#12L]
_END = re.compile(r"#(\d+)L?\s*(,|\]|$)")
_NUMBER = re.compile(r"#(\d+)")
_PLAIN = re.compile(r"\w+")
_SCAN = re.compile(r"(?:Batch)?Scan\b.*?([\w`-]+\.[\w`.-]+)\s*$")


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


def plan_nodes(plan: Plan) -> Iterator[Plan]:
    """Yield all nodes of a plan."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node["children"]
