"""A Spark Thrift Server, or a Spark Connect server, on the loopback address, with a metastore of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from elsewhere import settings_below

from conftest import QUICK_JVM

HOST = "127.0.0.1"
PYSPARK = Path(pyspark.__file__).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def thrift_server(home: Path, settings: Mapping[str, str] | None = None) -> Iterator[int]:
    """The port of a server that keeps its files in an empty folder, with settings beside those that it needs."""
    port = _free_port()
    # Hive deletes a session's folder of resources when it closes: one that all sessions share would go while others
    # open. Its default has one for each session, in the temporary folder.
    where = ["--hiveconf", f"hive.server2.thrift.bind.host={HOST}", "--hiveconf", f"hive.server2.thrift.port={port}"]
    with _server(home, "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", settings or {}, where, port):
        yield port


@contextmanager
def connect_server(home: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """The address, for PySpark's client, of a Spark Connect server that keeps its files in an empty folder."""
    port = _free_port()
    where = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.catalogImplementation": "hive",
    }
    with _server(home, "org.apache.spark.sql.connect.service.SparkConnectServer", {**settings, **where}, [], port):
        yield f"sc://{HOST}:{port}"


@contextmanager
def _server(
    home: Path, main_class: str, settings: Mapping[str, str], arguments: Sequence[str], port: int
) -> Iterator[None]:
    """A process of Spark's that listens on a port, until the block ends."""
    loopback = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
    conf = settings_below(home, "2g", QUICK_JVM) | {"spark.sql.shuffle.partitions": "4", **loopback, **settings}
    command = [str(PYSPARK / "bin" / "spark-submit")]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", main_class, "spark-internal", *arguments]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=home, stdout=log, stderr=log, env=os.environ | {"SPARK_HOME": str(PYSPARK)}
        )
    try:
        for _ in range(240):
            assert process.poll() is None, (home / "log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    break
            time.sleep(0.5)
        else:
            pytest.fail(f"{main_class} did not start")
        yield
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def asking(port: int) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Function that asks the server a query, in one session."""
    from pyhive import hive

    with hive.connect(HOST, port) as connection, connection.cursor() as cursor:

        def query(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

        yield query
