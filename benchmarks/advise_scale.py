"""Time `spark-bucketing advise --offline` on a project with many tables: `python benchmarks/advise_scale.py`.

check_scale.py generates the project, here without any bucketed tables. A generated catalog.json contains the table
sizes: a tenth of the tables have between 1 GiB and 1 TiB, and the others have up to 10 GiB. The time covers the whole
command: building the extension if necessary, compiling, starting Spark, and planning every query with and without the
proposed changes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_project import COMMAND, project_options
from check_scale import COLUMNS, make_project

MIB, GIB = 2**20, 2**30
_PAUSE_SECONDS = 0.2


def run(command: Sequence[str]) -> tuple[int, Mapping[str, int]]:
    """Run a command, and sample the memory of its processes while it runs.

    The last sample of a process contains its peak memory use. The peak can therefore omit memory that the process
    allocated just before it ended.

    Returns:
        The exit code, and the peak resident memory in bytes by program name, summed over its processes.
    """
    running = subprocess.Popen(command)
    peaks: dict[int, tuple[str, int]] = {}
    while running.poll() is None:
        for process in (running.pid, *_descendants(running.pid)):
            if found := _peak(process):
                peaks[process] = found
        time.sleep(_PAUSE_SECONDS)
    sums = Counter[str]()
    for name, peak in peaks.values():
        sums[name] += peak
    return running.returncode, sums


def _descendants(process: int) -> Iterator[int]:
    try:
        found = [task.read_text().split() for task in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return
    for child in (int(word) for words in found for word in words):
        yield child
        yield from _descendants(child)


def _peak(process: int) -> tuple[str, int] | None:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    name = re.search(r"Name:\s+(\S+)", status)
    return (name[1], int(found[1]) * 1024) if found and name else None


def main() -> None:
    """Generate the project, run `advise`, and print its time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000, help="number of models")
    parser.add_argument("--seed", type=int, default=1, help="seed for generating the project")
    parser.add_argument("--folder", type=Path, help="keep the project and the report in this folder")
    parser.add_argument("more", nargs="*", help="further options for `advise`, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        chance = random.Random(options.seed)  # noqa: S311
        make_project(folder, options.models, chance, is_bucketed=False)
        write_catalog(folder, options.models, chance)
        report = folder / "advice.json"
        command = [COMMAND, "advise", "--offline", "--extension", *project_options(folder)]
        begin = time.perf_counter()
        code, used = run([*command, "--format", "json", "--output", str(report), *options.more])
        seconds = time.perf_counter() - begin
        peaks = ", ".join(f"{name} {peak / MIB:,.0f} MiB" for name, peak in sorted(used.items()))
        print(f"{options.models:,} models in {seconds:.0f} s, exit code {code}; peak memory: {peaks}")
        if not report.exists():
            raise SystemExit(code)
        print(json.dumps(_top(json.loads(report.read_text()))))


def write_catalog(folder: Path, models: int, chance: random.Random) -> None:
    """Write a catalog.json with a random size for each table of a check_scale.py project.

    Args:
        folder: the project folder.
        models: number of models in the project.
        chance: random number generator that chooses the sizes.
    """
    columns = {name: {"name": name, "type": kind, "index": place} for place, (name, kind) in enumerate(COLUMNS.items())}

    def entry(smallest: int, largest: int) -> dict[str, Any]:
        # Sizes are log-uniform: every order of magnitude is equally likely.
        size = smallest * (largest / smallest) ** chance.random()
        return {"columns": columns, "stats": {"bytes": {"value": int(size)}}}

    large = max(models // 10, 1)
    nodes = {
        f"model.many.m{number}": entry(*((GIB, 1024 * GIB) if number < large else (MIB, 10 * GIB)))
        for number in range(models)
    }
    sources = {f"source.many.raw.s{number}": entry(GIB, 1024 * GIB) for number in range(10)}
    (folder / "target").mkdir()
    (folder / "target" / "catalog.json").write_text(json.dumps({"nodes": nodes, "sources": sources}))


def _top(report: dict[str, Any]) -> dict[str, Any]:
    """Summarize a report: replace each list with its length, and keep scalar values."""
    return {key: len(value) if isinstance(value, (list, dict)) else value for key, value in report.items()}


if __name__ == "__main__":
    main()
