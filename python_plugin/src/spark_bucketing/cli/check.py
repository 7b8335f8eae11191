"""Define the command `check`."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from spark_bucketing import api
from spark_bucketing.checks.acceptance import write_baseline
from spark_bucketing.checks.reasons import EVERY_REASON
from spark_bucketing.checks.report import FORMATS, write_report
from spark_bucketing.checks.results import FailOn, Finding, Found, Report, exit_code, map_all_findings
from spark_bucketing.cli import options
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.config.validation import nearest_name
from spark_bucketing.errors import CLEAN, ProjectError
from spark_bucketing.event_log.measured import Measured, read_measured
from spark_bucketing.event_log.plan_costs import Cost
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.units import count


class _ManyValues(click.Command):
    """Accept several values after one --select or --exclude, as dbt does: --select a b --exclude c.

    A file path is a value if it comes first or follows a selector method (path:models/a.sql). After other values, a
    file path is a FILE argument.
    """

    _MANY = ("--select", "-s", "--exclude")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # For shell completion, the values may still be missing.
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        spread: list[str] = []
        # The current option, and the number of its values so far.
        option, values = "", 0
        for place, argument in enumerate(args):
            # One letter before a colon is a Windows drive.
            is_selector = not argument.endswith(".sql") or re.match(r"[@+\d]*[a-z_.]{2,}:", argument)
            if option and not argument.startswith("-") and (not values or is_selector):
                spread += [option, argument]
                values += 1
                continue
            self._check_values(option, values, ctx)
            if argument == "--":
                return super().parse_args(ctx, spread + args[place:])
            name, _, value = argument.partition("=")
            option, values = (name, 0) if name in self._MANY else ("", 0)
            if option and value:
                spread += [option, value]
                values = 1
            elif not option:
                spread.append(argument)
        self._check_values(option, values, ctx)
        return super().parse_args(ctx, spread)

    @staticmethod
    def _check_values(option: str, values: int, ctx: click.Context) -> None:
        if option and not values:
            raise click.BadOptionUsage(option, f"Option '{option}' requires an argument.", ctx)


class _ReportTo(click.Choice[str]):
    """Parse a report format and an optional output file, such as sarif=check.sarif."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        form, _, file = value.partition("=")
        return super().convert(form, param, ctx), options.WRITTEN_FILE.convert(file, param, ctx) if file else None


def _split(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for value in values for word in value.split())


@click.command(cls=_ManyValues)
@click.argument("files", metavar="[FILE.sql]...", nargs=-1, type=options.READ_FILE)
@click.option(
    "--select",
    "-s",
    multiple=True,
    callback=_split,
    help="Models to check, in dbt's selector syntax; the default is all models.",
)
@click.option("--exclude", multiple=True, callback=_split, help="Models to exclude, in dbt's selector syntax.")
@click.option(
    "--state",
    type=options.FOLDER,
    help="Directory with the artifacts of another dbt run, for selectors such as state:modified+.",
)
@options.project_options
@options.VARIABLES
@click.option(
    "--offline", is_flag=True, help="Plan in an embedded Spark session over empty tables, instead of in the warehouse."
)
@options.EXTENSION
@options.MANIFEST
@click.option(
    "--compile",
    "compile_anyway",
    is_flag=True,
    help="Compile the project even if its manifest is newer than its files.",
)
@click.option(
    "--format",
    "reports",
    type=_ReportTo(FORMATS),
    multiple=True,
    default=["text"],
    show_default=True,
    help="Format of the report. For several reports, repeat this option with file names, as in --format github "
    "--format sarif=check.sarif.",
)
@options.OUTPUT
@click.option("--verbose", "-v", is_flag=True, help="Show every operator of every query in the text report.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="warning",
    show_default=True,
    help="Lowest level of findings that causes exit code 1.",
)
@options.time_limit("If planning takes longer, the query is unknown.")
@options.event_logs(
    "--event-log",
    "event_logs",
    help="Event log, or directory of event logs. Adds the measured cost per run to findings. Repeatable.",
)
@click.option(
    "--baseline",
    type=options.READ_FILE,
    help="Accept the findings in this baseline. Only other findings can cause exit code 1.",
)
@click.option(
    "--write-baseline",
    "new_baseline",
    type=options.WRITTEN_FILE,
    help="Write the findings to this baseline, and exit with code 0. Keep the baseline's entries for models that are "
    "not checked.",
)
@click.pass_context
def check(
    ctx: click.Context,
    /,
    place: Place,
    variables: str,
    reports: tuple[tuple[str, Path | None], ...],
    output: Path | None,
    verbose: bool,
    fail_on: FailOn,
    new_baseline: Path | None,
    event_logs: tuple[str, ...],
    **asked: Any,
) -> None:
    """Find where and why Spark shuffles or sorts bucketed tables, and what to change.

    Spark plans every compiled model of the project, or each FILE.sql, without running it. Each join, aggregate, window
    and distinct gets a verdict: sort-free, shuffle-free, one-sided, shuffled, broadcast, not bucketed, or unknown. For
    each shuffle or sort of a bucketed table, the command reports a finding with a reason and possible fixes.

    To accept all findings with a certain reason, list the reason in the model's meta: bucketing: {allow:
    [bucket-count-mismatch]}.

    Exit codes: 0 no findings, 1 findings at the level of --fail-on or above, 2 the command could not run, or the result
    of a query is unknown.
    """
    # Check the outputs before any slow step.
    outputs = [(form, file or output) for form, file in reports]
    for file, several in Counter(file for _, file in outputs).items():
        if several > 1:
            raise click.BadParameter(
                f"several reports would go to {file or 'standard output'}. Expected a separate file for each of them, "
                "as in --format github --format sarif=check.sarif.",
                param_hint="'--format'",
            )
    for written in filter(None, (new_baseline, *(file for _, file in outputs))):
        _check_writable(written)
    with progress_line() as line:

        def show(what: str, done: int, total: int) -> None:
            line.show(f"planning {done + 1:,} of {total:,} models ({what})" if total else what)

        try:
            report = api.check(**vars(place), variables=variables, on_progress=show, **asked).content
        except KeyboardInterrupt as interrupt:
            raise ProjectError("Interrupted before any model was checked.") from interrupt
        if event_logs:
            target = read_target(place, variables).name
            report = with_measured_costs(report, read_measured(event_logs, line.show, target))
    for form, path in outputs:
        with options.report_file(path, form) as stream:
            write_report(report, form, stream, verbose, plain=bool(path))
    if new_baseline:
        number = write_baseline(report, new_baseline, part=any(asked[name] for name in ("files", "select", "exclude")))
        click.echo(f"{new_baseline} accepts {number:,} findings.", err=True)
        ctx.exit(CLEAN)
    ctx.exit(exit_code(report, fail_on))


def _check_writable(path: Path) -> None:
    place = path if path.exists() else path.absolute().parent
    if not place.exists() or not os.access(place, os.W_OK):
        why = "permission denied" if place.exists() else "its directory does not exist"
        raise ProjectError(
            f"The file `{path}` cannot be written.",
            found=why,
            expected="a path that this user can write",
            instead="choose another path",
        )


@click.command("explain")
@click.argument("reason", required=False)
def explain(reason: str | None) -> None:
    """Explain a REASON that `check` reports, with an example and a fix. Without REASON, list all reasons."""
    slugs = {rule.slug: rule for rule in EVERY_REASON}
    if not reason:
        for slug, rule in slugs.items():
            click.echo(f"{slug:{max(map(len, slugs))}}  {rule.summary}")
    elif reason in slugs:
        click.echo(f"{reason}: {slugs[reason].summary}\n\n{slugs[reason].documentation}")
    else:
        near = nearest_name(reason, slugs) or next((slug for slug in slugs if reason in slug), "")
        raise ProjectError(
            f"The reason `{reason}` does not exist.",
            expected=f"one of {', '.join(slugs)}",
            instead=f"run `spark-bucketing explain{' ' * bool(near)}{near}`{'' if near else ' to list all reasons'}",
        )


def with_measured_costs(report: Report, measured: Measured) -> Report:
    """Return a copy of the report in which findings state the measured cost per run of shuffling and sorting tables.

    Only keys whose columns occur in the operator's description count.
    """

    def with_cost(found: Found) -> Finding:
        finding, model, operator = found
        # The table identifies the model of a statement without a query comment. Failed runs with the comment also show
        # that other writes to the table are not runs of the model.
        names = [model.unique_id or "", f"table.{model.table}"] if model else []
        node = next((name for name in names if name in measured.runs), None)
        if operator is None or node is None:
            return finding
        total, runs = Cost(), len(measured.runs_of(node))
        # inner join of db.a with db.b on db.a.id = db.b.id
        described = (operator.description.partition(" on ")[2] or operator.description).lower()
        for keys, cost in measured.costs(node).items():
            columns = [re.escape(column) for column in keys.columns if column]
            is_described = all(re.search(rf"(?<![\w-]){column}(?![\w-])", described) for column in columns)
            if keys.table in finding.tables and is_described:
                total.add(cost)
        if total == Cost():
            return finding
        mean = Cost(total.shuffle_bytes // runs, total.spill_bytes // runs, total.task_ms / runs)
        text = f"Mean cost per run, measured in {count(runs, 'run')}: {mean}."
        return replace(finding, message=f"{finding.message}\n{text}")

    return map_all_findings(report, with_cost)
