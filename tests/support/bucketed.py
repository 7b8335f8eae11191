"""Bucketed tables for the tests of the extension, and what their queries do with and without it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_bucketing.session import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASH = "create or replace temporary function stock_hive_hash as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'"


class Shape(NamedTuple):
    """How often a plan moves rows, sorts them, and reads a table as bucketed."""

    exchanges: int
    sorts: int
    bucketed: int


class Plan(str):
    """A plan that was run, as text."""

    @property
    def shape(self) -> Shape:
        """What it does."""
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
        spark.sql(HASH)

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Rows of a statement in this database."""
        self.spark.sql(f"use {self.database}")
        return [tuple(row) for row in self.spark.sql(text).collect()]

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
        self.sql(f"drop table if exists {name}")
        order = "" if sorted_by == "" else f"sorted by ({sorted_by or by})"
        spark_layout = stored.startswith("using")
        head, tail = (f"{stored} {rest}", "") if spark_layout else (rest, stored)
        self.sql(f"create table {name} ({columns}) {head} clustered by ({by}) {order} into {buckets} buckets {tail}")
        if query:
            self.fill(name, by, buckets, query, how="insert overwrite table", sealed=sealed)

    def fill(
        self,
        name: str,
        by: str,
        buckets: int,
        query: str,
        how: str = "insert into",
        files: int = 0,
        sealed: bool = True,
    ) -> None:
        """Write rows by stock Spark: each bucket on a task of its own, or spread over `files` tasks. Then seal them."""
        self.sql(f"refresh table {name}")
        salts = f"array({','.join(map(str, _salts(self.spark, buckets)))})"
        bucket = f"(stock_hive_hash({by}) & 2147483647) % {buckets}"
        rows = f"select /*+ REPARTITION({files}) */ * from ({query})"
        if not files:
            rows = (
                f"select /*+ REPARTITION({buckets}, __salt) */ * except (__salt) "
                f"from (select *, {salts}[{bucket}] as __salt from ({query}))"
            )
        with setting(self.spark, "spark.bucketing.enabled", "false"):
            self.sql(f"{how} {name} {rows}")
        if sealed:
            self.seal(name)

    def seal(self, name: str, rest: str = "") -> list[Sealed]:
        """Seal a table's files, and say what became of each partition."""
        return [Sealed(*row) for row in self.sql(f"alter table {name} seal buckets {rest}")]  # type: ignore[arg-type]

    def folder(self, name: str) -> Path:
        """Where a table's files are."""
        rows = self.sql(f"describe formatted {name}")
        return Path(str(next(row[1] for row in rows if row[0] == "Location")).removeprefix("file:"))

    def files(self, name: str) -> list[Path]:
        """Data files of a table."""
        return sorted(p for p in self.folder(name).rglob("*") if p.is_file() and p.name[0] not in "._")

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
        """The plan that was run."""
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
        """What the plan that was run does."""
        return self.plan(query).shape

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        """Settings for a block."""
        return settled(self.spark, values)

    def stock_rows(self, query: str) -> list[str]:
        """Rows of a query without the extension."""
        with setting(self.spark, "spark.bucketing.enabled", "false"):
            return self.rows(query)


def put(path: Path, content: bytes, time: int = 0) -> None:
    """Another file under a name, without the checksum of the old one; its time in nanoseconds, or a new one."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    if time:
        os.utime(path, ns=(time, time))


@contextmanager
def settled(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a block."""
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


@cache
def _salts(spark: SparkSession, buckets: int) -> Sequence[int]:
    # For each bucket, a number that Spark's shuffle sends to the task of that bucket.
    found = spark.sql(
        f"select pmod(hash(id), {buckets}) as bucket, min(id) as salt from range({buckets * 50}) group by 1 order by 1"
    ).collect()
    assert len(found) == buckets
    return [int(row.salt) for row in found]
