"""Run the engines that tests compare with Spark, on the loopback address: Trino with a Hive 2.3 metastore, and Hive 4."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cluster import HOST, WITH_PARENT, ClusterError, free_ports, metastore_command, running, write_properties
from local_files import file_system_settings
from spark_servers import asking

from spark_bucketing.extension.settings import EXTENSION_CLASS

PEERS = Path(__file__).parents[2] / ".venv" / "peers"
# The jars of Delta, Iceberg and Comet.
EXTENSION_JARS = PEERS / "extensions" / "jars"
# Comet after this repository's extension, which would otherwise use ordinary scans.
COMET = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "2g",
    "spark.comet.enabled": "true",
    "spark.comet.exec.enabled": "true",
    "spark.comet.shuffle.enabled": "true",
    "spark.sql.extensions": f"{EXTENSION_CLASS},org.apache.comet.CometSparkSessionExtensions",
}


def comet_settings() -> dict[str, str]:
    """Return more settings of the session of the tests, so that it has Comet."""
    class_path = file_system_settings()["spark.driver.extraClassPath"]
    return COMET | {"spark.driver.extraClassPath": f"{class_path}:{EXTENSION_JARS}/*"}


JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Duser.timezone=UTC")


@contextmanager
def metastore(home: Path) -> Iterator[str]:
    """Start the Hive 2.3 metastore that PySpark contains, on a Derby database, and return its URI."""
    (port,) = free_ports(1)
    database = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{home / 'database'};create=true",
        "datanucleus.schema.autoCreateAll": "true",
    }
    with running([*WITH_PARENT, *metastore_command(home, port, database)], port, home, "metastore"):
        yield f"thrift://{HOST}:{port}"


def find_java(oldest: int) -> Path:
    """Return a Java of at least this version: that of TRINO_JAVA_HOME, or the newest that the system has installed."""
    given = os.environ.get("TRINO_JAVA_HOME")
    found: list[tuple[int, Path]] = []
    for home in [Path(given)] if given else Path("/usr/lib/jvm").glob("*"):
        release = home / "release"
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE) if release.exists() else None
        if version and int(version[1]) >= oldest:
            found.append((int(version[1]), home / "bin" / "java"))
    if not found:
        raise ClusterError(f"Trino needs Java {oldest} or newer. Set TRINO_JAVA_HOME to its directory.")
    return max(found)[1]


class QueryError(Exception):
    """Raised if a peer rejects a query; the message starts with the name of the error."""


class Trino:
    """A client of a running Trino, with the catalog `hive` and a database."""

    def __init__(self, port: int, database: str) -> None:
        self.port, self.database = port, database

    def rows(self, sql: str, **session: object) -> list[tuple[Any, ...]]:
        """Run a statement with these session properties, and return its rows."""
        headers = {
            "X-Trino-User": "test",
            "X-Trino-Catalog": "hive",
            "X-Trino-Schema": self.database,
            "X-Trino-Session": ",".join(f"{name.replace('__', '.')}={value}" for name, value in session.items()),
        }
        request = urllib.request.Request(f"http://{HOST}:{self.port}/v1/statement", sql.encode(), headers)
        rows: list[tuple[Any, ...]] = []
        while True:
            with urllib.request.urlopen(request, timeout=120) as response:
                answer = json.load(response)
            rows += map(tuple, answer.get("data", []))
            if error := answer.get("error"):
                raise QueryError(f"{error['errorName']}: {error['message']}: {sql}")
            if "nextUri" not in answer:
                return rows
            request = urllib.request.Request(answer["nextUri"])


@contextmanager
def trino(home: Path, metastore_uri: str) -> Iterator[Callable[[str], Trino]]:
    """Start Trino on a metastore, and return a function that opens a database."""
    (port,) = free_ports(1)
    settings: dict[str, dict[str, object]] = {
        "config": {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": port,
            "discovery.uri": f"http://{HOST}:{port}",
            "plugin.dir": PEERS / "trino" / "plugin",
            "query.max-memory-per-node": "600MB",
        },
        "catalog/hive": {
            "connector.name": "hive",
            "hive.metastore": "thrift",
            "hive.metastore.uri": metastore_uri,
            "fs.hadoop.enabled": "true",
        },
        "log": {"io.trino": "WARN"},
    }
    node = {"environment": "test", "id": "test", "data-dir": home / "data", "bind-ip": HOST, "internal-address": HOST}
    (home / "etc" / "catalog").mkdir(parents=True)
    for file, values in settings.items():
        lines = (f"{name}={value}\n" for name, value in values.items())
        (home / "etc" / f"{file}.properties").write_text("".join(lines))
    command = [
        *WITH_PARENT, str(find_java(24)), "-Xmx2g", *JAVA, "-Djdk.attach.allowAttachSelf=true", "--add-modules=jdk.incubator.vector",
        "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
        "-Dconfig=etc/config.properties", "-Dlog.levels-file=etc/log.properties",
        *(f"-Dnode.{name}={value}" for name, value in node.items()),
        "-cp", f"{PEERS / 'trino' / 'lib'}/*", "io.trino.server.TrinoServer",
    ]  # fmt: skip
    with running(command, port, home, "trino"):
        end = time.monotonic() + 120
        while _is_starting(port):
            if time.monotonic() > end:
                raise ClusterError(f"trino is not ready:\n{(home / 'trino.log').read_text()[-4000:]}")
            time.sleep(0.2)
        yield lambda database: Trino(port, database)


def _is_starting(port: int) -> bool:
    with urllib.request.urlopen(f"http://{HOST}:{port}/v1/info", timeout=30) as response:
        return bool(json.load(response)["starting"])


HIVE_JARS = PEERS / "hive" / "jars"
# Hive and Hadoop use internals of Java.
_OPENED = (
    "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.io", "java.text", "java.time", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "java.util.regex", "sun.nio.ch", "sun.security.action",
)  # fmt: skip
_HIVE_LOG = """status=ERROR
appender.console.type=Console
appender.console.name=console
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
"""


class Hive4(NamedTuple):
    """The addresses of a running Hive 4."""

    metastore_uri: str
    port: int

    @contextmanager
    def session(self, database: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
        """Open a session in a database, and return a function that runs a statement."""
        with asking(self.port) as run:
            run(f"use {database}")
            yield run


@contextmanager
def hive4(home: Path) -> Iterator[Hive4]:
    """Start a metastore of Hive 4 on a Derby database, and HiveServer2, which runs queries with Tez's local mode."""
    ports = free_ports(2)
    conf = home / "conf"
    for folder in (conf, home / "tmp", home / "scratch"):
        folder.mkdir()
    (home / "scratch").chmod(0o777)
    write_properties(conf / "core-site.xml", {"fs.defaultFS": "file:///", "mapreduce.framework.name": "local"})
    write_properties(conf / "hive-site.xml", _hive_properties(home, *ports))
    (conf / "log4j2.properties").write_text(_HIVE_LOG)
    java = [
        *WITH_PARENT, "java", *JAVA, f"-Djava.io.tmpdir={home / 'tmp'}", f"-Dderby.system.home={home}",
        f"-Dlog4j2.configurationFile=file:{conf / 'log4j2.properties'}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "-cp", f"{conf}:{HIVE_JARS}/*",
    ]  # fmt: skip
    service = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    server = "org.apache.hive.service.server.HiveServer2"
    with (
        running([*java, "-Xmx768m", service, "-p", str(ports[0])], ports[0], home, "metastore"),
        running([*java, "-Xmx2g", server], ports[1], home, "hiveserver2"),
    ):
        yield Hive4(f"thrift://{HOST}:{ports[0]}", ports[1])


def _hive_properties(home: Path, metastore_port: int, port: int) -> dict[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{home / 'database'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.event.db.notification.api.auth": "false",
        "metastore.try.direct.sql.ddl": "false",
        "metastore.thrift.bind.host": HOST,
        "hive.metastore.uris": f"thrift://{HOST}:{metastore_port}",
        "hive.metastore.warehouse.dir": str(home / "managed"),
        "hive.metastore.warehouse.external.dir": str(home / "external"),
        "hive.exec.scratchdir": str(home / "scratch"),
        "hive.exec.local.scratchdir": str(home / "tmp" / "local"),
        "hive.server2.thrift.bind.host": HOST,
        "hive.server2.thrift.port": str(port),
        "hive.server2.authentication": "NONE",
        "hive.server2.enable.doAs": "false",
        "hive.server2.webui.port": "-1",
        "hive.server2.logging.operation.enabled": "false",
        "hive.server2.tez.initialize.default.sessions": "false",
        "hive.execution.engine": "tez",
        "hive.tez.container.size": "512",
        "tez.local.mode": "true",
        "tez.local.mode.without.network": "true",
        "tez.ignore.lib.uris": "true",
        "tez.runtime.optimize.local.fetch": "true",
        "tez.staging-dir": str(home / "tmp" / "tez"),
        "hive.support.concurrency": "false",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
        "hive.query.results.cache.enabled": "false",
        "hive.fetch.task.conversion": "none",
        "hive.exec.dynamic.partition.mode": "nonstrict",
    }
