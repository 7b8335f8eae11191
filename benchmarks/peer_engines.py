"""The engines and table formats that `make bench-peers` compares, and the process in which each engine runs.

If run as a program, this module is such a process: it starts Spark, and runs the statements that it reads from standard
input.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from local_spark import session

sys.path += [str(Path(__file__).parents[1] / "tests" / folder) for folder in ("", "support")]
from peers import COMET, EXTENSION_JARS

SHARED = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.extraClassPath": f"{EXTENSION_JARS}/*",
    "spark.sql.shuffle.partitions": "16",
    # The benchmark compares joins of two large tables, so no join broadcasts one of them.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
HASH_JOIN = {"spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "1g"}
STOCK_BUCKETS = {
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "true",
    "spark.sql.bucketing.coalesceBucketsInJoin.enabled": "true",
}
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The default of 50 tasks is for clusters.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Otherwise OPTIMIZE writes one file, which only one task can read.
    "spark.databricks.delta.optimize.maxFileSize": str(16 * 2**20),
}
# Storage-partitioned joins need the last settings.
ICEBERG_SETTINGS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
}
ONLY_COMET = COMET | {"spark.sql.extensions": "org.apache.comet.CometSparkSessionExtensions"}


class Engine(NamedTuple):
    """A Spark session, and the format of the tables that it reads and writes."""

    name: str
    format: str
    settings: Mapping[str, str] = {}
    ours: bool = False
    properties: Mapping[str, str] = {}


PLAIN = Engine("plain Parquet, AQE", "plain")
HASHING = Engine("plain Parquet, hash join", "plain", HASH_JOIN)
STOCK = Engine("stock buckets", "stock", STOCK_BUCKETS)
COMET_PLAIN = Engine("Comet, plain Parquet", "plain", ONLY_COMET)
STOCK_COMET = Engine("stock buckets, Comet", "stock", STOCK_BUCKETS | ONLY_COMET)
# Delta 4.1.0 cannot read its checkpoints with Spark 4.1.4 (NoSuchMethodError), so it writes none.
NO_CHECKPOINTS = {"delta.checkpointInterval": "10000"}
DELTA, DELTA_VECTORS = (
    Engine(name, "delta", DELTA_SETTINGS, properties={"delta.enableDeletionVectors": vectors, **NO_CHECKPOINTS})
    for name, vectors in (("Delta", "false"), ("Delta, deletion vectors", "true"))
)
ICEBERG = Engine("Iceberg", "iceberg", ICEBERG_SETTINGS)
ICEBERG_COPY, ICEBERG_READ = (
    ICEBERG._replace(
        name=f"Iceberg, {mode}",
        properties={f"write.{statement}.mode": mode for statement in ("merge", "update", "delete")},
    )
    for mode in ("copy-on-write", "merge-on-read")
)
ICEBERG_PARTIAL = ICEBERG._replace(
    name="Iceberg, partially clustered",
    settings=ICEBERG_SETTINGS | {"spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled": "true"},
)
HIVE = Engine("this package, Hive layout", "hive", ours=True)
SPARK = Engine("this package, Spark layout", "spark", ours=True)
ORGANIZED = Engine("this package, organized", "organized", ours=True)
# One task reads a bucket, however large it is.
HIVE_WHOLE = HIVE._replace(
    name="this package, without ranges",
    settings={"spark.bucketing.read.rangeBytes": "0", "spark.bucketing.read.maxBucketBytes": "1t"},
)
# With less than one bucket for four cores, the scans are ordinary ones, and the queries shuffle.
HIVE_SHUFFLED = HIVE._replace(
    name="this package, shuffles",
    settings={"spark.bucketing.read.rangeBytes": "0", "spark.bucketing.read.maxBucketBytes": "1m"},
)
HIVE_COMET, SPARK_COMET = (engine._replace(name=f"{engine.name}, Comet", settings=COMET) for engine in (HIVE, SPARK))


class Table(NamedTuple):
    """A table of a benchmark, and the query for its rows."""

    name: str
    columns: str
    key: str
    query: str
    buckets: int = 0
    partitioned: bool = False  # by the column `day`, which is not one of the columns
    files: int = 0  # formats without buckets get this number of files, with ranges of the key; 0 means any number
    rows_per_file: int = 0


def create(engine: Engine, table: Table) -> list[str]:
    """Return the statements that create an empty table."""
    by_day = "partitioned by (day)" if table.partitioned else ""
    columns = f"{table.columns}, day int" if table.partitioned else table.columns
    buckets = f"clustered by ({table.key}) sorted by ({table.key}) into {table.buckets} buckets"
    if engine.format == "hive":
        by_day = by_day.replace("day", "day int")
        properties = "tblproperties ('bucketing_version' = '2')"
        return [f"create table {table.name} ({table.columns}) {by_day} {buckets} stored as parquet {properties}"]
    if engine.format == "delta":
        by = by_day or ("" if table.files else f"cluster by ({table.key})")
        return [f"create table {table.name} ({columns}) using delta {by} {_properties(engine.properties)}"]
    if engine.format == "iceberg":
        by = ", ".join(["day"] * table.partitioned + [f"bucket({table.buckets}, {table.key})"] * (table.buckets > 0))
        mode = {"write.distribution-mode": "hash" if by else "none", "write.parquet.compression-codec": "snappy"}
        made = f"create table {table.name} ({columns}) using iceberg {by and f'partitioned by ({by})'}"
        order = f"alter table {table.name} write distributed by partition locally ordered by {table.key}"
        return [f"{made} {_properties({**engine.properties, **mode})}", *([order] if by else [])]
    if engine.format == "organized":
        ranges = {"bucketing.range_by": f'["{table.key}"]', "bucketing.rows_per_file": str(table.rows_per_file)}
        return [f"create table {table.name} ({columns}) using parquet {by_day} {_properties(ranges)}"]
    more = "" if engine.format == "plain" else buckets
    return [f"create table {table.name} ({columns}) using parquet {by_day} {more}"]


def fill(engine: Engine, table: Table) -> list[str]:
    """Return the statements that write the rows of a table in the best way that the format knows."""
    query = table.query
    if engine.format == "stock":
        query = f"select /*+ repartition({table.buckets}, {table.key}) */ * from ({query})"
    by = f"day, {table.key}" if table.partitioned else table.key
    if table.files and (engine.format in ("plain", "delta") or (engine.format == "iceberg" and not table.buckets)):
        hint = f"/*+ repartition_by_range({table.files}, {by}) */"
        query = f"select * from (select {hint} * from ({query})) sort by {by}"
    clustering = [f"optimize {table.name}"] if engine.format == "delta" and not table.files else []
    return [f"insert into {table.name} {query}", *clustering]


def _properties(pairs: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in pairs.items())
    return f"tblproperties ({listed})" if pairs else ""


class Run(NamedTuple):
    """The rows of the last statement of a request, and what all its statements cost."""

    rows: list[Any]
    seconds: float
    cpu: float
    jobs: int
    exchanges: int
    sorts: int
    model: float = 0
    """Seconds on as many cores as Spark assumes: for each stage, the CPU seconds of the longest task, or of all tasks
    divided by the number of cores, whichever is more."""


class Process:
    """A process with an engine's Spark, whose metastore is in one folder and whose warehouse may be in another."""

    def __init__(self, engine: Engine, home: Path, warehouse: Path) -> None:
        self.engine, self.warehouse = engine, warehouse
        home.mkdir(parents=True, exist_ok=True)
        with (home / "log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        settings = {**SHARED, **engine.settings, "spark.sql.warehouse.dir": str(warehouse)}
        if engine.format == "iceberg":
            settings["spark.sql.catalog.ice.warehouse"] = f"file://{warehouse}"
        self._send({"folder": str(home), "settings": settings, "extension": engine.ours})

    def run(self, *statements: str) -> Run:
        """Run statements, and measure them together."""
        self._send({"statements": statements})
        return Run(**self.answer())

    def cool(self, table: str) -> None:
        """Forget the files of a table."""
        self._send({"cool": table})
        self.answer()

    def files(self, table: str) -> dict[Path, int]:
        """Return the sizes of the files with rows or deletions of a table, and of files that it no longer uses."""
        root = self.warehouse / ("s" if self.engine.format == "iceberg" else "s.db") / table
        found = {path: path.relative_to(root).parts for path in root.rglob("*") if path.is_file()}
        return {
            path: path.stat().st_size
            for path, parts in found.items()
            if parts[0] != "metadata" and all(part[0] not in "._" for part in parts)
        }

    def close(self) -> None:
        """Stop Spark, and wait until the process has ended."""
        self._process.communicate(timeout=60)

    def answer(self) -> dict[str, Any]:
        """Wait for the answer to the last request, or until Spark has started.

        Raises:
            SystemExit: the request failed.
        """
        line = cast("IO[str]", self._process.stdout).readline()
        answer: dict[str, Any] = json.loads(
            line or '{"error": "The process ended. Its log is in the folder of the engine."}'
        )
        if "error" in answer:
            raise SystemExit(f"{self.engine.name} failed.\nFound: {answer['error']}\nRequest: {self._request}")
        return answer

    def _send(self, request: Mapping[str, Any]) -> None:
        self._request = request
        requests = cast("IO[str]", self._process.stdin)
        requests.write(json.dumps(request) + "\n")
        requests.flush()


def home_of(engine: Engine, folder: Path) -> Path:
    """Return the folder of an engine, which contains its metastore, and its warehouse unless it reads another one."""
    return folder / re.sub(r"\W+", "-", engine.name)


@contextmanager
def running(
    engines: Sequence[Engine], folder: Path, written: Mapping[str, Path] | None = None
) -> Iterator[list[Process]]:
    """Start the engines.

    Args:
        engines: the engines, which have different names.
        folder: folder for the folder of each engine.
        written: by format, the folders of other engines whose tables these engines read; their processes have ended.
    """
    with ExitStack() as stack:
        processes = []
        for engine in engines:
            home = home_of(engine, folder)
            source = written[engine.format] if written else home
            if written:
                # Only one process can open a Derby database.
                shutil.copytree(source / "metastore_db", home / "metastore_db")
            processes.append(Process(engine, home, source / "warehouse"))
            stack.callback(processes[-1].close)
        for process in processes:
            process.answer()
            print(f"{time.strftime('%H:%M:%S')} {process.engine.name} has started", file=sys.stderr, flush=True)
        yield processes


def _serve() -> None:
    """Answer requests until standard input ends."""
    # Spark writes to standard output, too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = json.loads(sys.stdin.readline())
    spark = cast("Any", session(Path(start["folder"]), start["settings"], extension=start["extension"]))
    database = "ice.s" if "spark.sql.catalog.ice" in start["settings"] else "s"
    spark.sql(f"create database if not exists {database}")
    spark.sql(f"use {database}")
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if table := request.get("cool"):
                spark.sql(f"refresh table {table}")
                if "delta" in start["settings"].get("spark.sql.extensions", ""):
                    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
                answer: dict[str, Any] = {}
            else:
                answer = _measured(spark, java, request["statements"])
        except Exception as error:
            answer = {"error": str(error)[:3000]}
        print(json.dumps(answer, default=str), file=answers, flush=True)
    spark.stop()


def _measured(spark: Any, java: int, statements: Sequence[str]) -> dict[str, Any]:
    scheduler = spark._jsc.sc().dagScheduler()
    jobs, cpu, start = scheduler.numTotalJobs(), _cpu_seconds(java), time.perf_counter()
    for statement in statements:
        frame = spark.sql(statement)
        rows = frame.collect()
    seconds, used = time.perf_counter() - start, _cpu_seconds(java) - cpu
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    plan = frame._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    return {
        "rows": sorted([str(value) for value in row] for row in rows),
        "seconds": seconds,
        "cpu": used,
        "jobs": scheduler.numTotalJobs() - jobs,
        # Each query shuffles partial aggregates into one row, which does not count.
        "exchanges": len(re.findall(r"\b(?:Comet)?(?:Columnar)?Exchange (?!SinglePartition)", plan)),
        "sorts": len(re.findall(r"\b(?:Comet)?Sort \[", plan)),
        "model": _modelled_seconds(spark, jobs),
    }


def _modelled_seconds(spark: Any, first_job: int) -> float:
    store, cores = spark._jsc.sc().statusStore(), spark.sparkContext.defaultParallelism
    largest = spark.sparkContext._gateway.new_array(spark._jvm.double, 1)
    largest[0] = 1.0
    jobs = [job for job in _elements(store.jobsList(None)) if job.jobId() >= first_job]
    stages = [store.lastStageAttempt(stage) for stage in {stage for job in jobs for stage in _elements(job.stageIds())}]
    longest: list[float] = [
        max(
            store.taskSummary(stage.stageId(), stage.attemptId(), largest).get().executorCpuTime().apply(0),
            stage.executorCpuTime() / cores,
        )
        for stage in stages
        if stage.status().toString() == "COMPLETE"
    ]
    return sum(longest) / 1e9


def _elements(found: Any) -> list[Any]:
    return [found.apply(place) for place in range(found.size())]


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    _serve()
