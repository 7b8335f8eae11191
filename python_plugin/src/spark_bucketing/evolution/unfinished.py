"""A rewrite of a partition that has not ended: one that is at work, or one that has died on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_bucketing.errors import TableError
from spark_bucketing.evolution.commands import rewriting_one
from spark_bucketing.evolution.model import Table
from spark_bucketing.evolution.staging import Staging, find_staging
from spark_bucketing.evolution.verify import Finding
from spark_bucketing.evolution.warehouse import Warehouse


@dataclass(frozen=True)
class Unfinished:
    """A rewrite that has not ended.

    Args:
        table: it is of.
        staging: what its staging table remembers.
        dead: whether its process has died; None when that cannot be told from here.
    """

    table: Table
    staging: Staging
    dead: bool | None

    @property
    def partition(self) -> str:
        """Name of the partition."""
        return self.staging.partition

    @property
    def runs(self) -> bool:
        """Whether it is at work."""
        return self.dead is False

    @property
    def said(self) -> str:
        """What is known of it, in words."""
        process = f"process {self.staging.owner.pid}"
        if self.runs:
            return f"{process} on this machine is rewriting it"
        if self.dead:
            return f"a rewrite has not ended, whose {process} has died"
        return (
            f"a rewrite by {process} on {self._host} has not ended, and whether it still runs cannot be told from here"
        )

    @property
    def command(self) -> str:
        """What completes or undoes it when it has died, and then goes on with the partition."""
        return rewriting_one(self.table, self.partition, *(() if self.dead else ("--take-over",)))

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.runs:
            return "wait for its end"
        return f"{'' if self.dead else 'when it has died, '}run {self.command}"

    def as_data(self) -> dict[str, Any]:
        """The same for JSON."""
        state = {True: "died", False: "running", None: "unknown"}[self.dead]
        process = {"process": self.staging.owner.pid, "host": self._host}
        run = None if self.runs else self.command
        return {"partition": self.partition, "folder": self.staging.folder, "state": state, **process, "run": run}

    @property
    def _host(self) -> str:
        return (self.staging.owner.place.split() or ["another machine"])[0]


def find_unfinished(warehouse: Warehouse, table: Table) -> Unfinished | None:
    """A rewrite of a partition of this table that has not ended."""
    try:
        staging = find_staging(warehouse, table)
    except TableError:
        # A table of somebody else has that name.
        return None
    return Unfinished(table, staging, staging.owner.is_dead()) if staging else None


def check_unfinished(unfinished: Unfinished | None) -> Iterator[Finding]:
    """A rewrite that has died, or may have; one that is at work is none.

    Args:
        unfinished: what there is.
    """
    if unfinished and not unfinished.runs:
        expected = (
            "one that has ended: this one may have left its partition in a hidden folder, read plainly, and leaves "
            f"{unfinished.staging.folder} there"
        )
        yield Finding(unfinished.partition, unfinished.said, expected, unfinished.command)


def refuse_unfinished(warehouse: Warehouse, table: Table) -> None:
    """Refuse to write records while the location of a partition may be changed: a record is written with a location.

    Raises:
        TableError: a rewrite has not ended.
    """
    unfinished = find_unfinished(warehouse, table)
    if unfinished:
        raise TableError(
            f"No record of {table.name} was written: found that partition {unfinished.partition} is not done: "
            f"{unfinished.said}. Expected no rewrite of the table that has not ended, since a record could take a "
            f"location back that it has changed meanwhile: {unfinished.advice}"
        )
