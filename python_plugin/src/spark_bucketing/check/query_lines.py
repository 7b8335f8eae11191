"""Find the line of the SQL clause that produced an operator of the plan, and the line of the model's file behind it.

The search compares names, not semantics: a clause belongs to an operator if no other clause contains all of the
operator's key columns. If several clauses are possible, the search returns no line, because a wrong line would mislead
the user.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_bucketing.plan.lineage import source_of
from spark_bucketing.plan.operators import Operator

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_ENDS = ("JOIN", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT", "WINDOW", "LATERAL")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")
_KINDS = {"join": ("JOIN",), "aggregate": ("GROUP",), "distinct": ("DISTINCT", "GROUP"), "window": ("OVER",)}


@dataclass(frozen=True)
class _Clause:
    keyword: str
    line: int
    words: frozenset[str]
    relation: frozenset[str]


class Clauses:
    """The clauses of a query."""

    def __init__(self, sql: str, operators: Sequence[Operator]) -> None:
        self._clauses = tuple(_clauses(_words(sql)))
        self._names = {op: _column_names(op) for op in operators} if self._clauses else {}
        self._numbers = Counter(op.kind for op in operators)
        # For operators of the same kind with the same key columns, whose clauses could be confused with each other.
        self._meanings: defaultdict[tuple[str, frozenset[str]], set[object]] = defaultdict(set)
        self._right_tables: Counter[tuple[str, frozenset[str], str]] = Counter()
        for op, names in self._names.items():
            self._meanings[op.kind, names].add(_meaning(op))
            self._right_tables.update((op.kind, names, table) for table in _right_tables(op))

    def line_of(self, op: Operator) -> int | None:
        """Return the line of an operator's clause, starting at 1, or None if it is uncertain."""
        names = self._names.get(op)
        if not names:
            return None
        candidates = [clause for clause in self._clauses if clause.keyword in _KINDS[op.kind]]
        fitting = [clause for clause in candidates if names <= clause.words]
        # One clause occurs several times in a plan if the query uses a subquery twice. IN and EXISTS become joins
        # without a clause.
        if len(self._meanings[op.kind, names]) > len(fitting) > 0:
            return None
        lines = {clause.line for clause in fitting}
        if len(lines) > 1 and op.kind == "join":
            own = _right_tables(op)
            # No other join with the same keys may have one of these tables on its right side.
            is_only = all(self._right_tables[op.kind, names, table] == 1 for table in own)
            lines = {clause.line for clause in fitting if is_only and own & clause.relation}
        if not fitting and len(candidates) == self._numbers[op.kind] == 1 and "USING" in candidates[0].words:
            lines = {candidates[0].line}
        return lines.pop() if len(lines) == 1 else None


def _right_tables(op: Operator) -> frozenset[str]:
    """Return the names of the tables below a join's right side, without their schemas."""
    return frozenset(table.lower().rpartition(".")[2] for side in op.sides[-1:] for table in side.entry.tables)


def _column_names(op: Operator) -> frozenset[str]:
    """Return the names of the key columns as they probably appear in the query."""
    found = set()
    for side in op.sides:
        for key, text in zip(side.keys or (), side.texts, strict=False):
            printed = re.match(r"^([\w ]+)#\d+L?$", text)
            source = source_of(key, side.entry)
            name = printed[1] if printed else source.column.name if source else ""
            if name and not name.startswith("_grouping"):
                found.add(name.lower())
    return frozenset(found)


def _meaning(op: Operator) -> tuple[object, ...]:
    """Return the operator's properties besides its keys, which distinguish operators of different clauses."""
    return op.node.join_type, tuple(tuple(scan.table for scan in side.entry.scans) for side in op.sides)


def _words(sql: str) -> list[Token]:
    """Return a query's tokens without comments and literals, or nothing if sqlglot cannot tokenize the query."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError

    try:
        return [token for token in Spark().tokenize(sql) if token.token_type.name != "STRING"]
    except SqlglotError:
        return []


def _clauses(words: Sequence[Token]) -> Iterator[_Clause]:
    for place, word in enumerate(words):
        keyword = _first(word)
        if keyword not in ("JOIN", "GROUP", "DISTINCT", "OVER"):
            continue
        inside = [found.text.lower() for found in _until_end(words[place + 1 :], keyword)]
        named = frozenset([*inside, *(text.upper() for text in inside if text == "using")])
        joined = itertools.takewhile(lambda text: text not in ("on", "using"), inside)
        yield _Clause(keyword, word.line, named, frozenset(joined))


def _until_end(words: Sequence[Token], keyword: str) -> Iterator[Token]:
    depth = 0
    for word in words:
        kind = word.token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        over = keyword == "OVER" and depth == 0 and kind == "R_PAREN"
        selected = keyword == "DISTINCT" and depth == 0 and _first(word) == "FROM"
        if depth < 0 or over or selected or (depth == 0 and _first(word) in _ENDS):
            return
        yield word


def _first(word: Token) -> str:
    """Return the first word of a keyword such as GROUP BY."""
    return str(word.text.upper()).partition(" ")[0]


def source_line(compiled: str, line: int, raw: str) -> int | None:
    """Return the line of the model's file that produced a line of compiled SQL.

    Lines start at 1. The result is None if the origin is uncertain.

    A line of the file is a candidate if its Jinja expressions can render to the compiled text. The origin is the
    candidate with the most literal text. Several candidates can have equally much literal text. The number of such
    candidates must then equal the number of identical lines in the compiled SQL. The candidates are matched with these
    lines in order.
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
    # A line with only Jinja could produce any text.
    if not any(re.search(r"\w", part) for part in literal):
        return 0
    return len("".join(literal)) if _is_made_of(literal, compiled) else 0


def _is_made_of(pieces: Sequence[str], text: str) -> bool:
    """Return whether a text starts with the first piece, ends with the last piece, and contains the others in order."""
    first, *others = pieces
    last = others.pop() if others else None
    if last is None:
        return text == first
    if not text.startswith(first) or not text.removeprefix(first).endswith(last):
        return False
    between = text.removeprefix(first).removesuffix(last)
    for piece in filter(None, others):
        _, found, between = between.partition(piece)
        if not found:
            return False
    return True


def _blank_lines_above(text: str) -> int:
    return len(text[: len(text) - len(text.lstrip())].splitlines()) if text.lstrip() != text else 0
