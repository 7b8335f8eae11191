"""Define the command `report`."""

from __future__ import annotations

from pathlib import Path

import click

from spark_bucketing.cli.options import OUTPUT, event_logs, format_of, report_file
from spark_bucketing.cli.progress import progress_line
from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.measured import Measured, read_measured
from spark_bucketing.event_log.report import compare, write_html, write_json, write_text

_WRITERS = {"text": write_text, "json": write_json, "html": write_html}


@click.command()
@event_logs("--before", required=True, help="Event log, or directory of event logs, of runs without buckets.")
@event_logs("--after", required=True, help="Event log, or directory of event logs, of runs with buckets.")
@click.option("--target", "-t", help="Count only the runs of this dbt target; required if the logs contain several.")
@format_of(*_WRITERS)
@OUTPUT
def report(before: tuple[str, ...], after: tuple[str, ...], target: str | None, form: str, output: Path | None) -> None:
    """Compare the cost of building models before and after bucketing, from Spark event logs.

    For each dbt model, shows medians over all successful runs: time, shuffle bytes, spilled bytes, task time and write
    time. Lists bucketed models whose builds cost more task time than their readers save.

    PATH is an event log, or a directory of event logs such as the value of spark.eventLog.dir. The logs can be
    uncompressed or compressed. To read logs that Spark has compressed, and logs in other file systems, such as
    s3a://logs/, the command starts Spark.

    Exit codes: 0 success, 2 the command could not run.
    """
    with progress_line() as line:
        old, new = (_of_target(read_measured(paths, line.show, target), target) for paths in (before, after))
        # Targets may have different sizes of data and machines.
        if old.target and new.target and old.target != new.target:
            raise EventLogError(
                "The event logs before and after bucketing are from different dbt targets.",
                found=f"{old.target} before, {new.target} after",
                expected="runs of one target",
                instead="choose event logs of the same target",
            )
        comparison = compare(old, new)
    with report_file(output, form) as file:
        _WRITERS[form](comparison, file)


def _of_target(measured: Measured, target: str | None) -> Measured:
    if target in (None, measured.target):
        return measured
    raise EventLogError(
        f"The event logs contain no run of the dbt target `{target}`.",
        found=measured.target or "query comments without target_name",
        expected=f"dbt's query comment with the target_name {target}",
        instead="choose another target, or omit --target",
    )
