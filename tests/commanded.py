"""The command line of the check in a process of its own, and what its JSON report says."""

from __future__ import annotations

import os
import sys
from typing import Any

COMMAND = [sys.executable, "-c", "from spark_bucketing.cli import main; main(prog_name='spark-bucketing')", "check"]


def environment() -> dict[str, str]:
    return os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}


def verdicts(model: dict[str, Any]) -> list[tuple[str, str]]:
    return [(operator["kind"], operator["verdict"]) for operator in model["operators"]]


def explained(model: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return [
        (operator["kind"], operator["verdict"], [finding["reason"] for finding in operator["findings"]])
        for operator in model["operators"]
    ]
