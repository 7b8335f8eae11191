"""Define the command `init`."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import click

from spark_bucketing.checks.project import in_folder
from spark_bucketing.cli.options import SOME, integer_of, project_options
from spark_bucketing.cli.progress import ProgressLine, progress_line
from spark_bucketing.edits import FileEdit, apply, unified_diff
from spark_bucketing.errors import SparkError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import as_properties, extension_settings, server_settings
from spark_bucketing.init.initialize import is_package, model_edits, package_edit, profile_edit
from spark_bucketing.project.connection import opened
from spark_bucketing.project.dbt import read_models
from spark_bucketing.project.profile import Place, Target, read_target

_CHECKOUT = Path(__file__).parents[4]


@click.command()
@project_options
@click.option("--package", metavar="SOURCE", help="Git URL or directory of the dbt package.")
@click.option("--revision", default="main", show_default=True, help="Branch, tag or commit in the Git repository.")
@click.option("--model", metavar="NAME", help="First model to bucket.")
@click.option("--clustered-by", metavar="COLUMNS", help="Bucket columns of the model, separated by commas.")
@click.option(
    "--size", type=SOME, help="Size of the model's table, such as 50GiB; the default is the existing table's size."
)
@click.option(
    "--buckets",
    type=integer_of("buckets"),
    help="Number of buckets; by default, the command derives it from the size of the table.",
)
@click.option("--yes", "-y", is_flag=True, help="Apply the changes without asking.")
def init(
    place: Place,
    package: str | None,
    revision: str,
    model: str | None,
    clustered_by: str | None,
    size: int | None,
    buckets: int | None,
    yes: bool,
) -> None:
    """Add spark-bucketing to an existing dbt project.

    Adds the package to packages.yml, and the session extension to the target in profiles.yml. With --model, adds a
    bucket spec to a first model. Shows the changes as a diff, and asks before it writes them.
    """
    if bool(model) != bool(clustered_by):
        raise click.UsageError(
            "--model and --clustered-by must be used together: name a model, and the columns on which queries join it."
        )
    with progress_line("reading the project") as line:
        target = read_target(place)
        edits, notes = _planned(target, package, revision, line)
        if model and clustered_by:
            columns = [name.strip() for name in clustered_by.split(",") if name.strip()]
            line.show("parsing the project")
            with in_folder(target.project_dir):
                further = model_edits(
                    target.project_dir, read_models(target), model, columns, size, buckets, partial(_size, target, line)
                )
            edits, notes = edits + further[0], notes + further[1]
    for note in notes:
        click.echo(f"{note}\n", err=True)
    if not edits:
        complete = "The project is already set up; there is nothing to change."
        click.echo("No file needs a change." if notes else complete)
        return
    click.echo(unified_diff(edits))
    if not yes and not (sys.stdin.isatty() and click.confirm("Apply these changes?")):
        click.echo("No file was changed.")
        return
    apply(target.project_dir, edits)
    click.echo(f"Changed {', '.join(str(edit.path) for edit in edits)}. Next:\n  dbt deps")
    if model:
        click.echo(f"  dbt run --select {model}\n  spark-bucketing check --select {model}+")


def _planned(
    target: Target, package: str | None, revision: str, line: ProgressLine
) -> tuple[list[FileEdit], list[str]]:
    """Return the edits that add the package and the extension, and notes about what the user has to do."""
    checkout = _CHECKOUT if is_package(_CHECKOUT) else None
    edits, notes = [package_edit(target.project_dir, package, revision, checkout)], []
    line.show("compiling the extension")
    if target.method == "session":
        edits.append(profile_edit(target, extension_settings(build_jar())))
    else:
        notes.append(
            f"Target `{target.name}` connects with method `{target.method}`, so the server loads the extension. "
            f"Add these lines to its spark-defaults.conf:\n{as_properties(server_settings(build_jar()))}"
        )
    return [edit for edit in edits if edit], notes


def _size(target: Target, line: ProgressLine, relation: str) -> int | None:
    """Return the size of a table in bytes, as estimated by Spark's planner, or None if it does not exist."""
    with opened(target, line.show, line.on_tasks) as statements:
        try:
            rows = statements.rows(f"explain cost select * from {relation}")  # noqa: S608 it is quoted by dbt
        except SparkError:
            return None
    # The session may not load the extension yet. Spark assumes 8 EiB for a table of unknown size.
    found = re.search(r"Relation .*Statistics\(sizeInBytes=([\d.]+) ([KMGTP]i)?B", str(rows[0]["plan"]))
    return int(float(found[1]) * 1024 ** ("KMGTP".index(found[2][0]) + 1 if found[2] else 0)) if found else None
