"""The same query, written otherwise: to be planned, not to be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_bucketing.errors import PlanError

_CLAUSES = ("distribute", "cluster", "hint")


def without_repartitions(sql: str) -> str:
    """Without hints, and without DISTRIBUTE BY and CLUSTER BY.

    Raises:
        PlanError: the query cannot be read.
    """

    def leave_out(node: Any, expressions: Any) -> Any:
        if isinstance(node, expressions.Select):
            for name in _CLAUSES:
                node.set(name, None)
        return node

    return _rewritten(sql, leave_out)


def without_casts(sql: str) -> str:
    """With columns in place of casts of columns: equal casts of columns of equal types compare the same.

    Raises:
        PlanError: the query cannot be read.
    """

    def unwrap(node: Any, expressions: Any) -> Any:
        return node.this if isinstance(node, expressions.Cast) and isinstance(node.this, expressions.Column) else node

    return _rewritten(sql, unwrap)


def with_plain_equality(sql: str) -> str:
    """With = for <=>, and a semi or anti join for INTERSECT and EXCEPT: the same where no key is NULL.

    Raises:
        PlanError: the query cannot be read.
    """

    def equal(node: Any, expressions: Any) -> Any:
        if isinstance(node, expressions.NullSafeEQ):
            return expressions.EQ(this=node.this, expression=node.expression)
        return node

    return _rewritten(sql, equal)


def _rewritten(sql: str, change: Callable[[Any, Any], Any]) -> str:
    try:
        from sqlglot import exp, parse_one
        from sqlglot.errors import SqlglotError
    except ImportError as error:
        raise PlanError("Without sqlglot no query can be written otherwise.") from error
    try:
        return str(parse_one(sql, read="spark").transform(lambda node: change(node, exp)).sql(dialect="spark"))
    except (SqlglotError, RecursionError) as error:
        raise PlanError(f"The query could not be read to write it otherwise: {error}") from error
