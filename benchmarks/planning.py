"""Measure planning times and metastore calls with a separate metastore service, with and without the extension.

The option --partitions sets the number of partitions, and --files sets the number of files in each partition. Spark
writes only the first partition, with one row in each bucket. The directories of the other partitions contain hard links
to the files of the first partition. The script also copies the metastore database's entries for the first partition.
Therefore, every partition is sealed, and listing a link takes as long as listing any other file.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_project import in_new_process
from local_spark import session

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from cluster import HOST, Cluster, cluster, missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# For each table in the metastore database: the key column that selects the first partition's rows, the key, and the
# columns that change in a copy. All other columns do not change.
COPIES = {
    "SERDES": ("SERDE_ID", "{old_serde}", {"SERDE_ID": "{new}"}),
    "SERDE_PARAMS": ("SERDE_ID", "{old_serde}", {"SERDE_ID": "{new}"}),
    "SDS": ("SD_ID", "{old_sd}", {"SD_ID": "{new}", "SERDE_ID": "{new}", "LOCATION": "'{folder}/p=' || n"}),
    "SD_PARAMS": ("SD_ID", "{old_sd}", {"SD_ID": "{new}"}),
    "BUCKETING_COLS": ("SD_ID", "{old_sd}", {"SD_ID": "{new}"}),
    "SORT_COLS": ("SD_ID", "{old_sd}", {"SD_ID": "{new}"}),
    "PARTITIONS": ("PART_ID", "{old_part}", {"PART_ID": "{new}", "SD_ID": "{new}", "PART_NAME": "'p=' || n"}),
    "PARTITION_PARAMS": ("PART_ID", "{old_part}", {"PART_ID": "{new}"}),
    "PARTITION_KEY_VALS": ("PART_ID", "{old_part}", {"PART_ID": "{new}", "PART_KEY_VAL": "n::text"}),
}
QUERIES = {
    "one partition": "p = 1",
    "100 partitions": "p between 1 and 100",
    "all partitions": "p >= 0",
}
SELECT = "select t.k, count(*) from big.t join big.u on t.k = u.k where {} group by t.k"


@dataclass
class Planned:
    """What it costs to plan a query.

    Args:
        seconds: seconds to plan the query for the first time in a session, and the median of five more times.
        calls: number of metastore calls when the query was planned for the first time, by name of the call.
        exchanges: number of Exchanges in the plan.
        heap: heap that the driver uses after planning for the first time, in MB.
    """

    seconds: tuple[float, float]
    calls: Counter[str]
    exchanges: int
    heap: int


def psql(made: Cluster, sql: str) -> list[list[str]]:
    """Run a statement in the metastore database, and return its rows as text."""
    done = subprocess.run(
        ["/usr/bin/psql", "--host", HOST, "--port", str(made.ports["postgres"]), "--username", "hive", "--dbname",
         "postgres", "--no-align", "--tuples-only", "--set", "ON_ERROR_STOP=1", "--quiet", "--command", sql],
        check=True, capture_output=True, text=True, env=os.environ | {"PGPASSWORD": "hive"},
    )  # fmt: skip
    return [line.split("|") for line in done.stdout.splitlines()]


def settings(made: Cluster) -> dict[str, str]:
    """Return the settings of an embedded Spark with 2 GB of memory that uses the cluster's metastore."""
    return made.spark_settings("planning") | {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.bucketing.read.partitionBytes": "0",
    }


def make_tables(folder: Path, settings: Mapping[str, str], files: int) -> None:
    """Write one partition of a table, with a row in each bucket, and a second table to join with it."""
    spark = session(folder, settings)
    spark.sql("create database big")
    buckets = f"clustered by (k) sorted by (k) into {files} buckets stored as parquet"
    spark.sql(f"create table big.t (k int, v bigint) partitioned by (p int) {buckets}")
    spark.sql(f"create table big.u (k int, v bigint) {buckets}")
    # Hive's hash of an int is the int itself.
    spark.sql(f"insert into big.t partition (p = 0) select cast(id as int), id from range({files})")
    spark.sql(f"insert into big.u select cast(id as int), id from range({files})")
    spark.stop()


def copy_partition(made: Cluster, partitions: int) -> None:
    """Add partitions that have the same files and the same seal as the first partition."""
    folder = made.folder / "warehouse" / "big.db" / "t"
    first = [path for path in (folder / "p=0").iterdir() if path.name[0] not in "._"]
    for number in range(1, partitions):
        target = folder / f"p={number}"
        target.mkdir()
        for path in first:
            os.link(path, target / path.name)
    found = psql(
        made,
        'select p."PART_ID", p."SD_ID", s."SERDE_ID" from "PARTITIONS" p join "SDS" s on s."SD_ID" = p."SD_ID" '
        "where p.\"PART_NAME\" = 'p=0'",
    )
    names = dict(zip(("old_part", "old_sd", "old_serde"), found[0], strict=True))
    location = psql(made, f'select "LOCATION" from "SDS" where "SD_ID" = {names["old_sd"]}')[0][0]
    values = names | {"new": "1000000 + n", "folder": location.rpartition("/")[0]}
    for table, (key, old, changed) in COPIES.items():
        columns = psql(made, f"select column_name from information_schema.columns where table_name = '{table}'")
        quoted = [f'"{column}"' for (column,) in columns]
        new = [changed[column].format(**values) if column in changed else f'"{column}"' for (column,) in columns]
        psql(
            made,
            f'insert into "{table}" ({", ".join(quoted)}) select {", ".join(new)} from "{table}", '
            f'generate_series(1, {partitions - 1}) as n where "{key}" = {old.format(**values)}',
        )
    psql(made, "analyze")


def calls(folder: Path) -> Counter[str]:
    """Count the calls to the metastore service so far, by name of the call.

    The counts come from the logs in the service's temporary directory.
    """
    logs = folder.rglob("hive.log*")
    return Counter(
        name for log in logs for name in re.findall(r"audit.*cmd=source:\S+ (\w+)", log.read_text(errors="replace"))
    )


def _heap(spark: SparkSession) -> int:
    # Python releases the query's objects in a thread of its own.
    time.sleep(1)
    jvm: Any = spark.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        runtime.gc()
    return int(runtime.totalMemory() - runtime.freeMemory()) >> 20


def _plan(spark: SparkSession, sql: str) -> tuple[float, str]:
    start = time.perf_counter()
    query: Any = spark.sql(sql)
    plan = str(query._jdf.queryExecution().executedPlan().toString())
    seconds = time.perf_counter() - start
    # Otherwise, the driver keeps the files of each query until Python's garbage collection.
    del query
    gc.collect()
    return seconds, plan


def measure(folder: Path, settings: Mapping[str, str], service: Path, extension: bool) -> dict[str, Planned]:
    """Plan each query six times in a new Spark session with these settings."""
    spark = session(folder, settings, extension=extension)
    _plan(spark, "select count(*) from big.u")
    measured = {}
    for name, condition in QUERIES.items():
        before = calls(service)
        first, plan = _plan(spark, SELECT.format(condition))
        asked = calls(service) - before
        heap = _heap(spark)
        again = statistics.median(_plan(spark, SELECT.format(condition))[0] for _ in range(5))
        measured[name] = Planned((first, again), asked, len(re.findall(r"Exchange \w*hash", plan)), heap)
    spark.stop()
    return measured


def main() -> None:
    """Print one line for each query and variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20_000, help="number of partitions")
    parser.add_argument("--files", type=int, default=16, help="number of buckets, and thus of files, per partition")
    arguments = parser.parse_args()
    if lacking := missing():
        sys.exit(lacking)
    with cluster(names=("postgres", "metastore")) as made:
        folder, common = made.folder / "planning", settings(made)
        in_new_process(make_tables, folder, common, arguments.files)
        copy_partition(made, arguments.partitions)
        print(f"{arguments.partitions} partitions of {arguments.files} files")
        for variant, extension in {"stock": False, "extension": True}.items():
            for name, planned in in_new_process(measure, folder, common, made.folder / "tmp", extension).items():
                asked = ", ".join(f"{call} {number}" for call, number in planned.calls.most_common())
                first, second = planned.seconds
                print(
                    f"{variant:10} {name:15} {first:6.2f} s, again {second:6.2f} s, "
                    f"{planned.exchanges} shuffles, heap {planned.heap:4} MB, {planned.calls.total()} calls: {asked}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
