"""Find the line of a model's file that produced a line of compiled SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")


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
