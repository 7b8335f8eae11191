"""What the rules say of a query, before sqlfluff shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fix:
    """An edit of the query: a part of it is left out, or all of that but what is in it."""

    whole: slice  # what is to go
    kept: slice | None = None  # what stays of it


@dataclass(frozen=True)
class Problem:
    """Something to say under the name of a rule."""

    rule: str  # its slug, such as expression-over-key
    text: str
    offset: int  # where in the query, from 0
    fix: Fix | None = None
