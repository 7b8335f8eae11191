"""Tests of all statements on S3A, against an S3 server with conditional writes, with each committer of Hadoop."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from bucketed_tables import Shape, Tables
from cluster import HOST, await_ready, free_ports
from local_files import file_system_settings

from conftest import REPOSITORY

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast", "dynamic_partitions")

PEERS = REPOSITORY / ".venv" / "peers" / "s3"
BUCKET = "lake"
# The server accepts any credentials that it was started with.
ACCESS_KEY, SECRET_KEY = "test", "testtest"
CLOUD = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}
# With spark-hadoop-cloud on its class path, Spark 4.3 uses the magic committer unless the settings name another.
STOCK = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
COMMITTERS = {"file": STOCK, "magic": CLOUD, "directory": CLOUD, "partitioned": CLOUD}
LAYOUTS = {
    "hive": "(k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as parquet",
    "hive2": (
        "(k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as orc "
        "tblproperties ('bucketing_version' = '2')"
    ),
    "organized": """(k bigint, v string, p int) using parquet partitioned by (p) tblproperties ('bucketing.range_by' = '["k"]')""",
}
Rows = dict[int, tuple[str, int]]


class Statement(NamedTuple):
    sql: str
    effect: Callable[[Rows], Rows]


def changed(of: Callable[[int], bool], value: str) -> Callable[[Rows], Rows]:
    return lambda rows: {k: (value if of(k) else v, p) for k, (v, p) in rows.items()}


def added(first: int, end: int, value: str) -> Callable[[Rows], Rows]:
    return lambda rows: rows | {k: (value, k % 3) for k in range(first, end)}


NEW = "select id as k, '{value}' as v, cast(id % 3 as int) as p from range({first}, {end})"
STATEMENTS = [
    Statement(f"insert into t {NEW.format(value='a', first=0, end=300)}", added(0, 300, "a")),
    Statement(f"insert into t {NEW.format(value='b', first=300, end=330)}", added(300, 330, "b")),
    Statement(
        f"merge into t using ({NEW.format(value='m', first=320, end=340)}) s on t.k = s.k and t.p = s.p "
        "when matched then update set v = s.v when not matched then insert *",
        added(320, 340, "m"),
    ),
    Statement("update t set v = 'u' where k < 5", changed(lambda k: k < 5, "u")),
    Statement(
        "delete from t where k between 5 and 9", lambda rows: {k: row for k, row in rows.items() if not 5 <= k <= 9}
    ),
    Statement(
        "insert overwrite t partition (p = 1) select 1000 + id, 'o' from range(10)",
        lambda rows: {k: row for k, row in rows.items() if row[1] != 1} | dict.fromkeys(range(1000, 1010), ("o", 1)),
    ),
]


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start an S3 server that stores its objects below a temporary folder, and return its port."""
    home = tmp_path_factory.mktemp("s3")
    (home / "data" / BUCKET).mkdir(parents=True)
    (port,) = free_ports(1)
    server = [str(PEERS / "versitygw"), "--port", f"{HOST}:{port}", "--keep-alive", "--quiet", "posix"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *server, str(home / "data")],
            stdout=log, stderr=log, env=os.environ | {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        )  # fmt: skip
    try:
        await_ready(process, port, "versitygw", home / "log")
        yield port
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def more_settings(s3_port: int, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the settings of a session whose warehouse is on the S3 server."""
    home = tmp_path_factory.mktemp("s3a")
    # Hadoop's own defaults, which the other entry replaces, configure S3A.
    test_files, _ = file_system_settings()["spark.driver.extraClassPath"].split(os.pathsep)
    return {
        "spark.driver.extraClassPath": f"{test_files}{os.pathsep}{PEERS / 'jars' / '*'}",
        "spark.sql.warehouse.dir": f"s3a://{BUCKET}/warehouse",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.hadoop.fs.s3a.endpoint": f"http://{HOST}:{s3_port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "spark.hadoop.fs.s3a.buffer.dir": str(home / "buffer"),
        "spark.hadoop.fs.s3a.committer.staging.tmp.path": f"file://{home / 'staging'}",
        "spark.hadoop.fs.s3a.committer.staging.conflict-mode": "append",
    }


@pytest.fixture(params=COMMITTERS)
def committer(request: pytest.FixtureRequest, tables: Tables) -> Iterator[None]:
    with tables.settings({**COMMITTERS[request.param], "fs.s3a.committer.name": request.param}):
        yield


@pytest.mark.usefixtures("committer")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_statements_write_the_right_rows_and_what_readers_need(tables: Tables, layout: str) -> None:
    tables.create(f"t {LAYOUTS[layout]}")
    rows: Rows = {}
    for statement in STATEMENTS:
        tables.sql(statement.sql)
        rows = statement.effect(rows)
        found: list[Any] = tables.sql("select k, v, p from t")
        assert sorted(found) == sorted((k, v, p) for k, (v, p) in rows.items()), statement.sql
        assert unknown_files(tables, layout) == [], statement.sql
    if layout != "organized":
        join = "select a.k, count(*) from t a join t b on a.k = b.k where a.p = 1 and b.p = 1 group by a.k"
        assert tables.shape(join) == Shape(exchanges=0, sorts=0, bucketed=2)


def unknown_files(tables: Tables, layout: str) -> list[Any]:
    """Return the partitions without a valid seal, or the files without statistics."""
    if layout != "organized":
        specs = tables.sql(f"select partition, status from bucket_specs('{tables.database}.t')")
        return [row for row in specs if row[1] != "sealed"]
    known = {str(row[0]) for row in tables.sql(f"select file from file_statistics('{tables.database}.t')")}
    files = {str(row[0]) for row in tables.sql("select distinct input_file_name() from t")}
    return sorted(file for file in files if not any(file.endswith(name) for name in known))
