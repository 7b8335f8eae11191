"""Run a cluster on the loopback address: PostgreSQL, a Hive metastore, a Spark master, workers and a Thrift Server.

All files are below one folder. If you run this module as a program, it starts the cluster, prints the addresses, and
waits for Ctrl-C:

    python tests/support/cluster.py
"""

from __future__ import annotations

import grp
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

HOST = "127.0.0.1"
PYSPARK = Path(pyspark.__file__).parent
JDBC_JAR = Path("/usr/share/java/postgresql.jar")
WORKERS = ("worker-1", "worker-2")
# The kernel kills a command with this prefix when the thread that started it ends.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
# PostgreSQL refuses to run as root, so the first of these users that exists runs it.
UNPRIVILEGED = ("postgres", "nobody")
INSTALL = "apt-get install postgresql libpostgresql-jdbc-java util-linux"
_JAVA_LANG = ("java.lang", "java.net", "java.util", "java.lang.reflect", "java.util.concurrent")
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Hive 2.3 binds the metastore service to all addresses, so a Java security policy rejects connections from other hosts.
_POLICY = """grant {
  permission java.net.SocketPermission "127.0.0.1:*", "accept,connect,listen,resolve";
  permission java.net.SocketPermission "localhost:0-", "listen,resolve";
  permission java.io.FilePermission "<<ALL FILES>>", "read,write,delete,execute,readlink";
  permission java.util.PropertyPermission "*", "read,write";
  permission java.lang.RuntimePermission "*";
  permission java.lang.reflect.ReflectPermission "*";
  permission java.net.NetPermission "*";
  permission java.security.SecurityPermission "*";
  permission java.sql.SQLPermission "*";
  permission java.util.logging.LoggingPermission "control";
  permission java.io.SerializablePermission "*";
  permission javax.management.MBeanPermission "*", "*";
  permission javax.management.MBeanServerPermission "*";
  permission javax.management.MBeanTrustPermission "*";
  permission javax.jdo.spi.JDOPermission "*";
  permission javax.security.auth.AuthPermission "*";
  permission javax.security.auth.PrivateCredentialPermission "* * \\"*\\"", "read";
};
"""


class ClusterError(Exception):
    """Raised if a process of the cluster does not start, or ends early; the message contains the end of its log."""


def missing() -> str | None:
    """Return a sentence about missing software; None if the machine has everything that a cluster needs."""
    found: dict[str, object] = {
        "PostgreSQL's server": _postgres_folder(),
        f"PostgreSQL's driver for Java ({JDBC_JAR})": JDBC_JAR.exists(),
    }
    found |= {program: shutil.which(program) for program in ("java", "setpriv")}
    lacking = ", ".join(what for what, there in found.items() if not there)
    return f"Not found: {lacking}. On Debian and Ubuntu: {INSTALL}" if lacking else None


def _postgres_folder() -> Path | None:
    """Return the folder of the newest PostgreSQL that a Debian package has installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def free_ports(count: int) -> list[int]:
    """Return free ports below the kernel's ephemeral range, so that no client occupies them before a restart."""
    ports: list[int] = []
    candidates = iter(random.sample(range(20000, 32000), 1000))
    while len(ports) < count:
        port = next(candidates)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            ports.append(port)
    return ports


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def await_ready(process: subprocess.Popen[bytes], port: int, name: str, log: Path) -> None:
    """Wait until a process listens on its port; raise ClusterError if it ends, or after two minutes."""
    end = time.monotonic() + 120
    while not listens(port):
        has_ended = process.poll() is not None
        if has_ended or time.monotonic() > end:
            what = f"ended with exit code {process.returncode}" if has_ended else f"does not listen on port {port}"
            raise ClusterError(f"{name} {what}:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.1)


@contextmanager
def running(
    command: Sequence[str], port: int, home: Path, name: str, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server, whose log is in a folder, until the block ends; raise ClusterError if it does not start."""
    log = home / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=home, env=os.environ | dict(environment or {})
        )  # fmt: skip
    try:
        await_ready(process, port, name, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def submit_command(main_class: str, settings: Mapping[str, str]) -> list[str]:
    """Return the command line of a Spark program with these settings, without the program's own arguments."""
    conf = [argument for key, value in settings.items() for argument in ("--conf", f"{key}={value}")]
    return [str(PYSPARK / "bin" / "spark-submit"), *conf, "--class", main_class, "spark-internal"]


def thrift_command(settings: Mapping[str, str], port: int) -> list[str]:
    return [
        *submit_command("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", settings),
        "--hiveconf", f"hive.server2.thrift.bind.host={HOST}", "--hiveconf", f"hive.server2.thrift.port={port}",
    ]  # fmt: skip


@dataclass
class Service:
    """A process of the cluster: its command, and the port on which it listens when it is ready."""

    command: list[str]
    port: int
    environment: dict[str, str] = field(default_factory=dict)
    # The signal that requests an immediate, clean shutdown.
    ends_by: signal.Signals = signal.SIGTERM


class Cluster:
    """Processes by name: `postgres`, `metastore`, `master`, `worker-1`, `worker-2` and `thrift`.

    Each process leads its own process group, which includes its children, such as a worker's executors. Ending the
    process ends the group.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """Describe a cluster without starting it.

        Args:
            folder: an empty folder that PostgreSQL's user can enter.
            settings: additional Spark settings of the Thrift Server.
        """
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("conf", "logs", "tmp", "warehouse"):
            (folder / name).mkdir()
        ports = free_ports(4 + 2 * len(WORKERS))
        self.ports = dict(zip(("postgres", "metastore", "master", "thrift", *WORKERS), ports, strict=False))
        self._settings = dict(settings or {})
        self._postgres = _postgres_folder() or Path()
        self.services = self._services()

    @property
    def metastore_uri(self) -> str:
        return f"thrift://{HOST}:{self.ports['metastore']}"

    @property
    def master_url(self) -> str:
        return f"spark://{HOST}:{self.ports['master']}"

    def log(self, name: str) -> Path:
        return self.folder / "logs" / name

    def local(self, worker: str) -> Path:
        """Return the folder in which a worker's executors store spilled rows and shuffle files."""
        return self.folder / worker / "local"

    def start(self, *names: str) -> None:
        """Start these processes in order, and wait until each is ready.

        Raises:
            ClusterError: a process was already running, ended, or was not ready within two minutes.
        """
        for name in names:
            service = self.services[name]
            if listens(service.port):
                raise ClusterError(f"{name} is already running.")
            if name == "postgres" and not (self.folder / "postgres" / "PG_VERSION").exists():
                self._make_database()
            with self.log(name).open("ab") as log:
                own = {
                    "SPARK_CONF_DIR": str(self.folder / "conf" / "spark"),
                    "SPARK_LOCAL_IP": HOST,
                    **service.environment,
                }
                self.running[name] = subprocess.Popen(
                    [*WITH_PARENT, *service.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                    start_new_session=True, env=os.environ | {"SPARK_HOME": str(PYSPARK)} | own,
                )  # fmt: skip
            await_ready(self.running[name], service.port, name, self.log(name))

    def start_others(self) -> None:
        """Start all processes that are not running."""
        self.start(*(name for name in self.services if name not in self.running))

    def kill(self, *names: str) -> None:
        """Kill processes and their children with SIGKILL."""
        for name in names:
            self._end(name, signal.SIGKILL)

    def stop(self, *names: str) -> None:
        """End the given processes, or all of them, in reverse order; kill processes that do not end within 30 seconds."""
        for name in reversed(names or tuple(self.services)):
            if name in self.running:
                self._end(name, self.services[name].ends_by)

    def restart(self, *names: str) -> None:
        self.stop(*names)
        self.start(*names)

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self.running.pop(name)
        try:
            process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
        finally:
            # The children are in the process's group, which may outlive the process.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def tail(self, name: str, characters: int) -> str:
        return self.log(name).read_text(errors="replace")[-characters:]

    def _services(self) -> dict[str, Service]:
        spark_class = str(PYSPARK / "bin" / "spark-class")
        ports = self.ports
        # The Thrift Server must not inherit these variables, because it reads them, too.
        daemon = {
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={self.folder / 'tmp'} {_JAVA}",
        }
        services = {
            "postgres": Service(
                [*_unprivileged(), str(self._postgres / "postgres"), "-D", str(self.folder / "postgres"),
                 "-k", str(self.folder / "postgres"), "-p", str(ports["postgres"]), "-c", f"listen_addresses={HOST}",
                 "-c", "max_connections=50", "-c", "shared_buffers=64MB"],
                ports["postgres"],
                ends_by=signal.SIGINT,
            ),
            "metastore": Service(self._metastore_command(), ports["metastore"]),
            "master": Service(
                [spark_class, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(ports["master"]), "--webui-port", "0"],
                ports["master"],
                daemon,
            ),
        }  # fmt: skip
        for worker in WORKERS:
            services[worker] = Service(
                [spark_class, "org.apache.spark.deploy.worker.Worker", "--host", HOST, "--port", str(ports[worker]),
                 "--webui-port", "0", "--cores", "2", "--memory", "1g", "--work-dir", str(self.folder / worker / "work"),
                 self.master_url],
                ports[worker],
                daemon | {"SPARK_LOCAL_DIRS": str(self.local(worker))},
            )  # fmt: skip
        services["thrift"] = Service(self._thrift_command(), ports["thrift"])
        return services

    def _metastore_command(self) -> list[str]:
        database = {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://{HOST}:{self.ports['postgres']}/postgres",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": "hive",
            "javax.jdo.option.ConnectionPassword": "hive",
            "datanucleus.schema.autoCreateTables": "true",
            "datanucleus.schema.autoCreateColumns": "true",
            # If the schema has constraints, the first CREATE TABLE deadlocks in PostgreSQL.
            "datanucleus.schema.autoCreateAll": "false",
            "datanucleus.schema.autoCreateConstraints": "false",
        }
        return metastore_command(self.folder, self.ports["metastore"], database)

    def _thrift_command(self) -> list[str]:
        (self.folder / "conf" / "spark").mkdir()
        write_properties(self.folder / "conf" / "spark" / "hive-site.xml", {"hive.metastore.uris": self.metastore_uri})
        return thrift_command(self.spark_settings("thrift") | self._settings, self.ports["thrift"])

    def spark_settings(self, application: str) -> dict[str, str]:
        """Return the settings of an application on this cluster: one two-core executor per worker, and the metastore."""
        home = self.folder / application
        home.mkdir(exist_ok=True)
        return {
            "spark.master": self.master_url,
            "spark.driver.host": HOST,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "600m",
            "spark.executor.cores": "2",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(home / "local"),
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.hadoop.hive.metastore.uris": self.metastore_uri,
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={home} {_JAVA}",
            "spark.executor.extraJavaOptions": _JAVA,
        }

    def _make_database(self) -> None:
        """Initialize PostgreSQL with a superuser for the metastore."""
        data = self.folder / "postgres"
        data.mkdir(mode=0o700)
        password = self.folder / "conf" / "password"
        password.write_text("hive")
        if user := _other_user():
            os.chown(data, user.pw_uid, user.pw_gid)
            os.chown(password, user.pw_uid, user.pw_gid)
        made = subprocess.run(
            [*_unprivileged(), str(self._postgres / "initdb"), "-D", str(data), "-U", "hive", "--pwfile", str(password),
             "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"],
            capture_output=True, text=True, check=False, cwd=self.folder,
        )  # fmt: skip
        if made.returncode:
            raise ClusterError(f"initdb: {made.stderr}{made.stdout}")


def _other_user() -> pwd.struct_passwd | None:
    """Return the user for PostgreSQL if this process runs as root; otherwise None."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next(known[name] for name in UNPRIVILEGED if name in known)


def _unprivileged() -> list[str]:
    """Return a command prefix that drops root privileges and keeps the process id."""
    user = _other_user()
    if not user:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={grp.getgrgid(user.pw_gid).gr_gid}", "--clear-groups"]


def metastore_command(folder: Path, port: int, database: Mapping[str, str]) -> list[str]:
    """Return the command line of a Hive 2.3 metastore with these properties of its database, and prepare its folder."""
    conf, tmp = folder / "conf", folder / "tmp"
    (conf / "metastore").mkdir(parents=True)
    tmp.mkdir(exist_ok=True)
    (conf / "policy").write_text(_POLICY)
    common = {
        "hive.metastore.schema.verification": "false",
        # Hive 2.3 casts all partition values to the type of the filtered column, and PostgreSQL rejects values
        # that are not numbers. Hive then falls back to another query, which supports numbers only with this
        # setting.
        "hive.metastore.integral.jdo.pushdown": "true",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
    }
    write_properties(conf / "metastore" / "hive-site.xml", {**database, **common})
    return [
        "java", "-Xmx768m", *_JAVA.split(), f"-Djava.io.tmpdir={tmp}", f"-Dderby.system.home={tmp}",
        "-Djava.security.manager", f"-Djava.security.policy=={conf / 'policy'}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _JAVA_LANG),
        "-cp", f"{conf / 'metastore'}:{JDBC_JAR}:{PYSPARK / 'jars'}/*",
        "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port),
        # The metastore's default log configuration needs a library that Spark does not include.
        "--hiveconf", "hive.async.log.enabled=false",
    ]  # fmt: skip


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a configuration file of Hadoop or Hive."""
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in properties.items()
    ]
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


@contextmanager
def cluster(settings: Mapping[str, str] | None = None, names: Sequence[str] = ()) -> Iterator[Cluster]:
    """Run a cluster in a temporary folder, and remove everything afterwards.

    Args:
        settings: additional Spark settings of the Thrift Server.
        names: the processes to start; by default, all.
    """
    folder = Path(tempfile.mkdtemp(prefix="spark-bucketing-cluster-"))
    # PostgreSQL's user must be able to traverse this folder.
    folder.chmod(0o711)
    made = Cluster(folder, settings)
    try:
        made.start(*(names or made.services))
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def main() -> None:
    from spark_bucketing.extension.build import build_jar
    from spark_bucketing.extension.settings import server_settings

    if lacking := missing():
        sys.exit(lacking)
    # A shell makes background processes ignore Ctrl-C; restore the handler.
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), cluster(server_settings(build_jar())) as made:
        places = (made.folder, f"thrift: {HOST}:{made.ports['thrift']}", made.metastore_uri, made.master_url)
        print(*places, sep="\n", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
