"""Plan the changes that `spark-bucketing init` makes to an existing dbt project."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.edits import FileEdit, plan_edits
from spark_bucketing.edits.file_edits import CannotEditError, read
from spark_bucketing.edits.yaml_files import Keys, set_keys
from spark_bucketing.errors import ProfileError, ProjectError
from spark_bucketing.extension.build import is_other_build
from spark_bucketing.extension.settings import as_profile
from spark_bucketing.project.manifest import read_project
from spark_bucketing.project.profile import Target
from spark_bucketing.spec import number_of_buckets

PACKAGE = "spark_bucketing"
# Comma-separated settings, which may already have entries.
_LISTS = ("spark.jars", "spark.sql.extensions")
#: Target size of a bucket's file, in bytes. A smaller table needs no buckets.
BUCKET_BYTES = 256 * 2**20
_BUCKETED = {
    "view": "bucketed_table",
    "table": "bucketed_table",
    "incremental": "bucketed_incremental",
    "bucketed_table": "bucketed_table",
    "bucketed_incremental": "bucketed_incremental",
}


def is_package(folder: Path) -> bool:
    """Return whether a directory contains the dbt package spark_bucketing."""
    with suppress(ProjectError):
        return bool(read_project(folder).get("name") == PACKAGE)
    return False


def package_entry(source: str | None, revision: str, project_dir: Path, checkout: Path | None) -> Mapping[str, str]:
    """Return the package's entry for packages.yml; `checkout` is where this plugin comes from, if known."""
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
    # Keep a path that dbt finds, for example with symbolic links.
    if source and not Path(source).is_absolute() and (project_dir / source).resolve() == folder:
        return {"local": source}
    return {"local": os.path.relpath(folder, project_dir.resolve())}


def package_edit(project_dir: Path, source: str | None, revision: str, checkout: Path | None) -> FileEdit | None:
    """Add the package to the project's packages, or return None if the project already has it."""
    # dbt accepts packages in only one of these two files.
    dependencies = Path("dependencies.yml")
    path = dependencies if "packages:" in _text(project_dir / dependencies) else Path("packages.yml")
    before = _text(project_dir / path)
    entries = _packages(_parsed(before, str(path), ProjectError), str(path))
    if any(
        _is_this_package(one) or ("local" in one and is_package(project_dir / str(one["local"]))) for one in entries
    ):
        return None
    entry = package_entry(source, revision, project_dir, checkout)
    return _edit(path, before, add_package(before, entry, str(path)))


def add_package(text: str, entry: Mapping[str, str], file: str = "packages.yml") -> str:
    """Add an entry to the text of a packages file, unless it already contains this package."""
    data = _parsed(text, file, ProjectError)
    packages = _packages(data, file)
    if any(one == dict(entry) or _is_this_package(one) for one in packages):
        return text
    if data is None:
        lines = yaml.safe_dump(dict(entry), sort_keys=False).splitlines()
        above = text if not text or text.endswith("\n") else f"{text}\n"
        return above + "packages:\n  - " + "\n    ".join(lines) + "\n"
    lines_by_hand = yaml.safe_dump([dict(entry)], sort_keys=False)
    return _edited(text, file, (), {"packages": [*packages, dict(entry)]}, lines_by_hand)


def profile_edit(target: Target, settings: Mapping[str, str]) -> FileEdit | None:
    """Add the settings to the target in profiles.yml, or return None if the target already loads the extension."""
    path = target.profiles_dir / "profiles.yml"
    before = _text(path)
    shown = path.relative_to(target.project_dir) if path.is_relative_to(target.project_dir) else path
    return _edit(shown, before, add_settings(before, target.profile, target.name, settings, str(shown)))


def add_settings(text: str, profile: str, target: str, settings: Mapping[str, str], file: str = "profiles.yml") -> str:
    """Add Spark settings to the `server_side_parameters` of a target, unless it already loads the extension.

    Lists, such as `spark.jars`, keep their other entries, except for another build of the extension.
    """
    sentence = f"The file `{file}` has no target `{target}` in profile `{profile}`."
    expected, instead = "the profile and target that dbt uses", "choose another target with `--target`"
    data = _parsed(text, file, ProfileError)
    with ProfileError.replacing((KeyError, TypeError, AttributeError), sentence, expected, instead):
        found = data[profile]["outputs"][target].get("server_side_parameters") or {}
    jars = _listed(found.get("spark.jars"))
    current = [entry for entry in jars if not is_other_build(entry, Path(settings["spark.jars"]))]
    if settings["spark.sql.extensions"] in _listed(found.get("spark.sql.extensions")) and current == jars:
        return text
    before = {**found, "spark.jars": ",".join(current)}
    parameters = {
        key: ",".join(dict.fromkeys([*_listed(before.get(key)), value])) if key in _LISTS else value
        for key, value in settings.items()
    }
    path = (profile, "outputs", target)
    if found:
        return _edited(text, file, (*path, "server_side_parameters"), parameters, as_profile(parameters))
    return _edited(text, file, path, {"server_side_parameters": parameters}, as_profile(parameters))


def model_edits(
    project_dir: Path,
    manifest: Mapping[str, Any],
    name: str,
    columns: Sequence[str],
    size: int | None,
    buckets: int | None,
    size_of: Callable[[str], int | None],
) -> tuple[list[FileEdit], list[str]]:
    """Edit the config of the first model to bucket, and return notes, too; `size_of` returns the size of a relation."""
    models = [node for node in manifest["nodes"].values() if node["resource_type"] == "model"]
    node = next((node for node in models if name in (node["name"], node["unique_id"])), None)
    if node is None:
        raise ProjectError(
            f"The project has no model `{name}`.",
            expected="the name of a model",
            instead="run `dbt ls --resource-type model` to list the models",
        )
    materialized = str((node.get("config") or {}).get("materialized"))
    if materialized not in _BUCKETED:
        raise ProjectError(
            f"Model `{name}` cannot be bucketed.",
            found=f"materialized={materialized!r}",
            expected=f"one of {', '.join(_BUCKETED)}",
            instead="choose another model, or change its `materialized`",
        )
    size = size if size is not None or buckets else size_of(str(node["relation_name"]))
    if size is None and buckets is None:
        raise ProjectError(
            f"The size of model `{name}` is unknown.",
            found=f"no table {node['relation_name']}",
            expected="a table to measure, or a number",
            instead="--size 50GiB, or --buckets 64",
        )
    buckets = buckets or number_of_buckets(size or 0, BUCKET_BYTES)
    change = {"materialized": _BUCKETED[materialized], "clustered_by": list(columns), "buckets": buckets}
    if "bucket_hash" not in node["config"]:
        change["bucket_hash"] = _common_hash(models)
    edits, notes = config_edits(project_dir, manifest, {node["unique_id"]: change})
    if size is not None and size < BUCKET_BYTES:
        notes.append(
            f"The table of model `{name}` is smaller than 256 MiB. Buckets do not help tables that Spark can broadcast."
        )
    return edits, notes


def _common_hash(models: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash of most bucketed models, so that Spark can join the tables, or `hive2` if there are none."""
    configs = [node.get("config") or {} for node in models]
    used = Counter(str(one.get("bucket_hash") or "hive") for one in configs if one.get("clustered_by"))
    return used.most_common(1)[0][0] if used else "hive2"


def config_edits(
    project_dir: Path, manifest: Mapping[str, Any], changes: Mapping[str, Mapping[str, object]]
) -> tuple[list[FileEdit], list[str]]:
    """Edit the configs of models, and return a note for each config that the user must write."""
    edits, refusals = plan_edits(project_dir, manifest, changes)
    return edits, [
        f"Model `{one.model.split('.', 2)[2]}` is not edited. {one.reason} Write this config by hand:\n{one.instead}"
        for one in refusals
    ]


def _packages(data: Any, file: str) -> list[dict[str, Any]]:
    data = {} if data is None else data
    packages = data.get("packages") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(packages, list | None):
        raise ProjectError(
            f"The file `{file}` has no list of packages.",
            found=type(packages or data).__name__,
            expected="a mapping with the key `packages` and a list of entries",
            instead="correct the file, and run the command again",
        )
    return [dict(one) for one in packages or ()]


def _is_this_package(entry: Mapping[str, Any]) -> bool:
    """Return whether the source of an entry has the name of this package."""
    places = [str(value) for key, value in entry.items() if key in ("git", "local", "package", "tarball")]
    return any(place.rstrip("/").removesuffix(".git").endswith(("spark-bucketing", PACKAGE)) for place in places)


def _listed(found: object) -> list[str]:
    """Return the entries of a list, whose commas are not those of a Jinja expression."""
    return [entry.strip() for entry in re.split(r",(?![^{]*}})", str(found or "")) if entry.strip()]


def _parsed(text: str, file: str, error_type: type[ProjectError | ProfileError]) -> Any:
    instead = "correct the file, and run the command again"
    with error_type.replacing(yaml.YAMLError, f"The file `{file}` is not valid YAML.", instead=instead):
        return yaml.safe_load(text)


def _edited(text: str, file: str, path: Keys, values: Mapping[str, object], lines: str) -> str:
    """Return the text after an edit that changes no other lines."""
    try:
        return set_keys(text, path, values, '"')
    except CannotEditError as error:
        raise ProjectError(
            f"The file `{file}` cannot be edited without changes to other lines.",
            expected="YAML with one entry per line",
            instead=f"add these lines by hand:\n{lines}",
        ) from error


def _text(path: Path) -> str:
    expected, instead = "a text file that this user can read", "grant access to the file, or save it as UTF-8"
    with ProjectError.replacing((OSError, UnicodeDecodeError), f"The file `{path}` cannot be read.", expected, instead):
        return read(path) if path.exists() else ""


def _edit(path: Path, before: str, after: str) -> FileEdit | None:
    return FileEdit(path, before, after) if after != before else None
