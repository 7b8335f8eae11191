"""The commands of `evolution`: bucket specs per partition."""

from __future__ import annotations

from typing import Any

import click

from spark_bucketing.cli.open_warehouse import DRY_RUN, WHERE, opened, table_command
from spark_bucketing.cli.options import FORMAT
from spark_bucketing.cli.progress import ProgressLine, progress_line
from spark_bucketing.cli.seal import run_seal
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.errors import BucketingError
from spark_bucketing.evolution.metadata import merging_of, read_table
from spark_bucketing.evolution.model import total_size
from spark_bucketing.evolution.partition_predicates import select_partitions
from spark_bucketing.evolution.rewrite import RewritePlan, Rewriter, plan_rewrite
from spark_bucketing.evolution.staging import find_staging, is_complete
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.project.profile import Place
from spark_bucketing.report.evolution import write_plan, write_specs
from spark_bucketing.report.formatting import count, size


@click.group()
def evolution() -> None:
    """Partitions of one table with bucket specs of their own: look at them, verify, seal, write anew.

    For partitioned tables of the Hive layout, in a session with the extension. With a dbt target whose method is
    session, Spark runs in this process; with thrift or http, it is the target's server.
    """


@evolution.command()
@FORMAT
@table_command
def show(form: str, table: str, place: Place) -> None:
    """Show the bucket specs over the partitions of TABLE, and which partitions can be read together as bucketed.

    Files are listed and compared with the partitions' seals; none is opened.
    """
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"listing files of {name}")
        found, merging = read_table(warehouse, name), merging_of(warehouse)
    write_specs(found, merging, form, standard_output(form))


@evolution.command()
@WHERE
@FORMAT
@table_command
def verify(**options: Any) -> None:
    """Say which partitions of TABLE are sealed, and which could not be, and why: `seal --dry-run`.

    Exit codes: 0 all are sealed or could be, 1 some are not what they should be, 2 could not run.
    """
    run_seal(dry_run=True, **options)


@evolution.command()
@WHERE
@DRY_RUN
@FORMAT
@table_command
def repair(**options: Any) -> None:
    """Seal the partitions of TABLE whose files are the buckets of a spec: `seal`.

    Exit codes: 0 all files are sealed, 1 some are not what they should be, 2 could not run.
    """
    run_seal(**options)


@evolution.command()
@WHERE
@DRY_RUN
@table_command
def rewrite(where: str | None, dry_run: bool, table: str, place: Place) -> None:
    """Write partitions of TABLE anew, in the table's own spec, with one file for each bucket.

    Those that are sealed so are left alone. The others are copied to a staging table, which says what it replaces when
    its rows are counted, and then Spark overwrites them from there. A command that was interrupted or killed is run
    again: it finishes from a staging table that says so, and drops another one.
    Nothing else may write to these partitions meanwhile, nor another rewrite of the table run.
    """
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"listing files of {name}")
        found = read_table(warehouse, name)
        # A mistake in the predicate is found before anything is done.
        chosen, unclear = select_partitions(warehouse, found, where)
        if dry_run:
            _show_what_is_first(warehouse, name, line)
        elif Rewriter(warehouse, found, line.echo).recover():
            found = read_table(warehouse, name)
            chosen, unclear = select_partitions(warehouse, found, where)
        plan = plan_rewrite(found, chosen, unclear)
        if found.partitions and not chosen:
            line.echo(f"{name}: none of {count(len(found.partitions), 'partition')} matches --where.")
        elif dry_run:
            with line.hidden():
                write_plan(plan, standard_output("text"))
        else:
            _rewrite(warehouse, plan, line)


def _show_what_is_first(warehouse: Warehouse, name: str, line: ProgressLine) -> None:
    staging = find_staging(warehouse, name)
    if staging:
        what = "completed from it" if is_complete(staging) else "given up, and its staging table dropped"
        line.echo(f"{staging.name}: an earlier run crashed, or is at work; it would be {what} first.")


def _rewrite(warehouse: Warehouse, plan: RewritePlan, line: ProgressLine) -> None:
    rewriter = Rewriter(warehouse, plan.table, line.echo)
    batches = list(plan.batches())
    replaced = 0
    for number, batch in enumerate(batches, 1):
        partitions = f"[{number}/{len(batches)}] {count(len(batch), 'partition')}"
        line.echo(f"{partitions}: {count(sum(part.files for part in batch), 'file')}, {size(total_size(batch))}")
        line.show(f"writing {partitions} of {plan.table.name}")
        replaced += rewriter.run(batch)
    done = count(replaced, "partition")
    line.echo(f"{plan.table.name}: {done} brought to the table's spec, {len(plan.done):,} had it before.")
    if plan.left:
        why = "; ".join(f"{part.name}: {obstacle}" for part, obstacle in plan.left)
        raise BucketingError(
            f"Left as they are, of {plan.table.name}: {why}. Expected partitions with folders of their own, named as "
            "Spark casts their values to text: INSERT the rows of these into such ones, and drop them."
        )
