"""Define the commands of `extension`: build the jar and print the settings that load it."""

from __future__ import annotations

from pathlib import Path

import click

from spark_bucketing.cli.options import WRITTEN_FILE
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.extension.build import CACHE_VARIABLE, build_jar, copy_jar
from spark_bucketing.extension.settings import FORMATS, event_log_settings, extension_settings, server_settings

_CACHE = click.option(
    "--cache-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=CACHE_VARIABLE,
    help="Directory for compiled jars; the default is spark-bucketing in the user's cache directory.",
)
_JAR = click.option(
    "--output",
    "-o",
    type=WRITTEN_FILE,
    help="Also copy the jar to FILE. This path stays the same for every version.",
)


@click.group()
def extension() -> None:
    """Build and enable the Spark session extension."""


@extension.command()
@_CACHE
@_JAR
def build(cache_dir: Path | None, output: Path | None) -> None:
    """Compile the extension for the installed Spark, and print the path of its jar.

    Compiles the extension only once for each combination of its version and Spark's version. Spark's jars include the
    Scala compiler, so you need only a Java runtime. If SPARK_HOME is set, compiles for that Spark installation,
    otherwise for the installed PySpark.
    """
    click.echo(_jar(cache_dir, output))


@extension.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="properties",
    show_default=True,
    help="Format of the settings: lines for spark-defaults.conf, --conf options for a command, or a block for "
    "profiles.yml.",
)
@click.option("--event-log-dir", metavar="URI", help="Also print the settings that write event logs to this directory.")
@_CACHE
@_JAR
def conf(form: str, event_log_dir: str | None, cache_dir: Path | None, output: Path | None) -> None:
    """Print the settings that enable the extension, and build its jar if necessary.

    If a setting already has a value, append the new value to it. In spark.jars and spark.sql.extensions, separate the
    values with a comma. In spark.driver.extraClassPath, separate them with a colon.
    """
    settings = extension_settings if form == "profiles" else server_settings
    logging = event_log_settings(event_log_dir) if event_log_dir else {}
    click.echo(FORMATS[form]({**settings(_jar(cache_dir, output)), **logging}))


def _jar(cache_dir: Path | None, output: Path | None) -> Path:
    with progress_line("compiling the extension"):
        jar = build_jar(cache_dir)
    return copy_jar(jar, output) if output else jar
