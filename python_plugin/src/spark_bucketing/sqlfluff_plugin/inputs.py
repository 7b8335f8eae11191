"""Resolve the columns of a SELECT whose names and types sqlglot has determined before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

from sqlglot import exp

from spark_bucketing.sqlfluff_plugin.relation_layouts import Column, Layout, Place, Relation

_UNCERTAIN = ("", "unknown", "null")


class Inputs(dict[str, Relation]):
    """The inputs of a SELECT by their aliases, in the order of the FROM clause."""

    def place(self, expression: exp.Expr | None) -> Place | None:
        """Return which column of which input an expression refers to.

        Return None if the expression is not a column, or if the column is ambiguous.

        sqlglot writes an unqualified column of a USING clause as COALESCE(left, right). An unqualified USING column
        gets the alias ''.
        """
        if _is_merged(expression):
            return "", str(expression.this.name)
        if not isinstance(expression, exp.Column) or expression.args.get("db") or expression.table not in self:
            return None
        return expression.table, expression.name

    def column(self, expression: exp.Expr) -> Column:
        """Return the column of an input to which an expression refers."""
        alias, name = self.place(expression.this if _is_merged(expression) else expression) or ("", "")
        return self[alias].columns.get(name, Column()) if alias else Column()

    def bare(self, expression: exp.Expr) -> exp.Expr:
        """Return an expression without parentheses, and without casts of a column to its own type.

        Spark removes both from its plans.
        """
        inner = expression.unnest()
        while isinstance(inner, exp.Cast) and self.is_needless(inner):
            inner = inner.this.unnest()
        return inner

    def is_needless(self, cast: exp.Cast) -> bool:
        """Return whether a cast converts a column to the type that the column already has."""
        inner = cast.this.unnest()
        return self.place(inner) is not None and type_of(inner) == type_of(cast)

    def wrapped(self, expression: exp.Expr) -> Place | None:
        """Return the only column inside an expression.

        Return None if the expression is itself a column.
        """
        inner = self.bare(expression)
        if isinstance(inner, exp.Column) or inner.find(exp.Query, exp.AggFunc, exp.Window):
            return None
        places = {self.place(column) for column in inner.find_all(exp.Column)}
        return places.pop() if len(places) == 1 else None

    def covers(self, keys: Iterable[exp.Expr], layout: Layout) -> bool:
        """Return whether every bucket column is itself a key, not wrapped in an expression."""
        places = [self.place(self.bare(key)) for key in keys]
        return all(any(place in one for place in places) for one in layout.columns)

    def result(self, expression: exp.Expr) -> Column:
        """Return the column that an expression computes.

        The type of a column is certain if the query or a contract states it.
        """
        inner = expression.unnest()
        if isinstance(inner, exp.Column) or _is_merged(inner):
            return self.column(inner)
        number = isinstance(inner, exp.Literal) and not inner.is_string and len(inner.this) > 9
        stated = isinstance(inner, (exp.Cast, exp.Boolean, exp.Literal, exp.VarMap, exp.Map)) and not number
        return Column("void", True) if isinstance(inner, exp.Null) else Column(type_of(inner), stated)


def _is_merged(expression: exp.Expr | None) -> TypeGuard[exp.Coalesce]:
    parts = [expression.this, *expression.expressions] if isinstance(expression, exp.Coalesce) else []
    return len({part.name for part in parts}) == 1 and all(isinstance(part, exp.Column) for part in parts)


def type_of(expression: exp.Expr) -> str | None:
    """Return Spark's name for the type of an expression, or None if the type is unknown."""
    kind: Any = expression.type
    text = "".join(kind.sql(dialect="spark").lower().split()) if kind else ""
    return None if text in _UNCERTAIN else "decimal(10,0)" if text == "decimal" else text


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Split a condition at its top-level ANDs."""
    inner = condition.unnest() if condition is not None else None
    if isinstance(inner, exp.And):
        for part in inner.flatten():
            yield from conjuncts(part)
    elif inner is not None:
        yield inner


def offset_of(node: exp.Expr) -> int:
    """Return the position of the first name in a part of a query.

    Names inside hints do not count.
    """
    starts = [
        found.meta["start"]
        for found in node.walk(prune=lambda one: isinstance(one, exp.Hint))
        if "start" in found.meta and isinstance(found, (exp.Identifier, exp.Literal))
    ]
    return min(starts, default=0)
