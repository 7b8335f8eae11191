"""Define the commands of `table`: show, verify, seal and rewrite tables, and show file statistics."""

from __future__ import annotations

import click

from spark_bucketing.cli.open_warehouse import DRY_RUN, WHERE, opened, table_command, tables_command
from spark_bucketing.cli.options import FORMAT, standard_output
from spark_bucketing.cli.progress import ProgressLine, progress_line
from spark_bucketing.errors import CLEAN, FINDINGS, BucketingError, exit_code
from spark_bucketing.project.profile import Place
from spark_bucketing.report.formatting import size
from spark_bucketing.report.table_specs import write_plan, write_sealed
from spark_bucketing.report.tables import write_file_statistics_report, write_overviews, write_verifications
from spark_bucketing.table.file_statistics import organized_table, read_file_statistics, repair_file_statistics
from spark_bucketing.table.metadata import read_table, seal_table
from spark_bucketing.table.model import Status, total_size
from spark_bucketing.table.overview import qualified, read_overviews
from spark_bucketing.table.partition_predicates import select_partitions
from spark_bucketing.table.rewrite import RewritePlan, plan_rewrite, rewrite_batch
from spark_bucketing.table.verification import verify_table
from spark_bucketing.table.warehouse import Warehouse
from spark_bucketing.units import count


@click.group()
def table() -> None:
    """Show, verify, seal and rewrite bucketed and organized tables.

    With method session, Spark runs in the command's own process. With thrift or http, the command sends its statements
    to the target's server. Seals and bucket specs per partition require the session extension.
    """


@table.command()
@FORMAT
@tables_command
def show(tables: tuple[str, ...], schema: str | None, form: str, place: Place) -> None:
    """Show the bucket specs, files, sizes, skew, seals and file statistics of tables.

    Without TABLE, shows all bucketed and organized tables in the schema. For each TABLE, also shows the bucket specs of
    its partitions and its file statistics. Also shows which partitions Spark can read together as bucketed. The command
    lists the files, compares them with their seals, and reads row counts from file footers.

    Skew is the number of rows in the largest bucket, divided by the mean over all buckets. The command adds up the rows
    of all partitions with the same bucket spec. If a table has several specs, the command shows the largest skew.

    Exit codes: 0 no findings, 1 unsealed files, missing files or several files per bucket, 2 the command could not run.
    """
    with progress_line() as line, opened(place, line) as (warehouse, target):
        chosen = schema or target.schema
        found = list(read_overviews(warehouse, chosen, tables, line.show))
    write_overviews(chosen, found, form, standard_output(form), details=bool(tables))
    click.get_current_context().exit(exit_code({overview.state for overview in found}))


@table.command()
@click.option(
    "--deep",
    is_flag=True,
    help="Also check the rows of unsealed files and of organized tables.",
)
@WHERE
@FORMAT
@tables_command
def verify(tables: tuple[str, ...], schema: str | None, deep: bool, where: str | None, form: str, place: Place) -> None:
    """Run all checks that apply to a table: its file names, its seals and its file statistics.

    Without TABLE, checks all bucketed and organized tables in the schema. With --deep, also checks that rows are in
    their buckets, that rows are sorted within each file, and that file statistics match the rows. Changes nothing.

    Exit codes: 0 no findings, 1 findings, 2 a check could not run.
    """
    with progress_line() as line, opened(place, line) as (warehouse, target):
        chosen = schema or target.schema
        found = []
        for overview in read_overviews(warehouse, chosen, tables, line.show):
            line.show(f"verifying {overview.table.name}")
            found.append(verify_table(warehouse, overview, deep, where))
    write_verifications(chosen, found, form, standard_output(form), details=bool(tables))
    click.get_current_context().exit(exit_code({verification.state for verification in found}))


@table.command()
@WHERE
@DRY_RUN
@FORMAT
@table_command
def seal(name: str, where: str | None, dry_run: bool, form: str, place: Place) -> None:
    """Seal the files of TABLE that match its bucket spec, so that queries read them as bucketed.

    Use this command for files that stock Spark, Hive or Trino wrote. An INSERT with the extension seals its own files.
    Spark reads the bucket and sort columns of all files without a valid seal once. The command changes no data.

    Exit codes: 0 all files are sealed, 1 some files do not match the spec, 2 the command could not run.
    """
    with progress_line() as line, opened(place, line) as (warehouse, target):
        name = qualified(name, target.schema)
        line.show(f"hashing files of {name}")
        found = seal_table(warehouse, name, where, dry_run)
    write_sealed(name, found, dry_run, form, standard_output(form))
    refused = any(partition.status == Status.REFUSED for partition in found)
    click.get_current_context().exit(FINDINGS if refused else CLEAN)


@table.command()
@WHERE
@DRY_RUN
@table_command
def rewrite(name: str, where: str | None, dry_run: bool, place: Place) -> None:
    """Rewrite partitions of TABLE with the table's current bucket spec and one file per bucket.

    Skips partitions that are already sealed with this spec. Rewrites the others in passes of up to 100 GiB or 1,000
    partitions. Each pass replaces all of its files at once. If the command is interrupted or killed, run it again.
    """
    with progress_line() as line, opened(place, line) as (warehouse, target):
        name = qualified(name, target.schema)
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


@table.command()
@click.option("--repair", is_flag=True, help="Read all rows once, and write new statistics.")
@FORMAT
@table_command
def stats(name: str, repair: bool, form: str, place: Place) -> None:
    """Show or repair the file statistics of TABLE, an organized table.

    Reads rows only with --repair. Changes no data. To compare the statistics with the rows, use `table verify --deep`.
    """
    with progress_line() as line, opened(place, line) as (warehouse, target):
        name = qualified(name, target.schema)
        organized = organized_table(warehouse, name)
        if repair:
            line.show(f"reading {name}")
            repair_file_statistics(warehouse, organized)
        line.show(f"listing files of {name}")
        files = read_file_statistics(warehouse, organized)
    write_file_statistics_report(name, files, form, standard_output(form))


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
