"""Follows columns through a plan: from an operator's key down to a table's column, and up under other names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_bucketing.plan.lists import Attribute, ids_in
from spark_bucketing.plan.tree import AGGREGATES, PlanNode

_CAST = re.compile(r"^cast\((?P<of>#\d+) as (?P<type>[a-z]+(?:\([\d,]+\))?)\)$")
_MOST_STEPS = 10_000


@dataclass(frozen=True)
class Source:
    """Where a key comes from.

    Args:
        scan: the scan of the table that it is a column of.
        column: the column.
        wrapped: the expression over the column, or empty when the key is the column itself.
        cast: the type that a cast gives the column, when the expression is nothing but that.
    """

    scan: PlanNode
    column: Attribute
    wrapped: str = ""
    cast: str = ""


def source_of(key: str, node: PlanNode) -> Source | None:
    """The table's column that a key of an operator's input comes from; None where it is no single one.

    Args:
        key: a canonical expression over the input's columns.
        node: the input.
    """
    found = sources_of(key, node)
    return found[0] if len(found) == 1 else None


def sources_of(key: str, node: PlanNode) -> tuple[Source, ...]:
    """All columns of tables from which a key is computed; none where one of them cannot be followed."""
    if key not in node.remembered:
        node.remembered[key] = _sources(key, node)
    found: tuple[Source, ...] = node.remembered[key]
    return found


def _sources(key: str, node: PlanNode) -> tuple[Source, ...]:
    found: dict[tuple[int, int], Source] = {}
    todo = [(key, node, "", "")]
    # What a column is that is passed on as it is, it is on the whole way.
    passed: list[tuple[str, PlanNode]] = []
    for _ in range(_MOST_STEPS):
        if not todo:
            return _remembered(passed, tuple(found.values()))
        text, place, wrapped, cast = todo.pop()
        if not todo and not found and not wrapped and re.fullmatch(r"#\d+", text):
            if text in place.remembered:
                return _remembered(passed, place.remembered[text])
            passed.append((text, place))
        ids = ids_in(text)
        if not ids or text != f"#{ids[0]}":
            match = _CAST.match(text)
            cast = match["type"] if match and not wrapped else ""
            wrapped = wrapped or text
        for wanted in ids:
            step = _defined(wanted, place)
            if step is None:
                return ()
            maker, defined = step
            if isinstance(defined, Attribute):
                found[maker.number, wanted] = Source(maker, defined, wrapped, cast)
            else:
                todo.append((defined, maker.children[0], wrapped, cast))
    return ()


def _remembered(passed: list[tuple[str, PlanNode]], sources: tuple[Source, ...]) -> tuple[Source, ...]:
    for text, place in passed:
        place.remembered[text] = sources
    return sources


def _defined(wanted: int, node: PlanNode) -> tuple[PlanNode, Attribute | str] | None:
    """The node below that makes an attribute: a scan with its column, or another one with the expression for it."""
    for _ in range(_MOST_STEPS):
        if not node.children:
            found = next((column for column in node.output or () if column.id == wanted), None)
            return (node, found) if found and node.table else None
        if node.operator == "ReusedExchange":
            return _by_place(wanted, node)
        results = node.results if node.operator in (*AGGREGATES, "Project") else ()
        for result in results or ():
            if result.attribute.id == wanted and result.expression != f"#{wanted}":
                return node, result.expression
        below = [child for child in node.children if any(column.id == wanted for column in child.output or ())]
        if not below:
            return None
        node = below[0]
    return None


def _by_place(wanted: int, node: PlanNode) -> tuple[PlanNode, str] | None:
    places = [i for i, column in enumerate(node.output or ()) if column.id == wanted]
    below = node.children[0].output
    return (node, below[places[0]].key) if places and below and len(below) > places[0] else None


def key_text(key: str, text: str, entry: PlanNode) -> str:
    """A key for people: the table's column, or the expression that it stands for, without ids."""
    source = source_of(key, entry)
    if source and source.scan.table and not source.wrapped:
        return f"{source.scan.table}.{source.column.name}"
    if re.fullmatch(r"#\d+", key) and (step := _defined(int(key[1:]), entry)) and isinstance(step[1], str):
        maker, text = step[0], step[1]
        names = {column.key: column.name for child in maker.children for column in child.output or ()}
        text = re.sub(r"#\d+", lambda found: names.get(found[0], found[0]), text)
    return re.sub(r"#\d+L?", "", text).replace("spark_catalog.", "")
