"""Bucketed tables for the tests of the extension, what their files say of a write, and what their queries do."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from conftest import data_files
from spark_bucketing.session import setting

# How a table is declared, and the bucket of a row on stock Spark.
LAYOUTS = {
    "hive-parquet": ("stored as parquet", "hive_bucket({buckets}, {keys})"),
    "hive-orc": ("stored as orc", "hive_bucket({buckets}, {keys})"),
    "spark-parquet": ("using parquet", "pmod(hash({keys}), {buckets})"),
}

# Five tasks, each with rows of every bucket, and a key that most rows have.
SCATTERED = """
    select /*+ repartition(5) */ if(id % 3 = 0, 7, id % 90) as k, cast(id as string) as v, id % 3 as p from range(600)
"""


class Shape(NamedTuple):
    """How often a plan moves rows, sorts them, and reads a table as bucketed."""

    exchanges: int
    sorts: int
    bucketed: int


class Plan(str):
    """A plan that was run, as text."""

    @property
    def shape(self) -> Shape:
        patterns = (r"\bExchange ", r"\bSort \[", r"Bucketed: true")
        return Shape(*(len(re.findall(pattern, self)) for pattern in patterns))


class Sealed(NamedTuple):
    """What SEAL BUCKETS says of a partition, or of a table without partitions."""

    partition: str
    status: str
    buckets: int | None
    columns: list[str] | None
    sorts: list[str] | None
    files: int
    bytes: int
    files_read: int
    problem: str | None


class Tables:
    """A database of tables, written by stock Spark with one sorted file per bucket unless asked otherwise, and sealed."""

    def __init__(self, spark: SparkSession, database: str) -> None:
        self.spark, self.database = spark, database
        spark.sql(f"create database if not exists {database}")

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Rows of a statement in this database; one that starts with `stock:` runs without the extension."""
        self.spark.sql(f"use {self.database}")
        with settled(self.spark, {"spark.bucketing.enabled": "false"} if text.startswith("stock:") else {}):
            return [tuple(row) for row in self.spark.sql(text.removeprefix("stock:")).collect()]

    def create(self, table: str) -> None:
        """Create a table by the rest of the statement, in the place of one that may be there."""
        self.sql(f"drop table if exists {table.split()[0]}")
        self.sql(f"create table {table}")

    def make(
        self,
        name: str,
        columns: str,
        by: str,
        buckets: int,
        query: str | None = None,
        sorted_by: str | None = None,
        rest: str = "",
        stored: str = "stored as parquet",
        sealed: bool = True,
    ) -> None:
        """Create a table, of the Hive layout unless asked otherwise, and fill it, if there is a query."""
        order = "" if sorted_by == "" else f"sorted by ({sorted_by or by})"
        spark_layout = stored.startswith("using")
        head, tail = (f"{stored} {rest}", "") if spark_layout else (rest, stored)
        self.create(f"{name} ({columns}) {head} clustered by ({by}) {order} into {buckets} buckets {tail}")
        if query:
            self.fill(name, query, how="insert overwrite table", sealed=sealed)

    def fill(self, name: str, query: str, how: str = "insert into", files: int = 1, sealed: bool = True) -> None:
        """Write rows by stock Spark with so many tasks, each of which sorts and writes a file for each bucket. Then seal them."""
        self.sql(f"refresh table {name}")
        self.sql(f"stock:{how} {name} select /*+ REPARTITION({files}) */ * from ({query})")
        if sealed:
            self.seal(name)

    def seal(self, name: str, rest: str = "") -> list[Sealed]:
        """Seal a table's files, and say what became of each partition."""
        return [Sealed(*row) for row in self.sql(f"alter table {name} seal buckets {rest}")]  # type: ignore[arg-type]

    def folder(self, name: str) -> Path:
        rows = self.sql(f"describe formatted {name}")
        return Path(str(next(row[1] for row in rows if row[0] == "Location")).removeprefix("file:"))

    def files(self, name: str) -> list[Path]:
        return data_files(self.folder(name))

    def rename(self, name: str, new_name: str, pattern: str = r"^(\d+)_0_part.*$") -> None:
        """Rename files by a pattern of the old name, with its checksum, as another writer would name them."""
        for path in self.files(name):
            target = path.with_name(re.sub(pattern, new_name, path.name))
            path.rename(target)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        self.sql(f"refresh table {name}")

    def rows(self, query: str) -> list[str]:
        """Rows in any order, comparable."""
        return sorted(map(repr, self.sql(query)))

    def plan(self, query: str) -> Plan:
        return self.run(query)[1]

    def read(self, query: str, empty: bool = False) -> Plan:
        """The plan that was run; its rows have to be those of stock Spark, and some, unless there are to be none."""
        rows, plan = self.run(query)
        assert rows == self.stock_rows(query), query
        assert empty != bool(rows), f"{len(rows)} rows of {query}"
        return plan

    def run(self, query: str) -> tuple[list[str], Plan]:
        """Rows in any order, comparable, and the plan that was run."""
        self.spark.sql(f"use {self.database}")
        frame = self.spark.sql(query)
        rows = sorted(repr(tuple(row)) for row in frame.collect())
        return rows, Plan(_as_run(str(frame._jdf.queryExecution().executedPlan().toString())))

    def shape(self, query: str) -> Shape:
        return self.plan(query).shape

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        return settled(self.spark, values)

    def stock_rows(self, query: str) -> list[str]:
        return self.rows(f"stock:{query}")


def put(path: Path, content: bytes, time: int = 0) -> None:
    """Another file under a name, without the checksum of the old one; its time in nanoseconds, or a new one."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    if time:
        os.utime(path, ns=(time, time))


@contextmanager
def settled(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    with ExitStack() as stack:
        for key, value in values.items():
            stack.enter_context(setting(spark, key, value))
        yield


@contextmanager
def cores(spark: SparkSession, number: int) -> Iterator[None]:
    """Let Spark take itself for one of so many cores."""
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get("spark.default.parallelism")
    conf.set("spark.default.parallelism", str(number))
    try:
        yield
    finally:
        conf.set("spark.default.parallelism", before)


@contextmanager
def no_extension(spark: SparkSession) -> Iterator[None]:
    """The extension's functions are not known during a block, as where it is not loaded."""
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    listed = registry.listFunction()
    name = next(listed.apply(i) for i in range(listed.size()) if listed.apply(i).funcName() == "bucket_specs")
    info, builder = registry.lookupFunction(name).get(), registry.lookupFunctionBuilder(name).get()
    registry.dropFunction(name)
    try:
        yield
    finally:
        registry.registerFunction(name, info, builder)


def _as_run(plan: str) -> str:
    """The plan without those that adaptive execution started from."""
    kept, skipped_below = [], 0
    for line in plan.splitlines():
        depth = len(line) - len(line.lstrip(" :+-"))
        if skipped_below and depth >= skipped_below:
            continue
        skipped_below = depth if "== Initial Plan ==" in line else 0
        if not skipped_below:
            kept.append(line)
    return "\n".join(kept)


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
    for file, order, found, *key in tables.sql(f"stock:{query}"):
        rows[str(file)].append((order, found, tuple((part is not None, part) for part in key)))
    for file, content in rows.items():
        expected = re.search(r"_(\d+)\.c\d+", Path(file).name)
        assert expected and {found for _, found, _ in content} == {int(expected[1])}, file
        in_order = [key for _, _, key in sorted(content, key=lambda row: row[0])]
        assert all(before <= after for before, after in pairwise(in_order)), f"{file} is not sorted"


def writing_tasks(files: Iterable[Path]) -> dict[str, int]:
    """For each task that wrote a table, how many of its files: the number after 'part-' is the task's."""
    return Counter(path.name.split("part-")[1].split("-")[0] for path in files)


def explain(tables: Tables, statement: str) -> str:
    return "\n".join(str(row[0]) for row in tables.sql(f"explain {statement}"))


def last_insert(spark: SparkSession) -> str:
    """The plan of the session's last INSERT, as it ran; Spark notes plans in a thread of its own, which lags behind."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(i).physicalPlanDescription() for i in range(executions.size())]
    return str([plan for plan in plans if "Execute InsertIntoHadoopFsRelationCommand" in (plan or "")][-1])
