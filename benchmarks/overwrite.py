"""How long rows are missing while an INSERT OVERWRITE of partitions commits: this file with --partitions, --rows.

Two readers look on. One lists the partitions' folders as fast as it can. The other is a Spark session of its own that
counts rows by partition, again and again, each time with a fresh listing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from embedded import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Seen:
    """What the readers saw of overwrites of so many partitions.

    Args:
        statement: seconds of each statement.
        commit: seconds from the first folder that changed to the last.
        gaps: seconds that a folder had no files.
        missing: seconds in which some folder had no files.
        answers: of the counting queries: right, rows missing, or failed.
    """

    statement: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    missing: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)


@dataclass
class Folders:
    """What a process saw that listed folders all the time: when each one's files went and came back, by a clock."""

    gone: dict[Path, float] = field(default_factory=dict)
    back: dict[Path, float] = field(default_factory=dict)
    missing: float = 0.0


def look(folders: list[Path], pipe: Connection) -> None:
    """List folders until something comes through a pipe, and answer with what was seen."""
    first = {folder: _files(folder) for folder in folders}
    seen = Folders()
    pipe.send("ready")
    last = time.perf_counter()
    while not pipe.poll():
        lacking = False
        for folder in first.keys() - seen.back.keys():
            files, now = _files(folder), time.perf_counter()
            if files != first[folder]:
                seen.gone.setdefault(folder, now)
                if files:
                    seen.back[folder] = now
            lacking = lacking or not files
        now = time.perf_counter()
        seen.missing += now - last if lacking else 0
        last = now
    pipe.send(seen)


def _files(folder: Path) -> frozenset[str]:
    try:
        return frozenset(path.name for path in folder.iterdir() if path.name[0] not in "._")
    except FileNotFoundError:
        return frozenset()


def overwrite(spark: SparkSession, partitions: int, rows: int, seen: Seen) -> None:
    """Overwrite all partitions of a table from a staging table, with two readers."""
    folders = [_folder(spark) / f"p={number}" for number in range(partitions)]
    stop = threading.Event()
    here, there = multiprocessing.Pipe()
    # A process of its own, so that it need not wait for this one's threads.
    looking = multiprocessing.get_context("spawn").Process(target=look, args=(folders, there))
    reader = spark.newSession()
    counting = threading.Thread(target=_count, args=(reader, partitions, rows, stop, seen.answers))
    counting.start()
    looking.start()
    here.recv()
    seen.answers.clear()
    start = time.perf_counter()
    spark.sql("insert overwrite table t partition (p) select k, v, p from staged").collect()
    seen.statement.append(time.perf_counter() - start)
    stop.set()
    here.send("stop")
    found: Folders = here.recv()
    looking.join()
    counting.join()
    seen.commit.append(max(found.back.values()) - min(found.gone.values()))
    seen.gaps += [found.back[folder] - gone for folder, gone in found.gone.items()]
    seen.missing.append(found.missing)


def _count(session: SparkSession, partitions: int, rows: int, stop: threading.Event, answers: Counter[str]) -> None:
    expected = dict.fromkeys(range(partitions), rows)
    while not stop.is_set():
        answers[_answer(session, expected)] += 1


def _answer(session: SparkSession, expected: dict[int, int]) -> str:
    try:
        session.sql("refresh table t")
        found = {row.p: row["count"] for row in session.table("t").groupBy("p").count().collect()}
    except Exception as error:
        if "FILE_NOT_EXIST" in str(error) or "does not exist" in str(error):
            return "failed"
        raise
    return "right" if found == expected else "rows missing"


def _folder(spark: SparkSession) -> Path:
    rows = spark.sql("describe table extended t").collect()
    return Path(next(row.data_type for row in rows if row.col_name == "Location").removeprefix("file:"))


def _make(spark: SparkSession, partitions: int, rows: int) -> None:
    for name in ("t", "staged"):
        spark.sql(f"drop table if exists {name}")
        spark.sql(
            f"create table {name} (k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) "
            "into 4 buckets stored as parquet"
        )
        ids = f"range(0, {partitions * rows}, 1, 4)"
        spark.sql(
            f"insert into {name} partition (p) select /*+ repartition(4, k) */ id as k, uuid() as v, "
            f"cast(id % {partitions} as int) as p from {ids}"
        )


def main() -> None:
    """Print a table of what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 10, 100], help="numbers of partitions")
    parser.add_argument("--rows", type=int, default=20_000, help="of each partition")
    parser.add_argument("--repetitions", type=int, default=5, help="overwrites of each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small = {"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"}
        spark = session(Path(folder), small)
        print("partitions  statement      commit  one missing  any missing   counts of a reader")
        for partitions in options.partitions:
            seen = Seen()
            _make(spark, partitions, options.rows)
            for _ in range(options.repetitions):
                overwrite(spark, partitions, options.rows, seen)
            print(_line(partitions, seen))
        spark.stop()


def _line(partitions: int, seen: Seen) -> str:
    commit, missing = (statistics.median(found) * 1000 for found in (seen.commit, seen.missing))
    longest = max(seen.gaps) * 1000
    answers = ", ".join(f"{number} {answer}" for answer, number in sorted(seen.answers.items()))
    return (
        f"{partitions:>10}  {statistics.median(seen.statement):>7.1f} s  {commit:>7.1f} ms  {longest:>7.1f} ms"
        f"  {missing:>7.1f} ms   {answers}"
    )


if __name__ == "__main__":
    main()
