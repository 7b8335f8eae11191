"""Tests of scans of sealed buckets that Comet replaces with native scans, in one session of Spark 4.1."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from bucketed_tables import ERRORS, VERSION_2, Tables
from peers import comet_settings
from pyspark.sql import SparkSession

WITHOUT = {"spark.comet.enabled": "false", "spark.bucketing.enabled": "false"}
ROWS = "select if(id % 50 = 0, null, id % 900) as k, concat('v', id % 7) as v, id / 8 as d from range(5000)"
COLUMNS = "(k bigint, v string, d double)"
# The name, the columns and the clauses of each table. The table `appended` gets two files per bucket.
TABLES = {
    "hive": f"{COLUMNS} clustered by (k) sorted by (k) into 8 buckets stored as parquet",
    "newer": f"{COLUMNS} clustered by (k) sorted by (k) into 8 buckets stored as parquet {VERSION_2}",
    "spark": f"{COLUMNS} using parquet clustered by (k) sorted by (k) into 8 buckets",
    "fine": f"{COLUMNS} clustered by (k) sorted by (k) into 16 buckets stored as parquet",
    "appended": f"{COLUMNS} clustered by (k) sorted by (k) into 8 buckets stored as parquet",
    "orc": f"{COLUMNS} clustered by (k) sorted by (k) into 8 buckets stored as orc",
    "named_by_hive": f"{COLUMNS} clustered by (k) sorted by (k) into 8 buckets stored as parquet",
    "plain": f"{COLUMNS} using parquet",
}
DAYS = "days (k bigint, v string, d double) partitioned by (p int) clustered by (k) sorted by (k) into {} buckets"
JOIN = "select a.k, count(*), max(b.d) from {0} a join {1} b on a.k = b.k group by a.k"
GROUP = "select k, count(*), max(d) from {0} group by k"


class Shape(NamedTuple):
    """The exchanges by key, the sorts, the native bucketed scans, and the text that EXPLAIN shows of the scans' buckets."""

    exchanges: int
    sorts: int
    native: int
    buckets: str = ""


CASES = [
    (JOIN.format("hive", "hive"), Shape(0, 0, 2, "8 Hive buckets, sorted")),
    (JOIN.format("newer", "newer"), Shape(0, 0, 2, "8 Hive2 buckets, sorted")),
    (JOIN.format("spark", "spark"), Shape(0, 0, 2, "8 Spark buckets, sorted")),
    ("select a.*, b.v, c.d from hive a left join hive b on a.k = b.k and a.v = b.v join hive c on a.k = c.k", Shape(0, 2, 3)),
    (f"select a.k, b.c from hive a join ({GROUP.format('hive')}) b (k, c, m) on a.k = b.k", Shape(0, 1, 2)),
    (GROUP.format("hive"), Shape(0, 0, 1, "8 Hive buckets")),
    ("select distinct k from spark", Shape(0, 0, 1, "8 Spark buckets")),
    (GROUP.format("hive where k = 7"), Shape(0, 0, 1, "1 out of 8")),
    (JOIN.format("hive", "fine"), Shape(0, 1, 2, "16 Hive buckets read as 8")),
    (JOIN.format("appended", "hive"), Shape(0, 1, 2, "8 Hive buckets)")),
    (JOIN.format("days", "days"), Shape(0, 2, 2, "8 Hive buckets of partitions with")),
    (JOIN.format("(select * from days where p = 1)", "hive"), Shape(0, 0, 2, "8 Hive buckets, sorted")),
    # DataFusion does not know the order of a native scan, so it sorts for other operators than joins.
    ("select k, count(*) over (partition by k) from hive", Shape(0, 1, 1)),
    ("select a.k, count(*) over (partition by a.k) from hive a join hive b on a.k = b.k", Shape(0, 2, 2)),
    ("select a.k, max(b.v) from hive a join hive b on a.k = b.k group by a.k", Shape(0, 2, 2)),
    ("select k, max(v) from hive group by k", Shape(0, 1, 1)),
    (
        "select a.k, c.m from (select /*+ shuffle_hash(b) */ a.k, b.v from hive a left join newer b on a.k = b.k + 1) a "
        "join (select k, max(v) as m from hive group by k) c on a.k = c.k", Shape(3, 3, 0),
    ),
    # Comet can shuffle one side only by Spark's hash.
    (JOIN.format("hive", "plain"), Shape(2, 2, 0, "unsupported-reader")),
    (JOIN.format("spark", "plain"), Shape(1, 1, 1, "8 Spark buckets, sorted")),
    (JOIN.format("hive", "spark"), Shape(1, 1, 1, "8 Spark buckets, sorted")),
    (GROUP.format("orc"), Shape(1, 0, 0, "unsupported-reader")),
    (GROUP.format("named_by_hive"), Shape(1, 0, 0, "unsupported-reader")),
]  # fmt: skip


@pytest.fixture(scope="session")
def more_settings() -> dict[str, str]:
    return comet_settings()


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Tables:
    """Return the tables of the cases."""
    tables = Tables(spark, "comet")
    settings = {"spark.bucketing.enabled": "true", "hive.exec.dynamic.partition.mode": "nonstrict"}
    with tables.settings({**settings, "spark.comet.enabled": "false"}):
        for name, columns in TABLES.items():
            tables.create(f"{name} {columns}")
            for _ in range(2 if name == "appended" else 1):
                tables.sql(f"insert into {name} {ROWS}")
        tables.create(f"{DAYS.format(8)} stored as parquet")
        tables.sql(f"insert into days select *, 1 as p from ({ROWS})")
        tables.sql("alter table days clustered by (k) sorted by (k) into 16 buckets")
        tables.sql(f"insert into days select *, 2 as p from ({ROWS})")
        tables.rename("named_by_hive", r"0\1_0")
        tables.seal("named_by_hive")
    return tables


@pytest.fixture
def tables(made: Tables) -> Iterator[Tables]:
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield made


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_plans_and_rows(tables: Tables, adaptive: str) -> None:
    wrong = []
    for query, shape in CASES:
        with tables.settings(WITHOUT):
            expected = tables.rows(query)
        with tables.settings({"spark.sql.adaptive.enabled": adaptive}):
            rows, plan = tables.run(query)
        found = Shape(
            len(re.findall(r"Exchange (?!SinglePartition)", plan)),
            len(re.findall(r"\b(?:Comet)?Sort \[", plan)),
            len(re.findall(r"CometNativeScan .*Bucketed: true \(", plan)),
            shape.buckets if shape.buckets in plan else "",
        )
        if (found, rows == expected, bool(rows)) != (shape, True, True):
            wrong.append(f"{query}: {found}, expected {shape}, rows equal: {rows == expected}\n{plan}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.usefixtures("extension")
def test_changed_file_is_an_error(tables: Tables) -> None:
    frame = tables.frame(GROUP.format("newer"))
    frame._jdf.queryExecution().executedPlan()
    file = tables.files("newer")[0]
    times = file.stat()
    try:
        os.utime(file, (times.st_atime, times.st_mtime + 60))
        with pytest.raises(ERRORS, match="was replaced while the query ran"):
            frame.collect()
    finally:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
