"""Tests of all statements on S3A, against an S3 server with conditional writes, with each committer of Hadoop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import decisions
import pytest
from bucketed_tables import Shape, Tables
from cluster import HOST, WITH_PARENT, free_ports, running
from local_files import file_system_settings
from peer_tables import PARTITIONED, Rows
from peers import PEERS
from spark_subprocess import SparkSubprocess

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast", "dynamic_partitions")

JARS = PEERS / "s3" / "jars"
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


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start an S3 server that stores its objects below a temporary folder, and return its port."""
    home = tmp_path_factory.mktemp("s3")
    (home / "data" / BUCKET).mkdir(parents=True)
    (port,) = free_ports(1)
    server = [str(JARS.parent / "versitygw"), "--port", f"{HOST}:{port}", "--keep-alive", "--quiet", "posix"]
    credentials = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    with running([*WITH_PARENT, *server, str(home / "data")], port, home, "versitygw", credentials):
        yield port


@pytest.fixture(scope="session")
def more_settings(s3_port: int, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the settings of a session whose warehouse is on the S3 server."""
    home = tmp_path_factory.mktemp("s3a")
    # Hadoop's own defaults, which the other entry replaces, configure S3A.
    test_files, _ = file_system_settings()["spark.driver.extraClassPath"].split(os.pathsep)
    return {
        "spark.driver.extraClassPath": f"{test_files}{os.pathsep}{JARS / '*'}",
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
    for statement in PARTITIONED:
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


class Decider:
    """A process that decides records, see decisions.py."""

    def __init__(self, settings: Path, location: str, log: Path) -> None:
        command = [sys.executable, decisions.__file__, str(settings), location]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"), text=True
        )

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self, key: str) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{") and key in (said := json.loads(line)):
                return str(said[key])
        raise AssertionError(f"process ended with {self.process.wait()}")


def test_commit_and_undo_by_two_processes_exclude_each_other(
    tables: Tables, more_settings: Mapping[str, str], tmp_path: Path
) -> None:
    """One process commits a record while another one undoes it: SECONDS=600 for more races. Both find the decision of the one that was first."""
    location = f"s3a://{BUCKET}/race"
    records, folder, fs = decisions.records_of(tables.spark, location)
    deciders: list[Decider] = []
    for name in ("commit", "undo"):
        (home := tmp_path / name).mkdir()
        (home / "settings.json").write_text(json.dumps(SparkSubprocess(home, "default").settings | dict(more_settings)))
        deciders.append(Decider(home / "settings.json", location, home / "log"))
    found: Counter[str] = Counter()
    try:
        for decider in deciders:
            decider.answer("ready")
        end = time.monotonic() + int(os.environ.get("SECONDS", "180"))
        while time.monotonic() < end:
            record = records.newFolder(folder, fs)
            lists = json.dumps({"added": [], "removed": [], "created": [], "dropped": [], "exclusive": True})
            write(tables, f"{record}/started", lists)
            # Each process is told first in half of the races.
            told = deciders[:: 1 if found.total() % 2 else -1]
            for decider in told:
                decider.say(f"{record.getName()} {'commit' if decider is deciders[0] else 'undo'}")
            for decider in told:
                decider.answer("record")
            for decider in told:
                decider.say("now")
            (answer,) = {decider.answer("decision") for decider in told}
            outcome = tables.spark.sparkContext.textFile(f"{record}/outcome").collect()
            assert [line.split()[0] for line in outcome] == [
                {"Some(true)": "committed", "Some(false)": "undone"}[answer]
            ]
            found[answer] += 1
            records.forget(record, fs)
    finally:
        for decider in deciders:
            decider.process.kill()
            decider.process.wait()
    print(f"\ns3a: {dict(found)}", flush=True)
    assert min(found["Some(true)"], found["Some(false)"]) > 10


def write(tables: Tables, path: str, text: str) -> None:
    jvm: Any = tables.spark.sparkContext._jvm
    file = jvm.org.apache.hadoop.fs.Path(path)
    fs = file.getFileSystem(tables.spark.sparkContext._jsc.hadoopConfiguration())
    jvm.org.apache.spark.sql.bucketing.metadata.ExclusiveFile.publish(file, text, fs)
