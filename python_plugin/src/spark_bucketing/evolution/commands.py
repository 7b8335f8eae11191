"""Commands that mend what was found, as they can be copied into a shell."""

from __future__ import annotations

import shlex


def rewriting(table: str, where: str = "true", *options: str) -> str:
    """The command that brings partitions to the table's spec.

    Args:
        table: its name, qualified.
        where: a predicate for the partitions; `true` for all.
        options: others of the command.
    """
    given = () if where == "true" else ("--where", _quoted(where))
    return " ".join(["spark-bucketing evolution rewrite", shlex.quote(table), *given, *options])


def _quoted(text: str) -> str:
    """An argument for a shell: in double quotes where it changes nothing in them, since literals have single ones."""
    return f'"{text}"' if not set(text) & set('$`\\!"') else shlex.quote(text)
