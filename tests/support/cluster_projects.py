"""Run dbt projects on a cluster; each command is a separate process that tests can observe."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml
from cluster import HOST, Cluster
from spark_subprocess import DBT, PROGRAM, install_package


class Ended(NamedTuple):
    code: int
    output: str

    def checked_output(self) -> str:
        """Check that the command succeeded, and return its output."""
        assert self.code == 0, self.output
        return self.output


class Running(NamedTuple):
    """A running command, whose output goes to a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def end(self, seconds: float = 300) -> Ended:
        """Wait until the command ends; kill it and fail after a timeout."""
        try:
            return Ended(self.process.wait(seconds), self.log.read_text())
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"The command did not end in time:\n{self.log.read_text()}") from None

    def until(self, happened: Callable[[], bool], seconds: float = 120) -> None:
        """Wait for a condition; fail if the command ends first, or after a timeout."""
        end = time.monotonic() + seconds
        while not happened():
            assert self.process.poll() is None, f"The command ended first:\n{self.log.read_text()}"
            assert time.monotonic() < end, f"The condition was not met in time:\n{self.log.read_text()}"
            time.sleep(0.005)


class ClusterProject:
    """A dbt project on the cluster, in its own folder.

    The target `thrift` is the cluster's Thrift Server. The target `session` is an embedded Spark with the same metastore
    and the given settings.
    """

    def __init__(
        self, cluster: Cluster, schema: str, *, project: Path | None = None, session: Mapping[str, str] | None = None
    ) -> None:
        """Create the project.

        Args:
            project: an existing project to run in place; None to create a project that installs this repository.
            session: settings of the target `session`.
        """
        self.cluster, self.schema = cluster, schema
        self.home = cluster.folder / f"dbt_{schema}"
        self.home.mkdir()
        self.folder = project or self.home
        self._commands = 0
        if not project:
            flags = {"send_anonymous_usage_stats": False}
            self.write("dbt_project.yml", yaml.safe_dump({"name": "t", "profile": "t", "flags": flags}))
            install_package(self.home)
        name = yaml.safe_load((self.folder / "dbt_project.yml").read_text())["profile"]
        common = {"type": "spark", "schema": schema, "threads": 2}
        port = cluster.ports["thrift"]
        outputs = {
            "thrift": common | {"method": "thrift", "host": HOST, "port": port, "user": "me"},
            "session": common | {"method": "session", "host": "NA", "server_side_parameters": dict(session or {})},
        }
        self.write("profiles.yml", yaml.safe_dump({name: {"target": "thrift", "outputs": outputs}}))

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def model(self, name: str, sql: str, **config: object) -> None:
        arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
        self.write(f"models/{name}.sql", f"{{{{ config({arguments}) }}}}\n{sql}\n")

    def table(self, name: str) -> Path:
        """Return the folder of a managed table."""
        return self.cluster.folder / "warehouse" / f"{self.schema}.db" / name

    def start(self, command: list[str], **environment: str) -> Running:
        self._commands += 1
        log = self.home / f"command_{self._commands}.log"
        place = ["--project-dir", str(self.folder), "--profiles-dir", str(self.home)]
        own = {"DBT_TARGET_PATH": str(self.home / f"target_{self._commands}"), "DBT_LOG_PATH": str(self.home / "logs")}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *place], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=os.environ | {"SPARK_LOCAL_IP": HOST} | own | environment,
            )  # fmt: skip
        return Running(process, log)

    def start_dbt(self, *arguments: str, **environment: str) -> Running:
        return self.start([*DBT, *arguments, "--no-use-colors"], **environment)

    def dbt(self, *arguments: str, **environment: str) -> Ended:
        return self.start_dbt(*arguments, **environment).end()

    def command(self, *arguments: str, **environment: str) -> Ended:
        return self.start([*PROGRAM, *arguments], **environment).end()
