"""What the rules say of a model, before sqlfluff shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """Something to say under the name of a rule."""

    rule: str  # its slug, such as expression-over-key
    text: str
    offset: int  # where in the query, from 0
    # For a fix of the query: the text from `offset` becomes this one.
    length: int = 0
    replacement: str | None = None
