"""From a line of compiled SQL back to the line of the model's file that it came from."""

from __future__ import annotations

import re
from collections.abc import Sequence

_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")


def source_line(compiled: str, line: int, raw: str) -> int | None:
    """The line of the model's file, from 1, that a line of compiled SQL came from; None where it is not certain.

    A line of the model's file is taken for the origin when it compiles to this text, whatever its Jinja stands for, and
    has the most of it in plain text. No other line may do so, or as many as there are lines of this text in the
    compiled SQL, so that they pair up in order.
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
    if len(origins) == 1 and len(same) == 1:
        return origins[0]
    return origins[same.index(line)] if 0 < len(origins) == len(same) else None


def _fit(raw: str, compiled: str) -> int:
    """How many characters of a compiled line are written in this line of the model; 0 when it comes from another."""
    literal = _JINJA.split(raw)
    # A line of nothing but Jinja could be any text.
    if not any(re.search(r"\w", part) for part in literal):
        return 0
    return len("".join(literal)) if _is_made_of(literal, compiled) else 0


def _is_made_of(pieces: Sequence[str], text: str) -> bool:
    """Whether a text begins with the first piece, ends with the last, and has the others in this order in between."""
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
