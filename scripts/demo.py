"""Build large tables of flights without and with buckets, and compare the times of five statements: `make demo`.

The output of dbt and Spark goes to .demo/demo.log, and is printed only after a failure.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from demo_report import page, screen
from get_data import DEMO

from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ROOT = Path(__file__).parents[1]
YEARS = 12
RUNS = 3
TABLES = ("departures", "arrivals")
VARIANTS = ("plain", "bucketed")
KEY = ("tailnum", "flight_date", "flight_number")
JOIN = f"{{0}}_departures as d join {{0}}_arrivals as a using ({', '.join(KEY)})"
# Each query in words, and its text. {0} stands for plain or bucketed.
QUERIES = {
    "Join departures with arrivals": f"""
        select carrier, count(*) as flights, sum(departure_delay - arrival_delay) as minutes_made_up
        from {JOIN} group by carrier""",
    "Join, then group by plane": f"""
        select tailnum, count(*) as flights, sum(air_minutes) as minutes, max(arrival_delay - departure_delay) as lost
        from {JOIN} group by tailnum order by minutes desc, tailnum limit 10""",
    "Window per plane: longest gap": """
        select tailnum, max(datediff(flight_date, previous)) as days
        from (select tailnum, flight_date, lag(flight_date) over (partition by tailnum order by flight_date) as previous
              from {0}_departures)
        group by tailnum order by days desc, tailnum limit 10""",
    "Look up one plane": """
        select count(*), sum(air_minutes), sum(distance), max(arrival_delay)
        from {0}_arrivals where tailnum = 'N14228'""",
}
MERGE = "MERGE one day of corrections"
CORRECTIONS = """
    create table corrections using parquet as
    select tailnum, flight_date, flight_number, arrival_delay + 5 as arrival_delay
    from stg_flights where flight_date = date'2013-06-13' and arrival_delay is not null"""
# Stock Spark has no MERGE for Parquet tables. Without buckets, the statements write the table again.
MERGES = {
    "plain": """
        create table rewritten using parquet as
        select /*+ broadcast(c) */ a.tailnum, a.flight_date, a.flight_number,
            coalesce(c.arrival_delay, a.arrival_delay) as arrival_delay, a.air_minutes, a.distance
        from plain_arrivals as a left join corrections as c
            on a.tailnum = c.tailnum and a.flight_date = c.flight_date and a.flight_number = c.flight_number;
        drop table plain_arrivals;
        alter table rewritten rename to plain_arrivals""",
    "bucketed": """
        merge into bucketed_arrivals as a using corrections as c
            on a.tailnum = c.tailnum and a.flight_date = c.flight_date and a.flight_number = c.flight_number
        when matched then update set arrival_delay = c.arrival_delay""",
}
SETTINGS = {"spark.sql.shuffle.partitions": "8"}


@dataclass
class Measured:
    """The times of one statement, the bytes that it shuffles, and the Sorts in its plan (None if unknown)."""

    runs: list[float] = field(default_factory=list)
    shuffled: int = 0
    sorts: int | None = None

    @property
    def seconds(self) -> float:
        """Return the median time."""
        return statistics.median(self.runs)


class Steps:
    """Prints one line per step, with its time, while everything else goes to a log file."""

    def __init__(self, log: Path) -> None:
        self.log, self.begin = log, time.perf_counter()
        self.terminal: IO[str] = os.fdopen(os.dup(1), "w")
        with log.open("w") as file:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)

    def say(self, text: str, end: str = "\n") -> None:
        """Print text to the terminal."""
        print(text, end=end, file=self.terminal, flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print a step when it starts, and its time when it ends; if it fails, print the end of the log and exit."""
        self.say(f"{name} ".ljust(66, "."), end=" ")
        begin = time.perf_counter()
        try:
            yield
        except BaseException as error:
            sys.stdout.flush()
            lines = self.log.read_text(errors="replace").splitlines()[-40:]
            self.say("\n".join(["failed", *lines, f"{type(error).__name__}: {error}", f"Log: {self.log}"]))
            os._exit(1)
        self.say(f"{time.perf_counter() - begin:5.1f} s")


def build() -> dict[str, float]:
    """Build the models with dbt, and return the seconds that each table took."""
    from dbt.cli.main import dbtRunner

    places = ("--project-dir", ".", "--profiles-dir", ".", "--target-path", str(DEMO / "target"))
    logs = ("--log-path", str(DEMO / "logs"), "--quiet", "--no-use-colors")
    selection = ("--select", "+models/history", "--vars", f"years: {YEARS}", "--threads", "1")
    outcome = dbtRunner().invoke(["run", *places, *logs, *selection])
    if not outcome.success:
        raise outcome.exception or RuntimeError("dbt run failed.")
    return {one.node.name: one.execution_time for one in outcome.result.results}


def stages(spark: SparkSession) -> dict[int, int]:
    """Return the bytes that each stage wrote for a shuffle."""
    time.sleep(0.2)  # Spark updates these metrics in another thread.
    store = spark._jsparkSession.sparkContext().statusStore()
    found = store.stageList(None, False, False, *(getattr(store, f"stageList$default${n}")() for n in (4, 5)))
    return {found.apply(n).stageId(): found.apply(n).shuffleWriteBytes() for n in range(found.size())}


def run(spark: SparkSession, variant: str, text: str, into: Measured) -> list[Row]:
    """Run statements, with the extension only over bucketed tables, and return the rows of the last one, sorted."""
    spark.conf.set("spark.bucketing.enabled", str(variant == "bucketed").lower())
    before = stages(spark).keys()
    begin = time.perf_counter()
    for statement in text.split(";"):
        frame = spark.sql(statement)
        rows = sorted(frame.collect())
    into.runs.append(time.perf_counter() - begin)
    into.shuffled = sum(size for stage, size in stages(spark).items() if stage not in before)
    if rows:
        plan = frame._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
        into.sorts = len(re.findall(r"\bSort \[", plan))
    return rows


def measure(spark: SparkSession, steps: Steps) -> dict[str, dict[str, Measured]]:
    """Run all statements in turns, and return the measurements by statement and variant.

    Raises:
        RuntimeError: the two variants returned different rows.
    """
    texts = {name: {variant: text.format(variant) for variant in VARIANTS} for name, text in QUERIES.items()}
    texts[MERGE] = MERGES
    results = {name: {variant: Measured() for variant in VARIANTS} for name in texts}
    for number in range(1, RUNS + 1):
        with steps.step(f"Run five statements without and with buckets, {number} of {RUNS}"):
            for name, variants in texts.items():
                # Every other time, the bucketed tables come first.
                order = VARIANTS if number % 2 else VARIANTS[::-1]
                rows = {variant: run(spark, variant, variants[variant], results[name][variant]) for variant in order}
                if name in QUERIES and rows["plain"] != rows["bucketed"]:
                    raise RuntimeError(f"{name}: the tables return different rows: {rows}")
    for of in results[MERGE].values():
        of.sorts = None  # The statement's own plan does not contain its jobs.
    return results


def row_counts(spark: SparkSession) -> dict[str, int]:
    """Return the number of rows of each table.

    Raises:
        RuntimeError: a table has other rows with buckets than without.
    """
    counts = {}
    for table in TABLES:
        query = f"select count(*), sum(xxhash64(*) % 1000000007) from {{}}_{table}"
        plain, bucketed = (spark.sql(query.format(variant)).collect()[0] for variant in VARIANTS)
        if plain != bucketed:
            raise RuntimeError(f"{table} has other rows with buckets than without.")
        counts[table] = plain[0]
    return counts


def main() -> None:
    """Build the tables, run the statements, print the table of results, and write the report."""
    os.chdir(ROOT)
    steps = Steps(DEMO / "demo.log")
    with steps.step("Start Spark"):
        # dbt uses the same session.
        spark = open_session({**read_target(Place(ROOT, ROOT)).settings, **SETTINGS})
    with steps.step("Build the tables with dbt, without and with 8 buckets"):
        built = build()
    spark.sql("use nycflights13")
    spark.sql("drop table if exists corrections")
    spark.sql(CORRECTIONS)
    results = measure(spark, steps)
    with steps.step("Compare all rows of the tables"):
        rows = row_counts(spark)
    facts: dict[str, Any] = {
        "rows": rows,
        "built": {variant: sum(built[f"{variant}_{table}"] for table in TABLES) for variant in VARIANTS},
        "spark": spark.version,
        "cores": spark.sparkContext.defaultParallelism,
        "runs": RUNS,
    }
    spark.stop()
    (DEMO / "report.html").write_text(page(results, facts))
    steps.say("\n" + "\n".join(screen(results, facts)))


if __name__ == "__main__":
    main()
