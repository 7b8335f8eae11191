"""The same package over the wire: dbt-spark's thrift connection to a Spark Thrift Server, a session for each thread."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from click.testing import CliRunner

from conftest import QUICK_JVM, Project
from spark_bucketing.cli import main

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a Thrift Server on the loopback address, with a metastore of its own."""
    home = tmp_path_factory.mktemp("thrift")
    port = free_port()
    conf = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'metastore'};create=true",
        # Hive deletes a session's folder of resources when it closes: one that all sessions share would go while others
        # open. Its default has one for each session, in the temporary folder.
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home} -Djava.io.tmpdir={home} {QUICK_JVM}",
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal"]
    command += ["--hiveconf", f"hive.server2.thrift.bind.host={HOST}", "--hiveconf", f"hive.server2.thrift.port={port}"]
    environment = os.environ | {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=home, stdout=log, stderr=log, env=environment)
    try:
        for _ in range(240):
            assert process.poll() is None, (home / "log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    break
            time.sleep(0.5)
        else:
            pytest.fail("the Thrift Server did not start")
        yield port
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("bucket_hash", ["hive", pytest.param("spark", marks=pytest.mark.long)])
def test_every_strategy_over_thrift(server: int, new_project: Callable[..., Project], bucket_hash: str) -> None:
    from pyhive import hive

    project = new_project()
    output = {
        "type": "spark",
        "method": "thrift",
        "host": HOST,
        "port": server,
        "user": "me",
        "schema": f"w_{bucket_hash}",
        "threads": 4,
    }
    project.write("profiles.yml", yaml.safe_dump({"t": {"target": "t", "outputs": {"t": output}}}))
    later = "select id as k, 'new' as v, 1 as p from range(5, 15)"
    first = "select id as k, 'old' as v, id % 2 as p from range(10)"
    project.model(
        f"table_{bucket_hash}", first, materialized="bucketed_table", clustered_by="k", buckets=4,
        bucket_hash=bucket_hash, location_root=str(project.folder / "external"),
    )  # fmt: skip
    for strategy in ("append", "insert_overwrite", "merge"):
        project.model(
            f"{strategy}_{bucket_hash}",
            f"{{% if is_incremental() %}}{later}{{% else %}}{first}{{% endif %}}",
            materialized="bucketed_incremental", incremental_strategy=strategy, unique_key="k",
            clustered_by="k", buckets=4, partition_by="p", bucket_hash=bucket_hash,
        )  # fmt: skip
    project.dbt("run")
    project.dbt("run")
    with hive.connect(HOST, server) as connection, connection.cursor() as cursor:

        def query(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        counts = {"append": 20, "insert_overwrite": 15, "merge": 15, "table": 10}
        for name, count in counts.items():
            table = f"w_{bucket_hash}.{name}_{bucket_hash}"
            assert query(f"select count(*) from {table}") == [(count,)], table
            files = [row[0] for row in query(f"select distinct input_file_name() from {table}")]
            keys = {
                (path.rsplit("/", 1)[0], path.split("_0")[0] if bucket_hash == "hive" else path.split("_")[-1])
                for path in files
            }
            assert len(keys) == len(files), files
        assert len(query(f"show tables in w_{bucket_hash}")) == 4


def test_the_check_asks_over_thrift(server: int, new_project: Callable[..., Project]) -> None:
    project = new_project()
    output = {"type": "spark", "method": "thrift", "host": HOST, "port": server, "user": "me", "schema": "checked"}
    project.write("profiles.yml", yaml.safe_dump({"t": {"target": "t", "outputs": {"t": output}}}))
    for name, buckets in (("a", 4), ("b", 4), ("c", 3)):
        project.model(name, "select id as k from range(10)", materialized="bucketed_table", clustered_by="k",
                      buckets=buckets, bucket_hash="spark")  # fmt: skip
    for name, other in (("good", "b"), ("bad", "c")):
        # Without the hint, tables as small as these are broadcast.
        sql = f"select /*+ merge(y) */ x.k from {{{{ ref('a') }}}} as x join {{{{ ref('{other}') }}}} as y on x.k = y.k"
        project.model(name, sql, materialized="view")
    project.dbt("run")
    place = ["--project-dir", str(project.folder), "--profiles-dir", str(project.folder)]
    result = CliRunner().invoke(main, ["check", *place, "--format", "json"])
    report = json.loads(result.stdout)
    assert (result.exit_code, report["planner"][:15]) == (1, "live (thrift), ")
    models = {model["name"]: model for model in report["models"]}
    assert [model["error"] for model in models.values()] == [None] * 5
    assert [operator["exchanges"] for operator in models["good"]["operators"]] == [0]
    found = {finding["reason"] for operator in models["bad"]["operators"] for finding in operator["findings"]}
    # This server leaves the order of sorted files unused, so that the side that stays is sorted.
    assert found == {"bucket-count-mismatch", "ordering-off"}
    project.write("profiles.yml", yaml.safe_dump({"t": {"target": "t", "outputs": {"t": output | {"port": 1}}}}))
    away = CliRunner().invoke(main, ["check", *place])
    assert away.exit_code == 2 and "connect" in away.output and "Traceback" not in away.output
