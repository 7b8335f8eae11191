"""Define the problems that the rules find in a query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fix:
    """An edit of the query: remove a range of its text, or keep only a part of the range."""

    whole: slice  # the range to remove
    kept: slice | None = None  # the part of the range to keep


@dataclass(frozen=True)
class Problem:
    """A problem that a rule reports."""

    rule: str  # the rule's slug, such as expression-over-key
    text: str
    offset: int  # position in the query, starting at 0
    fix: Fix | None = None
