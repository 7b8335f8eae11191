"""Inspect the parts of one SELECT: its hints, conditions, expressions and inner queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from sqlglot import exp

from spark_bucketing.sqlfluff_plugin.scope import Scope

_Node = TypeVar("_Node", bound="exp.Expr")
# Relations that Spark broadcasts regardless of their content.
_FEW = 1000
_BROADCAST_HINTS = ("broadcast", "broadcastjoin", "mapjoin")


def is_total(select: exp.Select) -> bool:
    """Return whether a SELECT aggregates all of its input into one row."""
    aggregated = any(not isinstance(node.parent, exp.Window) for node in own_nodes(select, exp.AggFunc))
    return aggregated and not select.args.get("group") and not list(own_nodes(select, exp.Window))


def is_short(query: exp.Expr) -> bool:
    """Return whether the text of a query limits it to so few rows that Spark broadcasts them in a join."""
    limit = query.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    few = isinstance(number, exp.Literal) and number.is_int and int(number.this) <= _FEW
    return few or (isinstance(query, exp.Select) and is_total(query))


def conditions_beside(join: exp.Join, select: exp.Select | None) -> list[exp.Expr]:
    """Return the conditions that Spark pushes into a join: WHERE and the inner joins of the same SELECT."""
    if select is None:
        return []
    where = select.args.get("where")
    others = [one for one in select.args.get("joins") or () if one is not join and not one.side]
    conditions = [where.this if where else None, *(one.args.get("on") for one in others)]
    return [condition for condition in conditions if condition is not None]


def hints_of(select: exp.Select) -> list[str]:
    """Return the names of a SELECT's hints, in lower case."""
    hint = select.args.get("hint")
    return [str(one.this).lower() for one in hint.expressions if isinstance(one.this, str)] if hint is not None else []


def sent_by_hint(select: exp.Select) -> set[str]:
    """Return the aliases of the inputs that a hint broadcasts."""
    hint = select.args.get("hint")
    found = hint.expressions if hint is not None else ()
    sent = (one for one in found if isinstance(one.this, str) and one.this.lower() in _BROADCAST_HINTS)
    return {part.name.lower() for one in sent for part in one.expressions}


def own_nodes(select: exp.Select, kind: type[_Node]) -> Iterator[_Node]:
    """Return the nodes of the SELECT list, HAVING, QUALIFY and ORDER BY, without inner queries."""
    parts = [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]
    for part in parts:
        if part is not None:
            for node in part.walk(prune=lambda one: isinstance(one, exp.Query)):
                if isinstance(node, kind):
                    yield node


def own_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """Return the direct inner queries of a SELECT."""
    for node in select.walk(prune=lambda one: isinstance(one, exp.Query) and one is not select):
        if isinstance(node, exp.Query) and node is not select:
            yield node


def meant_key(key: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Resolve a GROUP BY key: a number or an alias refers to an expression of the SELECT list."""
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.this) <= len(select.expressions):
        return value_of(select.expressions[int(key.this) - 1])
    if isinstance(key, exp.Column) and not key.table and scope.place(key) is None:
        same = [item for item in select.expressions if item.alias.lower() == key.name.lower()]
        return value_of(same[0]) if len(same) == 1 else key
    return key


def value_of(item: exp.Expr) -> exp.Expr:
    """Return an item of the SELECT list without its alias."""
    return item.this if isinstance(item, exp.Alias) else item
