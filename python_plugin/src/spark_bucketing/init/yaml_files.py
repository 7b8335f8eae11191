"""Add entries to packages.yml and profiles.yml, keeping the comments and the formatting of these files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from spark_bucketing.errors import ProfileError, ProjectError
from spark_bucketing.extension.build import is_other_build

PACKAGE = "spark_bucketing"
# Comma-separated settings, which may already have entries.
_LISTS = ("spark.jars", "spark.sql.extensions")


def add_package(text: str, entry: Mapping[str, str], file: str = "packages.yml") -> str:
    """Add an entry for a package to the packages file of a dbt project.

    Args:
        text: the file's content; empty for a new file.
        entry: the entry's keys and values, such as `git` and `revision`, or `local`.
        file: the file's name, for errors.

    Returns:
        The new content, or the unchanged content if the file already contains the package.

    Raises:
        ProjectError: the file is not a packages file.
    """
    yaml, data = _packages(text, file)
    if data.get("packages") is None:
        data["packages"] = []
    if any(dict(one) == dict(entry) or is_this_package(one) for one in data["packages"]):
        return text
    data["packages"].append(dict(entry))
    return _dumped(yaml, data)


def packages_of(text: str, file: str) -> list[Mapping[str, Any]]:
    """Return all entries of a packages file.

    Args:
        text: the file's content.
        file: the file's name, for errors.

    Raises:
        ProjectError: the file is not a packages file.
    """
    return list(_packages(text, file)[1].get("packages") or [])


def _packages(text: str, file: str) -> tuple[YAML, dict[str, Any]]:
    try:
        yaml, data = _loaded(text)
    except YAMLError as error:
        raise ProjectError(
            f"The file `{file}` is not valid YAML.", found=error, instead="correct the file, and run the command again"
        ) from error
    data = {} if data is None else data
    packages = data.get("packages") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(packages, list | None):
        raise ProjectError(
            f"The file `{file}` has no list of packages.",
            found=type(packages or data).__name__,
            expected="a mapping with the key `packages` and a list of entries",
            instead="correct the file, and run the command again",
        )
    return yaml, data


def is_this_package(entry: Mapping[str, Any]) -> bool:
    """Return whether the source of an entry has the name of this package."""
    places = [str(value) for key, value in entry.items() if key in ("git", "local", "package", "tarball")]
    return any(
        place.rstrip("/").removesuffix(".git").endswith(name)
        for place in places
        for name in ("spark-bucketing", PACKAGE)
    )


def add_settings(text: str, profile: str, target: str, settings: Mapping[str, str], file: str = "profiles.yml") -> str:
    """Add Spark settings to the `server_side_parameters` of a target.

    Args:
        text: the file's content.
        profile: name of the profile.
        target: name of the target in the profile's outputs.
        settings: Spark settings by key. If a setting is a list, such as `spark.jars`, its value is appended to the
            list.
        file: the file's name, for errors.

    Returns:
        The new content, or the unchanged content if the target already loads the extension. A jar of another build of
        the extension, such as one for another Spark version, is replaced.

    Raises:
        ProfileError: the file does not contain this target.
    """
    try:
        yaml, data = _loaded(text)
        output = data[profile]["outputs"][target]
    except YAMLError as error:
        raise ProfileError(
            f"The file `{file}` is not valid YAML.", found=error, instead="correct the file, and run the command again"
        ) from error
    except (KeyError, TypeError) as error:
        raise ProfileError(
            f"The file `{file}` has no target `{target}` in profile `{profile}`.",
            expected="the profile and target that dbt uses",
            instead="choose another target with `--target`",
        ) from error
    found = output.setdefault("server_side_parameters", {})
    jars = _entries(found.get("spark.jars"))
    current = [entry for entry in jars if not is_other_build(entry, Path(settings["spark.jars"]))]
    if settings["spark.sql.extensions"] in _entries(found.get("spark.sql.extensions")) and current == jars:
        return text
    before = {**found, "spark.jars": ",".join(current)}
    added = {key: _with_entry(before.get(key), value) if key in _LISTS else value for key, value in settings.items()}
    for key, value in added.items():
        found[key] = DoubleQuotedScalarString(value)
    return _dumped(yaml, data)


def _entries(found: object) -> list[str]:
    return [entry.strip() for entry in str(found or "").split(",") if entry.strip()]


def _with_entry(found: object, entry: str) -> str:
    return ",".join(dict.fromkeys([*_entries(found), entry]))


def _loaded(text: str) -> tuple[YAML, Any]:
    """Parse YAML text.

    Return the data, and the `YAML` instance that writes it in the same style.
    """
    _, indent, offset = load_yaml_guess_indent(text) if text.strip() else (None, None, None)
    sequence = indent or 4
    depths = [len(line) - len(line.lstrip()) for line in text.splitlines() if line.lstrip()[:1] not in ("", "#", "-")]
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(
        mapping=min(filter(None, depths), default=2),
        sequence=sequence,
        offset=offset if offset is not None else sequence - 2,
    )
    return yaml, yaml.load(text)


def _dumped(yaml: YAML, data: Any) -> str:
    """Return edited YAML data as text."""
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()
