"""The command line: the only place where errors become messages and exit codes.

Exit codes: 0 clean, 1 findings, 2 could not run or could not tell, 130 interrupted.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from spark_bucketing.cli_check import check, explain, project_options
from spark_bucketing.cli_evolution import evolution, seal
from spark_bucketing.errors import BucketingError
from spark_bucketing.extension.build import CACHE_VARIABLE, build_jar, copy_jar
from spark_bucketing.extension.settings import FORMATS, extension_settings, server_settings
from spark_bucketing.layout.read import read_layouts
from spark_bucketing.layout.table import TableLayout
from spark_bucketing.project.profile import session_target
from spark_bucketing.report.text import write_layouts
from spark_bucketing.session import open_session

CLEAN = 0
FINDINGS = 1
COULD_NOT_RUN = 2
# As shells say that SIGINT ended a command.
INTERRUPTED = 130


class _Failure(click.ClickException):
    exit_code = COULD_NOT_RUN


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BucketingError as error:
            raise _Failure(str(error)) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as interrupt:
            click.echo(
                "Interrupted. Whatever was begun is finished or cleared up when the command runs again.", err=True
            )
            raise click.exceptions.Exit(INTERRUPTED) from interrupt
        # Exit code 1 says that there are findings, which Python's own for an error must not say.
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raise _Failure(
                f"{type(error).__name__}: {error} (in {Path(frame.filename).name}, line {frame.lineno}). "
                "This is a mistake of this program; please report it."
            ) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-bucketing")
def main() -> None:
    """Bucketed tables on Spark, seen from a dbt project."""


main.add_command(check)
main.add_command(explain)
main.add_command(evolution)
main.add_command(seal)


@main.command()
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--schema", help="Schema of the tables; the target's own when not given.")
@project_options
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


@main.group()
def extension() -> None:
    """Build the Spark session extension, and show how to switch it on."""


_CACHE = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=CACHE_VARIABLE,
    help="Folder where jars are kept; when not given, spark-bucketing in the user's cache folder.",
)
_JAR = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Put a copy of the jar there, under a name that stays the same from version to version.",
)


def _jar(cache_dir: Path | None, output: Path | None) -> Path:
    jar = build_jar(cache_dir)
    return copy_jar(jar, output) if output else jar


@extension.command()
@_CACHE
@_JAR
def build(cache_dir: Path | None, output: Path | None) -> None:
    """Compile the extension for the installed Spark, and print the path of its jar.

    It is compiled once for each version of Spark and of the extension, by the Scala compiler that Spark brings along;
    a Java runtime is enough. The Spark is the one that SPARK_HOME names, otherwise PySpark's own.
    """
    click.echo(_jar(cache_dir, output))


@extension.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="properties",
    show_default=True,
    help="Lines for spark-defaults.conf, --conf options for a command, or a block for profiles.yml.",
)
@_CACHE
@_JAR
def conf(form: str, cache_dir: Path | None, output: Path | None) -> None:
    """Print the settings that switch the extension on; the jar is built when it has to be.

    Where a setting exists already, append to it: in spark.jars and spark.sql.extensions after a comma, in
    spark.driver.extraClassPath after a colon.
    """
    settings = extension_settings if form == "profiles" else server_settings
    click.echo(FORMATS[form](settings(_jar(cache_dir, output))))


def exit_code(layouts: Sequence[TableLayout]) -> int:
    """What a script is told: findings go before tables of which nothing is known, and those before success."""
    states = {layout.state for layout in layouts}
    if "wrong" in states:
        return FINDINGS
    return COULD_NOT_RUN if "unknown" in states else CLEAN
