"""The command `layout`."""

from __future__ import annotations

import click

from spark_bucketing.cli.options import FORMAT, project_options
from spark_bucketing.cli.progress import STARTING, progress_line
from spark_bucketing.cli.streams import standard_output
from spark_bucketing.errors import exit_code
from spark_bucketing.layout.read import read_layouts
from spark_bucketing.project.profile import Place, session_target
from spark_bucketing.report.layout import write_layouts
from spark_bucketing.session import open_session


@click.command()
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--schema", help="Schema of the tables; the target's own when not given.")
@FORMAT
@project_options
@click.pass_context
def layout(ctx: click.Context, tables: tuple[str, ...], schema: str | None, form: str, place: Place) -> None:
    """Show the files of bucketed tables, read from disk.

    Without TABLE, all bucketed tables of the schema. Spark runs in this process, with the settings of a dbt target
    whose method is session. A table is wrong when a bucket (of a partition) has more than one file, or when a file's
    name carries no bucket id or one that the table does not have.

    Skew is the rows of the largest bucket over the mean of all buckets, with partitions of the same buckets added up;
    where partitions differ in their buckets, the largest one of these numbers. Which buckets a partition has, its seal
    says, which is read with the session extension only.
    """
    found = session_target(place)
    chosen = schema or found.schema
    with progress_line(STARTING) as line:
        session = open_session(found.settings)
        layouts = read_layouts(session, chosen, tables, line.show)
    write_layouts(chosen, layouts, form, standard_output(form))
    ctx.exit(exit_code({layout.state for layout in layouts}))
