"""Define the command `files plan`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from spark_bucketing.check.artifacts import CheckRequest, Project
from spark_bucketing.check.project_check import in_folder
from spark_bucketing.cli.options import FORMAT, MANIFEST, SOME, VARIABLES, integer_of, project_options, standard_output
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.organize.file_plan import plan_model
from spark_bucketing.project.connection import opened
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.report.files import write_plan
from spark_bucketing.table.warehouse import Warehouse


@click.group()
def files() -> None:
    """Plan the files of organized tables."""


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
    with progress_line() as line, in_folder(target.project_dir), opened(target, line.show, line.on_tasks) as statements:
        found = plan_model(project, Warehouse(statements.rows), model, stated, size, line.show)
    write_plan(found, form, standard_output(form))
