"""SQL as text: what is code in it, and what is a literal or a comment."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_QUOTED = r"`[^`]*`"
_PIECES = re.compile(rf"(?P<skipped>{_COMMENT}|\s+)|{_LITERAL}|{_QUOTED}|(?P<end>;)|.", re.DOTALL)


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """SQL with other names for tables, but not in literals, comments, or longer names.

    Args:
        sql: one statement.
        names: the new names by the old ones, as the SQL writes them.
    """
    if not names:
        return sql
    longest = sorted(names, key=len, reverse=True)
    wanted = "|".join(rf"(?<![\w.`]){re.escape(name)}(?![\w`])" for name in longest)
    pattern = re.compile(rf"(?P<name>{wanted})|{_LITERAL}|{_COMMENT}|{_QUOTED}", re.DOTALL)
    return pattern.sub(lambda found: names[found["name"]] if found["name"] else found[0], sql)


def one_statement(text: str) -> str:
    """A statement without the semicolon that ends it, and without what comments follow."""
    end: int | None = None
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            end = piece.start() if end is None else end
        elif not piece["skipped"]:
            # Several statements are Spark's to refuse.
            end = None
    return text[:end].rstrip()
