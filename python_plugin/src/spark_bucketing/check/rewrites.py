"""The same query, written otherwise: to be planned, not to be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_bucketing.errors import PlanError

Rewrite = Callable[[Any, Any], Any]
"""Gets an expression and sqlglot's module of expressions, and returns what to put in its place."""


def without_repartitions(node: Any, exp: Any) -> Any:
    """Without hints, and without DISTRIBUTE BY and CLUSTER BY."""
    if isinstance(node, exp.Select):
        for name in ("distribute", "cluster", "hint"):
            node.set(name, None)
    return node


def without_casts(node: Any, exp: Any) -> Any:
    """With columns in place of casts of columns: equal casts of columns of equal types compare the same."""
    return node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) else node


def with_plain_equality(node: Any, exp: Any) -> Any:
    """With = for <=>: the same where no key is NULL."""
    return exp.EQ(this=node.this, expression=node.expression) if isinstance(node, exp.NullSafeEQ) else node


def rewritten(sql: str, rewrite: Rewrite) -> str:
    """A query with all of its expressions rewritten.

    Raises:
        PlanError: the query cannot be read.
    """
    try:
        from sqlglot import exp, parse_one
        from sqlglot.errors import SqlglotError
    except ImportError as error:
        raise PlanError("Without sqlglot no query can be written otherwise.") from error
    try:
        return str(parse_one(sql, read="spark").transform(lambda node: rewrite(node, exp)).sql(dialect="spark"))
    except (SqlglotError, RecursionError) as error:
        raise PlanError(f"The query could not be read to write it otherwise: {error}") from error
