"""The commands of `files`: how many files a table gets, and how strategies of writing them compare."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import click

from spark_bucketing.check.artifacts import CheckRequest, Project
from spark_bucketing.check.project_check import in_folder
from spark_bucketing.cli.open_warehouse import connected
from spark_bucketing.cli.options import FORMAT, READ_FILE, SOME, project_options
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.organize.file_plan import Overrides, plan_model
from spark_bucketing.organize.simulation import Shape
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.report.files import write_plan, write_simulation

_MOST_FILES = 100_000
_POSITIVE = click.IntRange(min=1)


@click.group()
def files() -> None:
    """Files of organized tables: how many a model gets and why, and what each strategy makes of them."""


@files.command()
@click.option("--partitions", type=_POSITIVE, default=365, show_default=True, help="Of the table, of equal size.")
@click.option("--files", "each", type=_POSITIVE, default=5, show_default=True, help="Wanted of each partition.")
@click.option(
    "--scale",
    type=click.FloatRange(min=0.01, max=100),
    default=1.0,
    show_default=True,
    help="Tasks for each file, of by_column_salted.",
)
@FORMAT
def simulate(partitions: int, each: int, scale: float, form: str) -> None:
    """Show what each strategy makes of a table: idle tasks, tasks with several files, and files that are written.

    Spark's own hash places the rows; no Spark is started. Efficiency is the tasks with rows over the files that are
    wanted, a collision a task with rows of two files or more, and a serious one with those of three or more, as shares
    of the tasks with rows.
    """
    if math.isnan(scale):
        raise click.BadParameter("not a number. Expected one from 0.01 to 100.", param_hint="--scale")
    if partitions * each * max(scale, 1) > _MOST_FILES:
        raise click.BadParameter(f"more than {_MOST_FILES:,} tasks. Expected fewer partitions, files or scale.")
    write_simulation(Shape(partitions, each, scale), form, standard_output(form))


@files.command()
@click.argument("model")
@click.option("--rows-per-file", type=_POSITIVE, help="Instead of what the config says.")
@click.option("--target-file-size", type=SOME, help="Instead of what the config says, such as 256MiB.")
@click.option("--num-files", type=_POSITIVE, help="Of the whole table, instead of what the config says.")
@click.option("--files-per-partition", type=_POSITIVE, help="Instead of what the config says.")
@click.option(
    "--bytes-per-row",
    type=click.FloatRange(min=0, min_open=True),
    help="Of rows as they are written; those of the table that is there when not given.",
)
@FORMAT
@project_options
@click.option("--vars", "variables", default="{}", help="Variables of the project, as YAML, as in dbt.")
@click.option("--manifest", type=READ_FILE, help="An existing manifest.json, of compiled models.")
def plan(
    model: str,
    bytes_per_row: float | None,
    form: str,
    place: Place,
    variables: str,
    manifest: Path | None,
    **counts: int | None,
) -> None:
    """Say how many files each partition of MODEL gets, and why.

    The project is compiled, and the model's query is run to count its rows by partition; nothing is written. A model of
    any materialization can be planned, with one of the options that say how many.
    """
    stated = {key: value for key, value in counts.items() if value is not None}
    overrides = Overrides(stated, Fraction(bytes_per_row or 0))
    target = read_target(place, variables)
    project = Project(target, CheckRequest(place=place, variables=variables, manifest=manifest))
    with progress_line() as line, in_folder(target.project_dir), connected(target, line) as warehouse:
        found = plan_model(project, warehouse, model, overrides, line.show)
    write_plan(found, form, standard_output(form))
