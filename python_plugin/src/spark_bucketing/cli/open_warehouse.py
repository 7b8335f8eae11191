"""Open the warehouse of a target, so that a command can use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from spark_bucketing.cli.options import project_options
from spark_bucketing.cli.progress import ProgressLine
from spark_bucketing.project.connection import RemoteStatements
from spark_bucketing.project.profile import Place, Target, read_target
from spark_bucketing.session import SessionStatements, open_session, quiet_errors
from spark_bucketing.table.warehouse import Warehouse

DRY_RUN = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
WHERE = click.option("--where", help="Spark SQL condition on the partition columns; the default is all partitions.")


def table_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and options of a command that works on one table."""
    return click.argument("name", metavar="[SCHEMA.]TABLE")(project_options(function))


def tables_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options of a command that works on some or all tables of a schema."""
    schema = click.option("--schema", help="Schema of unqualified table names; the default is the target's.")
    return click.argument("tables", metavar="[[SCHEMA.]TABLE]...", nargs=-1)(schema(project_options(function)))


@contextmanager
def opened(place: Place, line: ProgressLine) -> Iterator[tuple[Warehouse, Target]]:
    """Open a session with the settings that the table commands require.

    Yield the warehouse with this session, and the target.

    Raises:
        BucketingError: the session cannot be opened.
    """
    target = read_target(place)
    with connected(target, line) as warehouse, warehouse.with_needed_settings():
        yield warehouse, target


@contextmanager
def connected(target: Target, line: ProgressLine) -> Iterator[Warehouse]:
    """Open a session for a target, with the target's own settings.

    Raises:
        BucketingError: the session cannot be opened.
    """
    statements: RemoteStatements | SessionStatements
    if target.method == "session":
        line.show("starting Spark")
        quiet_errors()
        statements = SessionStatements(open_session(target.settings), line.on_tasks)
    else:
        line.show("connecting to the server")
        statements = RemoteStatements(target)
    with closing(statements):
        yield Warehouse(statements.rows)
