"""The command `doctor`."""

from __future__ import annotations

import click

from spark_bucketing.cli.open_warehouse import connected
from spark_bucketing.cli.options import FORMAT, project_options
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.doctor.installed import examine_installed
from spark_bucketing.doctor.server import examine_server
from spark_bucketing.errors import exit_code
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.report.doctor import write_diagnoses


@click.command()
@FORMAT
@project_options
def doctor(form: str, place: Place) -> None:
    """Say whether the target's Spark and what is installed here fit together.

    Looks at the versions of dbt, of the dbt package and of Spark, at whether the session has the extension, at the
    settings that keep buckets from being written or used, and at the metastore. Nothing is changed.

    Exit codes: 0 all is well, 1 something is not, 2 could not run, or something cannot be told.
    """
    target = read_target(place)
    with progress_line() as line, connected(target, line) as warehouse:
        found = [*examine_installed(target.project_dir), *examine_server(warehouse)]
    write_diagnoses(f"{target.profile}.{target.name}", found, form, standard_output(form))
    click.get_current_context().exit(exit_code({one.state for one in found}))
