"""Process SQL as text, taking literals and comments into account, and rewrite queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from spark_bucketing.errors import PlanError

Rewrite = Callable[[Any, Any], Any]
"""Takes an expression and sqlglot's expression module, and returns the replacement."""
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_QUOTED = r"`[^`]*`"
_PIECES = re.compile(rf"(?P<skipped>{_COMMENT}|\s+)|{_LITERAL}|{_QUOTED}|(?P<end>;)|.", re.DOTALL)


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """Rename tables in SQL, except inside literals, comments and longer names."""
    if not names:
        return sql
    longest = sorted(names, key=len, reverse=True)
    wanted = "|".join(rf"(?<![\w.`]){re.escape(name)}(?![\w`])" for name in longest)
    pattern = re.compile(rf"(?P<name>{wanted})|{_LITERAL}|{_COMMENT}|{_QUOTED}", re.DOTALL)
    return pattern.sub(lambda found: names[found["name"]] if found["name"] else found[0], sql)


def one_statement(text: str) -> str:
    """Return a statement without its trailing semicolon and the comments after the semicolon."""
    end: int | None = None
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            end = piece.start() if end is None else end
        elif not piece["skipped"]:
            # Spark itself rejects multiple statements.
            end = None
    return text[:end].rstrip()


def without_repartitions(node: Any, exp: Any) -> Any:
    """Remove hints, DISTRIBUTE BY and CLUSTER BY."""
    if isinstance(node, exp.Select):
        for name in ("distribute", "cluster", "hint"):
            node.set(name, None)
    return node


def without_casts(node: Any, exp: Any) -> Any:
    """Replace casts of columns with the columns; equal casts of columns of equal types compare the same."""
    return node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) else node


def with_plain_equality(node: Any, exp: Any) -> Any:
    """Replace <=> with =, which is equivalent if no key is NULL."""
    return exp.EQ(this=node.this, expression=node.expression) if isinstance(node, exp.NullSafeEQ) else node


def rewritten(sql: str, rewrite: Rewrite) -> str:
    """Rewrite all expressions of a query.

    Raises:
        PlanError: the query cannot be parsed.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        return str(parse_one(sql, read="spark").transform(lambda node: rewrite(node, exp)).sql(dialect="spark"))
    except (SqlglotError, RecursionError) as error:
        raise PlanError(f"Cannot parse the query to rewrite it: {error}") from error
