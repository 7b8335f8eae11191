"""Measure what `spark-bucketing advise --apply` saves on TPC-H as a dbt project: `make bench-advise SCALE=1`.

The 22 queries and the eight tables are models. At first, no table is bucketed. The benchmark applies the advice to a
copy of the project, and runs both projects alternately. The benchmark reports run times, numbers of files, the shuffle
bytes that Spark measured, and the shuffle bytes that `advise` predicted. Every query must return the same rows in both
projects.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bench_project import COMMAND, change_configs, in_new_process, project_options, run_dbt
from rich.console import Console
from rich.table import Table
from tables import WrongRowsError, generate
from tpch import all_jobs
from tpch_project import VARIANTS, layouts, make_project, queries, table_names

MIB = 2**20


def main() -> None:
    """Run the project before and after applying the advice, then print and save the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor")
    parser.add_argument(
        "--repetitions", type=int, default=4, help="number of timed runs of the queries, after one warm-up run"
    )
    parser.add_argument(
        "--by-hand", choices=layouts(), help="apply this layout of the test cases instead of the advice"
    )
    parser.add_argument("--conf", nargs="*", default=[], metavar="NAME=VALUE", help="Spark settings")
    parser.add_argument(
        "--target-file-size", default="16MiB", help="target file size for `advise`; the benchmark's tables are small"
    )
    parser.add_argument("--smallest", default="4MiB", help="minimum table size for `advise`")
    parser.add_argument("--folder", type=Path, default=Path(".demo/bench"), help="folder for data, tables and results")
    options = parser.parse_args()
    data = options.folder.absolute() / f"tpch-{options.scale:g}"
    generate(data, options.scale, table_names())
    folder = options.folder.absolute() / f"advise-{options.scale:g}"
    make_project(folder, data, dict(pair.split("=", 1) for pair in options.conf))
    # The tables must exist, because `advise` reads their sizes.
    in_new_process(measure_models, folder, ["before"], 0)
    shutil.copytree(folder / "before", folder / "after", symlinks=True)
    begin = time.perf_counter()
    advice = (
        _apply_layout(folder, options.by_hand)
        if options.by_hand
        else _apply_advice(folder, options.target_file_size, options.smallest)
    )
    seconds = time.perf_counter() - begin
    seen = in_new_process(measure_models, folder, list(VARIANTS), options.repetitions)
    figures = {"scale": options.scale, "seen": seen, "advice": advice, "advise_seconds": seconds}
    (data / "advise.json").write_text(json.dumps(figures, indent=2))
    console = Console(width=150)
    console.print(f"advise took {seconds:.0f} s")
    for printed in (_sums(**seen), _by_model(**seen, advice=advice)):
        console.print(printed)
    if wrong := [name for name in queries() if seen["before"][name]["rows"] != seen["after"][name]["rows"]]:
        raise WrongRowsError(f"These queries return different rows after the advice: {', '.join(wrong)}")


def _apply_advice(folder: Path, target_file_size: str, smallest: str) -> dict[str, Any]:
    """Run `advise --apply` on the copy, and return its report."""
    command = [COMMAND, "advise", "--apply", *project_options(folder / "after", folder / "profile-before")]
    command += ["--target-file-size", target_file_size, "--smallest", smallest]
    report = folder / "advice.json"
    done = subprocess.run([*command, "--format", "json", "--output", str(report)], check=False)
    if not report.exists():
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def _apply_layout(folder: Path, layout: str) -> dict[str, Any]:
    """Apply one of the hand-written TPC-H layouts."""
    manifest = json.loads((folder / "before" / "target" / "manifest.json").read_text())
    changes = {f"model.tpch.{table}": config for table, config in layouts()[layout].items()}
    change_configs(folder / "after", manifest, changes)
    return {}


def measure_models(folder: Path, variants: Sequence[str], repetitions: int) -> dict[str, dict[str, Any]]:
    """Build all models, then measure repeated runs of the queries, alternating between the variants.

    Args:
        folder: the directory that make_project() wrote.
        variants: names of the projects to run in this directory.
        repetitions: number of query runs after the run that builds all models.

    Returns:
        For each variant and model: the median seconds, the median shuffle bytes, and the number and total size of its
            files. For queries, also a digest of the returned rows.
    """
    from pyspark.sql import SparkSession

    runs = {variant: [_run(folder, variant)] for variant in variants}
    for repetition in range(repetitions):
        # Each variant runs first equally often, because the machine's speed drifts.
        for variant in variants if repetition % 2 else reversed(variants):
            runs[variant].append(_run(folder, variant, "--select", "path:models/queries"))
    spark = SparkSession.active()
    # The first run builds all models. Later runs repeat only the queries.
    return {
        variant: {
            name: {
                **_medians([run[name] for run in seen if name in run][-max(repetitions, 1) :]),
                **_stored(folder / "warehouse" / f"{VARIANTS[variant]}.db" / name),
                "rows": _digest(spark.table(f"{VARIANTS[variant]}.{name}").collect()) if name in queries() else "",
            }
            for name in seen[0]
        }
        for variant, seen in runs.items()
    }


def _medians(seen: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {what: statistics.median(one[what] for one in seen) for what in seen[0]}


def _stored(folder: Path) -> dict[str, int]:
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(("_", "."))]
    return {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _run(folder: Path, variant: str, *select: str) -> dict[str, dict[str, float]]:
    """Run dbt, and return the seconds and the shuffle bytes of each model."""
    results = run_dbt(*project_options(folder / variant, folder / f"profile-{variant}"), *select)
    shuffled = _shuffled({result.node.name: _span(result) for result in results})
    return {
        result.node.name: {"seconds": result.execution_time, "shuffled": shuffled[result.node.name]}
        for result in results
    }


def _span(result: Any) -> tuple[float, float]:
    """Return the times when a model's run started and ended, in seconds since 1970."""
    times = [time for part in result.timing for time in (part.started_at, part.completed_at) if time]
    return min(map(_seconds, times)), max(map(_seconds, times))


def _seconds(time: datetime) -> float:
    # dbt's timestamps are in UTC, with or without a time zone suffix.
    return datetime.fromisoformat(time.isoformat().removesuffix("+00:00") + "+00:00").timestamp()


def _shuffled(spans: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    """Return the shuffle bytes that Spark measured for each model.

    Models run one at a time, so the start time of a job identifies its model.
    """
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
            # Spark lists a shared stage in several jobs. It counts only for the first job.
            if name is not None and number not in seen:
                found[name] += store.lastStageAttempt(number).shuffleWriteBytes()
            seen.add(number)
    return found


def _digest(rows: list[Any]) -> str:
    return hashlib.sha256("\n".join(sorted(repr(tuple(row)) for row in rows)).encode()).hexdigest()


_WHAT = (("seconds", 1, "seconds"), ("shuffled", MIB, "MiB shuffled"), ("files", 1, "files"), ("bytes", MIB, "MiB"))


def _sums(before: Mapping[str, Any], after: Mapping[str, Any]) -> Table:
    printed = Table(
        "", "before", "after", "after / before", title="TPC-H as a dbt project, before and after the advice"
    )
    for title, names in {"22 queries": list(queries()), "8 tables": table_names()}.items():
        for what, unit, shown in _WHAT:
            left, right = (sum(variant[name][what] for name in names) / unit for variant in (before, after))
            printed.add_row(f"{title}: {shown}", f"{left:,.1f}", f"{right:,.1f}", f"{right / left:.2f}" if left else "")
    return printed


def _by_model(before: Mapping[str, Any], after: Mapping[str, Any], advice: Mapping[str, Any]) -> Table:
    """Return a table that compares measured with predicted values, one row per model, largest slowdown first."""
    heads = ("s before", "s after", "MiB shuffled before", "after", "MiB predicted before", "after")
    printed = Table("model", *heads, title="By model, largest slowdown first")
    predicted = {one["model"]: one for one in advice.get("models", ())}
    for name in sorted(before, key=lambda name: before[name]["seconds"] - after[name]["seconds"]):
        measured = [f"{variant[name]['seconds']:,.2f}" for variant in (before, after)]
        measured += [f"{variant[name]['shuffled'] / MIB:,.2f}" for variant in (before, after)]
        plans = [predicted.get(name, {}).get(when) for when in ("before", "after")]
        printed.add_row(name, *measured, *(f"{plan['shuffled_bytes'] / MIB:,.2f}" if plan else "" for plan in plans))
    return printed


if __name__ == "__main__":
    main()
