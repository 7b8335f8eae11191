"""Trace columns through a plan, from the columns of a table up to the keys of an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_bucketing.plan.expression_lists import Attribute, ids_in
from spark_bucketing.plan.tree import AGGREGATES, REUSED, PlanNode

_CAST = re.compile(r"^cast\((?P<of>#\d+) as (?P<type>[a-z]+(?:\([\d,]+\))?)\)$")
_MAKING = (*AGGREGATES, "Project")


@dataclass(frozen=True)
class Source:
    """The table column from which a key comes."""

    scan: PlanNode  # the scan of its table
    column: Attribute  # its column
    wrapped: str = ""  # the expression over the column; empty if the key is the column itself
    cast: str = ""  # the target type, if the expression is only a cast of the column


Sources = tuple[Source, ...]


def origins(node: PlanNode) -> Mapping[int, Sources]:
    """Map the id of each output column to the table columns from which the operator computes it.

    The result omits columns that cannot be traced. In a deep plan, call this function for the lower nodes first.
    """
    if "origins" not in node.remembered:
        node.remembered["origins"] = _origins(node)
    found: Mapping[int, Sources] = node.remembered["origins"]
    return found


def _origins(node: PlanNode) -> Mapping[int, Sources]:
    if node.table:
        return {column.id: (Source(node, column),) for column in node.output or ()}
    below = [origins(child) for child in node.children]
    if node.operator == REUSED:
        # A ReusedExchange outputs the same columns with different ids.
        pairs = zip(node.output or (), node.children[0].output or (), strict=False) if below else ()
        return {own.id: below[0][there.id] for own, there in pairs if there.id in below[0]}
    if node.operator in _MAKING:
        made = ((result.attribute.id, _computed(result.expression, below[0])) for result in node.results or ())
        return {column: sources for column, sources in made if sources}
    if len(below) == 1:
        return below[0]
    return {column: sources for side in reversed(below) for column, sources in side.items()}


def _computed(expression: str, known: Mapping[int, Sources]) -> Sources:
    """Return the table columns from which an expression is computed, or nothing if any column cannot be traced."""
    ids = ids_in(expression)
    if not all(column in known for column in ids):
        return ()
    found = {(source.scan.number, source.column.id): source for column in ids for source in known[column]}
    if ids and expression == f"#{ids[0]}":
        return tuple(found.values())
    match = _CAST.match(expression)
    return tuple(
        replace(source, wrapped=expression, cast=match["type"] if match and not source.wrapped else "")
        for source in found.values()
    )


def sources_of(key: str, node: PlanNode) -> Sources:
    """Return all table columns from which Spark computes a key, or nothing if any of them cannot be traced."""
    return _computed(key, origins(node))


def source_of(key: str, node: PlanNode) -> Source | None:
    """Return the only table column from which a key of an operator's input comes, or None without such a column."""
    found = sources_of(key, node)
    return found[0] if len(found) == 1 else None


def key_text(key: str, text: str, entry: PlanNode) -> str:
    """Format a key for a message, as a table column or as an expression without ids."""
    source = source_of(key, entry)
    if source and not source.wrapped:
        return f"{source.scan.table}.{source.column.name}"
    if re.fullmatch(r"#\d+", key):
        makers = (node for node in entry.walk() if node.operator in _MAKING)
        made = ((maker, result) for maker in makers for result in maker.results or ())
        found = next(((maker, result.expression) for maker, result in made if result.makes(key)), None)
        if found:
            names = {column.key: column.name for child in found[0].children for column in child.output or ()}
            text = re.sub(r"#\d+", lambda column: names.get(column[0], column[0]), found[1])
    return re.sub(r"#\d+L?", "", text).replace("spark_catalog.", "")
