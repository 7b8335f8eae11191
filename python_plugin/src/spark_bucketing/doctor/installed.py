"""Check the local installation: Python, dbt, and whether the Python and the dbt package have the same version."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from spark_bucketing.doctor.diagnosis import Diagnosis, wrong
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.freshness import read_project

_PACKAGE = "spark_bucketing"


def examine_installed(project_dir: Path) -> Iterator[Diagnosis]:
    """Check the versions of all packages that are required by dbt runs and by spark-bucketing commands.

    Args:
        project_dir: the directory that contains dbt_project.yml.
    """
    yield Diagnosis("Python", ".".join(map(str, sys.version_info[:3])))
    for distribution in ("dbt-core", "dbt-spark"):
        found = _version(distribution)
        if found:
            yield Diagnosis(distribution, found)
        else:
            yield wrong(distribution, "not installed", "pip install 'spark-bucketing[dbt]'")
    yield _dbt_package(project_dir, _version("spark-bucketing") or "")


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _dbt_package(project_dir: Path, plugin: str) -> Diagnosis:
    project = _read(project_dir)
    folder = project_dir / str(project.get("packages-install-path") or "dbt_packages") / _PACKAGE
    # The project may itself be the package.
    package = project if project.get("name") == _PACKAGE else _read(folder)
    found = str(package.get("version") or "")
    if not found:
        return Diagnosis(
            "dbt package", "not installed in this project", "unknown", "add it to packages.yml, and run `dbt deps`"
        )
    if found != plugin:
        return wrong(
            "dbt package",
            f"version {found}, but this command has version {plugin}",
            f"use the same release for both: set `revision:` in packages.yml, or pip install spark-bucketing=={found}",
        )
    return Diagnosis("dbt package", f"version {found}, same as this command")


def _read(folder: Path) -> Mapping[str, object]:
    with suppress(ProjectError):
        return read_project(folder)
    return {}
