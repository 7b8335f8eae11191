"""Commands that mend what was found, as they can be copied into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from spark_bucketing.evolution.covering import covering
from spark_bucketing.evolution.model import Partition, Table


def rewriting(table: str, where: str = "true", *options: str) -> str:
    """The command that brings partitions to the table's spec.

    Args:
        table: its name, qualified.
        where: a predicate for the partitions; `true` for all.
        options: others of the command.
    """
    given = () if where == "true" else ("--where", _quoted(where))
    return " ".join(["spark-bucketing evolution rewrite", shlex.quote(table), *given, *options])


def rewriting_one(table: Table, name: str, *options: str) -> str:
    """The command for one partition; for none, which has no more to do than an earlier run left, where it is gone."""
    chosen: Sequence[Partition] = [partition for partition in table.partitions if partition.name == name]
    return rewriting(table.name, covering(table, chosen), *options)


def _quoted(text: str) -> str:
    """An argument for a shell: in double quotes where it changes nothing in them, since literals have single ones."""
    return f'"{text}"' if not set(text) & set('$`\\!"') else shlex.quote(text)
