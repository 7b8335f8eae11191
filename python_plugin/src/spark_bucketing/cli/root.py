"""Define the top-level command group, and turn errors into messages."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import click

from spark_bucketing.cli.advise import advise
from spark_bucketing.cli.check import check, explain
from spark_bucketing.cli.doctor import doctor
from spark_bucketing.cli.extension import extension
from spark_bucketing.cli.init import init
from spark_bucketing.cli.report import report
from spark_bucketing.cli.table import table_group
from spark_bucketing.errors import COULD_NOT_RUN, INTERRUPTED, BucketingError


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
                "Interrupted. If the command was writing to a table, run it again to complete or discard the "
                "unfinished write.",
                err=True,
            )
            raise click.exceptions.Exit(INTERRUPTED) from interrupt
        # Python would exit with code 1, which this command uses for findings.
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            raise _Failure(
                f"{type(error).__name__}: {error} (in {Path(frame.filename).name}, line {frame.lineno}). "
                "This is a bug in spark-bucketing; please report it."
            ) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spark-bucketing")
def main() -> None:
    """Manage bucketed Spark tables in a dbt project."""


for _command in (advise, check, doctor, explain, extension, init, report, table_group):
    main.add_command(_command)
