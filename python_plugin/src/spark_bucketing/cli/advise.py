"""The command `advise`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from spark_bucketing.advise.advisor import MIB, AdviseRequest, advise_project
from spark_bucketing.check.artifacts import CheckRequest
from spark_bucketing.cli.options import READ_FILE, SIZE, SOME, WRITTEN_FILE, project_options
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.errors import COULD_NOT_RUN, ProjectError
from spark_bucketing.report.advise_html import write_html
from spark_bucketing.report.advise_json import write_json
from spark_bucketing.report.advise_text import write_text

_WRITERS = {"text": write_text, "json": write_json, "html": write_html}


@click.command()
@project_options
@click.option("--vars", "variables", default="{}", help="Variables of the project, as YAML, as in dbt.")
@click.option("--offline", is_flag=True, help="Plan on an embedded Spark with empty tables; sizes are catalog.json's.")
@click.option(
    "--extension/--no-extension",
    default=None,
    help="Offline: plan with or without the session extension; when not given, as the target's server_side_parameters.",
)
@click.option("--manifest", type=READ_FILE, help="An existing manifest.json, of compiled models.")
@click.option("--sizes", type=READ_FILE, help="JSON or YAML: bytes, partitions and values of columns, by table.")
@click.option("--assume-size", type=SIZE, help="Of tables whose size nobody knows; when not given, they stay.")
@click.option(
    "--runs",
    type=click.Path(exists=True, resolve_path=True, path_type=Path),
    help="How often models run: run_results.json, a folder of them, or numbers by model; else once each.",
)
@click.option(
    "--target-file-size", type=SOME, default=256 * MIB, show_default="256MiB", help="That a file should have."
)
@click.option(
    "--smallest", type=SIZE, default=256 * MIB, show_default="256MiB", help="Tables below this size are left alone."
)
@click.option("--budget", type=SIZE, help="Bytes of tables that may change, such as 2TiB.")
@click.option("--profile", is_flag=True, help="Ask a sample for values of columns: one query for each that matters.")
@click.option("--explain", metavar="TABLE", help="Show the candidates of one table, and why they lost.")
@click.option("--diff/--apply", "diff", default=True, help="Show the edits of configs, or make them.")
@click.option(
    "--format", "form", type=click.Choice(list(_WRITERS)), default="text", show_default=True, help="Of the report."
)
@click.option("--output", "-o", type=WRITTEN_FILE, help="File of the report; else standard output.")
@click.option(
    "--time-limit", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Seconds for each query."
)
@click.pass_context
def advise(
    ctx: click.Context,
    /,
    form: str,
    output: Path | None,
    diff: bool,
    place: Any,
    variables: str,
    offline: bool,
    extension: bool | None,
    manifest: Path | None,
    time_limit: float,
    **asked: Any,
) -> None:
    """Say by which columns, and into how many buckets, the models of a project are to be bucketed.

    The joins, groupings and windows of all models are found by Spark's own planner; the layouts that spare most bytes
    are chosen for all tables together; and the whole project is planned again with them. Nothing is run or written,
    but for the configs with --apply.

    Exit codes: 0 advice was given, 2 could not run, or some query could not be planned.
    """
    check = CheckRequest(
        place=place,
        variables=variables,
        manifest=manifest,
        offline=offline,
        extension=extension,
        time_limit=time_limit,
    )
    with progress_line() as line:
        advice = advise_project(AdviseRequest(check, apply=not diff, **asked), line.show)
    try:
        if output:
            with output.open("w", encoding="utf-8", errors="replace") as file:
                _WRITERS[form](advice, file)
        else:
            _WRITERS[form](advice, standard_output(form))
    except OSError as error:
        raise ProjectError(f"The report cannot be written to {output}: {error.strerror}.") from error
    if any(one.error for one in advice.proof):
        ctx.exit(COULD_NOT_RUN)
