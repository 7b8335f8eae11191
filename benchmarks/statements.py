"""Count and time the statements that dbt sends for a small model: `python benchmarks/statements.py`.

Each variant is a dbt project with two identical models. The benchmark runs each project several times. The first run
creates the tables, and later runs replace or extend them. The benchmark counts only the statements of the second model,
because dbt sends some queries only once per run. The variants run alternately, so a warm JVM or other load
on the machine favors none of them. The times are medians over all runs except the first two. The printed statements
come from the last run. The column "written" compares the bytes that Spark's tasks report for the last run with the size
of the files that the run has added to the tables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_project import location, model, run_all, write_project
from local_spark import temporary_session
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("off", "on")
STOCK: dict[str, Any] = {"materialized": "incremental"}
OURS: dict[str, Any] = {
    "materialized": "bucketed_incremental",
    "clustered_by": ["id"],
    "buckets": 4,
}
ORGANIZED: dict[str, Any] = {"materialized": "organized_incremental", "range_by": "id", "rows_per_file": 1000}
PARTITIONED: dict[str, Any] = {"partition_by": ["p"]}
APPEND: dict[str, Any] = {"incremental_strategy": "append"}
MERGE: dict[str, Any] = {"incremental_strategy": "merge", "unique_key": "id"}
OVERWRITE: dict[str, Any] = {"incremental_strategy": "insert_overwrite", **PARTITIONED}
# For each variant: the model's config, and the variant of dbt-spark for the comparison.
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "stock table": ({"materialized": "table"}, "stock table"),
    "stock append": ({**STOCK, **APPEND}, "stock append"),
    "stock append, partitioned": ({**STOCK, **APPEND, **PARTITIONED}, "stock append, partitioned"),
    "stock insert_overwrite": ({**STOCK, **OVERWRITE}, "stock insert_overwrite"),
    "stock table, clustered": (
        {**OURS, "materialized": "table", "file_format": "parquet"},
        "stock table",
    ),
    "table": ({**OURS, "materialized": "bucketed_table"}, "stock table"),
    "insert_overwrite, partitioned": ({**OURS, **OVERWRITE}, "stock insert_overwrite"),
    "append": ({**OURS, **APPEND}, "stock append"),
    "append, partitioned": ({**OURS, **APPEND, **PARTITIONED}, "stock append, partitioned"),
    "merge": ({**OURS, **MERGE}, "stock append"),
    "merge, partitioned": ({**OURS, **MERGE, **PARTITIONED}, "stock append, partitioned"),
    "organized table": ({**ORGANIZED, "materialized": "organized_table"}, "stock table"),
    "organized insert_overwrite": ({**ORGANIZED, **OVERWRITE}, "stock insert_overwrite"),
    "organized append": ({**ORGANIZED, **APPEND}, "stock append"),
}


@dataclass(frozen=True)
class Measurement:
    """The statements of one variant, the seconds that they take, and the bytes written per byte of new files."""

    statements: list[str]
    seconds: float
    written: float


def main() -> None:
    """Run all variants on stock Spark and with the extension, and print and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3000, help="number of rows of the model")
    parser.add_argument("--runs", type=int, default=5, help="number of runs after the first two runs")
    parser.add_argument(
        "--show",
        action="store_true",
        help="print each statement of the last run, and the time that it took",
    )
    parser.add_argument("--only", help="run only variants whose name contains this text")
    parser.add_argument("--extension", choices=KINDS, help="run only with the extension on or off")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args()
    with temporary_session("2g", {"spark.sql.shuffle.partitions": "4"}) as (spark, folder):
        figures = _measure(spark, folder, options)
        console = Console(width=140)
        console.print(_table(figures, options.rows))
        if options.show:
            for name, kinds in figures.items():
                for kind, seen in kinds.items():
                    console.print(f"\n{name}, extension {kind}")
                    for number, statement in enumerate(seen.statements, 1):
                        console.print(Text(f"  {number:2} {statement}", overflow="ellipsis", no_wrap=True))
        if options.output:
            raw = {name: {kind: vars(seen) for kind, seen in kinds.items()} for name, kinds in figures.items()}
            options.output.write_text(json.dumps(raw, indent=2))


def _project(folder: Path, config: Mapping[str, Any], rows: int) -> Path:
    query = f"select id, id % 100 as v, cast(id % 2 as int) as p from range({rows})"
    second = f"{query}\n-- depends_on: {{{{ ref('m1') }}}}"
    return write_project(folder, {"m1": model(query, **config), "m2": model(second, **config)}, schema=folder.name)


def _measure(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, dict[str, Measurement]]:
    selected = {n for name, (_, stock) in VARIANTS.items() if (options.only or "") in name for n in (name, stock)}
    kinds = [options.extension] if options.extension else KINDS
    variants = [(name, kind) for name in VARIANTS if name in selected for kind in kinds if kind in _kinds_of(name)]
    projects = {
        variant: _project(folder / f"variant{n}", VARIANTS[variant[0]][0], options.rows)
        for n, variant in enumerate(variants)
    }
    seconds: dict[tuple[str, str], list[float]] = {variant: [] for variant in variants}
    statements: dict[tuple[str, str], list[str]] = {}
    written: dict[tuple[str, str], float] = {}
    for _ in range(options.runs + 2):
        for variant, project in projects.items():
            spark.conf.set("spark.bucketing.enabled", str(variant[1] == "on").lower())
            before, stage = _data_files(spark, project.name), _bytes_by_stage(spark)
            with _statements_of_second_model() as statements[variant]:
                seconds[variant].append(run_all(project)["m2"])
            new = _data_files(spark, project.name).items() - before.items()
            bytes_written = sum(size for of, size in _bytes_by_stage(spark).items() if of not in stage)
            written[variant] = bytes_written / sum(size for _, size in new)
    figures: dict[str, dict[str, Measurement]] = {}
    for name, kind in variants:
        figures.setdefault(name, {})[kind] = Measurement(
            statements[name, kind], statistics.median(seconds[name, kind][2:]), written[name, kind]
        )
    return figures


def _kinds_of(name: str) -> tuple[str, ...]:
    """Return whether a variant runs with the extension off and on; some materializations and strategies need it."""
    config = VARIANTS[name][0]
    needs = config["materialized"].startswith("organized") or (
        config["materialized"] == "bucketed_incremental" and config["incremental_strategy"] != "insert_overwrite"
    )
    return KINDS[1:] if needs else KINDS


def _data_files(spark: SparkSession, schema: str) -> dict[Path, int]:
    """Return the sizes of the data files of all tables of a schema."""
    names = spark.sql(f"show tables in {schema}").collect() if spark.catalog.databaseExists(schema) else []
    # Temporary views have no namespace.
    tables = [location(spark, f"{schema}.{row.tableName}") for row in names if row.namespace]
    return {
        file: file.stat().st_size
        for table in tables
        for file in table.rglob("*.parquet")
        if all(name[0] not in "._" for name in file.relative_to(table).parts)
    }


def _bytes_by_stage(spark: SparkSession) -> dict[int, int]:
    """Return the bytes that the tasks of each stage have written."""
    time.sleep(0.3)  # Spark updates these metrics in another thread.
    store = spark._jsparkSession.sparkContext().statusStore()
    stages = store.stageList(None, False, False, *(getattr(store, f"stageList$default${n}")() for n in (4, 5)))
    return {stages.apply(n).stageId(): stages.apply(n).outputBytes() for n in range(stages.size())}


@contextmanager
def _statements_of_second_model() -> Iterator[list[str]]:
    """Yield a list that collects the second model's statements, without the statements that dbt sends once per run."""
    from dbt.adapters.spark.session import Cursor

    sent: list[str] = []
    real = {name: getattr(Cursor, name) for name in ("execute", "fetchall")}
    milliseconds: list[float] = []

    def timed(name: str) -> Callable[..., object]:
        def watched(self: Cursor, *arguments: str) -> object:
            comment, _, text = "".join(arguments).partition("*/")
            begin = time.perf_counter()
            result = real[name](self, *arguments)
            took = (time.perf_counter() - begin) * 1000
            if '"node_id": "model.bench.m2"' in comment:
                sent.append(" ".join(text.split()))
                milliseconds.append(took)
            elif milliseconds and not arguments:
                milliseconds[-1] += took
            return result

        return watched

    for name in real:
        setattr(Cursor, name, timed(name))
    try:
        yield sent
    finally:
        for name, method in real.items():
            setattr(Cursor, name, method)
        sent[:] = [f"{took:5.0f} ms  {text}" for took, text in zip(milliseconds, sent, strict=True)]


def _table(figures: Mapping[str, Mapping[str, Measurement]], rows: int) -> Table:
    title = (
        f"Runs after the first, {rows:,} rows: statements, seconds, ratio to dbt-spark, bytes written per byte of files"
    )
    table = Table(title=title)
    table.add_column("materialization")
    shown = [kind for kind in KINDS if any(kind in kinds for kinds in figures.values())]
    for kind in shown:
        table.add_column(f"extension {kind}: statements", justify="right")
        table.add_column("seconds", justify="right")
        table.add_column("x stock", justify="right")
        table.add_column("written", justify="right")
    for name, kinds in figures.items():
        cells = []
        for kind in shown:
            if kind not in kinds:
                cells += [""] * 4
                continue
            seen, stock = kinds[kind], figures[VARIANTS[name][1]][kind]
            cells += [
                str(len(seen.statements)),
                f"{seen.seconds:.2f}",
                f"{seen.seconds / stock.seconds:.1f}",
                f"{seen.written:.2f}",
            ]
        table.add_row(name, *cells)
    return table


if __name__ == "__main__":
    main()
