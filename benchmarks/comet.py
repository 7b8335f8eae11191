"""Compare queries on plain tables and on buckets, with and without Apache DataFusion Comet: `make bench-comet`.

Needs Spark 4.1 and the jars of `make peers-extensions`. The variants of a query run alternately in one session.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import local_spark
from measurement import QUERIES as JOINS
from measurement import WrongRowsError
from tables import create, generate

sys.path += [str(Path(__file__).parents[1] / "tests" / folder) for folder in ("", "support")]
from peers import COMET, EXTENSION_JARS

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SUMS = "select count(*), sum(total), max(total)"
# Each query returns one row. {name} stands for the table with that name in the layout of the variant.
QUERIES = {
    "join, group by key": JOINS["join, group by the key"][0],
    "group by key": (
        f"{SUMS} from (select l_orderkey, sum(l_extendedprice) as total from {{lineitem}} group by l_orderkey)"
    ),
    "window over key": (
        f"{SUMS} from (select sum(l_extendedprice) over (partition by l_orderkey) as total from {{lineitem}})"
    ),
    "64 buckets with 64": (
        f"{SUMS} from (select a.l_extendedprice + b.l_quantity as total from {{lineitem_fine}} a "
        "join {lineitem_fine} b on a.l_orderkey = b.l_orderkey and a.l_linenumber = b.l_linenumber)"
    ),
    "join with a plain table": (
        "select count(*), sum(total) from (select o_orderkey, sum(l_extendedprice) as total from {lineitem} "
        "join orders_plain on l_orderkey = o_orderkey group by o_orderkey)"
    ),
    "scan": (
        "select * from (select count(l_orderkey), sum(l_extendedprice) from {lineitem}) "
        "cross join (select count(o_orderkey), max(o_orderdate) from {orders})"
    ),
}
NAMES = ("orders", "lineitem", "lineitem_fine")


class Variant(NamedTuple):
    """The layout of the tables, and the extensions that are enabled."""

    name: str
    layout: str
    comet: bool = False
    extension: bool = False


VARIANTS = (
    Variant("Spark, plain", "plain"),
    Variant("Comet, plain", "plain", comet=True),
    Variant("Comet, stock buckets", "spark", comet=True),
    Variant("extension, Hive layout", "hive", extension=True),
    Variant("both, Hive layout", "hive", comet=True, extension=True),
    Variant("both, Spark layout", "spark", comet=True, extension=True),
)


def run(spark: SparkSession, variant: Variant, text: str) -> tuple[list[Row], float, tuple[int, int]]:
    """Return the rows of a query, its seconds, and its numbers of Exchanges by key and of Sorts."""
    spark.conf.set("spark.comet.enabled", str(variant.comet).lower())
    spark.conf.set("spark.bucketing.enabled", str(variant.extension).lower())
    sql = re.sub(r"{(\w+)}", rf"\1_{variant.layout}", text)
    start = time.perf_counter()
    frame = spark.sql(sql)
    rows = frame.collect()
    seconds = time.perf_counter() - start
    plan = frame._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    exchanges = r"\b(?:Comet)?(?:Columnar)?Exchange (?!SinglePartition)"
    return rows, seconds, (len(re.findall(exchanges, plan)), len(re.findall(r"\b(?:Comet)?Sort \[", plan)))


def main() -> None:
    """Print the medians of each query and variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor")
    parser.add_argument("--repetitions", type=int, default=5, help="number of timed runs of each query")
    parser.add_argument("--queries", nargs="*", default=list(QUERIES), choices=QUERIES, help="queries to run")
    parser.add_argument("--folder", type=Path, default=Path(".demo/comet"), help="folder for data and tables")
    options = parser.parse_args()
    folder = options.folder.absolute() / f"scale-{options.scale:g}"
    generate(folder, options.scale)
    settings = COMET | {
        "spark.master": "local[2]",
        "spark.driver.memory": "3g",
        "spark.driver.extraClassPath": f"{EXTENSION_JARS}/*",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # Stock Spark uses the order of files in the Spark layout only with this setting.
        "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",
    }
    spark = local_spark.session(folder, settings)
    spark.conf.set("spark.comet.enabled", "false")
    create(spark, folder, NAMES)
    print(f"TPC-H scale {options.scale:g}, medians of {options.repetitions}, 2 cores: seconds (exchanges, sorts)")
    for query in options.queries:
        times: dict[str, list[float]] = {variant.name: [] for variant in VARIANTS}
        shapes, found = {}, set()
        for _ in range(options.repetitions + 1):
            for variant in VARIANTS:
                rows, seconds, shapes[variant.name] = run(spark, variant, QUERIES[query])
                times[variant.name].append(seconds)
                found.add(str(rows))
        if len(found) > 1:
            raise WrongRowsError(f"The variants of {query} return different rows: {found}")
        for name, runs in times.items():
            exchanges, sorts = shapes[name]
            print(f"{query:24} {name:24} {statistics.median(runs[1:]):6.2f} ({exchanges}, {sorts})", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
