"""The commands of `map`: what is kept of the files of an organized table."""

from __future__ import annotations

from typing import Any

import click

from spark_bucketing.cli.options import FORMAT
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.cli.warehouse import opened, table_command
from spark_bucketing.errors import CLEAN, FINDINGS
from spark_bucketing.organize.data_map import MappedFile, State, organized_table, read_map, repair_map, verify_map
from spark_bucketing.project.profile import Place
from spark_bucketing.report.data_map import write_map


@click.group(name="map")
def data_map() -> None:
    """The data map of an organized table: which file holds which interval."""


@data_map.command()
@FORMAT
@table_command
def show(form: str, table: str, place: Place) -> None:
    """Show the files of TABLE, and what the map says of each. No rows are read."""
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"listing files of {name}")
        files = read_map(warehouse, organized_table(warehouse, name))
    write_map(name, files, form, standard_output(form))


@data_map.command()
@FORMAT
@table_command
def verify(form: str, table: str, place: Place) -> None:
    """Compare the map of TABLE with its rows, all of which are read once.

    Exit codes: 0 the map is true of all files, and their intervals do not overlap, 1 it is not, 2 could not run.
    """
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"reading {name}")
        files = verify_map(warehouse, organized_table(warehouse, name))
    write_map(name, files, form, standard_output(form), verified=True)
    click.get_current_context().exit(FINDINGS if any(map(_is_finding, files)) else CLEAN)


@data_map.command()
@table_command
def repair(**options: Any) -> None:
    """Write the map of TABLE anew, from its rows, all of which are read once. No data is touched."""
    table, place = options["table"], options["place"]
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"reading {name}")
        files = repair_map(warehouse, organized_table(warehouse, name))
    click.echo(f"{name}: the map is of {files:,} file{'s' if files != 1 else ''}.")


def _is_finding(file: MappedFile) -> bool:
    return file.state != State.MAPPED or file.overlaps
