"""What `spark-bucketing advise --apply` does to TPC-H as a dbt project: `make bench-advise SCALE=1`.

The 22 queries are models over the eight tables, which are models as well, all of them plain tables. The advice is asked
for and applied to a copy of the project, and both are run in turns: seconds, files, and the bytes that Spark says it
shuffled, beside what the advice had predicted. The rows of all queries must be the same before and after.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from measurement import WrongRowsError
from rich.console import Console
from rich.table import Table
from tables import generate
from tpch import all_jobs
from tpch_project import WAYS, layouts, make_project, queries, table_names

from spark_bucketing.edits import ConfigChange, apply, plan_edits

MIB = 2**20


def main() -> None:
    """Run the project before and after the advice, and print and write what both took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H's scale factor")
    parser.add_argument("--repetitions", type=int, default=4, help="timed runs of the queries, after one that is not")
    parser.add_argument("--by-hand", choices=layouts(), help="instead of the advice, this layout of the test cases")
    parser.add_argument("--conf", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Spark")
    parser.add_argument("--target-file-size", default="16MiB", help="of advise: tables of a benchmark are small")
    parser.add_argument("--smallest", default="4MiB", help="of advise")
    parser.add_argument("--folder", type=Path, default=Path(".demo/bench"), help="for data, tables and results")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ways", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        seen = measured(options.measure, options.ways, options.repetitions)
        (options.measure / "measured.json").write_text(json.dumps(seen))
        return
    data = options.folder.absolute() / f"tpch-{options.scale:g}"
    data.mkdir(parents=True, exist_ok=True)
    generate(data, options.scale, table_names())
    folder = options.folder.absolute() / f"advise-{options.scale:g}"
    make_project(folder, data, dict(pair.split("=", 1) for pair in options.conf))
    # The advice looks at tables that are there.
    _in_a_process_of_its_own(folder, ["before"], 0)
    shutil.copytree(folder / "before", folder / "after", symlinks=True)
    begin = time.perf_counter()
    advice = (
        _applied(folder, options.by_hand)
        if options.by_hand
        else _advised(folder, options.target_file_size, options.smallest)
    )
    seconds = time.perf_counter() - begin
    seen = _in_a_process_of_its_own(folder, list(WAYS), options.repetitions)
    figures = {"scale": options.scale, "seen": seen, "advice": advice, "advise_seconds": seconds}
    (data / "advise.json").write_text(json.dumps(figures, indent=2))
    console = Console(width=150)
    console.print(f"advise took {seconds:.0f} s")
    for printed in (_sums(**seen), _by_model(**seen, advice=advice)):
        console.print(printed)
    if wrong := [name for name in queries() if seen["before"][name]["rows"] != seen["after"][name]["rows"]]:
        raise WrongRowsError(f"other rows after the advice: {', '.join(wrong)}")


def _in_a_process_of_its_own(folder: Path, ways: Sequence[str], repetitions: int) -> dict[str, Any]:
    # The metastore is one process's.
    command = [sys.executable, __file__, "--measure", str(folder), "--repetitions", str(repetitions), "--ways", *ways]
    subprocess.run(command, check=True, cwd=folder)
    found: dict[str, Any] = json.loads((folder / "measured.json").read_text())
    return found


def _advised(folder: Path, target_file_size: str, smallest: str) -> dict[str, Any]:
    """The advice, which is applied as well."""
    more = ["--target-file-size", target_file_size, "--smallest", smallest]
    command = [str(Path(sys.executable).with_name("spark-bucketing")), "advise", "--apply"]
    place = ["--project-dir", str(folder / "after"), "--profiles-dir", str(folder / "profile-before")]
    report = folder / "advice.json"
    done = subprocess.run([*command, *place, "--format", "json", "--output", str(report), *more], check=False)
    if not report.exists():
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def _applied(folder: Path, layout: str) -> dict[str, Any]:
    """Buckets that somebody has chosen who knows TPC-H."""
    manifest = json.loads((folder / "before" / "target" / "manifest.json").read_text())
    changes = [ConfigChange(f"model.tpch.{table}", config) for table, config in layouts()[layout].items()]
    edits, refusals = plan_edits(folder / "after", manifest, changes)
    if refusals:
        raise SystemExit("\n".join(f"{refusal.model}: {refusal.reason}" for refusal in refusals))
    apply(folder / "after", edits)
    return {}


def measured(folder: Path, ways: Sequence[str], repetitions: int) -> dict[str, dict[str, Any]]:
    """Build all models, run the queries again and again, and say what each model took; the ways take turns.

    Args:
        folder: that of make_project().
        ways: names of projects in it.
        repetitions: of the queries, after the run that builds all.

    Returns: for each way and model the medians of seconds and of shuffled bytes, its files and their bytes, and a
        digest of its rows if it is a query.
    """
    from pyspark.sql import SparkSession

    runs = {way: [_run(folder, way)] for way in ways}
    for repetition in range(repetitions):
        # Each way is as often the first, since a machine gets slower or faster.
        for way in ways if repetition % 2 else reversed(ways):
            runs[way].append(_run(folder, way, "--select", "path:models/queries"))
    spark = SparkSession.active()
    # Tables are built once.
    return {
        way: {
            name: {
                **_medians([run[name] for run in seen if name in run][-max(repetitions, 1) :]),
                **_stored(folder / "warehouse" / f"{WAYS[way]}.db" / name),
                "rows": _digest(spark.table(f"{WAYS[way]}.{name}").collect()) if name in queries() else "",
            }
            for name in seen[0]
        }
        for way, seen in runs.items()
    }


def _medians(seen: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {what: statistics.median(one[what] for one in seen) for what in seen[0]}


def _stored(folder: Path) -> dict[str, int]:
    files = _files(folder)
    return {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _run(folder: Path, way: str, *select: str) -> dict[str, dict[str, float]]:
    """Seconds and shuffled bytes of each model of a dbt run."""
    from dbt.cli.main import dbtRunner

    place = ["--project-dir", str(folder / way), "--profiles-dir", str(folder / f"profile-{way}")]
    outcome = dbtRunner().invoke(["--quiet", "run", *place, *select])
    # Hooks are among them.
    results = [one for one in getattr(outcome.result, "results", []) if one.node.resource_type == "model"]
    if not outcome.success:
        failed = [str(result.message) for result in results if result.status != "success"]
        raise SystemExit("\n".join(failed) or str(outcome.exception))
    shuffled = _shuffled({result.node.name: _span(result) for result in results})
    return {
        result.node.name: {"seconds": result.execution_time, "shuffled": shuffled[result.node.name]}
        for result in results
    }


def _span(result: Any) -> tuple[float, float]:
    """When a model began and ended, in seconds since 1970."""
    times = [time for part in result.timing for time in (part.started_at, part.completed_at) if time]
    return min(map(_seconds, times)), max(map(_seconds, times))


def _seconds(time: datetime) -> float:
    # dbt's times are of UTC, with or without saying so.
    return datetime.fromisoformat(time.isoformat().removesuffix("+00:00") + "+00:00").timestamp()


def _shuffled(spans: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    """Bytes that the stages of each model wrote for shuffles, as Spark has counted them; one model runs at a time."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    store = spark.sparkContext._jsc.sc().statusStore()
    found = dict.fromkeys(spans, 0)
    seen: set[int] = set()
    for job in all_jobs(spark):
        began = job.submissionTime().get().getTime() / 1000
        name = next((name for name, (start, end) in spans.items() if start <= began <= end), None)
        stages = job.stageIds()
        for number in (stages.apply(place) for place in range(stages.size())):
            # A stage belongs to the first job that needs it.
            if name is not None and number not in seen:
                found[name] += store.lastStageAttempt(number).shuffleWriteBytes()
            seen.add(number)
    return found


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(("_", "."))]


def _digest(rows: list[Any]) -> str:
    return hashlib.sha256("\n".join(sorted(repr(tuple(row)) for row in rows)).encode()).hexdigest()


_WHAT = (("seconds", 1, "seconds"), ("shuffled", MIB, "MiB shuffled"), ("files", 1, "files"), ("bytes", MIB, "MiB"))


def _sums(before: Mapping[str, Any], after: Mapping[str, Any]) -> Table:
    printed = Table("", "before", "after", "after / before", title="TPC-H as a dbt project, before and after")
    for title, names in {"22 queries": list(queries()), "8 tables": table_names()}.items():
        for what, unit, shown in _WHAT:
            left, right = (sum(way[name][what] for name in names) / unit for way in (before, after))
            printed.add_row(f"{title}: {shown}", f"{left:,.1f}", f"{right:,.1f}", f"{right / left:.2f}" if left else "")
    return printed


def _by_model(before: Mapping[str, Any], after: Mapping[str, Any], advice: Mapping[str, Any]) -> Table:
    """What was measured, and what had been predicted of shuffles; the models that became slower most come first."""
    heads = ("s before", "s after", "MiB shuffled before", "after", "MiB predicted before", "after")
    printed = Table("model", *heads, title="By model; the slower ones first")
    predicted = {one["model"]: one for one in advice.get("models", ())}
    for name in sorted(before, key=lambda name: before[name]["seconds"] - after[name]["seconds"]):
        measured = [f"{way[name]['seconds']:,.2f}" for way in (before, after)]
        measured += [f"{way[name]['shuffled'] / MIB:,.2f}" for way in (before, after)]
        plans = [predicted.get(name, {}).get(when) for when in ("before", "after")]
        printed.add_row(name, *measured, *(f"{plan['shuffled_bytes'] / MIB:,.2f}" if plan else "" for plan in plans))
    return printed


if __name__ == "__main__":
    main()
