"""Run the commands: `check` in a separate process with a JSON report, and `table` in this process."""

from __future__ import annotations

import os
from typing import Any

from click.testing import Result
from spark_subprocess import PROGRAM

from conftest import Project

COMMAND = [*PROGRAM, "check"]


def environment() -> dict[str, str]:
    return os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}


def verdicts(model: dict[str, Any]) -> list[tuple[str, str]]:
    return [(operator["kind"], operator["verdict"]) for operator in model["operators"]]


def explained(model: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return [
        (operator["kind"], operator["verdict"], [finding["reason"] for finding in operator["findings"]])
        for operator in model["operators"]
    ]


def command(project: Project, *arguments: str) -> Result:
    """Run `spark-bucketing` for a project, in this process and session."""
    from click.testing import CliRunner

    from spark_bucketing.cli import main

    return CliRunner().invoke(main, [*arguments, *project.place])
