"""The commands of `evolution`: bucket specs per partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from spark_bucketing.cli_check import project_options
from spark_bucketing.errors import BucketingError, SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.guards import refuse_altered
from spark_bucketing.evolution.model import Table
from spark_bucketing.evolution.read import merging_of, read_stored, read_table
from spark_bucketing.evolution.recovery import Recovery
from spark_bucketing.evolution.repair import Change, candidates, plan_repair, still_true
from spark_bucketing.evolution.rewrite import Plan, Rewriter, plan_rewrite
from spark_bucketing.evolution.rows import Listing, list_files, read_evidence
from spark_bucketing.evolution.select import select_partitions
from spark_bucketing.evolution.staging import find_staging
from spark_bucketing.evolution.strays import COMPARE, bring_back, check_strays, find_lost, find_strays, look, said
from spark_bucketing.evolution.unfinished import Unfinished, check_unfinished, find_unfinished, refuse_unfinished
from spark_bucketing.evolution.verify import check_partitions, check_table
from spark_bucketing.evolution.warehouse import Warehouse, total
from spark_bucketing.project.profile import session_target
from spark_bucketing.report.evolution import write_changes, write_findings, write_plan, write_specs
from spark_bucketing.report.words import count, size
from spark_bucketing.session import open_session, quiet_errors

_FORM = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the report."
)
_DRY = click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _table_command(function: _Function) -> _Function:
    return click.argument("table", metavar="SCHEMA.TABLE")(project_options(function))


@click.group()
def evolution() -> None:
    """Partitions of one table with bucket specs of their own: look at them, verify, repair, write anew.

    For partitioned tables of the Hive layout, in a session with the extension. Spark runs in this process, with the
    settings of a dbt target whose method is session.
    """


@contextmanager
def _opened(
    table: str, project_dir: Path | None, profiles_dir: Path | None, target: str | None
) -> Iterator[tuple[Warehouse, str]]:
    """A settled session, and the table's qualified name."""
    parts = sql.parts(table)
    if not 1 <= len(parts) <= 2:
        raise TableError(f"{table!r} is no name of a table. Expected schema.table, or a table of the target's schema.")
    found = session_target(project_dir, profiles_dir, target)
    quiet_errors()
    with Warehouse(open_session(found.settings)).settled() as warehouse:
        yield warehouse, ".".join(parts if len(parts) == 2 else (found.schema, *parts))


@evolution.command()
@_FORM
@_table_command
def show(form: str, table: str, project_dir: Path | None, profiles_dir: Path | None, target: str | None) -> None:
    """Show the bucket specs over the partitions of TABLE, and which partitions can be read together as bucketed.

    Only the metastore is asked: whether files are what their records say is told by verify.
    """
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = read_table(warehouse, name)
        unfinished = find_unfinished(warehouse, found)
        write_specs(found, merging_of(warehouse), unfinished, form, click.get_text_stream("stdout"))


@evolution.command()
@click.option("--rows", is_flag=True, help="Look at every row, too: is it in its bucket, and in order?")
@_FORM
@_table_command
@click.pass_context
def verify(
    ctx: click.Context,
    rows: bool,
    form: str,
    table: str,
    project_dir: Path | None,
    profiles_dir: Path | None,
    target: str | None,
) -> None:
    """Compare the records of TABLE's partitions with their files and descriptors, and the table's with its properties.

    Exit codes: 0 nothing is wrong, 1 something is, 2 could not run.
    """
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = read_table(warehouse, name)
        unfinished = find_unfinished(warehouse, found)
        # What a rewrite is half done with is neither right nor wrong.
        settled = found.recorded().without(unfinished.partition) if unfinished else found.recorded()
        listing = list_files(warehouse, settled.partitions)
        evidence = None
        if rows:
            evidence = read_evidence(warehouse, found, settled.partitions, listing, candidates(found))
        of_table = check_table(found, read_stored(warehouse, found))
        strays = check_strays(warehouse, found, unfinished.staging if unfinished else None)
        of_partitions = check_partitions(settled, listing, evidence)
        findings = [*of_table, *check_unfinished(unfinished), *strays, *of_partitions]
        write_findings(found, findings, unfinished, rows, form, click.get_text_stream("stdout"))
    ctx.exit(1 if findings else 0)


@evolution.command()
@_DRY
@_table_command
def repair(dry_run: bool, table: str, project_dir: Path | None, profiles_dir: Path | None, target: str | None) -> None:
    """Write the record that the files of each partition of TABLE prove, and bring its descriptor into step.

    Names of files say which specs they may have, and every row is hashed to tell which they have. Files that prove none
    are recorded as being without buckets. No data is touched.
    """
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = read_table(warehouse, name)
        if dry_run:
            _say_unfinished(find_unfinished(warehouse, found), "no record would be written before it has ended")
        else:
            refuse_unfinished(warehouse, found)
        listing = list_files(warehouse, found.partitions)
        known = candidates(found, [[file.name for file in files] for files in listing.values()])
        evidence = read_evidence(warehouse, found, found.partitions, listing, known)
        planned = plan_repair(found.recorded(), evidence, known)
        changes = planned if dry_run else _write_records(warehouse, found, planned, listing)
        # What is said to be changed has been.
        write_changes(found, changes, dry_run, click.get_text_stream("stdout"))
        left = [change.partition.name for change in planned if change not in changes]
        if left:
            raise BucketingError(
                f"Of {name} {count(len(left), 'partition')} got no record, since something wrote there or altered "
                f"them while rows were looked at: {', '.join(left[:3])}. Run the command again when it has ended."
            )


def _write_records(warehouse: Warehouse, table: Table, planned: Sequence[Change], listing: Listing) -> Sequence[Change]:
    """Write those of the records that are true still: hashing all rows takes its time."""
    refuse_unfinished(warehouse, table)
    files = list_files(warehouse, [change.partition for change in planned])
    changes = still_true(planned, listing, read_table(warehouse, table.name), files)
    if changes:
        warehouse.record(sql.table(table.name), [change.data() for change in changes])
    if table.hidden:
        warehouse.change(sql.mark_evolved(table.name))
    return changes


@evolution.command()
@click.option("--where", help="A condition on the partition columns, in SQL; all partitions when not given.")
@click.option("--take-over", is_flag=True, help="An earlier rewrite of the table, begun elsewhere, has died.")
@_DRY
@_table_command
def rewrite(
    where: str | None,
    take_over: bool,
    dry_run: bool,
    table: str,
    project_dir: Path | None,
    profiles_dir: Path | None,
    target: str | None,
) -> None:
    """Write partitions of TABLE anew, in the table's own spec, one after the other.

    The old files of a partition are read until the new ones are complete and verified, and a change of the partition's
    location swaps them; then copies of the new files go to the partition's own folder. A command that was killed is run
    again: it goes on from there. Partitions that have the spec are left alone. Nothing else should write to these
    partitions meanwhile, and no other rewrite of the table run.
    """
    with _opened(table, project_dir, profiles_dir, target) as (warehouse, name):
        found = read_table(warehouse, name)
        select_partitions(warehouse, found, where)
        if dry_run:
            _say_what_is_first(find_unfinished(warehouse, found), take_over)
        elif Recovery(warehouse, found, click.echo).run(take_over):
            found = read_table(warehouse, name)
        if _mend_strays(warehouse, found, dry_run):
            found = read_table(warehouse, name)
        chosen = select_partitions(warehouse, found, where)
        plan = plan_rewrite(warehouse, found, chosen)
        if found.partitions and not chosen:
            click.echo(f"{name}: none of {count(len(found.partitions), 'partition')} matches --where.")
        elif dry_run:
            write_plan(plan, click.get_text_stream("stdout"))
        else:
            _rewrite(warehouse, plan)


def _say_unfinished(unfinished: Unfinished | None, then: str) -> None:
    if unfinished:
        click.echo(f"{unfinished.partition}: {unfinished.said}; {then}")


def _say_what_is_first(unfinished: Unfinished | None, take_over: bool) -> None:
    if unfinished and (unfinished.dead or take_over):
        click.echo(f"{unfinished.partition}: an earlier run died here; it would be completed or undone first")
    else:
        _say_unfinished(unfinished, "nothing would be done before its end, or without --take-over if it has died")


def _mend_strays(warehouse: Warehouse, table: Table, dry_run: bool) -> bool:
    """Whether partitions were brought back to their own folders."""
    for stray in find_strays(warehouse, table, find_staging(warehouse, table)):
        click.echo(f"Found {said(stray)}. {COMPARE}. Look at them: {look(table, stray)}")
    lost = find_lost(warehouse, table)
    for name in lost:
        click.echo(f"{name}: its location is a hidden folder that is gone; it goes back to its own folder")
    if lost and not dry_run:
        bring_back(warehouse, table, lost)
    return bool(lost) and not dry_run


def _rewrite(warehouse: Warehouse, plan: Plan) -> None:
    rewriter = Rewriter(warehouse, plan.table, click.echo)
    failures: list[str] = []
    rewritten, away = 0, 0
    for number, task in enumerate(plan.tasks, 1):
        files = f"{count(len(task.files), 'file')}, {size(total(task.files))}"
        what = "record" if task.proven else files
        click.echo(f"[{number}/{len(plan.tasks)}] {task.partition.name}: {what}")
        refuse_altered(warehouse, plan.table)
        try:
            away += not rewriter.run(task)
        except (TableError, SparkError) as error:
            # Of this partition only.
            failures.append(str(error))
            click.echo(f"    {error}", err=True)
            if find_staging(warehouse, plan.table):
                click.echo("    The next run of this command completes or undoes it, and goes on.", err=True)
                break
        else:
            rewritten += 1
    done = count(rewritten, "partition")
    click.echo(f"{plan.table.name}: {done} brought to the table's spec, {len(plan.done):,} had it before.")
    if failures:
        raise BucketingError(
            f"{count(len(failures), 'partition')} of {plan.table.name} could not be brought to its spec."
        )
    if away:
        raise BucketingError(
            f"Not in the folder where it was: {count(away, 'partition')} of {plan.table.name}, as said above. Run the "
            "command again, and do not drop it before: a new partition of its name would have what is in that folder."
        )
