"""Compare merging changes into an organized table with overwriting its partitions or the whole table.

The table has 200 partitions of 50 files. One delta changes rows in one file, another changes rows in 3% of the files,
and a third changes rows in all files. The second and third delta contain changes to a thousandth of the rows. Each
repetition changes other rows. The benchmark applies each delta to a copy of the table per variant. Two variants
use `merge`, with and without checks. The third uses `insert_overwrite` for the affected partitions, and the fourth uses
`organized_table`, which rewrites all rows. The byte ratio is the size of the new files divided by the size of the files
that contained changed rows.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_project import location, model, run, write_project
from local_spark import temporary_session
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ["p", "o", "id"]
MERGE = {"materialized": "organized_incremental", "incremental_strategy": "merge", "unique_key": KEYS}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "merge": MERGE,
    "merge, unchecked": {**MERGE, "merge_checks": False},
    "affected partitions": {"materialized": "organized_incremental", "incremental_strategy": "insert_overwrite"},
    "whole table": {"materialized": "organized_table"},
}
MERGED = """
    select coalesce(new.id, old.id) as id, coalesce(new.o, old.o) as o,
        coalesce(new.v, old.v) as v, coalesce(new.w, old.w) as w, coalesce(new.p, old.p) as p
    from (select * from {{{{ {old} }}}} {where}) as old
    full outer join delta as new on old.p = new.p and old.o = new.o and old.id = new.id
"""
DELTAS = {"one": ("in one file", 0.0), "clustered": ("in 3% of the files", 0.03), "spread": ("in all files", 1.0)}
TITLES = ("", "seconds", "x first", "files written", "MiB written", "x affected files")


def main() -> None:
    """Create the tables and the deltas, run the merges alternately, and print their times and written bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200, help="number of partitions")
    parser.add_argument("--files", type=int, default=50, help="number of files per partition")
    parser.add_argument(
        "--of-partition", type=int, default=3, help="number of files that the clustered delta changes in a partition"
    )
    parser.add_argument("--rows", type=int, default=1000, help="number of rows per file")
    parser.add_argument("--deltas", nargs="+", choices=DELTAS, default=list(DELTAS), help="deltas to merge")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="variants to run")
    parser.add_argument("--runs", type=int, default=3, help="number of runs of each variant")
    options = parser.parse_args()
    with temporary_session("4g", {"spark.sql.shuffle.partitions": "16"}) as (spark, folder):
        project = _project(folder / "bench", options)
        spark.sql("create schema bench")
        spark.sql(
            "create view bench.delta as select * from values (0L, 0L, 0D, '', 0) as t(id, o, v, w, p) where false"
        )
        run(project, "m0")
        for number, variant in enumerate(VARIANTS):
            if number and variant in options.variants:
                _copy(spark, "bench.m0", f"bench.m{number}")
        spark.sql("drop view bench.delta")
        for first, delta in enumerate(options.deltas):
            Console(width=120).print(_run_merges(spark, project, options, delta, first * options.runs))


def _copy(spark: SparkSession, table: str, copy: str) -> None:
    """Copy a table, and keep the modification times of its files, because the file statistics contain these times."""
    (statement,) = spark.sql(f"show create table {table}").collect()[0]
    spark.sql(re.sub(r"TABLE \S+", f"TABLE {copy}", statement, count=1))
    shutil.copytree(location(spark, table), location(spark, copy), dirs_exist_ok=True)
    spark.sql(f"msck repair table {copy}")


def _run_merges(spark: SparkSession, project: Path, options: argparse.Namespace, delta: str, first: int) -> Table:
    """Apply the deltas from a number on with each variant, and return a table of the results."""
    title, share = DELTAS[delta]
    seconds: dict[str, list[float]] = {variant: [] for variant in options.variants}
    written: dict[str, list[tuple[int, int]]] = {variant: [] for variant in options.variants}
    least: list[int] = []
    variants = {variant: number for number, variant in enumerate(VARIANTS) if variant in options.variants}
    for number in range(options.runs):
        spark.sql("drop table if exists bench.delta")
        spark.sql(f"create table bench.delta using parquet as {_delta(options, share, first + number)}")
        least.append(_bytes_of_touched(spark))
        for variant, index in variants.items():
            before = _files(spark, f"bench.m{index}")
            seconds[variant].append(run(project, f"m{index}"))
            new = {path: size for path, size in _files(spark, f"bench.m{index}").items() if path not in before}
            written[variant].append((len(new), sum(new.values())))
        sums = {
            tuple(
                spark.sql(f"select count(*), sum(o), sum(cast(v as decimal(38, 3))) from bench.m{index}").collect()[0]
            )
            for index in variants.values()
        }
        if len(sums) != 1:
            raise SystemExit(f"The tables differ: {sums}")
    rows = f"{options.partitions * options.files * options.rows:,} rows in {options.partitions * options.files:,} files"
    table = Table(*TITLES, title=f"A table of {rows}, changes {title}")
    baseline = statistics.median(seconds[options.variants[0]])
    for variant in options.variants:
        files, size = (statistics.median(of) for of in zip(*written[variant], strict=True))
        took = statistics.median(seconds[variant])
        cells = (
            f"{took:.1f}",
            f"{took / baseline:.1f}",
            f"{files:,.0f}",
            f"{size / 2**20:,.1f}",
            f"{size / statistics.median(least):.2f}",
        )
        table.add_row(variant, *cells)
    return table


def _project(folder: Path, options: argparse.Namespace) -> Path:
    each = options.files * options.rows
    built = (
        f"select id, id % {each} as o, id * 0.25D as v, md5(cast(id as string)) as w, cast(id div {each} as int) as p "
        f"from range(0, {options.partitions * each}, 1, 8)"
    )
    touched = "where p in (select p from delta)"
    queries = {
        "merge": "select * from {{ target.schema }}.delta",
        "affected partitions": MERGED.format(old="this", where=touched).replace("delta", "{{ target.schema }}.delta"),
        "whole table": MERGED.format(old="ref('m0_base')", where="").replace("delta", "{{ target.schema }}.delta"),
    }
    queries["merge, unchecked"] = queries["merge"]
    models = {}
    for number, (variant, config) in enumerate(VARIANTS.items()):
        layout = {"partition_by": ["p"], "range_by": "o", "rows_per_file": options.rows}
        later = queries[variant].replace("{{ ref('m0_base') }}", "{{ this }}")
        body = (
            f"{{% if is_incremental() or (execute and load_relation(this)) %}}{later}{{% else %}}{built}{{% endif %}}"
        )
        models[f"m{number}"] = model(body, **{**layout, **config})
    return write_project(folder, models)


def _delta(options: argparse.Namespace, share: float, number: int) -> str:
    """Return a query for the new versions of a thousandth of all rows, or of a thousandth of a file.

    The rows are in all files, in the first files of some partitions, or in the first file of the first partition.
    """
    all_files = options.partitions * options.files
    files = options.files if share == 1 else 1 if share == 0 else max(1, options.of_partition)
    partitions = min(options.partitions, max(1, round(all_files * share / files)))
    each = options.files * options.rows
    changed_rows = (all_files if share else 1) * options.rows // 1000
    of_file = max(1, changed_rows // (partitions * files))
    deltas = len(options.deltas) * options.runs
    return (
        f"select p * {each}L + o as id, o, -1D - {number} as v, concat('changed ', o) as w, cast(p as int) as p from ("
        f" select p, f * {options.rows}L + {options.rows // 3 + number} + r * {deltas} as o"
        f" from range({partitions}) as t(p) cross join range({files}) as u(f) cross join range({of_file}) as w(r))"
    )


def _bytes_of_touched(spark: SparkSession) -> int:
    """Return the total size of the files that contain rows changed by the delta."""
    spark.catalog.refreshTable("bench.m0")
    (row,) = spark.sql(
        "select sum(bytes) from (select distinct file, bytes from ("
        "select p, o, id, _metadata.file_path as file, _metadata.file_size as bytes from bench.m0)"
        " left semi join bench.delta using (p, o, id))"
    ).collect()
    return int(row[0])


def _files(spark: SparkSession, table: str) -> dict[str, int]:
    spark.catalog.refreshTable(table)
    return {
        str(path): path.stat().st_size
        for path in location(spark, table).rglob("part-*")
        if path.is_file() and "_file_statistics" not in path.parts
    }


if __name__ == "__main__":
    main()
