"""Determine whether a manifest is up to date with the project's files, so that `check` need not compile the project."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.errors import ProjectError

# Settings of dbt_project.yml that name directories, with dbt's defaults.
_FOLDERS = {
    "model-paths": ["models"],
    "macro-paths": ["macros"],
    "analysis-paths": ["analyses"],
    "snapshot-paths": ["snapshots"],
    "seed-paths": ["seeds"],
}
_FILES = ("dbt_project.yml", "packages.yml", "dependencies.yml", "package-lock.yml")


def read_project(project_dir: Path) -> Mapping[str, Any]:
    """Read dbt_project.yml."""
    file = project_dir / "dbt_project.yml"
    kinds, instead = (OSError, UnicodeDecodeError, yaml.YAMLError), "correct the file, and run the command again"
    with ProjectError.replacing(kinds, f"The file `{file}` cannot be read.", instead=instead):
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ProjectError(
            f"The file `{file}` is not a mapping of settings.",
            expected="settings such as `name: my_project`",
            instead=instead,
        )
    return data


def is_fresh(
    manifest: Path, project_dir: Path, profiles_dir: Path, target: str | None = None, variables: str = "{}"
) -> bool:
    """Return whether a manifest is newer than the project's files, and belongs to this target and these variables.

    The run_results.json of the same run, next to the manifest, has its arguments. Environment variables do not count.
    """
    try:
        written = manifest.stat().st_mtime
        results = json.loads((manifest.parent / "run_results.json").read_text(encoding="utf-8"))
        run = json.loads(manifest.read_text(encoding="utf-8"))["metadata"]["invocation_id"]
        arguments = results["args"]
        same_run = results["metadata"]["invocation_id"] == run
    except (OSError, ValueError, KeyError, TypeError):
        return False
    sentence = "The value of `--vars` is not valid YAML."
    with ProjectError.replacing(yaml.YAMLError, sentence, "a mapping, as for dbt", "--vars '{start: 2024-01-01}'"):
        given = yaml.safe_load(variables) or {}
    if not same_run or arguments.get("target") != target or (arguments.get("vars") or {}) != given:
        return False
    return all(time < written for time in _times(project_dir, profiles_dir))


def _times(project_dir: Path, profiles_dir: Path) -> Iterator[float]:
    """Yield the modification times of the project's files, and of directories, which reveal deleted files."""
    settings = read_project(project_dir)
    packages = project_dir / str(settings.get("packages-install-path") or "dbt_packages")
    for path in (profiles_dir / "profiles.yml", *(project_dir / name for name in _FILES), packages):
        if path.exists():
            yield path.stat().st_mtime
    yield from _sources(project_dir, settings)
    # A package may be a link to a directory under development.
    for package in sorted(packages.iterdir()) if packages.is_dir() else ():
        file = package / "dbt_project.yml"
        if file.exists():
            yield file.stat().st_mtime
        yield from _sources(package, read_project(package) if file.exists() else {})


def _sources(project_dir: Path, settings: Mapping[str, Any]) -> Iterator[float]:
    """Yield the modification times of all files in a project or package, including directories that are links."""
    seen: set[str] = set()
    for setting, default in _FOLDERS.items():
        names = settings.get(setting) or default
        for name in [names] if isinstance(names, str) else names:
            for folder, below, files in os.walk(project_dir / name, followlinks=True):
                # A link may point to a parent directory.
                if os.path.realpath(folder) in seen:
                    below.clear()
                    continue
                seen.add(os.path.realpath(folder))
                yield Path(folder).stat().st_mtime
                yield from (path.stat().st_mtime for file in files if (path := Path(folder, file)).exists())
