"""Write one table with each file strategy of `organized_table`, and with dbt-spark's `table`: `make bench-files`.

The last day in the table has five times as many rows as the first day. Each strategy is one model of a dbt project. The
benchmark runs the models in turn, several times. Times are medians in seconds. The benchmark also reports the number
and the sizes of the files on disk.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_project import location, model, run, write_project
from local_spark import temporary_session
from rich.console import Console
from rich.table import Table

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "table": {"materialized": "table", "file_format": "parquet"},
    "coalesce": {"file_strategy": "coalesce"},
    "repartition": {"file_strategy": "repartition"},
    "by_column": {"file_strategy": "by_column"},
    "by_column_salted": {"file_strategy": "by_column_salted"},
    "by_column_salted, 3": {"file_strategy": "by_column_salted", "scale_factor": 3},
    "by_range": {"file_strategy": "by_range"},
    "exact": {},
}
TITLES = (
    "",
    "seconds",
    "files",
    "tasks with files",
    "most files written by a task",
    "smallest KiB",
    "median KiB",
    "largest KiB",
)


def main() -> None:
    """Run the variants in turn, and print their times and files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="approximate number of rows")
    parser.add_argument("--days", type=int, default=60, help="number of partitions")
    parser.add_argument("--files", type=int, default=5, help="mean number of files per partition")
    parser.add_argument("--runs", type=int, default=3, help="number of runs of each variant")
    options = parser.parse_args()
    with temporary_session("3g", {"spark.sql.shuffle.partitions": "40"}) as (spark, folder):
        project = _project(folder / "bench", options)
        seconds: dict[str, list[float]] = {}
        for _ in range(options.runs):
            for number, variant in enumerate(VARIANTS):
                seconds.setdefault(variant, []).append(run(project, f"m{number}"))
        table = Table(
            *TITLES, title=f"{options.rows:,} rows, {options.days} days, {options.days * options.files} files"
        )
        for number, variant in enumerate(VARIANTS):
            cells = _cells(location(spark, f"bench.m{number}"))
            table.add_row(variant, f"{statistics.median(seconds[variant]):.1f}", *cells)
        Console(width=120).print(table)


def _project(folder: Path, options: argparse.Namespace) -> Path:
    # This expression inverts the distribution function of a density that grows from 1 to 5. Rows arrive in random order
    # from several tasks.
    chance = "(xxhash64(id) & 1048575) / 1048576D"
    query = f"""
        select /*+ repartition(16) */ id, md5(cast(id as string)) as text,
            date_add(date'2024-01-01', cast(day as int)) as ds
        from (select id, {options.days} * (sqrt(1 + 24 * {chance}) - 1) / 4 as day from range({options.rows}))"""
    common = {"partition_by": ["ds"], "rows_per_file": -(-options.rows // (options.days * options.files))}
    models = {}
    for number, config in enumerate(VARIANTS.values()):
        organized = (
            {**common, "materialized": "organized_table"} if "materialized" not in config else {"partition_by": ["ds"]}
        )
        models[f"m{number}"] = model(query, **{**organized, **config})
    return write_project(folder, models)


def _cells(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("part-*") if path.is_file()]
    tasks = Counter(re.findall(r"part-(\d+)", path.name)[0] for path in files)
    sizes = sorted(path.stat().st_size / 1024 for path in files)
    numbers = (len(files), len(tasks), max(tasks.values()), sizes[0], statistics.median(sizes), sizes[-1])
    return [f"{number:,.0f}" for number in numbers]


if __name__ == "__main__":
    main()
