"""Define the commands of `table`: show, verify, seal and rewrite tables, and show file statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from spark_bucketing.api import Table, warehouse_of
from spark_bucketing.cli.options import FORMAT, OUTPUT, finish, format_of, project_options, standard_output
from spark_bucketing.cli.progress import ProgressLine, progress_line
from spark_bucketing.errors import BucketingError
from spark_bucketing.project.profile import Place
from spark_bucketing.tables.file_statistics import organized_table, read_file_statistics, repair_file_statistics
from spark_bucketing.tables.metadata import read_table, total_size
from spark_bucketing.tables.overview import qualified
from spark_bucketing.tables.report import write_file_statistics_report, write_plan
from spark_bucketing.tables.rewrite import RewritePlan, plan_rewrite, rewrite_batch, select_partitions
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import count, size

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
_WHERE = click.option("--where", help="Spark SQL condition on the partition columns; the default is all partitions.")
_SCHEMA = click.option("--schema", help="Schema of unqualified table names; the default is the target's.")


def _one_table(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and options of a command that works on one table."""
    return click.argument("name", metavar="[SCHEMA.]TABLE")(project_options(function))


def _some_tables(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options of a command that works on some or all tables of a schema."""
    return click.argument("tables", metavar="[[SCHEMA.]TABLE]...", nargs=-1)(_SCHEMA(project_options(function)))


@click.group("table")
def table_group() -> None:
    """Show, verify, seal and rewrite bucketed and organized tables.

    With method session, Spark runs in the command's own process. With thrift or http, the command sends its statements
    to the target's server. Seals and bucket specs per partition require the session extension.
    """


@table_group.command()
@format_of("text", "json", "html")
@OUTPUT
@_some_tables
def show(tables: tuple[str, ...], schema: str | None, form: str, output: Path | None, place: Place) -> None:
    """Show the bucket specs, files, sizes, skew, seals and file statistics of tables.

    Without TABLE, shows all bucketed and organized tables in the schema. For each TABLE, also shows the bucket specs of
    its partitions and its file statistics. Also shows which partitions Spark can read together as bucketed. The command
    lists the files, compares them with their seals, and reads row counts from file footers.

    Skew is the number of rows in the largest bucket, divided by the mean over all buckets. The command adds up the rows
    of all partitions with the same bucket spec. If a table has several specs, the command shows the largest skew.

    Exit codes: 0 no findings, 1 unsealed files, missing files or several files per bucket, 2 the command could not run.
    """
    with progress_line() as line:
        result = _tables(tables, place, line, schema).show()
    finish(result, form, output)


@table_group.command()
@click.option("--deep", is_flag=True, help="Also check the rows of unsealed files and of organized tables.")
@_WHERE
@FORMAT
@_some_tables
def verify(tables: tuple[str, ...], schema: str | None, deep: bool, where: str | None, form: str, place: Place) -> None:
    """Run all checks that apply to a table: its file names, its seals and its file statistics.

    Without TABLE, checks all bucketed and organized tables in the schema. With --deep, also checks that rows are in
    their buckets, that rows are sorted within each file, and that file statistics match the rows. Changes nothing.

    Exit codes: 0 no findings, 1 findings, 2 a check could not run.
    """
    with progress_line() as line:
        result = _tables(tables, place, line, schema).verify(deep, where)
    finish(result, form)


@table_group.command()
@_WHERE
@_DRY_RUN
@FORMAT
@_one_table
def seal(name: str, where: str | None, dry_run: bool, form: str, place: Place) -> None:
    """Seal the files of TABLE that match its bucket spec, so that queries read them as bucketed.

    Use this command for files that stock Spark, Hive or Trino wrote. An INSERT with the extension seals its own files.
    Spark reads the bucket and sort columns of all files without a valid seal once. The command changes no data.

    Exit codes: 0 all files are sealed, 1 some files do not match the spec, 2 the command could not run.
    """
    with progress_line() as line:
        result = _tables((name,), place, line).seal(where, dry_run)
    finish(result, form)


@table_group.command()
@_WHERE
@_DRY_RUN
@_one_table
def rewrite(name: str, where: str | None, dry_run: bool, place: Place) -> None:
    """Rewrite partitions of TABLE with the table's current bucket spec and one file per bucket.

    Skips partitions that are already sealed with this spec. Rewrites the others in passes of up to 100 GiB or 1,000
    partitions. Each pass replaces all of its files atomically. If the command is interrupted or killed, run it again.
    """
    with _opened(place, name) as (warehouse, name, line):
        line.show(f"listing files of {name}")
        found = read_table(warehouse, name)
        # Report an invalid predicate before making any change.
        chosen, unclear = select_partitions(warehouse, found, where)
        plan = plan_rewrite(found, chosen, unclear)
        if found.partitions and not chosen:
            line.echo(f"{name}: none of {count(len(found.partitions), 'partition')} matches --where.")
        elif dry_run:
            with line.hidden():
                write_plan(plan, standard_output("text"))
        else:
            _rewrite(warehouse, plan, line)


@table_group.command()
@click.option("--repair", is_flag=True, help="Read all rows once, and write new statistics.")
@FORMAT
@_one_table
def stats(name: str, repair: bool, form: str, place: Place) -> None:
    """Show or repair the file statistics of TABLE, an organized table.

    Reads rows only with --repair. Changes no data. To compare the statistics with the rows, use `table verify --deep`.
    """
    with _opened(place, name) as (warehouse, name, line):
        organized = organized_table(warehouse, name)
        if repair:
            line.show(f"reading {name}")
            repair_file_statistics(warehouse, organized)
        line.show(f"listing files of {name}")
        files = read_file_statistics(warehouse, organized)
    write_file_statistics_report(name, files, form, standard_output(form))


def _tables(names: tuple[str, ...], place: Place, line: ProgressLine, schema: str | None = None) -> Table:
    return Table(names, place, schema=schema, on_progress=line.show, on_tasks=line.on_tasks)


@contextmanager
def _opened(place: Place, name: str) -> Iterator[tuple[Warehouse, str, ProgressLine]]:
    with progress_line() as line, warehouse_of(_tables((name,), place, line)) as (warehouse, schema):
        yield warehouse, qualified(name, schema), line


def _rewrite(warehouse: Warehouse, plan: RewritePlan, line: ProgressLine) -> None:
    batches = list(plan.batches())
    replaced = 0
    for number, batch in enumerate(batches, 1):
        partitions = f"[{number}/{len(batches)}] {count(len(batch), 'partition')}"
        line.echo(f"{partitions}: {count(sum(part.files for part in batch), 'file')}, {size(total_size(batch))}")
        line.show(f"writing {partitions} of {plan.table.name}")
        replaced += rewrite_batch(warehouse, plan.table, batch, line.echo)
    done = count(replaced, "partition")
    line.echo(f"{plan.table.name}: {done} rewritten in the table's spec, {len(plan.done):,} already in this spec.")
    if plan.left:
        why = "; ".join(f"{part.name}: {obstacle}" for part, obstacle in plan.left)
        raise BucketingError(
            f"Table `{plan.table.name}` has partitions that cannot be rewritten.",
            found=why,
            expected="a separate directory for each partition, with the name that Spark gives it",
            instead="insert the rows into new partitions, and drop these partitions",
        )
