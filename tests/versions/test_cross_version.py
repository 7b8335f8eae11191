"""Tests that every Spark version reads the buckets that another version wrote, with the same format of seals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long
SCRIPT = Path(__file__).with_name("spark_of_version.py")
ENVIRONMENTS = Path(__file__).parents[2] / ".venv"
DEFAULT = "default"
TABLES = ("flat", "orc", "days", "by_value", "spark")
VERSIONS = [*os.environ.get("VERSIONS", "").split(), DEFAULT]


def run(home: Path, action: str, spark: str, *tables: str) -> dict[str, Any]:
    """Run the script with the Spark of this version, and return its result."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    if spark != DEFAULT:
        environment["PYTHONPATH"] = str(ENVIRONMENTS / f"spark-{spark}")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), action, str(home), *(name.replace(".", "_") for name in tables)],
        env=environment, capture_output=True, text=True, check=False, cwd=home, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert spark == DEFAULT or found["spark"].startswith(f"{spark}."), "PYTHONPATH must select this version of Spark"
    tables_found: dict[str, Any] = found["tables"]
    return tables_found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a metastore in which each version has written and sealed its tables."""
    home = tmp_path_factory.mktemp("versions")
    for spark in VERSIONS:
        assert run(home, "write", spark, spark) == {name: ["sealed"] for name in TABLES}
    return home


@pytest.mark.parametrize("spark", VERSIONS)
def test_every_version_reads_the_buckets_of_all_versions(home: Path, spark: str) -> None:
    found = run(home, "read", spark, *VERSIONS)
    assert len(found) == len(TABLES) * len(VERSIONS)
    for name, join in found.items():
        assert join["equal"] and join["rows"], name
        # Spark sorts buckets whose table has no sort columns.
        assert join["shape"] == [0, 2 if name.startswith("by_value") else 0, 2], name
