"""Process SQL as text, with regard to literals and comments, rewrite queries, and find the lines of a model's file."""

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
    """Replace casts of columns with the columns, which compare equally if they have the same type."""
    return node.this if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) else node


def with_plain_equality(node: Any, exp: Any) -> Any:
    """Replace <=> with =. The operators <=> and = are equivalent if no key is NULL."""
    return exp.EQ(this=node.this, expression=node.expression) if isinstance(node, exp.NullSafeEQ) else node


def rewritten(sql: str, rewrite: Rewrite) -> str:
    """Apply a rewrite function to all expressions of a query."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        return str(parse_one(sql, read="spark").transform(lambda node: rewrite(node, exp)).sql(dialect="spark"))
    except (SqlglotError, RecursionError) as error:
        raise PlanError(f"Cannot parse the query to rewrite it: {error}") from error


_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")


def source_line(compiled: str, line: int, raw: str) -> int | None:
    """Return the line, from 1, of the model's file that produced a line of compiled SQL, or None if it is uncertain.

    The origin is the line with the most literal text whose Jinja can render to the compiled text. If several lines have
    equally much, they must be as many as the identical lines in the compiled SQL, with which they match in order.
    """
    lines = compiled.splitlines()
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        return None
    if compiled.strip() == raw.strip():
        return line + _blank_lines_above(raw) - _blank_lines_above(compiled)
    wanted = lines[line - 1].strip()
    fitting = {number: _fit(text.strip(), wanted) for number, text in enumerate(raw.splitlines(), 1)}
    best = max(fitting.values(), default=0)
    origins = [number for number, fit in fitting.items() if fit == best > 0]
    same = [number for number, text in enumerate(lines, 1) if text.strip() == wanted]
    return origins[same.index(line)] if 0 < len(origins) == len(same) else None


def _fit(raw: str, compiled: str) -> int:
    """Return how many characters of a compiled line are literal text in this line, or 0 if it cannot be the origin."""
    literal = _JINJA.split(raw)
    first, *others, last = literal if len(literal) > 1 else [*literal, ""]
    between, size = compiled.removeprefix(first).removesuffix(last), len("".join(literal))
    # A line with only Jinja could produce any text.
    if not re.search(r"\w", "".join(literal)) or len(between) > len(compiled) - len(first + last):
        return 0
    for piece in filter(None, others):
        _, found, between = between.partition(piece)
        size = size if found else 0
    return size if len(literal) > 1 or not between else 0


def _blank_lines_above(text: str) -> int:
    return len(text[: len(text) - len(text.lstrip())].splitlines()) if text.lstrip() != text else 0
