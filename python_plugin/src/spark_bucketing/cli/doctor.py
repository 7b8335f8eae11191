"""Define the command `doctor`."""

from __future__ import annotations

import click

from spark_bucketing.cli.options import FORMAT, project_options, standard_output
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.doctor.server import examine_installed, examine_server, write_diagnoses
from spark_bucketing.doctor.trino import examine_tables
from spark_bucketing.errors import exit_code
from spark_bucketing.project.profile import Place, opened, read_target, require_cancellation
from spark_bucketing.tables.warehouse import Warehouse


@click.command()
@FORMAT
@project_options
def doctor(form: str, place: Place) -> None:
    """Check whether the target's Spark and the local installation are compatible.

    Checks the versions of dbt, the dbt package and Spark. Also checks the session extension, the metastore, and
    settings that prevent Spark from writing or using buckets. Lists the tables in the target's schema whose buckets
    Trino ignores, and tables or partitions that Trino cannot read. Changes nothing.

    Exit codes: 0 no findings, 1 findings, 2 the command could not run, or a check is inconclusive.
    """
    target = read_target(place)
    require_cancellation(target)
    with progress_line() as line, opened(target, line.show, line.on_tasks) as statements:
        warehouse = Warehouse(statements.rows)
        found = [*examine_installed(target.project_dir), *examine_server(warehouse)]
        # Spark cannot describe tables if it cannot use the metastore.
        if not any(one.subject == "metastore" and one.state == "wrong" for one in found):
            found += examine_tables(warehouse, target.schema)
    write_diagnoses(f"{target.profile}.{target.name}", found, form, standard_output(form))
    click.get_current_context().exit(exit_code({one.state for one in found}))
