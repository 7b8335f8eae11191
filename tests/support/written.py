"""Tables of both layouts to write into, and what their files say of the write."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bucketed import Tables

from spark_bucketing.session import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How a table is declared, and the bucket of a row on stock Spark.
LAYOUTS = {
    "hive-parquet": ("stored as parquet", "(stock_hive_hash({keys}) & 2147483647) % {buckets}"),
    "hive-orc": ("stored as orc", "(stock_hive_hash({keys}) & 2147483647) % {buckets}"),
    "spark-parquet": ("using parquet", "pmod(hash({keys}), {buckets})"),
}

# Five tasks, each with rows of every bucket, and a key that most rows have.
SCATTERED = """
    select /*+ repartition(5) */ if(id % 3 = 0, 7, id % 90) as k, cast(id as string) as v, id % 3 as p from range(600)
"""


def create(tables: Tables, name: str, layout: str, partitioned: bool = False, buckets: int = 8) -> None:
    stored = LAYOUTS[layout][0]
    # A partition column is one of the others with Spark's own DDL, and beside them with Hive's.
    columns, by = (
        ("k bigint, v string", "p bigint") if layout.startswith("hive") else ("k bigint, v string, p bigint", "p")
    )
    if partitioned:
        tables.make(name, columns, "k", buckets, rest=f"partitioned by ({by})", stored=stored)
    else:
        tables.make(name, "k bigint, v string, p bigint", "k", buckets, stored=stored)


def buckets_of_files(tables: Tables, name: str) -> dict[tuple[str, int | None], int]:
    """How many files each bucket of each partition has, by their names; None is a file without a bucket."""
    found: Counter[tuple[str, int | None]] = Counter()
    for path in tables.files(name):
        match = re.search(r"_(\d+)\.c\d+", path.name)
        found[str(path.parent.relative_to(tables.folder(name))), int(match[1]) if match else None] += 1
    return dict(found)


def assert_bucketed(tables: Tables, name: str, layout: str, buckets: int = 8, keys: str = "k", files: int = 1) -> None:
    """One file per bucket (or so many), each with the rows of its bucket only, in order."""
    names = buckets_of_files(tables, name)
    assert names and set(names.values()) == {files}, names
    assert None not in {bucket for _, bucket in names}, names
    bucket = LAYOUTS[layout][1].format(keys=keys, buckets=buckets)
    rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    query = f"select input_file_name(), monotonically_increasing_id(), {bucket}, {keys} from {name}"
    with setting(tables.spark, "spark.bucketing.enabled", "false"):
        for file, order, found, *key in tables.sql(query):
            rows[str(file)].append((order, found, tuple((part is not None, part) for part in key)))
    for file, content in rows.items():
        expected = re.search(r"_(\d+)\.c\d+", Path(file).name)
        assert expected and {found for _, found, _ in content} == {int(expected[1])}, file
        in_order = [key for _, _, key in sorted(content, key=lambda row: row[0])]
        assert all(before <= after for before, after in pairwise(in_order)), f"{file} is not sorted"


def writing_tasks(tables: Tables, name: str) -> int:
    """How many tasks wrote a table: the number after 'part-' is the task's."""
    return len({path.name.split("part-")[1].split("-")[0] for path in tables.files(name)})


def explain(tables: Tables, statement: str) -> str:
    return "\n".join(str(row[0]) for row in tables.sql(f"explain {statement}"))


def last_insert(spark: SparkSession) -> str:
    """The plan of the session's last INSERT, as it ran; Spark notes plans in a thread of its own, which lags behind."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(i).physicalPlanDescription() for i in range(executions.size())]
    return str([plan for plan in plans if "Execute InsertIntoHadoopFsRelationCommand" in (plan or "")][-1])
