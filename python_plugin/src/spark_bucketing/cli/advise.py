"""Define the command `advise`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from spark_bucketing import api
from spark_bucketing.cli import options
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.project.profile import Place


@click.command()
@options.project_options
@options.VARIABLES
@click.option(
    "--offline",
    is_flag=True,
    help="Plan in an embedded Spark session over stub tables, with the table sizes from catalog.json.",
)
@options.EXTENSION
@options.MANIFEST
@click.option(
    "--sizes", type=options.READ_FILE, help="JSON or YAML file with bytes, partitions and column values per table."
)
@click.option(
    "--assume-size",
    type=options.SIZE,
    help="Size to assume for tables of unknown size; without this option, `advise` leaves their configs unchanged.",
)
@click.option(
    "--runs",
    type=click.Path(exists=True, resolve_path=True, path_type=Path),
    help="How often each model runs: a run_results.json, a directory of such files, or a mapping of models to numbers. "
    "By default, each model counts once.",
)
@options.event_logs(
    "--event-log",
    "event_logs",
    help="Event log, or directory of event logs. Ranks tables by their measured costs, and counts the runs of models. "
    "Repeatable.",
)
@options.sized("--target-file-size", options.SOME, "Target size of the file of a bucket.")
@options.sized("--smallest", options.SIZE, "Ignore tables that are smaller than this size.")
@click.option(
    "--max-rewrite", type=options.SIZE, help="Maximum number of bytes that the next run may rewrite, such as 2TiB."
)
@click.option("--profile", is_flag=True, help="Run one query for each candidate column, to sample its values.")
@click.option("--explain", metavar="TABLE", help="Show the candidates for one table and why each was rejected.")
@click.option("--diff/--apply", "diff", default=True, help="Show or apply the config changes.")
@options.format_of("text", "json", "html")
@options.OUTPUT
@options.time_limit("The report lists queries that take longer.")
def advise(form: str, output: Path | None, diff: bool, place: Place, **asked: Any) -> None:
    """Propose bucket columns and numbers of buckets for the models of a project.

    Spark's planner finds the joins, aggregations and window functions of all models. The command chooses the bucket
    specs that avoid the most shuffled bytes over all tables. Spark then plans the whole project again with these specs.
    The command runs no models. With --apply, it edits the models' configs.

    Exit codes: 0 success, 2 the command could not run, or Spark could not plan some query.
    """
    with progress_line() as line:
        advice = api.advise(**vars(place), on_progress=line.show, apply=not diff, **asked)
    options.finish(advice, form, output)
