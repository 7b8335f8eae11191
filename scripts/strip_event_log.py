"""Reduce an event log to a small test case.

The test case contains only some models, and no paths, hosts, users and settings.

Usage: strip_event_log.py LOG CASE.gz MODEL...
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_bucketing.event_log.log_files import ReadCounts, find_logs, read_lines

# Fields that contain machine names, paths, settings or long texts.
_DROPPED = ("details", "modifiedConfigs", "jobTags", "RDD Info", "Details", "Stage Infos", "metadata", "Callsite")
_PATH = re.compile(r"(file:)?(?<![\w\]])/[\w.+=@-]+(/[\w.+=@-]+)+")
_KEPT = re.compile(
    r'\{"Event":"(org\.apache\.spark\.sql\.(execution\.ui|bucketing\.explain)\.)?SparkListener'
    r"(ApplicationStart|ApplicationEnd|SQLExecution|BucketPlan|JobStart|StageCompleted|TaskEnd)"
)


def stripped(value: Any) -> Any:
    """Return a JSON value without private fields and paths."""
    if isinstance(value, dict):
        return {key: stripped(one) for key, one in value.items() if key not in _DROPPED}
    if isinstance(value, list):
        return [stripped(one) for one in value]
    return _PATH.sub("/path", value) if isinstance(value, str) else value


def _kept(comment: str, models: list[str]) -> bool:
    """Return whether a statement belongs to one of these models, or to no model.

    Statements without a model separate dbt invocations.
    """
    return '"app": "dbt"' in comment and ("node_id" not in comment or any(f".{name}" in comment for name in models))


def case(log: str, models: list[str]) -> Iterator[str]:
    """Yield the lines of the test case."""
    executions: set[int] = set()
    stages: set[int] = set()
    for files in find_logs([log]):
        for line in read_lines(files, ReadCounts()):
            text = line.decode()
            if not _KEPT.match(text):
                continue
            data = json.loads(text)
            number = data.get("executionId")
            if "sparkPlanInfo" in data and _kept(str(data.get("description")), models):
                executions.add(number)
            properties = data.pop("Properties", None) or {}
            execution = properties.get("spark.sql.execution.id")
            if execution and int(execution) in executions:
                stages |= set(data["Stage IDs"])
                data["Properties"] = {"spark.sql.execution.id": execution}
            stage = (data.get("Stage Info") or {}).get("Stage ID", data.get("Stage ID"))
            if data["Event"].endswith("ApplicationStart"):
                data = {"Event": data["Event"], "App Name": "tpch", "App ID": "local-1", "Timestamp": 0, "User": "user"}
            elif data["Event"].endswith("ApplicationEnd"):
                data = {"Event": data["Event"], "Timestamp": 0}
            elif data["Event"].endswith("TaskEnd"):
                data = {"Event": data["Event"], "Stage ID": stage}
            elif number not in executions and "Properties" not in data and stage not in stages:
                continue
            yield json.dumps(stripped(data), separators=(",", ":")) + "\n"


def write_case(log: str | Path, target: Path, models: list[str]) -> None:
    """Write the test case as a file compressed with gzip."""
    target.write_bytes(gzip.compress("".join(case(str(log), models)).encode(), mtime=0))


if __name__ == "__main__":
    source, target, *names = sys.argv[1:]
    write_case(source, Path(target), names)
