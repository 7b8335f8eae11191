"""Compare the speed of Hive's hash functions in bucketing versions 1 and 2: `make bench-hashes`.

The queries compute the bucket of every key, shuffle the keys by bucket, and write a bucketed table. Spark caches the
keys in memory. The runs of the two versions alternate.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

from local_spark import temporary_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 64
# The type and the SQL of each key, by its description. A text with 36 characters is as long as a UUID.
KEYS = {
    "bigint": ("bigint", "xxhash64(id)"),
    "string of 8 characters": ("string", "substr(md5(cast(id as string)), 1, 8)"),
    "string of 36 characters": ("string", "concat(md5(cast(id as string)), 'abcd')"),
}
VERSIONS = {"hive": "1", "hive2": "2"}
# The highest accepted ratio of the times of version 2 and version 1.
GOAL = 1.3


# The first statement only reads the keys. Its time is the part of the other times that is not due to the hash.
STATEMENTS = {
    "no hash": "select sum(length(cast(k as string))) from keys",
    "bucket of each key": "select sum({bucket_hash}_bucket({buckets}, k)) from keys",
    # For the join with a small bucketed table, Spark shuffles the keys by bucket.
    "shuffle of one side": "select count(*) from keys join small_{bucket_hash} using (k)",
    "write of a table": "insert overwrite table big_{bucket_hash} select k from keys",
}


def make(spark: SparkSession, sql_type: str, key: str, rows: int) -> None:
    """Cache the keys in memory, and create the bucketed tables for both versions."""
    spark.sql("uncache table if exists keys")
    spark.range(rows).selectExpr(f"{key} as k").createOrReplaceTempView("keys")
    spark.sql("cache table keys")
    for bucket_hash, version in VERSIONS.items():
        for name in (f"small_{bucket_hash}", f"big_{bucket_hash}"):
            spark.sql(f"drop table if exists {name}")
            spark.sql(
                f"create table {name} (k {sql_type}) clustered by (k) sorted by (k) into {BUCKETS} buckets "
                f"stored as parquet tblproperties ('bucketing_version' = '{version}')"
            )
        spark.sql(f"insert into small_{bucket_hash} select k from keys limit 10000")


def medians(spark: SparkSession, statement: str, runs: int) -> list[float]:
    """Return the median seconds of a statement for each version, excluding one warm-up run."""
    seconds: dict[str, list[float]] = {bucket_hash: [] for bucket_hash in VERSIONS}
    for _ in range(runs + 1):
        for bucket_hash, times in seconds.items():
            start = time.perf_counter()
            spark.sql(statement.format(bucket_hash=bucket_hash, buckets=BUCKETS)).collect()
            times.append(time.perf_counter() - start)
    return [statistics.median(times[1:]) for times in seconds.values()]


def main() -> int:
    """Print the times of both versions; return 1 if a ratio of the times exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="number of keys")
    parser.add_argument("--runs", type=int, default=5, help="number of timed runs of each statement and version")
    arguments = parser.parse_args()
    ratios = []
    print(f"{arguments.rows:,} keys, {BUCKETS} buckets, medians of {arguments.runs} runs, 2 cores")
    with temporary_session("6g", {"spark.sql.autoBroadcastJoinThreshold": "-1"}, durable=True) as (spark, _):
        for name, (sql_type, key) in KEYS.items():
            make(spark, sql_type, key, arguments.rows)
            for title, statement in STATEMENTS.items():
                first, second = medians(spark, statement, arguments.runs)
                ratios.append(second / first)
                times = f"version 1 {first:7.3f} s, version 2 {second:7.3f} s, ratio {second / first:.2f}"
                print(f"{name:24} {title:20} {times}", flush=True)
    print(f"Largest ratio: {max(ratios):.2f}, goal: at most {GOAL}")
    return int(max(ratios) > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
