"""Resolve names in a SELECT: the input that a column belongs to, and its properties."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from spark_bucketing.sqlfluff_plugin.relation_layouts import UNKNOWN_RELATION, Column, Layout, Place, Relation

_LITERALS = {"DATE": "date", "TIMESTAMP": "timestamp"}
_SAME = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "numeric": "decimal",
    "dec": "decimal",
}


class Scope:
    """The inputs of a SELECT by alias, in their order."""

    def __init__(self) -> None:
        self.relations: dict[str, Relation] = {}
        # Maps columns of USING to the input that an unqualified name refers to; None for a full join, which reads both.
        self.merged: dict[str, str | None] = {}

    def add(self, alias: str, relation: Relation) -> None:
        """Add an input."""
        self.relations[alias] = relation if alias not in self.relations else UNKNOWN_RELATION

    def place(self, expression: exp.Expr | None) -> Place | None:
        """Return the input column that an expression refers to; None if it is not a column, or is ambiguous."""
        if not isinstance(expression, exp.Column) or isinstance(expression.this, exp.Star):
            return None
        alias, name = expression.table.lower(), expression.name.lower()
        if alias:
            return (alias, name) if alias in self.relations and not expression.args.get("db") else None
        if name in self.merged:
            owner = self.merged[name]
            return (owner, name) if owner is not None else None
        having = [alias for alias, relation in self.relations.items() if name in relation.columns]
        if len(having) == 1 and all(one.complete for other, one in self.relations.items() if other != having[0]):
            return having[0], name
        return (next(iter(self.relations)), name) if len(self.relations) == 1 and having else None

    def column(self, expression: exp.Expr) -> Column:
        """Return the column that an expression refers to."""
        place = self.place(expression)
        if place is None:
            return Column()
        return self.relations[place[0]].columns.get(place[1], Column())

    def bare(self, expression: exp.Expr) -> exp.Expr:
        """Return an expression without parentheses, and without casts to a column's own type, which Spark removes."""
        inner = expression.unnest()
        while isinstance(inner, exp.Cast) and self.is_needless(inner):
            inner = inner.this.unnest()
        return inner

    def is_needless(self, cast: exp.Cast) -> bool:
        """Return whether a cast is to the column's own type."""
        known = self.column(cast.this.unnest())
        return known.type is not None and plain_type(known.type) == plain_type(cast.to.sql(dialect="spark"))

    def wrapped(self, expression: exp.Expr) -> Place | None:
        """Return the only column inside an expression, unless the expression is the column itself."""
        inner = self.bare(expression)
        if isinstance(inner, exp.Column) or inner.find(exp.Query, exp.AggFunc, exp.Window):
            return None
        places = {self.place(column) for column in inner.find_all(exp.Column)}
        return places.pop() if len(places) == 1 else None

    def covers(self, keys: Iterable[exp.Expr], layout: Layout) -> bool:
        """Return whether all bucket columns are among the keys, without expressions around them."""
        places = [self.place(self.bare(key)) for key in keys]
        return all(any(place in one for place in places) for one in layout.columns)


def certain_type(expression: exp.Expr, scope: Scope) -> str | None:
    """Return the Spark name of an expression's type, if the text specifies it."""
    inner = expression.unnest()
    if isinstance(inner, exp.Cast):
        return plain_type(inner.to.sql(dialect="spark"))
    if isinstance(inner, exp.Null):
        return "void"
    if isinstance(inner, exp.Boolean):
        return "boolean"
    if isinstance(inner, exp.Literal):
        return "string" if inner.is_string else "int" if re.fullmatch(r"\d{1,9}", inner.this) else None
    if isinstance(inner, (exp.VarMap, exp.Map)):
        return "map<...>"
    column = scope.column(inner)
    return column.type if column.certain else None


def plain_type(kind: str) -> str:
    """Return Spark's name of a type."""
    text = re.sub(r"\s+", "", kind.lower())
    base, bracket, rest = text.partition("(")
    base = _SAME.get(base, base)
    return "decimal(10,0)" if base == "decimal" and not bracket else base + bracket + rest


def offset_of(node: exp.Expr) -> int:
    """Return the position of a part of the query, given by its first name; positions inside hints do not count."""
    starts = [
        found.meta["start"]
        for found in node.walk(prune=lambda one: isinstance(one, exp.Hint))
        if "start" in found.meta and isinstance(found, (exp.Identifier, exp.Literal))
    ]
    return min(starts, default=0)
