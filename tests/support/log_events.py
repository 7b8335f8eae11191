"""Build small event logs from statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

_EXECUTION = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
END = b'{"Event":"SparkListenerApplicationEnd","Timestamp":99}\n'
INSERT, CREATE = "InsertIntoHadoopFsRelationCommand", "CreateDataSourceTableAsSelectCommand"


def comment(node: str = "", **fields: str) -> str:
    """Return dbt's query comment."""
    return json.dumps({"app": "dbt", **fields} | ({"node_id": node} if node else {}))


def application(name: str) -> bytes:
    """Return the event at the start of an application."""
    return _line({"Event": "SparkListenerApplicationStart", "App ID": name, "Timestamp": 0})


def statement(number: int, description: str = "", table: str = "", command: str = INSERT, buckets: str = "") -> bytes:
    """Return the events of a statement, which may write a table; the number is its time in seconds and its id."""
    arguments = f"file:/t, false, Parquet, Append, `spark_catalog`.`{table.replace('.', '`.`')}`, [id]{buckets}"
    plan = {"nodeName": f"Execute {command}" if table else "Project", "simpleString": "", "children": [], "metrics": []}
    start = {
        "Event": f"{_EXECUTION}Start",
        "executionId": number,
        "description": description,
        "physicalPlanDescription": f"(1) Execute {command}\nInput: []\nArguments: {arguments}\n" if table else "",
        "sparkPlanInfo": plan,
        "time": number * 1000,
    }
    end = {"Event": f"{_EXECUTION}End", "executionId": number, "time": number * 1000 + 500, "errorMessage": ""}
    return _line(start) + _line(end)


def without_end(events: bytes) -> bytes:
    """Return the events of a statement without its end."""
    return events.splitlines(keepends=True)[0]


def write_log(path: Path, events: Sequence[bytes], end: bytes = END) -> str:
    """Write the log of one application, with the file's name as its id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([application(path.name), *events, end]))
    return str(path)


def _line(event: dict[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"
