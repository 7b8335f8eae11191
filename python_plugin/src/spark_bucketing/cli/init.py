"""Define the command `init`."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from spark_bucketing import api
from spark_bucketing.advice.advice import Advice, ProposedSpec
from spark_bucketing.advice.report import bytes_text, spec_text
from spark_bucketing.checks.project import in_folder
from spark_bucketing.cli.options import SOME, integer_of, project_options
from spark_bucketing.cli.progress import ProgressLine, progress_line
from spark_bucketing.edits import ConfigChange, FileEdit, apply, unified_diff
from spark_bucketing.errors import BucketingError, SparkError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import as_properties, extension_settings, server_settings
from spark_bucketing.init.initialize import (
    BUCKET_BYTES,
    config_edits,
    is_package,
    model_edits,
    package_edit,
    profile_edit,
)
from spark_bucketing.project.dbt import read_models
from spark_bucketing.project.profile import Place, Target, opened, read_target
from spark_bucketing.units import count
from spark_bucketing.units import size as size_text

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
    queries, and adds bucket specs to the models of the query that gains most. Shows the changes as a diff, and asks
    before it writes them.

    Exit codes: 0 success, 1 no terminal to ask, 2 the command could not run.
    """
    if (not model and (size is not None or buckets)) or (model and setup_only):
        raise click.UsageError("--size and --buckets require --model, and --setup-only excludes it.")
    if bool(model) != bool(clustered_by):
        raise click.UsageError(
            "--model and --clustered-by must be used together: name a model, and the columns on which queries join it."
        )
    with progress_line("reading the project") as line:
        target = read_target(place)
        edits, notes = _planned(target, package, revision, line)
        models = [model] if model else []
        if not model and not setup_only and edits and target.method == "session":
            models, further = _first_models(target, edits, line)
            edits, notes = edits + further[0], notes + further[1]
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
        complete = "The project is already set up. To choose buckets for its models, run spark-bucketing advise."
        click.echo("No file needs a change." if notes else complete)
        return
    click.echo(unified_diff(edits))
    if not yes and not sys.stdin.isatty():
        click.echo("No file was changed, because there is no terminal to ask. To apply the changes, pass --yes.")
        ctx.exit(1)
    if not yes and not click.confirm("Apply these changes?"):
        click.echo("No file was changed.")
        return
    apply(target.project_dir, edits)
    commands = _next_commands(edits, models)
    changed = f"Changed {', '.join(str(edit.path) for edit in edits)}."
    click.echo("\n  ".join([f"{changed} Next:", *commands]) if commands else changed)


def _next_commands(edits: list[FileEdit], models: list[str]) -> list[str]:
    """Return the commands that install the package, and build and check the models."""
    adds_package = any(edit.path.name in ("packages.yml", "dependencies.yml") for edit in edits)
    of_models = [
        f"dbt run --select {' '.join(models)}",
        f"spark-bucketing check --select {' '.join(f'{name}+' for name in models)}",
    ]
    return ["dbt deps"] * adds_package + (of_models if models else [])


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


def _first_models(
    target: Target, edits: list[FileEdit], line: ProgressLine
) -> tuple[list[str], tuple[list[FileEdit], list[str]]]:
    """Return the models of the query that gains most from buckets, and the edits that bucket them, and notes."""
    instead = "To choose buckets later, run spark-bucketing advise."
    profile = target.profiles_dir / "profiles.yml"
    texts = {edit.path.name: edit.after for edit in edits}
    with TemporaryDirectory() as folder:
        # The planner needs the extension before the user agrees to the edits.
        text = texts.get(profile.name) or profile.read_text(encoding="utf-8")
        (Path(folder) / profile.name).write_text(text, encoding="utf-8")
        try:
            advice = api.advise(
                target.project_dir, profiles_dir=folder, target=target.name, on_progress=line.show
            ).content
        except BucketingError as error:
            return [], ([], [f"No model gets buckets, because its queries could not be planned:\n{error}\n{instead}"])
    query, changes = first_query(advice)
    if not query:
        return [], ([], [no_buckets(advice)])
    with in_folder(target.project_dir):
        configs = [ConfigChange(change.unique_id, change.config) for change in changes]
        found, notes = config_edits(target.project_dir, read_models(target), configs)
    specs = "".join(
        f"\n  {change.model} ({size_text(change.size_bytes)}): {spec_text(change.after)}" for change in changes
    )
    others = len(advice.changes) - len(changes)
    more = f"\nFor {count(others, 'more model')}, run spark-bucketing advise." if others else ""
    return [change.model for change in changes], (found, [f"{query}{specs}{more}", *notes])


def first_query(advice: Advice) -> tuple[str, list[ProposedSpec]]:
    """Describe the query that gains most, and return the new bucket specs of its tables, or nothing without a gain."""
    best = max(advice.proof, key=lambda one: one.gain, default=None)
    if not best or not best.before or not best.after or best.gain <= 0:
        return "", []
    # The tables of views are not among the parents of a query.
    own = [change for change in advice.changes if change.unique_id in (*best.parents, best.unique_id)]
    before, after = bytes_text(best.before.bytes), bytes_text(best.after.bytes)
    return f"The query of {best.model} now shuffles and sorts {before}, and with these buckets {after}:", own or list(
        advice.changes
    )


def no_buckets(advice: Advice) -> str:
    """Say why no model gets buckets, and how to choose buckets nevertheless."""
    moved, model = max(((one.before.bytes, one.model) for one in advice.proof if one.before), default=(0.0, ""))
    if not moved:
        return "No model gets buckets: the project has no query that Spark can plan and that shuffles or sorts rows."
    most = f"the query of {model} shuffles and sorts the most, {bytes_text(moved)}"
    if moved < BUCKET_BYTES:
        return f"No model gets buckets: {most}. Tables of less than 256 MiB do not need buckets."
    return (
        f"No model gets buckets: if each query runs once per build, no buckets save more than they cost. Here, {most}. "
        "For details, run spark-bucketing advise. To bucket a model in any case:\n"
        "  spark-bucketing init --model NAME --clustered-by COLUMNS"
    )


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
