"""Start a Spark Thrift Server or a Spark Connect server on the loopback address, with its own metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import HOST, PYSPARK, free_ports, running, submit_command, thrift_command
from spark_subprocess import settings_below

from conftest import QUICK_JVM

ENVIRONMENT = {"SPARK_HOME": str(PYSPARK)}


@contextmanager
def thrift_server(home: Path, settings: Mapping[str, str] | None = None) -> Iterator[int]:
    """Start a server that keeps its files in an empty folder, and return its port."""
    (port,) = free_ports(1)
    # When a session closes, Hive deletes the session's resource folder, which would break other sessions that share it.
    # By default, each session has its own folder in the temporary folder.
    with running(thrift_command(_settings(home) | dict(settings or {}), port), port, home, "thrift", ENVIRONMENT):
        yield port


@contextmanager
def connect_server(home: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Start a Spark Connect server that keeps its files in an empty folder, and return its address."""
    (port,) = free_ports(1)
    where = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.catalogImplementation": "hive",
    }
    conf = {**_settings(home), **settings, **where}
    command = submit_command("org.apache.spark.sql.connect.service.SparkConnectServer", conf)
    with running(command, port, home, "connect", ENVIRONMENT):
        yield f"sc://{HOST}:{port}"


def _settings(home: Path) -> dict[str, str]:
    loopback = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
    return settings_below(home, "2g", QUICK_JVM) | {"spark.sql.shuffle.partitions": "4", **loopback}


@contextmanager
def asking(port: int) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Return a function that sends queries to the server in one session."""
    from pyhive import hive

    with hive.connect(HOST, port) as connection, connection.cursor() as cursor:

        def query(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

        yield query
