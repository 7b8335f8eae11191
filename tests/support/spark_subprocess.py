"""Run Spark in subprocesses that share one metastore, one after another.

If run as a program, this module reads a request from standard input, and writes the rows of each statement and the
output of each command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from spark_bucketing.cli import main; main(prog_name='spark-bucketing')"]
COMMAND = [*PROGRAM, "table"]
DBT = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
# A table with mixed bucket specs.
CREATE = (
    "create database s",
    "create table s.t (k bigint, v bigint) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets "
    "stored as parquet",
)
# Tests run many small statements, and the generated code of each runs only a few times, so skip the optimizing compiler.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Most statements process few rows, so it would take longer to compile code for them than to interpret their operators and
# expressions.
QUICK_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The statement after a crash does not wait for the crashed statement.
    "spark.bucketing.write.recoverAfter": "0",
}
# Spark serializes all Hadoop settings for each scan and each write, and each thread of dbt makes the metastore parse them
# again, so this folder replaces large defaults.
SMALL_DEFAULTS = Path(__file__).with_name("hadoop")
_MARK = "the results: "
Step = str | tuple[str, ...]


def settings_below(home: Path, memory: str = "1g", java: str = QUICK_JVM) -> dict[str, str]:
    """Return the settings of a Spark subprocess that keeps all files below one folder."""
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home} -Djava.io.tmpdir={home} {java}",
    }


def install_package(project: Path) -> None:
    """Install this repository in a dbt project."""
    (project / "packages.yml").write_text(f"packages: [{{local: '{REPOSITORY}'}}]")
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "spark_bucketing").symlink_to(REPOSITORY)


class SparkSubprocess:
    """A new folder with a warehouse, a metastore and a dbt profile, with or without the extension."""

    def __init__(self, folder: Path, schema: str, extension: bool = True) -> None:
        from spark_bucketing.extension.build import build_jar
        from spark_bucketing.extension.settings import extension_settings

        self.folder = folder
        extended = extension_settings(build_jar()) | {"spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict"}
        # In these tests, the metastore's database must survive a crash.
        self.settings = (extended if extension else {}) | settings_below(folder) | QUICK_SETTINGS
        self.settings["spark.driver.extraClassPath"] = str(SMALL_DEFAULTS)
        self.settings["spark.local.dir"] = str(folder / "local")
        self.settings["spark.hadoop.hive.downloaded.resources.dir"] = str(folder / "resources")
        output = {"type": "spark", "method": "session", "host": "NA", "schema": schema, "threads": 1}
        profile = {"t": {"target": "t", "outputs": {"t": output | {"server_side_parameters": self.settings}}}}
        project = {"name": "t", "profile": "t", "flags": {"send_anonymous_usage_stats": False}}
        for name, content in {"profiles.yml": profile, "dbt_project.yml": project}.items():
            (folder / name).write_text(yaml.safe_dump(content))

    def install(self, models: dict[str, str]) -> None:
        """Turn the folder into a dbt project that has these models and installs this repository."""
        install_package(self.folder)
        (self.folder / "models").mkdir()
        for name, sql in models.items():
            (self.folder / "models" / f"{name}.sql").write_text(sql)

    def dbt(self, *arguments: str) -> list[str]:
        return [*DBT, *arguments, *self.place]

    def run(self, *steps: Step) -> list[Any]:
        """Run SQL statements, `doctor`, commands of `spark-bucketing table`, and dbt commands, which start with `dbt`.

        Returns the rows of each statement, and (exit code, output) of each command.
        """
        request = {"settings": self.settings, "steps": steps, "folder": str(self.folder)}
        done = subprocess.run(
            [sys.executable, __file__],
            input=json.dumps(request), capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return list(json.loads(done.stdout.split(_MARK, 1)[1]))

    def kill(self, command: list[str], when: Callable[[str], bool], delay: float) -> bool:
        """Kill a command and its Spark `delay` seconds after a certain output; return whether it was still running."""
        log = self.folder / "killed.log"
        with (
            log.open("w") as output,
            subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True) as process,
        ):
            while process.poll() is None and not when(log.read_text()):
                time.sleep(0.02)
            end = time.monotonic() + delay
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return process.returncode == -signal.SIGKILL

    @property
    def place(self) -> list[str]:
        return ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]


def interrupted(warehouse: Path, place: list[str]) -> list[str]:
    """Start a rewrite of the table, interrupt it while it writes files, and return its output lines."""
    command = [*COMMAND, "rewrite", "s.t", *place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while process.poll() is None and not list(warehouse.glob("s.db/t/_replaced/*/files/*")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    lines = [line for line in said.splitlines() if "WARN" not in line]
    assert process.returncode == 130 and lines[-1].startswith("Interrupted.") and "Traceback" not in said, said
    return lines


def _main(request: dict[str, Any]) -> None:
    from spark_bucketing.session import open_session

    session = open_session(request["settings"])
    results = [_done(session, step, request["folder"]) for step in request["steps"]]
    sys.stdout.write(_MARK + json.dumps(results, default=str))


def _done(session: Any, step: str | list[str], folder: str) -> Any:
    if isinstance(step, str):
        return [list(row) for row in session.sql(step).collect()]
    place = ["--project-dir", folder, "--profiles-dir", folder]
    if step[0] == "dbt":
        from dbt.cli.main import dbtRunner

        outcome = dbtRunner().invoke([*step[1:], "--quiet", *place])
        messages = [str(result.message) for result in getattr(outcome.result, "results", None) or []]
        return [0 if outcome.success else 1, f"{outcome.exception} {messages}"]
    from click.testing import CliRunner

    from spark_bucketing.cli import main

    result = CliRunner().invoke(main, [*([] if step[0] == "doctor" else ["table"]), *step, *place])
    return [result.exit_code, result.output]


if __name__ == "__main__":
    _main(json.load(sys.stdin))
