"""Create bucketed tables, inspect the files of a write, and compare queries with stock Spark."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from session_settings import setting

from conftest import data_files

# The DDL of each layout, and an expression for a row's bucket on stock Spark.
LAYOUTS = {
    "hive-parquet": ("stored as parquet", "hive_bucket({buckets}, {keys})"),
    "hive2-parquet": (
        "stored as parquet tblproperties ('bucketing_version' = '2')", "hive2_bucket({buckets}, {keys})",
    ),
    "hive-orc": ("stored as orc", "hive_bucket({buckets}, {keys})"),
    "spark-parquet": ("using parquet", "pmod(hash({keys}), {buckets})"),
}  # fmt: skip
# Before version 4, PySpark does not convert the errors of tasks.
ERRORS = (PySparkException, Py4JJavaError)
VERSION_2 = "tblproperties ('bucketing_version' = '2')"

# The view has five tasks with rows of every bucket, and a key that most rows share.
SCATTERED = """
    select /*+ repartition(5) */ if(id % 3 = 0, 7, id % 90) as k, cast(id as string) as v, id % 3 as p from range(600)
"""


class Shape(NamedTuple):
    """The exchanges, sorts and bucketed scans of a plan."""

    exchanges: int
    sorts: int
    bucketed: int


class Plan(str):
    """The text of an executed plan."""

    @property
    def shape(self) -> Shape:
        patterns = (r"\bExchange ", r"\bSort \[", r"Bucketed: true")
        return Shape(*(len(re.findall(pattern, self)) for pattern in patterns))


class Sealed(NamedTuple):
    """A result row of SEAL BUCKETS, for a partition or an unpartitioned table."""

    partition: str
    status: str
    buckets: int | None
    columns: list[str] | None
    sorts: list[str] | None
    hash: str | None
    files: int
    bytes: int
    files_read: int
    problem: str | None


class Tables:
    """A database of tables that stock Spark writes with one sorted file per bucket; this class then seals them.

    The extension writes tables in bucketing version 2, because stock Spark does not support their hash.
    """

    def __init__(self, spark: SparkSession, database: str, version: str = "1") -> None:
        self.spark, self.database, self.version = spark, database, version
        self._of_version_2: set[str] = set()
        spark.sql(f"create database if not exists {database}")

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Run a statement in this database; the prefix `stock:` runs it without the extension."""
        with settled(self.spark, {"spark.bucketing.enabled": "false"} if text.startswith("stock:") else {}):
            return [tuple(row) for row in self.frame(text.removeprefix("stock:")).collect()]

    def frame(self, query: str) -> DataFrame:
        # The statement USE would take longer than many other statements.
        if self.spark.catalog.currentDatabase() != self.database:
            self.spark.sql(f"use {self.database}")
        return self.spark.sql(query)

    def create(self, table: str) -> None:
        """Create a table from the given DDL, and drop an existing table first."""
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
        """Create a table, in the Hive layout by default, and fill it from a query, if given."""
        order = "" if sorted_by == "" else f"sorted by ({sorted_by or by})"
        spark_layout = stored.startswith("using")
        if self.version == "2" and not spark_layout and "tblproperties" not in stored:
            stored = f"{stored} {VERSION_2}"
        (self._of_version_2.add if VERSION_2 in stored else self._of_version_2.discard)(name)
        head, tail = (f"{stored} {rest}", "") if spark_layout else (rest, stored)
        self.create(f"{name} ({columns}) {head} clustered by ({by}) {order} into {buckets} buckets {tail}")
        if query:
            self.fill(name, query, how="insert overwrite table", sealed=sealed)

    def fill(self, name: str, query: str, how: str = "insert into", files: int = 1, sealed: bool = True) -> None:
        """Write rows with stock Spark in this many tasks, each with one sorted file per bucket, and then seal them."""
        # Spark may have read the table before.
        if how == "insert into":
            self.sql(f"refresh table {name}")
        stock = "" if name in self._of_version_2 else "stock:"
        with self.settings({"spark.bucketing.enabled": "true"}):
            self.sql(f"{stock}{how} {name} select /*+ REPARTITION({files}) */ * from ({query})")
        if sealed:
            self.seal(name)

    def seal(self, name: str, rest: str = "") -> list[Sealed]:
        """Seal a table's files, and return the result for each partition."""
        return [Sealed(*row) for row in self.sql(f"alter table {name} seal buckets {rest}")]  # type: ignore[arg-type]

    def folder(self, name: str) -> Path:
        catalog = self.spark._jsparkSession.sharedState().externalCatalog()
        return Path(catalog.getTable(self.database, name).location().getPath())

    def files(self, name: str) -> list[Path]:
        return data_files(self.folder(name))

    def rename(self, name: str, new_name: str, pattern: str = r"^(\d+)_0_part.*$") -> None:
        """Rename files, and their checksum files, as if another writer had written them."""
        for path in self.files(name):
            target = path.with_name(re.sub(pattern, new_name, path.name))
            path.rename(target)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        self.sql(f"refresh table {name}")

    def rows(self, query: str) -> list[str]:
        """Return the rows of a query, sorted by their text."""
        return rows_of(self.sql(query))

    def plan(self, query: str) -> Plan:
        return self.run(query)[1]

    def read(self, query: str, empty: bool = False) -> Plan:
        """Return the executed plan; check that the rows equal stock Spark's, and that they are not empty by mistake."""
        rows, plan = self.run(query)
        assert rows == self.stock_rows(query), query
        assert empty != bool(rows), f"{len(rows)} rows of {query}"
        return plan

    def run(self, query: str) -> tuple[list[str], Plan]:
        """Return the rows of a query, sorted by their text, and the executed plan."""
        frame = self.frame(query)
        return rows_of(frame.collect()), plan_of(frame)

    def shape(self, query: str) -> Shape:
        return self.plan(query).shape

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        return settled(self.spark, values)

    def new_session(self, settings: Mapping[str, str] | None = None) -> SparkSession:
        """Open another session with the extension, in this database."""
        made = self.spark.newSession()
        made.sql(f"use {self.database}")
        # Writers wait for each other. Other tests simulate crashes, and do not wait.
        always = {"spark.bucketing.enabled": "true", "spark.bucketing.write.recoverAfter": "60s"}
        for key, value in {**always, "hive.exec.dynamic.partition.mode": "nonstrict", **(settings or {})}.items():
            made.conf.set(key, value)
        return made

    def stock_rows(self, query: str) -> list[str]:
        return self.rows(f"stock:{query}")


def rows_of(found: Iterable[tuple[object, ...]]) -> list[str]:
    """Return rows, sorted by their text."""
    return sorted(repr(tuple(row)) for row in found)


def plan_of(frame: DataFrame) -> Plan:
    """Return the executed plan, without the initial plan of adaptive execution."""
    return Plan(_as_run(str(frame._jdf.queryExecution().executedPlan().toString())))


def put(path: Path, content: bytes, time: int = 0) -> None:
    """Overwrite a file without updating its checksum; `time` sets its time in nanoseconds."""
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
    """Make Spark assume this many cores inside the block."""
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get("spark.default.parallelism")
    conf.set("spark.default.parallelism", str(number))
    try:
        yield
    finally:
        conf.set("spark.default.parallelism", before)


@contextmanager
def small_pages(spark: SparkSession) -> Iterator[None]:
    """Write small pages, row groups and stripes inside the block, so that small files can be divided."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    settings = {
        "parquet.page.row.count.limit": "20",
        "parquet.block.size": "5000",
        "orc.rows.between.memory.checks": "100",
        "orc.stripe.size": "1000",
        "orc.stripe.row.count": "100",
    }
    for key, value in settings.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            conf.unset(key)


@contextmanager
def no_extension(spark: SparkSession) -> Iterator[None]:
    """Hide the extension's functions inside the block, as in a session without the extension."""
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    listed = registry.listFunction()
    # One call, because the registry has hundreds of functions.
    names = str(listed.mkString(",")).split(",")
    name = listed.apply(next(i for i, one in enumerate(names) if one.split(".")[-1] == "bucket_specs"))
    info, builder = registry.lookupFunction(name).get(), registry.lookupFunctionBuilder(name).get()
    registry.dropFunction(name)
    try:
        yield
    finally:
        registry.registerFunction(name, info, builder)


def _as_run(plan: str) -> str:
    """Return the final plan without the initial plan of adaptive execution."""
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
    # Spark's DDL lists partition columns with the other columns; Hive's DDL lists them separately.
    columns, by = (
        ("k bigint, v string", "p bigint") if layout.startswith("hive") else ("k bigint, v string, p bigint", "p")
    )
    if partitioned:
        tables.make(name, columns, "k", buckets, rest=f"partitioned by ({by})", stored=stored)
    else:
        tables.make(name, "k bigint, v string, p bigint", "k", buckets, stored=stored)


def buckets_of_files(tables: Tables, name: str) -> dict[tuple[str, int | None], int]:
    """Count the files of each partition and bucket by their names; None stands for files without a bucket id."""
    found: Counter[tuple[str, int | None]] = Counter()
    for path in tables.files(name):
        match = re.search(r"_(\d+)\.c\d+", path.name)
        found[str(path.parent.relative_to(tables.folder(name))), int(match[1]) if match else None] += 1
    return dict(found)


def assert_bucketed(tables: Tables, name: str, layout: str, buckets: int = 8, keys: str = "k", files: int = 1) -> None:
    """Check that each bucket has one file (or `files`), and that the files contain only its rows, in order."""
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
    """Count the files of each task of a write; the number after 'part-' identifies the task."""
    return Counter(path.name.split("part-")[1].split("-")[0] for path in files)


def explain(tables: Tables, statement: str) -> str:
    return "\n".join(str(row[0]) for row in tables.sql(f"explain {statement}"))


def executions(spark: SparkSession) -> Iterator[Any]:
    """Return the session's executions of INSERT, newest first. Spark records them in a separate thread."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    listed = spark._jsparkSession.sharedState().statusStore().executionsList()
    for i in reversed(range(listed.size())):
        if "Execute InsertIntoHadoopFsRelationCommand" in (listed.apply(i).physicalPlanDescription() or ""):
            yield listed.apply(i)


def last_insert(spark: SparkSession, name: str = "") -> str:
    """Return the executed plan of the session's last INSERT whose plan has a name."""
    plans = (str(one.physicalPlanDescription()) for one in executions(spark))
    return next(plan for plan in plans if name in plan)


def stages_after(spark: SparkSession, last: int) -> Iterator[Any]:
    """Return the data of the stages with higher numbers, newest first, as Spark's UI shows it."""
    context: Any = spark.sparkContext
    # Spark updates the status store in another thread, and drops old stages from it.
    context._jsc.sc().listenerBus().waitUntilEmpty()
    nothing = context._gateway.new_array(context._jvm.double, 0)
    found = context._jsc.sc().statusStore().stageList(None, False, False, nothing, context._jvm.java.util.ArrayList())
    for i in range(found.size()):
        if found.apply(i).stageId() <= last:
            return
        yield found.apply(i)


def last_stage(spark: SparkSession) -> int:
    """Return the number of the newest stage, or -1."""
    return next((int(stage.stageId()) for stage in stages_after(spark, -1)), -1)
