"""Process SQL as text, with regard to literals and comments, and rewrite queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from spark_bucketing.errors import PlanError

Rewrite = Callable[[Any, Any], Any]
"""Takes an expression and sqlglot's module of expressions, and returns the replacement for the expression."""
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_QUOTED = r"`[^`]*`"
_PIECES = re.compile(rf"(?P<skipped>{_COMMENT}|\s+)|{_LITERAL}|{_QUOTED}|(?P<end>;)|.", re.DOTALL)


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """Rename tables in SQL, except in literals, in comments and inside longer names."""
    if not names:
        return sql
    longest = sorted(names, key=len, reverse=True)
    wanted = "|".join(rf"(?<![\w.`]){re.escape(name)}(?![\w`])" for name in longest)
    pattern = re.compile(rf"(?P<name>{wanted})|{_LITERAL}|{_COMMENT}|{_QUOTED}", re.DOTALL)
    return pattern.sub(lambda found: names[found["name"]] if found["name"] else found[0], sql)


def one_statement(text: str) -> str:
    """Return a statement without its trailing semicolon and without the comments after it."""
    end: int | None = None
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            end = piece.start() if end is None else end
        elif not piece["skipped"]:
            # Spark itself rejects multiple statements.
            end = None
    return text[:end].rstrip()


def without_repartitions(node: Any, exp: Any) -> Any:
    """Remove hints, and DISTRIBUTE BY and CLUSTER BY clauses."""
    if isinstance(node, exp.Select):
        for name in ("distribute", "cluster", "hint"):
            node.set(name, None)
    return node


def without_casts(node: Any, exp: Any) -> Any:
    """Replace each cast of a column with the column.

    If two columns have the same type, comparing equal casts of them gives the same result as comparing the columns.
    """
    return node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) else node


def with_plain_equality(node: Any, exp: Any) -> Any:
    """Replace <=> with =.

    The operators <=> and = are equivalent if no key is NULL.
    """
    return exp.EQ(this=node.this, expression=node.expression) if isinstance(node, exp.NullSafeEQ) else node


def rewritten(sql: str, rewrite: Rewrite) -> str:
    """Apply a rewrite function to all expressions of a query.

    Raises:
        PlanError: the query cannot be parsed.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        return str(parse_one(sql, read="spark").transform(lambda node: rewrite(node, exp)).sql(dialect="spark"))
    except (SqlglotError, RecursionError) as error:
        raise PlanError(f"Cannot parse the query to rewrite it: {error}") from error
