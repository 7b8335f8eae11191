"""Write tables, or read tables of any version, with another version of PySpark in a separate process.

Arguments: `write` or `read`, the folder of the warehouse and metastore, and the versions of the tables. The program
prints its result as one line of JSON.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings

# Values of every hashed type, including negative numbers, NULL and non-ASCII text.
ROWS = """
    select if(id % 7 = 0, null, cast(id * 37 - 900 as int)) as k, if(id % 5 = 0, 'ü', cast(id as string)) as t,
        cast(id * -1.25 as decimal(10, 2)) as n, date_add(date'1969-12-20', cast(id as int)) as d, cast(id % 3 as string) as p
    from range(200)
"""
SORTED = "clustered by (k, t) sorted by (k, t) into 4 buckets"
# The names of the tables, and the rest of their CREATE TABLE statements.
TABLES = {
    "flat": f"(k int, t string, n decimal(10, 2), d date, p string) {SORTED} stored as parquet",
    "orc": f"(k int, t string, n decimal(10, 2), d date, p string) {SORTED} stored as orc",
    "days": f"(k int, t string, n decimal(10, 2), d date) partitioned by (p string) {SORTED} stored as parquet",
    "by_value": "(k int, t string, n decimal(10, 2), d date, p string) clustered by (n, d) into 8 buckets stored as parquet",
    "spark": f"(k int, t string, n decimal(10, 2), d date, p string) using parquet {SORTED}",
}
JOINS = {
    name: f"select a.k, a.t, b.d from {{0}}_{name} a join {{1}}_{name} b on a.k = b.k and a.t = b.t"
    for name in ("flat", "orc", "days", "spark")
} | {"by_value": "select a.k, b.t from {0}_by_value a join {1}_by_value b on a.n = b.n and a.d = b.d"}


def session(home: Path) -> SparkSession:
    """Open a session with the extension, whose metastore and warehouse are in a folder."""
    conf = extension_settings(build_jar()) | {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.session.timeZone": "America/Los_Angeles",
        "spark.bucketing.read.partitionBytes": "0",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'metastore'};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home} -Djava.io.tmpdir={home}",
    }
    spark = SparkSession.builder.enableHiveSupport().config(map=dict(conf)).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write(spark: SparkSession, version: str) -> dict[str, object]:
    """Write each table with the extension; return the seal status of its partitions."""
    found: dict[str, object] = {}
    for name, rest in TABLES.items():
        table = f"v{version}_{name}"
        spark.sql(f"create table {table} {rest}")
        spark.sql(f"insert into {table} {ROWS}")
        found[name] = sorted({row.status for row in spark.sql(f"select status from bucket_specs('{table}')").collect()})
    return found


def read(spark: SparkSession, *versions: str) -> dict[str, object]:
    """Join tables of each version with tables of the last version; return plan shapes and whether the rows match."""
    found: dict[str, object] = {}
    for version in versions:
        for name, join in JOINS.items():
            query = join.format(f"v{version}", f"v{versions[-1]}")
            frame = spark.sql(query)
            plan, rows = frame._jdf.queryExecution().executedPlan().toString(), _rows(frame)
            spark.conf.set("spark.bucketing.enabled", "false")
            expected = _rows(spark.sql(query))
            spark.conf.unset("spark.bucketing.enabled")
            shape = [len(re.findall(pattern, plan)) for pattern in (r"\bExchange ", r"\bSort \[", "Bucketed: true")]
            found[f"{name} of {version}"] = {"shape": shape, "rows": len(rows), "equal": rows == expected}
    return found


def _rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


if __name__ == "__main__":
    action, folder, *versions = sys.argv[1:]
    opened = session(Path(folder))
    found_tables = write(opened, *versions) if action == "write" else read(opened, *versions)
    print(json.dumps({"spark": opened.version, "tables": found_tables}))
    opened.stop()
