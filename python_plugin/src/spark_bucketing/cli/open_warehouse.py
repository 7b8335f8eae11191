"""A table's warehouse, opened for a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from spark_bucketing.cli.options import project_options
from spark_bucketing.cli.progress import CONNECTING, STARTING, ProgressLine
from spark_bucketing.errors import TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.project.connection import RemoteStatements
from spark_bucketing.project.profile import Place, Target, read_target
from spark_bucketing.session import SessionStatements, open_session, quiet_errors

DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
WHERE = click.option("--where", help="A condition on the partition columns, in SQL; all partitions when not given.")


def table_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Argument and options of a command on one table."""
    return click.argument("table", metavar="SCHEMA.TABLE")(project_options(function))


@contextmanager
def opened(table: str, place: Place, line: ProgressLine) -> Iterator[tuple[Warehouse, str]]:
    """A session with the settings that are needed, and the table's qualified name.

    Raises:
        BucketingError: this is no name of a table, or there is no session.
    """
    parts = sql.parts(table)
    if not 1 <= len(parts) <= 2:
        raise TableError(f"{table!r} is no name of a table. Expected schema.table, or a table of the target's schema.")
    target = read_target(place)
    with connected(target, line) as warehouse, warehouse.with_needed_settings() as found:
        yield found, ".".join(parts if len(parts) == 2 else (target.schema, *parts))


@contextmanager
def connected(target: Target, line: ProgressLine) -> Iterator[Warehouse]:
    """A session of a target, with its own settings.

    Raises:
        BucketingError: there is no session.
    """
    with closing(_statements(target, line)) as statements:
        yield Warehouse(statements.rows)


def _statements(target: Target, line: ProgressLine) -> RemoteStatements | SessionStatements:
    if target.method != "session":
        line.show(CONNECTING)
        return RemoteStatements(target)
    line.show(STARTING)
    quiet_errors()
    return SessionStatements(open_session(target.settings), line.on_tasks)
