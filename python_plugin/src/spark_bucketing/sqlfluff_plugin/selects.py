"""Inspect the parts of a single SELECT: its hints, conditions and expressions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

# Spark broadcasts relations with at most this number of rows, regardless of their content.
_FEW = 1000
_BROADCAST_HINTS = ("broadcast", "broadcastjoin", "mapjoin")


def is_total(select: exp.Select) -> bool:
    """Return whether a SELECT aggregates all of its input rows into a single row."""
    aggregated = any(not isinstance(node.parent, exp.Window) for node in own_nodes(select, exp.AggFunc))
    return aggregated and not select.args.get("group") and not list(own_nodes(select, exp.Window))


def is_short(select: exp.Select) -> bool:
    """Return whether the limit of a SELECT is so low that Spark broadcasts the result in a join."""
    limit = select.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    few = isinstance(number, exp.Literal) and number.is_int and int(number.this) <= _FEW
    return few or is_total(select)


def conditions_beside(join: exp.Join, select: exp.Select) -> list[exp.Expr]:
    """Return the conditions that Spark may push into a join.

    Such conditions come from WHERE and from inner joins in the same SELECT.
    """
    where = select.args.get("where")
    others = [one for one in select.args.get("joins") or () if one is not join and not one.side]
    conditions = [where.this if where else None, *(one.args.get("on") for one in others)]
    return [condition for condition in conditions if condition is not None]


def hints_of(select: exp.Select) -> Iterator[tuple[str, set[str]]]:
    """Yield each hint of a SELECT: its name and its arguments, both in lower case."""
    hint = select.args.get("hint")
    for one in hint.expressions if hint is not None else ():
        if isinstance(one.this, str):
            yield one.this.lower(), {part.name.lower() for part in one.expressions}


def sent_by_hint(select: exp.Select) -> set[str]:
    """Return the aliases of the inputs that a hint tells Spark to broadcast."""
    return {alias for name, aliases in hints_of(select) if name in _BROADCAST_HINTS for alias in aliases}


def own_nodes(select: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the nodes of this kind in the SELECT list, HAVING, QUALIFY and ORDER BY.

    Nodes in inner queries are left out.
    """
    parts = [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]
    for part in parts:
        if part is not None:
            for node in part.walk(prune=lambda one: isinstance(one, exp.Query)):
                if isinstance(node, kind):
                    yield node
