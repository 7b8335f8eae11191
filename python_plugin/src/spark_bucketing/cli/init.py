"""Define the command `init`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import click

from spark_bucketing import api
from spark_bucketing.advice.advice import ProposedSpec
from spark_bucketing.advice.report import FirstModels, commands, first_models
from spark_bucketing.checks.project import in_folder
from spark_bucketing.cli.options import SOME, integer_of, project_options
from spark_bucketing.cli.progress import ProgressLine, progress_line
from spark_bucketing.edits import FileEdit, apply, unified_diff
from spark_bucketing.errors import BucketingError, SparkError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import as_properties, extension_settings, server_settings
from spark_bucketing.init.initialize import (
    config_edits,
    is_package,
    model_edits,
    package_edit,
    profile_edit,
)
from spark_bucketing.project.dbt import read_models
from spark_bucketing.project.profile import Place, Target, opened, read_target
from spark_bucketing.units import parse_size

_CHECKOUT = Path(__file__).parents[4]


@click.command()
@project_options
@click.option("--package", metavar="SOURCE", help="Git URL or directory of the dbt package.")
@click.option("--revision", default="main", show_default=True, help="Branch, tag or commit in the Git repository.")
@click.option(
    "--model", metavar="NAME", help="First model to bucket; by default, the models of the query that gains most."
)
@click.option("--clustered-by", metavar="COLUMNS", help="Bucket columns of --model, separated by commas.")
@click.option(
    "--size", type=SOME, help="Size of the model's table, such as 50GiB; the default is the existing table's size."
)
@click.option(
    "--buckets",
    type=integer_of("buckets"),
    help="Number of buckets; by default, the command derives it from the size of the table.",
)
@click.option("--setup-only", is_flag=True, help="Bucket no model.")
@click.option("--yes", "-y", is_flag=True, help="Apply the changes without asking.")
@click.pass_context
def init(
    ctx: click.Context,
    /,
    place: Place,
    package: str | None,
    revision: str,
    model: str | None,
    clustered_by: str | None,
    size: int | None,
    buckets: int | None,
    setup_only: bool,
    yes: bool,
) -> None:
    """Add spark-bucketing to an existing dbt project.

    Adds the package to packages.yml, and the session extension to the target in profiles.yml. Plans the project's
    queries, and adds bucket specs to the models of the query that gains most. Asks before it adds buckets that cost
    more than they save if each query runs once per build. Shows the changes as a diff, and asks before it writes them.

    Exit codes: 0 success, 1 no terminal to ask, 2 the command could not run.
    """
    if (not model and (size is not None or buckets)) or (model and setup_only):
        raise click.UsageError("--size and --buckets require --model, and --setup-only excludes it.")
    if bool(model) != bool(clustered_by):
        raise click.UsageError(
            "--model and --clustered-by must be used together: name a model, and the columns on which queries join it."
        )
    asks = not yes and _has_terminal()
    chosen: FirstModels | None = None
    models = [model] if model else []
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
        elif not setup_only and target.method == "session" and (edits or not _has_buckets(target)):
            chosen = _chosen(target, edits, line)
    if chosen:
        given = {"--target": place.target, "--project-dir": place.project_dir, "--profiles-dir": place.profiles_dir}
        changes = _wanted(chosen, asks, {**given, "--package": package}, _install(edits))
        models = [change.model for change in changes]
        further = _edits_of(target, changes)
        edits, notes = edits + further[0], notes + further[1]
    for note in notes:
        click.echo(f"{note}\n", err=True)
    if not edits:
        complete = "The project is already set up. To choose buckets for its models, run spark-bucketing advise."
        click.echo("No file needs a change." if notes else complete)
        return
    click.echo(unified_diff(edits))
    if not yes and not asks:
        click.echo("No file was changed, because there is no terminal to ask. To apply the changes, pass --yes.")
        ctx.exit(1)
    if asks and not click.confirm("Apply these changes?"):
        click.echo("No file was changed.")
        return
    apply(target.project_dir, edits)
    changed = f"Changed {', '.join(str(edit.path) for edit in edits)}."
    following = _next_commands(edits, models)
    click.echo("\n  ".join([f"{changed} Next:", *following]) if following else changed)


def _next_commands(edits: list[FileEdit], models: list[str]) -> list[str]:
    """Return the commands that install the package, and build and check the models."""
    of_models = [
        f"dbt run --select {' '.join(models)}",
        f"spark-bucketing check --select {' '.join(f'{name}+' for name in models)}",
    ]
    return _install(edits) + (of_models if models else [])


def _install(edits: list[FileEdit]) -> list[str]:
    """Return the command that installs the package, if the edits add it."""
    return ["dbt deps"] * any(edit.path.name in ("packages.yml", "dependencies.yml") for edit in edits)


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
            f"Add these lines to its spark-defaults.conf:\n{as_properties(server_settings(build_jar()))}\n"
            "Restart the server, and run spark-bucketing advise, which proposes buckets for the models."
        )
    return [edit for edit in edits if edit], notes


def _chosen(target: Target, edits: list[FileEdit], line: ProgressLine) -> FirstModels:
    """Choose the first models to bucket, with the planner's help."""
    profile = target.profiles_dir / "profiles.yml"
    texts = {edit.path.name: edit.after for edit in edits}
    with TemporaryDirectory() as folder:
        # The planner needs the extension before the user agrees to the edits.
        text = texts.get(profile.name) or profile.read_text(encoding="utf-8")
        (Path(folder) / profile.name).write_text(text, encoding="utf-8")
        try:
            return first_models(
                api.advise(
                    target.project_dir, profiles_dir=folder, target=target.name, on_progress=line.show, costly=True
                ).content
            )
        except BucketingError as error:
            why = "No model gets buckets, because its queries could not be planned:"
            return FirstModels(f"{why}\n{error}\nTo choose buckets later, run spark-bucketing advise.")


def _edits_of(target: Target, changes: Sequence[ProposedSpec]) -> tuple[list[FileEdit], list[str]]:
    """Return the edits that bucket models, and notes about configs that the user must write."""
    if not changes:
        return [], []
    with in_folder(target.project_dir):
        configs = {change.unique_id: change.config for change in changes}
        return config_edits(target.project_dir, read_models(target), configs)


def _wanted(
    chosen: FirstModels, asks: bool, given: Mapping[str, object], install: Sequence[str]
) -> tuple[ProposedSpec, ...]:
    """Show the choice, and return its specs, with the costly ones if the user wants them."""
    click.echo(f"{_wrapped(chosen.description)}\n", err=True)
    if chosen.costly and asks:
        if click.confirm(f"Bucket {' and '.join(change.model for change in chosen.costly)} nevertheless?", err=True):
            return (*chosen.paying, *chosen.costly)
    elif chosen.costly:
        options = "".join(f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value)
        lines = ["To add these buckets nevertheless:", *install, *commands(chosen.costly, options)]
        click.echo("\n  ".join(lines) + "\n", err=True)
    return chosen.paying


def _wrapped(text: str) -> str:
    """Wrap the sentences of a text to 80 columns, but not its indented lines."""
    lines = text.splitlines()
    return "\n".join(line if line.startswith(" ") else fill(line, 80, break_on_hyphens=False) for line in lines)


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _has_buckets(target: Target) -> bool:
    """Return whether a model of the project is bucketed, or true if dbt cannot parse the project."""
    try:
        with in_folder(target.project_dir):
            nodes = read_models(target)["nodes"].values()
    except BucketingError:
        return True
    return any((node.get("config") or {}).get("clustered_by") for node in nodes)


def _size(target: Target, line: ProgressLine, relation: str) -> int | None:
    """Return the size of a table in bytes, as estimated by Spark's planner, or None if it does not exist."""
    with opened(target, line.show, line.on_tasks) as statements:
        try:
            rows = statements.rows(f"explain cost select * from {relation}")  # noqa: S608 it is quoted by dbt
        except SparkError:
            return None
    # The session may not load the extension yet. Spark assumes 8 EiB for a table of unknown size.
    found = re.search(r"Relation .*Statistics\(sizeInBytes=([\d.]+ (?:[KMGTP]i)?B)", str(rows[0]["plan"]))
    return parse_size(found[1]) if found else None
