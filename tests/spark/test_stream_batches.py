"""Tests that a batch of a stream that is repeated after a kill is applied once, with an application id and a version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import stream_batches
from local_files import file_system_settings
from spark_subprocess import SparkSubprocess

# Each of three batches has three of these keys.
KEYS = [0, 1, 2, 1, 2, 3, 2, 3, 4]


def expected(statement: str) -> list[list[int]]:
    old = [[key, 0] for key in range(4)]
    if statement == "insert":
        return sorted([*old, *([key, 1] for key in KEYS)])
    return [[key, KEYS.count(key)] for key in range(5 if statement == "merge" else 4)]


@pytest.mark.long
@pytest.mark.parametrize("layout", stream_batches.CREATE)
@pytest.mark.parametrize("statement", stream_batches.STATEMENTS)
def test_batch_that_is_repeated_after_a_kill_is_applied_once(tmp_path: Path, layout: str, statement: str) -> None:
    """The kill is after the commit of the first batch, and before Spark notes the end of the batch in the checkpoint."""
    subprocesses, settings = SparkSubprocess(tmp_path, "default"), tmp_path / "settings.json"
    quiet = {"spark.ui.showConsoleProgress": "false"}
    settings.write_text(json.dumps(subprocesses.settings | quiet | file_system_settings()))
    program = [sys.executable, stream_batches.__file__, str(settings), layout, statement]
    records = tmp_path / "warehouse" / "t" / "_replaced"
    seen: set[Path] = set()

    def has_committed(text: str) -> bool:
        if '{"holds"' not in text:
            seen.update(records.glob("*/outcome"))
            return False
        return any(not (path.parent / "done").exists() for path in set(records.glob("*/outcome")) - seen)

    assert subprocesses.kill([*program, "stop"], has_committed, 0.5), (tmp_path / "killed.log").read_text()[-3000:]
    assert not [*(tmp_path / "checkpoint" / "commits").glob("[0-9]*")], "the first batch has ended"
    done = subprocess.run([*program, "end"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert found["read"] == len(KEYS) and found["rows"] == expected(statement)
