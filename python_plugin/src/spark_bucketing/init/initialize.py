"""Plan the changes that `spark-bucketing init` makes to an existing dbt project."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.advise.layout_options import number_of_buckets
from spark_bucketing.edits import ConfigChange, FileEdit, plan_edits
from spark_bucketing.edits.file_edits import read
from spark_bucketing.errors import ProjectError
from spark_bucketing.init.yaml_files import PACKAGE, add_package, add_settings, is_this_package, packages_of
from spark_bucketing.project.profile import Target

# Target size of a bucket's file.
_BUCKET_BYTES = 256 * 2**20
_BUCKETED = {
    "view": "bucketed_table",
    "table": "bucketed_table",
    "incremental": "bucketed_incremental",
    "bucketed_table": "bucketed_table",
    "bucketed_incremental": "bucketed_incremental",
}


@dataclass(frozen=True)
class FirstModel:
    """The first model to bucket.

    Attributes:
        name: the model's name, as in ref().
        columns: the bucket columns.
        size_bytes: size of the model's table, or None to query the warehouse for it.
        buckets: number of buckets, or None to derive it from the table's size.
    """

    name: str
    columns: tuple[str, ...]
    size_bytes: int | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class Setup:
    """Edits of the project's files, and notes about the steps that the user has to take."""

    edits: tuple[FileEdit, ...]
    notes: tuple[str, ...]


def package_entry(source: str | None, revision: str, project_dir: Path, checkout: Path | None) -> Mapping[str, str]:
    """Return the package's entry for packages.yml.

    Args:
        source: URL of a Git repository, or a directory with the dbt package, or None to use `checkout`.
        revision: branch, tag or commit of a Git repository.
        project_dir: directory of the user's dbt_project.yml.
        checkout: directory from which spark-bucketing was installed, if it contains the dbt package.

    Raises:
        ProjectError: the source is unknown, or the directory does not contain the dbt package.
    """
    if source is None and checkout is None:
        raise ProjectError(
            "The source of the dbt package is unknown.",
            expected="the URL of its Git repository, or a directory",
            instead="--package <URL or directory>",
        )
    if source is not None and (":" in source or not Path(source).is_dir()):
        return {"git": source, "revision": revision}
    folder = Path(source).resolve() if source is not None else checkout
    if folder is None or not is_package(folder):
        raise ProjectError(
            f"The directory `{source}` is not the dbt package `{PACKAGE}`.",
            found="no `dbt_project.yml` of the package",
            expected="a checkout of the package's repository",
            instead="clone the repository, and pass its directory to `--package`",
        )
    return {"local": os.path.relpath(folder, project_dir.resolve())}


def is_package(folder: Path) -> bool:
    """Return whether a directory contains the dbt package spark_bucketing."""
    try:
        data = yaml.safe_load(read(folder / "dbt_project.yml"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(data, dict) and data.get("name") == PACKAGE


def package_edit(project_dir: Path, source: str | None, revision: str, checkout: Path | None) -> FileEdit | None:
    """Add the package to the project's packages, or return None if the project already has it.

    See package_entry() for the arguments and errors. If the project already has the package, an unknown source is no
    error.
    """
    # dbt accepts packages in only one of these two files.
    dependencies = Path("dependencies.yml")
    path = dependencies if "packages:" in _text(project_dir / dependencies) else Path("packages.yml")
    before = _text(project_dir / path)
    for one in packages_of(before, str(path)):
        if is_this_package(one) or ("local" in one and is_package(project_dir / str(one["local"]))):
            return None
    entry = package_entry(source, revision, project_dir, checkout)
    return _edit(path, before, add_package(before, entry, str(path)))


def profile_edit(target: Target, settings: Mapping[str, str]) -> FileEdit | None:
    """Add the settings to the target in profiles.yml, or return None if the target already loads the extension."""
    path = target.profiles_dir / "profiles.yml"
    before = _text(path)
    shown = path.relative_to(target.project_dir) if path.is_relative_to(target.project_dir) else path
    return _edit(shown, before, add_settings(before, target.profile, target.name, settings, str(shown)))


def model_edits(
    project_dir: Path, manifest: Mapping[str, Any], model: FirstModel, size_of: Callable[[str], int | None]
) -> Setup:
    """Edit the config of the first model to bucket.

    Args:
        project_dir: directory of dbt_project.yml.
        manifest: the content of manifest.json.
        model: the model and its bucket spec.
        size_of: returns the size of a relation in bytes, or None if the relation does not exist.

    Raises:
        ProjectError: the model does not exist, cannot be bucketed, or has an unknown size.
    """
    node = _node(manifest, model.name)
    config = node.get("config") or {}
    materialized = str(config.get("materialized"))
    if materialized not in _BUCKETED:
        raise ProjectError(
            f"Model `{model.name}` cannot be bucketed.",
            found=f"materialized={materialized!r}",
            expected=f"one of {', '.join(_BUCKETED)}",
            instead="choose another model, or change its `materialized`",
        )
    size = model.size_bytes if model.size_bytes is not None or model.buckets else size_of(str(node["relation_name"]))
    if size is None and model.buckets is None:
        raise ProjectError(
            f"The size of model `{model.name}` is unknown.",
            found=f"no table {node['relation_name']}",
            expected="a table to measure, or a number",
            instead="--size 50GiB, or --buckets 64",
        )
    buckets = model.buckets or number_of_buckets(size or 0, _BUCKET_BYTES)
    change = {"materialized": _BUCKETED[materialized], "clustered_by": list(model.columns), "buckets": buckets}
    edits, refusals = plan_edits(project_dir, manifest, [ConfigChange(node["unique_id"], change)])
    notes = [f"{one.reason} Write this config by hand:\n{one.instead}" for one in refusals]
    if size is not None and size < _BUCKET_BYTES:
        notes.append(
            f"The table of model `{model.name}` is smaller than 256 MiB. Buckets do not help tables that Spark can "
            "broadcast."
        )
    return Setup(tuple(edits), tuple(notes))


def _node(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    models = [node for node in manifest["nodes"].values() if node["resource_type"] == "model"]
    found = [node for node in models if name in (node["name"], node["unique_id"])]
    if not found:
        raise ProjectError(
            f"The project has no model `{name}`.",
            expected="the name of a model",
            instead="run `dbt ls --resource-type model` to list the models",
        )
    node: Mapping[str, Any] = found[0]
    return node


def _text(path: Path) -> str:
    try:
        return read(path)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(
            f"The file `{path}` cannot be read.",
            found=error,
            expected="a text file that this user can read",
            instead="grant access to the file, or save it as UTF-8",
        ) from error


def _edit(path: Path, before: str, after: str) -> FileEdit | None:
    return FileEdit(path, before, after, ()) if after != before else None
