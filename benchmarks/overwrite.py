"""Observe which files and rows readers see while a statement replaces partitions, or some of their files.

The benchmark compares three statements: an INSERT OVERWRITE of all partitions as Spark runs it, the same statement of
the session extension, and a merge that replaces one file in each partition of an organized table. Three readers run at
the same time as the statement. One process lists the partition directories continuously. A stock Spark session and a
session with the extension count the rows of each partition. Every counting query lists the files again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from bench_project import location, model, run, write_project
from local_spark import temporary_session
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Whether the extension is enabled.
READERS = {"stock": "false", "extension": "true"}


@dataclass
class Observations:
    """What the readers observed with one number of partitions.

    Args:
        statement: seconds that each statement took.
        commit: seconds between the changes to the first and the last directory.
        gaps: seconds between the first and the last change to the same directory.
        missing: seconds during which at least one directory had fewer files than before.
        doubled: seconds during which at least one directory had more files than before.
        answers: outcomes of the counting queries of each session: correct, rows missing, rows counted twice, or failed.
    """

    statement: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    doubled: list[float] = field(default_factory=list)
    answers: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in READERS})


@dataclass
class FolderChanges:
    """The times when the set of files in each directory changed, as observed by the listing process."""

    began: dict[Path, float] = field(default_factory=dict)
    ended: dict[Path, float] = field(default_factory=dict)
    missing: float = 0.0
    doubled: float = 0.0


def watch_folders(folders: list[Path], pipe: Connection) -> None:
    """List the directories until a message arrives on the pipe, then send the observed changes through the pipe."""
    first = {folder: _files(folder) for folder in folders}
    seen = FolderChanges()
    pipe.send("ready")
    last = time.perf_counter()
    while not pipe.poll():
        numbers = set()
        for folder in first.keys() - seen.ended.keys():
            files, now = _files(folder), time.perf_counter()
            if files != first[folder]:
                seen.began.setdefault(folder, now)
                if len(files) == len(first[folder]):
                    seen.ended[folder] = now
            numbers.add((len(files) > len(first[folder])) - (len(files) < len(first[folder])))
        now = time.perf_counter()
        seen.missing += now - last if -1 in numbers else 0
        seen.doubled += now - last if 1 in numbers else 0
        last = now
    pipe.send(seen)


def _files(folder: Path) -> frozenset[str]:
    try:
        return frozenset(path.name for path in folder.iterdir() if path.name[0] not in "._")
    except FileNotFoundError:
        return frozenset()


def observe(
    spark: SparkSession, table: str, partitions: int, rows: int, seen: Observations, change: Callable[[], float]
) -> None:
    """Change a table while the readers observe it.

    Args:
        spark: session from which the sessions that count rows are created.
        table: table with partitions `p`, numbered from 0.
        partitions: number of partitions.
        rows: number of rows in each partition, which the change does not affect.
        seen: receives the observations.
        change: function that changes the table and returns the seconds it took.
    """
    folders = [location(spark, table) / f"p={number}" for number in range(partitions)]
    stop = threading.Event()
    pipe, child_pipe = multiprocessing.Pipe()
    # A separate process does not compete with the threads of this process for the interpreter lock.
    watcher = multiprocessing.get_context("spawn").Process(target=watch_folders, args=(folders, child_pipe))
    counters = []
    for name, enabled in READERS.items():
        reader = spark.newSession()
        reader.conf.set("spark.bucketing.enabled", enabled)
        expected = dict.fromkeys(range(partitions), rows)
        counters.append(threading.Thread(target=_count, args=(reader, table, expected, stop, seen.answers[name])))
    watcher.start()
    pipe.recv()
    for thread in counters:
        thread.start()
    seen.statement.append(change())
    stop.set()
    pipe.send("stop")
    found: FolderChanges = pipe.recv()
    watcher.join()
    for thread in counters:
        thread.join()
    seen.commit.append(max(found.ended.values()) - min(found.began.values()))
    seen.gaps += [found.ended[folder] - began for folder, began in found.began.items()]
    seen.missing.append(found.missing)
    seen.doubled.append(found.doubled)


def _count(
    session: SparkSession, table: str, expected: dict[int, int], stop: threading.Event, answers: Counter[str]
) -> None:
    while not stop.is_set():
        answers[_answer(session, table, expected)] += 1


def _answer(session: SparkSession, table: str, expected: dict[int, int]) -> str:
    try:
        session.sql(f"refresh table {table}")
        found = {row.p: row["count"] for row in session.table(table).groupBy("p").count().collect()}
    except Exception as error:
        if "FILE_NOT_EXIST" in str(error) or "does not exist" in str(error):
            return "failed"
        raise
    if any(found.get(number, 0) < rows for number, rows in expected.items()):
        return "rows missing"
    return "right" if found == expected else "rows twice"


def _observe_overwrites(
    atomic: str, spark: SparkSession, _folder: Path, partitions: int, options: argparse.Namespace
) -> Observations:
    """Overwrite all partitions from another table."""
    spark.conf.set("spark.bucketing.write.atomic", atomic)
    for name in ("t", "source"):
        spark.sql(f"drop table if exists {name}")
        spark.sql(
            f"create table {name} (k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) "
            "into 4 buckets stored as parquet"
        )
        ids = f"range(0, {partitions * options.rows}, 1, 4)"
        spark.sql(
            f"insert into {name} partition (p) select /*+ repartition(4, k) */ id as k, uuid() as v, "
            f"cast(id % {partitions} as int) as p from {ids}"
        )

    def change() -> float:
        start = time.perf_counter()
        spark.sql("insert overwrite table t partition (p) select k, v, p from source").collect()
        return time.perf_counter() - start

    seen = Observations()
    for _ in range(options.repetitions):
        observe(spark, "t", partitions, options.rows, seen, change)
    return seen


def _observe_merges(spark: SparkSession, folder: Path, partitions: int, options: argparse.Namespace) -> Observations:
    """Merge one row into the first of the four files in every partition."""
    name = f"m{partitions}"
    rows = "select id, id div {n} as o, uuid() as v, cast(id % {n} as int) as p from range(0, {end}, 1, 4)"
    all_rows, delta = (rows.format(n=partitions, end=end * partitions) for end in (options.rows, 1))
    text = model(
        f"{{% if is_incremental() %}}{delta}{{% else %}}{all_rows}{{% endif %}}",
        materialized="organized_incremental",
        incremental_strategy="merge",
        unique_key=["p", "o"],
        partition_by=["p"],
        range_by="o",
        rows_per_file=options.rows // 4,
    )
    project = write_project(folder / name, {name: text})
    run(project, name)
    seen = Observations()
    for _ in range(options.repetitions):
        observe(spark, f"bench.{name}", partitions, options.rows, seen, lambda: run(project, name))
    return seen


def main() -> None:
    """Run the benchmark, and print a table of the observations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 10, 100], help="numbers of partitions")
    parser.add_argument("--rows", type=int, default=20_000, help="number of rows per partition")
    parser.add_argument("--repetitions", type=int, default=5, help="number of changes for each number of partitions")
    options = parser.parse_args()
    with temporary_session("2g", {"spark.sql.shuffle.partitions": "4"}, durable=True) as (spark, folder):
        spark.sql("create schema bench")
        table = Table(*TITLES, title="Milliseconds (medians; maximum for one directory) and results of readers")
        variants: dict[str, Callable[[SparkSession, Path, int, argparse.Namespace], Observations]] = {
            "Spark's INSERT OVERWRITE": partial(_observe_overwrites, "false"),
            "INSERT OVERWRITE": partial(_observe_overwrites, "true"),
            "merge": _observe_merges,
        }
        for variant, replaced in variants.items():
            for partitions in options.partitions:
                table.add_row(variant, f"{partitions}", *_cells(replaced(spark, folder, partitions, options)))
        Console(width=150).print(table)


TITLES = ("", "partitions", "statement", "commit", "one folder", "files missing", "files twice", *READERS)


def _cells(seen: Observations) -> list[str]:
    times = [statistics.median(seen.commit), max(seen.gaps), *map(statistics.median, (seen.missing, seen.doubled))]
    return [
        f"{statistics.median(seen.statement):.1f} s",
        *(f"{seconds * 1000:,.0f}" for seconds in times),
        *(", ".join(f"{number} {answer}" for answer, number in sorted(of.items())) for of in seen.answers.values()),
    ]


if __name__ == "__main__":
    main()
