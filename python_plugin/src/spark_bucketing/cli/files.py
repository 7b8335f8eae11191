"""Define the commands of `files`: plan the files of a model, and compare the strategies that write them."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import click

from spark_bucketing.check.artifacts import CheckRequest, Project
from spark_bucketing.check.project_check import in_folder
from spark_bucketing.cli.open_warehouse import connected, local_spark
from spark_bucketing.cli.options import FORMAT, MANIFEST, SOME, VARIABLES, integer_of, project_options, standard_output
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.config.schema import KEYS
from spark_bucketing.organize.file_plan import plan_model
from spark_bucketing.organize.simulation import Shape, by_column_salted
from spark_bucketing.organize.simulation import simulate as simulated
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.report.files import write_plan, write_simulation

_MOST_FILES = int(KEYS["num_files"].maximum or 0)
# Scales of by_column_salted to compare.
_SCALES = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
_POSITIVE = click.IntRange(min=1)


@click.group()
def files() -> None:
    """Plan the files of organized tables, and simulate the strategies that write them."""


@files.command()
@click.option("--partitions", type=_POSITIVE, default=365, show_default=True, help="Number of equal-sized partitions.")
@click.option("--files", "each", type=_POSITIVE, default=5, show_default=True, help="Number of files per partition.")
@click.option(
    "--scale",
    type=click.FloatRange(min=0.01, max=100),
    default=1.0,
    show_default=True,
    help="Number of tasks per file for the strategy by_column_salted.",
)
@FORMAT
def simulate(partitions: int, each: int, scale: float, form: str) -> None:
    """Simulate how each strategy distributes rows over tasks: idle tasks, collisions, and written files.

    Starts a local Spark to compute the hashes. Efficiency is the number of tasks with rows, divided by the number of
    planned files. A collision is a task with rows for at least two files. A serious collision is a task with rows for
    at least three files. The numbers of collisions and serious collisions are shown as a share of the tasks that have
    rows.
    """
    if math.isnan(scale):
        raise click.BadParameter("not a number. Expected a number from 0.01 to 100.", param_hint="--scale")
    if partitions * each * max(scale, 1) > _MOST_FILES:
        raise click.BadParameter(
            f"the simulation needs more than {_MOST_FILES:,} tasks. Expected fewer partitions or files, or a smaller "
            "scale."
        )
    shape = Shape(partitions, each, scale)
    with progress_line() as line, local_spark(line) as rows:
        spreads = simulated(shape, rows)
        scaled = by_column_salted(shape, sorted({*_SCALES, scale}), rows)
    write_simulation(shape, spreads, scaled, form, standard_output(form))


@files.command()
@click.argument("model")
@click.option(
    "--rows-per-file", type=integer_of("rows_per_file"), help="Rows per file, instead of the value in the config."
)
@click.option(
    "--target-file-size", type=SOME, help="Target file size, such as 256MiB, instead of the value in the config."
)
@click.option(
    "--num-files", type=integer_of("num_files"), help="Files in the whole table, instead of the value in the config."
)
@click.option(
    "--files-per-partition",
    type=integer_of("files_per_partition"),
    help="Files per partition, instead of the value in the config.",
)
@click.option(
    "--bytes-per-row",
    type=click.FloatRange(min=0, min_open=True),
    help="Size of a row on disk, in bytes; by default, the command measures it in the existing table.",
)
@FORMAT
@project_options
@VARIABLES
@MANIFEST
def plan(
    model: str,
    bytes_per_row: float | None,
    form: str,
    place: Place,
    variables: str,
    manifest: Path | None,
    **counts: int | None,
) -> None:
    """Show how many files each partition of MODEL gets, and why.

    Compiles the project, and runs the model's query to count the rows of each partition. Writes nothing. Options
    override the keys in the model's config. By setting them, you can plan the files of a model with any
    materialization.
    """
    stated = {key: value for key, value in counts.items() if value is not None}
    size = Fraction(bytes_per_row) if bytes_per_row else None
    target = read_target(place, variables)
    project = Project(target, CheckRequest(place=place, variables=variables, manifest=manifest))
    with progress_line() as line, in_folder(target.project_dir), connected(target, line) as warehouse:
        found = plan_model(project, warehouse, model, stated, size, line.show)
    write_plan(found, form, standard_output(form))
