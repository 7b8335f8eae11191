"""The command line: the only place where errors become messages and exit codes.

Exit codes: 0 clean, 1 findings, 2 could not run or could not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from spark_bucketing.errors import BucketingError
from spark_bucketing.layout.read import read_layouts
from spark_bucketing.layout.table import TableLayout
from spark_bucketing.project.profile import session_target
from spark_bucketing.report.text import write_layouts
from spark_bucketing.session import open_session

CLEAN = 0
FINDINGS = 1
COULD_NOT_RUN = 2

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class _Failure(click.ClickException):
    exit_code = COULD_NOT_RUN


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BucketingError as error:
            raise _Failure(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-bucketing")
def main() -> None:
    """Bucketed tables on Spark, seen from a dbt project."""


@main.command()
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--schema", help="Schema of the tables; the target's own when not given.")
@click.option(
    "--project-dir",
    type=_FOLDER,
    envvar="DBT_PROJECT_DIR",
    help="Folder of dbt_project.yml; when not given, the current folder or one above it, as in dbt.",
)
@click.option(
    "--profiles-dir",
    type=_FOLDER,
    envvar="DBT_PROFILES_DIR",
    help="Folder of profiles.yml; when not given, the current folder or ~/.dbt, as in dbt.",
)
@click.option("--target", "-t", envvar="DBT_TARGET", help="Target in the profile; its default when not given.")
@click.pass_context
def layout(
    ctx: click.Context,
    tables: tuple[str, ...],
    schema: str | None,
    project_dir: Path | None,
    profiles_dir: Path | None,
    target: str | None,
) -> None:
    """Show the files of bucketed tables, read from disk.

    Without TABLE, all bucketed tables of the schema. Spark runs in this process, with the settings of a dbt target
    whose method is session. A table is wrong when a bucket (of a partition) has more than one file, or when a file's
    name carries no bucket id or one that the table does not have.

    Skew is the rows of the largest bucket over the mean of all buckets, with partitions added up.
    """
    found = session_target(project_dir, profiles_dir, target)
    chosen = schema or found.schema
    layouts = read_layouts(open_session(found.settings), chosen, tables)
    if not layouts:
        click.echo(f"Schema {chosen} has no bucketed tables.")
        return
    write_layouts(layouts, click.get_text_stream("stdout"))
    ctx.exit(exit_code(layouts))


def exit_code(layouts: Sequence[TableLayout]) -> int:
    """What a script is told: findings go before tables of which nothing is known, and those before success."""
    states = {layout.state for layout in layouts}
    if "wrong" in states:
        return FINDINGS
    return COULD_NOT_RUN if "unknown" in states else CLEAN
