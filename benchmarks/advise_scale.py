"""Time `spark-bucketing advise --offline` on a project of many plain tables: `python benchmarks/advise_scale.py`.

The project is that of models.py without its buckets. Its sizes are in a catalog.json: a tenth of the models are large,
between a gigabyte and a terabyte, the others up to ten gigabytes. All that the command does is in its time: building
the extension where it was not, compiling, starting Spark, planning the project as it is and under the proposal.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from check_scale import COLUMNS, make_project
from process_usage import run

MIB, GIB = 2**20, 2**30


def main() -> None:
    """Make the project, ask for advice, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the project and the report there; else they go")
    parser.add_argument("more", nargs="*", help="further options of advise, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        chance = random.Random(options.seed)  # noqa: S311
        make_project(folder, options.models, chance, is_bucketed=False)
        write_catalog(folder, options.models, chance)
        report = folder / "advice.json"
        command = [str(Path(sys.executable).with_name("spark-bucketing")), "advise", "--offline", "--extension"]
        place = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
        taken = run([*command, *place, "--format", "json", "--output", str(report), *options.more])
        peaks = ", ".join(f"{name} {peak / MIB:,.0f} MiB" for name, peak in sorted(taken.peaks.items()))
        print(f"{options.models:,} models in {taken.seconds:.0f} s, exit code {taken.code}; peak memory: {peaks}")
        if not report.exists():
            raise SystemExit(taken.code)
        print(json.dumps(_top(json.loads(report.read_text()))))


def write_catalog(folder: Path, models: int, chance: random.Random) -> None:
    """Write how large the tables of a project of models.py are.

    Args:
        folder: of the project.
        models: how many it has.
        chance: what decides how large they are.
    """
    columns = {name: {"name": name, "type": kind, "index": place} for place, (name, kind) in enumerate(COLUMNS.items())}

    def entry(smallest: int, largest: int) -> dict[str, Any]:
        # As many of each order of magnitude.
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
    """What a report says in all: how many entries each list has, and plain values."""
    return {key: len(value) if isinstance(value, (list, dict)) else value for key, value in report.items()}


if __name__ == "__main__":
    main()
