"""Compare the times in `spark-bucketing report` with dbt's own times on TPC-H: `make bench-event-logs SCALE=0.1`.

TPC-H is a dbt project here. The project first runs without buckets, and Spark writes event logs. `advise --event-log
--apply` changes a copy of the project, which then runs equally often. The benchmark prints the times from the report
next to the times that dbt measured. The benchmark fails if the saved time in the report differs by more than 10 percent
from the saved time that dbt measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_project import COMMAND, in_new_process, project_options, run_dbt
from rich.console import Console
from rich.table import Table
from tables import generate
from tpch_project import VARIANTS, make_project, table_names

# The shuffles of large tables: without this, all joins of small tables are broadcast.
SETTINGS = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.eventLog.enabled": "true"}
COMMENT = (
    "{% set about = {'app': 'dbt', 'invocation_id': invocation_id} %}"
    "{% if node %}{% do about.update(node_id=node.unique_id) %}{% endif %}{{ tojson(about) }}"
)


def main() -> None:
    """Run the project without buckets, apply the advice, run the project again, and compare the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument(
        "--runs", type=int, default=5, help="number of runs of the project, before and after the advice"
    )
    parser.add_argument("--folder", type=Path, default=Path(".demo/bench"), help="folder for data, tables and results")
    options = parser.parse_args()
    folder = options.folder.absolute() / f"event-logs-{options.scale:g}"
    data = options.folder.absolute() / f"tpch-{options.scale:g}"
    generate(data, options.scale, table_names())
    logs = {"spark.eventLog.dir": f"{(folder / 'events').as_uri()}/{{variant}}"}
    make_project(folder, data, {**SETTINGS, **logs}, COMMENT)
    for variant in VARIANTS:
        (folder / "events" / variant).mkdir(parents=True)
    before = in_new_process(_total, folder, "before", options.runs)
    shutil.copytree(folder / "before", folder / "after", symlinks=True)
    _advise(folder)
    after = in_new_process(_total, folder, "after", options.runs)
    _compare((before, after), _report(folder))


def _total(folder: Path, variant: str, runs: int) -> float:
    """Run dbt several times, and return the sum of all models' median seconds, as dbt measured them."""
    seconds: dict[str, list[float]] = {}
    for _ in range(runs):
        for one in run_dbt(*project_options(folder / variant, folder / f"profile-{variant}")):
            seconds.setdefault(one.node.unique_id, []).append(one.execution_time)
    return sum(map(statistics.median, seconds.values()))


def _advise(folder: Path) -> None:
    project = project_options(folder / "after", folder / "profile-before")
    small = ["--smallest", "1MiB", "--target-file-size", "4MiB"]
    logs = ["--event-log", str(folder / "events" / "before")]
    subprocess.run([COMMAND, "advise", "--apply", *project, *small, *logs], check=True)


def _report(folder: Path) -> dict[str, Any]:
    logs = ["--before", str(folder / "events" / "before"), "--after", str(folder / "events" / "after")]
    subprocess.run([COMMAND, "report", *logs], check=True)
    subprocess.run([COMMAND, "report", *logs, "--format", "html", "--output", str(folder / "report.html")], check=True)
    done = subprocess.run([COMMAND, "report", *logs, "--format", "json"], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _compare(measured: tuple[float, float], report: Mapping[str, Any]) -> None:
    """Print the sum of all models' median times, once as measured by dbt and once from the report.

    Raises:
        SystemExit: the saved times differ by more than 10 percent.
    """
    reported = [sum(model["seconds"][when] for model in report["models"]) for when in ("before", "after")]
    clocks = {"stopwatch": measured, "report": reported}
    table = Table("clock", "s before", "s after", "s saved", "after / before", title="Sum of the models' median times")
    for name, (before, after) in clocks.items():
        table.add_row(name, f"{before:.1f}", f"{after:.1f}", f"{before - after:.1f}", f"{after / before:.3f}")
    Console(width=120).print(table)
    saved = {name: before - after for name, (before, after) in clocks.items()}
    if abs(saved["report"] - saved["stopwatch"]) > 0.1 * abs(saved["stopwatch"]):
        raise SystemExit(
            "The time saved in the report differs by more than 10 percent from the time saved in dbt's results."
        )


if __name__ == "__main__":
    main()
