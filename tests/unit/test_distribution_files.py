"""Tests that the wheel is complete, and that it has the same version as the dbt package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from conftest import REPOSITORY

SOURCE = REPOSITORY / "python_plugin" / "src"


def test_all_version_numbers_agree() -> None:
    project = (REPOSITORY / "python_plugin" / "pyproject.toml").read_text()
    macro = (REPOSITORY / "macros" / "bucketing" / "sql" / "package_version.sql").read_text()
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    found = {
        "installed": version("spark-bucketing"),
        "pyproject.toml": re.findall(r'^version = "(.+)"$', project, re.MULTILINE)[0],
        "dbt_project.yml": yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text())["version"],
        "package_version": re.findall(r"return\('(.+)'\)", macro)[0],
        "CHANGELOG.md": re.findall(r"^## (?:Unreleased \()?([^ ,)]+)", changes, re.MULTILINE)[0],
    }
    assert len(set(found.values())) == 1, found


@pytest.mark.long
def test_wheel_is_complete_and_builds_the_extension(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), "./python_plugin"], cwd=REPOSITORY, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    written = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert written <= set(zipfile.ZipFile(wheel).namelist())
    subprocess.run([*pip, "install", "--no-deps", "--target", str(tmp_path / "installed"), str(wheel)], check=True)
    code = "import spark_bucketing, sys; from spark_bucketing.cli import main; print(spark_bucketing.__file__, file=sys.stderr); main()"
    built = subprocess.run(
        [sys.executable, "-c", code, "extension", "build", "--cache-dir", str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path / "installed") in built.stderr
    assert Path(built.stdout.strip()).is_file()
