"""Time queries of tables with fewer buckets than cores, with and without ranges: `make bench-bucket-ranges`.

The variants of a query run alternately: unbucketed tables with adaptive execution, one task per bucket, and buckets
that several tasks read by range. All variants must return the same rows.
"""

from __future__ import annotations

import argparse
import statistics
import time

from local_spark import temporary_session

RANGES, MAX = "spark.bucketing.read.rangeBytes", "spark.bucketing.read.maxPartitionBytes"
# The extension must not give up buckets that are too few.
VARIANTS = {
    "unbucketed": ("plain", {}),
    "a task per bucket": ("bucketed", {RANGES: "0", MAX: "1t"}),
    "ranges": ("bucketed", {RANGES: "8m"}),
}
QUERIES = {
    "join": "select count(*), sum(a.v + b.v) from {facts} a join {others} b on a.k = b.k",
    "full outer join": "select count(*), sum(a.v + b.v) from {facts} a full join {others} b on a.k = b.k",
    "group by the key": "select count(*), sum(n) from (select k, sum(v) as n, max(text) from {facts} group by k)",
    "window over the key": "select sum(n) from (select rank() over (partition by k order by v) as n from {facts})",
    "unbucketed other side": "select count(*), sum(a.v + b.v) from {facts} a join plain_others b on a.k = b.k",
}
COLUMNS = "k bigint, v bigint, text string"


def main() -> None:
    """Print the median times of each query, and their ratios to unbucketed tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000, help="number of rows of the larger table")
    parser.add_argument("--buckets", type=int, default=1, help="number of buckets of both tables")
    parser.add_argument("--skew", type=float, default=0, help="share of the rows in one key of the larger table")
    parser.add_argument("--runs", type=int, default=5, help="number of timed runs of each query and variant")
    arguments = parser.parse_args()
    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "16"}
    with temporary_session("6g", settings, durable=True) as (spark, _):
        rows, others = arguments.rows, arguments.rows // 4
        key = f"if(id < {int(rows * arguments.skew)}L, 7L, xxhash64(id) % {others})"
        for name, sql, number in (("facts", key, rows), ("others", "id", others)):
            query = f"select {sql} as k, id as v, md5(string(id)) as text from range({number})"
            spark.sql(f"create table plain_{name} stored as parquet as {query}")
            buckets = f"clustered by (k) sorted by (k) into {arguments.buckets} buckets"
            spark.sql(f"create table bucketed_{name} ({COLUMNS}) {buckets} stored as parquet")
            spark.sql(f"insert into bucketed_{name} select * from plain_{name}")
        print(
            f"{rows:,} rows, {arguments.buckets} bucket(s), {arguments.skew:.0%} in one key, "
            f"medians of {arguments.runs} runs, 2 cores"
        )
        print(f"{'':24}" + "".join(f"{name:>28}" for name in VARIANTS))
        for title, query in QUERIES.items():
            times: dict[str, list[float]] = {name: [] for name in VARIANTS}
            results, tasks = set(), {}
            for _ in range(arguments.runs + 1):
                for name, (layout, more) in VARIANTS.items():
                    for setting in (RANGES, MAX):
                        spark.conf.unset(setting)
                    for setting, value in more.items():
                        spark.conf.set(setting, value)
                    frame = spark.sql(query.format(facts=f"{layout}_facts", others=f"{layout}_others"))
                    start = time.perf_counter()
                    results.add(str(frame.collect()))
                    times[name].append(time.perf_counter() - start)
                    plan = frame._jdf.queryExecution().executedPlan().toString()
                    tasks[name] = plan.split("== Initial Plan")[0].count("Exchange")
            if len(results) != 1:
                raise SystemExit(f"The variants of `{title}` returned different rows: {results}")
            medians = {name: statistics.median(of[1:]) for name, of in times.items()}
            base = medians["unbucketed"]
            print(
                f"{title:24}"
                + "".join(
                    f"{f'{median:.2f} s  {median / base:.2f}  ({tasks[name]} shuffles)':>28}"
                    for name, median in medians.items()
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
