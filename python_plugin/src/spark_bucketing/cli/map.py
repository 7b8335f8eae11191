"""The commands of `map`: what is kept of the files of an organized table."""

from __future__ import annotations

from typing import Any

import click

from spark_bucketing.cli.open_warehouse import opened, table_command
from spark_bucketing.cli.options import FORMAT
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.errors import CLEAN, FINDINGS
from spark_bucketing.organize.file_statistics import (
    FileStats,
    State,
    organized_table,
    read_file_statistics,
    repair_file_statistics,
    verify_file_statistics,
)
from spark_bucketing.project.profile import Place
from spark_bucketing.report.file_statistics import write_file_statistics_report


@click.group(name="map")
def file_statistics() -> None:
    """The file statistics of an organized table: which file holds which range."""


@file_statistics.command()
@FORMAT
@table_command
def show(form: str, table: str, place: Place) -> None:
    """Show the files of TABLE, and what the map says of each. No rows are read."""
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"listing files of {name}")
        files = read_file_statistics(warehouse, organized_table(warehouse, name))
    write_file_statistics_report(name, files, form, standard_output(form))


@file_statistics.command()
@FORMAT
@table_command
def verify(form: str, table: str, place: Place) -> None:
    """Compare the map of TABLE with its rows, all of which are read once.

    Exit codes: 0 the map is true of all files, and their ranges do not overlap, 1 it is not, 2 could not run.
    """
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"reading {name}")
        files = verify_file_statistics(warehouse, organized_table(warehouse, name))
    write_file_statistics_report(name, files, form, standard_output(form), verified=True)
    click.get_current_context().exit(FINDINGS if any(map(_is_finding, files)) else CLEAN)


@file_statistics.command()
@table_command
def repair(**options: Any) -> None:
    """Write the map of TABLE anew, from its rows, all of which are read once. No data is touched."""
    table, place = options["table"], options["place"]
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"reading {name}")
        files = repair_file_statistics(warehouse, organized_table(warehouse, name))
    click.echo(f"{name}: the map is of {files:,} file{'s' if files != 1 else ''}.")


def _is_finding(file: FileStats) -> bool:
    return file.state != State.MAPPED or file.overlaps
