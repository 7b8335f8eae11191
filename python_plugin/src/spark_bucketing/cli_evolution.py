"""The commands of `evolution`, bucket specs per partition, and `seal`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from spark_bucketing.cli_check import project_options
from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.read import merging_of, read_table
from spark_bucketing.evolution.rewrite import Plan, Rewriter, plan_rewrite, total
from spark_bucketing.evolution.seal import all_hold, seal_table
from spark_bucketing.evolution.select import select_partitions
from spark_bucketing.evolution.staging import find_staging
from spark_bucketing.evolution.warehouse import Statements, Warehouse
from spark_bucketing.project.connection import RemoteStatements
from spark_bucketing.project.profile import Target, read_target
from spark_bucketing.report.evolution import write_plan, write_sealed, write_specs
from spark_bucketing.report.words import count, size
from spark_bucketing.session import SessionStatements, open_session, quiet_errors

_FORM = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the report."
)
_DRY = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
_WHERE = click.option("--where", help="A condition on the partition columns, in SQL; all partitions when not given.")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _table_command(function: _Function) -> _Function:
    return click.argument("table", metavar="SCHEMA.TABLE")(project_options(function))


@click.group()
def evolution() -> None:
    """Partitions of one table with bucket specs of their own: look at them, verify, seal, write anew.

    For partitioned tables of the Hive layout, in a session with the extension. With a dbt target whose method is
    session, Spark runs in this process; with thrift or http, it is the target's server.
    """


@contextmanager
def _opened(
    table: str, project_dir: Path | None, profiles_dir: Path | None, target: str | None
) -> Iterator[tuple[Warehouse, str]]:
    """A session with the settings that are needed, and the table's qualified name."""
    parts = sql.parts(table)
    if not 1 <= len(parts) <= 2:
        raise TableError(f"{table!r} is no name of a table. Expected schema.table, or a table of the target's schema.")
    found = read_target(project_dir, profiles_dir, target)
    with closing(_statements(found)) as statements, Warehouse(statements).settled() as warehouse:
        yield warehouse, ".".join(parts if len(parts) == 2 else (found.schema, *parts))


def _statements(target: Target) -> Statements:
    if target.method != "session":
        return RemoteStatements(target)
    quiet_errors()
    return SessionStatements(open_session(target.settings))


@evolution.command()
@_FORM
@_table_command
def show(form: str, table: str, project_dir: Path | None, profiles_dir: Path | None, target: str | None) -> None:
    """Show the bucket specs over the partitions of TABLE, and which partitions can be read together as bucketed.

    Files are listed and compared with the partitions' seals; none is opened.
    """
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = read_table(warehouse, name)
        write_specs(found, merging_of(warehouse), form, click.get_text_stream("stdout"))


def _seal(
    where: str | None,
    dry_run: bool,
    form: str,
    table: str,
    project_dir: Path | None,
    profiles_dir: Path | None,
    target: str | None,
) -> None:
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = seal_table(warehouse, name, where, dry_run)
        write_sealed(name, found, dry_run, form, click.get_text_stream("stdout"))
    click.get_current_context().exit(0 if all_hold(found) else 1)


@click.command()
@_WHERE
@_DRY
@_FORM
@_table_command
def seal(**options: Any) -> None:
    """Seal the files of TABLE that are the buckets of a spec, so that they are read as bucketed.

    The bucket and sort columns of files that are not sealed are read once, in the cluster. For what stock Spark, Hive
    or Trino have written; an INSERT through the extension seals what it writes. No data is touched.

    Exit codes: 0 all files are sealed, 1 some are not what they should be, 2 could not run.
    """
    _seal(**options)


@evolution.command()
@_WHERE
@_FORM
@_table_command
def verify(**options: Any) -> None:
    """Say which partitions of TABLE are sealed, and which could not be, and why: `seal --dry-run`.

    Exit codes: 0 all are sealed or could be, 1 some are not what they should be, 2 could not run.
    """
    _seal(dry_run=True, **options)


@evolution.command()
@_WHERE
@_DRY
@_FORM
@_table_command
def repair(**options: Any) -> None:
    """Seal the partitions of TABLE whose files are the buckets of a spec: `seal`.

    Exit codes: 0 all files are sealed, 1 some are not what they should be, 2 could not run.
    """
    _seal(**options)


@evolution.command()
@_WHERE
@_DRY
@_table_command
def rewrite(
    where: str | None,
    dry_run: bool,
    table: str,
    project_dir: Path | None,
    profiles_dir: Path | None,
    target: str | None,
) -> None:
    """Write partitions of TABLE anew, in the table's own spec, with one file for each bucket.

    Those that are sealed so are left alone. The others are copied to a staging table and verified, and then Spark
    overwrites them from there. A command that was interrupted or killed is run again: it finishes what is complete,
    and drops what is not. Nothing else may write to these partitions meanwhile, nor another rewrite of the table run.
    """
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = read_table(warehouse, name)
        # A mistake in the predicate is found before anything is done.
        chosen, unclear = select_partitions(warehouse, found, where)
        if dry_run:
            _say_what_is_first(warehouse, name)
        elif Rewriter(warehouse, found, click.echo).recover():
            found = read_table(warehouse, name)
            chosen, unclear = select_partitions(warehouse, found, where)
        plan = plan_rewrite(found, chosen, unclear)
        if found.partitions and not chosen:
            click.echo(f"{name}: none of {count(len(found.partitions), 'partition')} matches --where.")
        elif dry_run:
            write_plan(plan, click.get_text_stream("stdout"))
        else:
            _rewrite(warehouse, plan)


def _say_what_is_first(warehouse: Warehouse, name: str) -> None:
    staging = find_staging(warehouse, name)
    if staging:
        what = "completed from it" if staging.complete else "given up, and its staging table dropped"
        click.echo(f"{staging.name}: an earlier run died, or is at work; it would be {what} first.")


def _rewrite(warehouse: Warehouse, plan: Plan) -> None:
    rewriter = Rewriter(warehouse, plan.table, click.echo)
    batches = list(plan.batches())
    replaced = 0
    for number, batch in enumerate(batches, 1):
        files = f"{count(sum(part.files for part in batch), 'file')}, {size(total(batch))}"
        click.echo(f"[{number}/{len(batches)}] {count(len(batch), 'partition')}: {files}")
        replaced += rewriter.run(batch)
    done = count(replaced, "partition")
    click.echo(f"{plan.table.name}: {done} brought to the table's spec, {len(plan.done):,} had it before.")
    if plan.left:
        why = "; ".join(f"{part.name}: {obstacle}" for part, obstacle in plan.left)
        raise BucketingError(
            f"Left as they are, of {plan.table.name}: {why}. Expected partitions with folders of their own, named as "
            "Spark casts their values to text: INSERT the rows of these into such ones, and drop them."
        )
