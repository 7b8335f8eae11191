"""The command `seal`, and what `evolution verify` and `evolution repair` share with it."""

from __future__ import annotations

from typing import Any

import click

from spark_bucketing.cli.open_warehouse import DRY_RUN, WHERE, opened, table_command
from spark_bucketing.cli.options import FORMAT
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.errors import CLEAN, FINDINGS
from spark_bucketing.evolution.metadata import seal_table
from spark_bucketing.evolution.model import Status
from spark_bucketing.project.profile import Place
from spark_bucketing.report.evolution import write_sealed


@click.command()
@WHERE
@DRY_RUN
@FORMAT
@table_command
def seal(**options: Any) -> None:
    """Seal the files of TABLE that are the buckets of a spec, so that they are read as bucketed.

    The bucket and sort columns of files that are not sealed are read once, in the cluster. For what stock Spark, Hive
    or Trino have written; an INSERT through the extension seals what it writes. No data is touched.

    Exit codes: 0 all files are sealed, 1 some are not what they should be, 2 could not run.
    """
    run_seal(**options)


def run_seal(where: str | None, dry_run: bool, form: str, table: str, place: Place) -> None:
    """Seal, write what came of it, and exit."""
    with progress_line() as line, opened(table, place, line) as (warehouse, name):
        line.show(f"hashing files of {name}")
        found = seal_table(warehouse, name, where, dry_run)
    write_sealed(name, found, dry_run, form, standard_output(form))
    refused = any(partition.status == Status.REFUSED for partition in found)
    click.get_current_context().exit(FINDINGS if refused else CLEAN)
