"""Test that a statement on a table of 100,000 files is planned quickly on the driver."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_bucketing.extension.build import build_jar, cache_folder, find_java, find_spark

SOURCE = Path(__file__).parents[1] / "support" / "ManyFiles.scala"


def compiled(java: str, jars: str, folder: Path) -> Path:
    """Compile the program, unless the cache has it for this extension; return its jar."""
    digest = hashlib.sha256(SOURCE.read_bytes() + build_jar().name.encode()).hexdigest()[:12]
    jar = cache_folder() / f"many-files-{digest}.jar"
    if not jar.exists():
        made = folder / jar.name
        compiler = [java, "-cp", jars, "scala.tools.nsc.Main", "-usejavacp", "-d", str(made), str(SOURCE)]
        subprocess.run(compiler, check=True)
        shutil.copy(made, jar.with_suffix(".copy"))
        jar.with_suffix(".copy").replace(jar)
    return jar


@pytest.mark.long
def test_statement_on_many_files_is_planned_in_a_second(tmp_path: Path) -> None:
    """Time is the driver's CPU time, which other processes do not affect."""
    java, jars = find_java(), f"{build_jar()}:{find_spark().jars}/*"
    program = [
        java,
        "-Xmx600m",
        "-cp",
        f"{compiled(java, jars, tmp_path)}:{jars}",
        "org.apache.spark.sql.bucketing.dml.ManyFiles",
    ]
    lines = subprocess.run(program, check=True, capture_output=True, text=True).stdout.splitlines()
    # The first run also loads and compiles classes.
    milliseconds, mebibytes, *sizes = map(int, lines[-1].split())
    assert sizes == [100_000, 200, 33_200]
    assert milliseconds < 1000 and mebibytes < 200
