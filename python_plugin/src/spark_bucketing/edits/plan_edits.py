"""Plan the file edits that implement config changes, and refuse changes that only the user can make safely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateSyntaxError

from spark_bucketing.edits.config_changes import CannotEditError, ConfigChange, FileEdit, Refusal, in_yaml
from spark_bucketing.edits.file_edits import read
from spark_bucketing.edits.properties import edit_properties, read_properties
from spark_bucketing.edits.sql_config import config_block, config_calls, edit_sql, environment, find_config

# dbt merges the values of these keys from all places, so a single edit does not determine the result.
_ADDED_UP = frozenset({"tags", "meta", "grants", "docs", "packages", "pre-hook", "post-hook", "pre_hook", "post_hook"})


def plan_edits(
    project_dir: Path, manifest: Mapping[str, Any], changes: Sequence[ConfigChange]
) -> tuple[list[FileEdit], list[Refusal]]:
    """Plan the file edits that implement config changes, without writing any file.

    A key is edited where it is already set: in the SQL's config() call, which takes precedence, or in the YAML
    properties. A new key goes into an existing config() call. Otherwise, the new key goes into the config of the
    properties, or into a new config() call at the top of the SQL. The plan never edits dbt_project.yml. Settings in
    dbt_project.yml apply to several models, and a model's own files override them.

    Args:
        project_dir: directory of dbt_project.yml.
        manifest: content of manifest.json.
        changes: the requested changes. If a change is refused, the changes to other models are planned nevertheless.

    Returns: the file edits, and the refused changes with reasons. The list of edits is empty if all keys already have
    these values.
    """
    files = _Files(project_dir)
    refusals = []
    for change in changes:
        node = _Node(manifest, change.model)
        try:
            node.refuse_foreign()
            files.take(change.model, *_edited(files, node, change.config))
        except CannotEditError as error:
            refusals.append(Refusal(change.model, str(error), _by_hand(node, change.config)))
    return files.edits(), refusals


class _Files:
    """The edits of the project's files."""

    def __init__(self, project_dir: Path) -> None:
        self.project_dir = project_dir
        self._edits: dict[Path, FileEdit] = {}

    def text(self, path: Path) -> str:
        """Return the text of a file with all edits that have been recorded so far."""
        if path not in self._edits:
            text = _read(self.project_dir, path)
            self._edits[path] = FileEdit(path, text, text, ())
        return self._edits[path].after

    def take(self, model: str, edited: Mapping[Path, str], notes: Sequence[str]) -> None:
        """Record the edits that one model requires."""
        for path, text in edited.items():
            edit = self._edits[path]
            if text != edit.after:
                models = tuple(dict.fromkeys((*edit.models, model)))
                self._edits[path] = FileEdit(path, edit.before, text, models, (*edit.notes, *notes))

    def edits(self) -> list[FileEdit]:
        """Return the recorded edits of all models."""
        return [edit for _, edit in sorted(self._edits.items()) if edit.after != edit.before]


class _Node:
    """A model, as described in the manifest."""

    def __init__(self, manifest: Mapping[str, Any], unique_id: str) -> None:
        self.unique_id = unique_id
        self.entry: Mapping[str, Any] = (manifest.get("nodes") or {}).get(unique_id) or {}
        self.project = str((manifest.get("metadata") or {}).get("project_name") or "")
        self._macros: Mapping[str, Any] = manifest.get("macros") or {}

    @property
    def name(self) -> str:
        """Return the model's name as used in ref()."""
        return str(self.entry.get("name") or self.unique_id.split(".")[-1])

    @property
    def path(self) -> Path:
        """Return the path of the file that defines the model."""
        return Path(str(self.entry["original_file_path"]))

    @property
    def properties(self) -> Path | None:
        """Return the path of the YAML file that contains the model's properties."""
        patch = str(self.entry.get("patch_path") or "")
        return Path(patch.partition("://")[2]) if patch else None

    @property
    def fqn(self) -> list[str]:
        """Return the names that select the model in dbt_project.yml, starting with the project's name."""
        return [str(part) for part in self.entry.get("fqn") or ()]

    def refuse_foreign(self) -> None:
        """Raise an error unless the node is a SQL model of this project."""
        if not self.entry:
            raise CannotEditError("The manifest does not contain this model.")
        if self.entry.get("resource_type", "model") != "model":
            raise CannotEditError(f"The node is a {self.entry['resource_type']}, but only models can be edited.")
        if self.is_foreign:
            raise CannotEditError(
                f"The model belongs to the package {self.entry['package_name']}, but only the project's files can be "
                "edited."
            )
        if self.is_python:
            raise CannotEditError("The model is a Python model, but only SQL models can be edited.")
        for name, sql in self._called():
            if _sets_config(sql):
                raise CannotEditError(f"The model calls the macro {name}, which calls config().")

    @property
    def is_foreign(self) -> bool:
        """Return whether the model belongs to an installed package."""
        return bool(self.project) and str(self.entry.get("package_name", self.project)) != self.project

    @property
    def is_python(self) -> bool:
        """Return whether the model is a Python model."""
        return self.entry.get("language") == "python"

    def _called(self) -> list[tuple[str, str]]:
        """Return the names and the texts of all macros that the model's SQL calls, directly or indirectly."""
        waiting = list((self.entry.get("depends_on") or {}).get("macros") or ())
        seen: dict[str, Mapping[str, Any]] = {}
        while waiting:
            name = waiting.pop()
            if name not in seen and name in self._macros:
                seen[name] = self._macros[name]
                waiting += (self._macros[name].get("depends_on") or {}).get("macros") or ()
        return [(str(macro.get("name", name)), str(macro.get("macro_sql", ""))) for name, macro in seen.items()]


def _sets_config(macro: str) -> bool:
    if "config" not in macro:
        return False
    try:
        return config_calls(environment().parse(macro)) > 0
    # Models cannot call macros with dbt's own tags, such as materializations.
    except TemplateSyntaxError:
        return False


def _edited(files: _Files, node: _Node, config: Mapping[str, object]) -> tuple[dict[Path, str], list[str]]:
    """Return the edited texts of a model's files, and notes about settings that the edits override."""
    if added_up := sorted(_ADDED_UP & config.keys()):
        raise CannotEditError(
            f"dbt merges {', '.join(added_up)} from all places that set it, so an edit in one place does not determine "
            "the result."
        )
    sql = files.text(node.path)
    of_sql, of_yaml = _places(files, node, config, sql)
    edited = {node.path: edit_sql(sql, of_sql)} if of_sql else {}
    if of_yaml and node.properties is not None:
        edited[node.properties] = edit_properties(files.text(node.properties), node.name, of_yaml)
    above = {key: place for key in config if (place := _above(files.project_dir, node.fqn, key))}
    if gone := [key for key in above if config[key] is None]:
        where = above[gone[0]]
        raise CannotEditError(f"dbt_project.yml sets {gone[0]} ({where}), which a model can override but not unset.")
    notes = [f"{key}: the model's own config overrides dbt_project.yml ({place})" for key, place in above.items()]
    return edited, notes


def _places(
    files: _Files, node: _Node, config: Mapping[str, object], sql: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Divide the keys into those to set in the SQL and those to set in the YAML properties."""
    call = find_config(sql)
    in_sql = call.values.keys() if call else frozenset()
    rest = {key: value for key, value in config.items() if key not in in_sql or value is None}
    of_sql = {key: value for key, value in config.items() if key in in_sql}
    if not rest:
        return of_sql, {}
    if node.entry.get("version") is not None:
        return {**of_sql, **_of_version(files, node, rest)}, {}
    properties = read_properties(files.text(node.properties), node.name) if node.properties else None
    in_yaml_file = properties.values.keys() if properties else frozenset()
    new_into_yaml = call is None and properties is not None and properties.config is not None
    of_yaml = {}
    for key, value in rest.items():
        if key in in_yaml_file or (new_into_yaml and key not in in_sql):
            of_yaml[key] = value
        elif value is not None:
            of_sql[key] = value
    return of_sql, of_yaml


def _of_version(files: _Files, node: _Node, rest: Mapping[str, object]) -> Mapping[str, object]:
    """Return the keys to set for one version of a model.

    Each version has its own SQL, but all versions share the YAML properties.
    """
    if node.properties is not None:
        properties = read_properties(files.text(node.properties), node.name)
        shared = properties.values.keys() | properties.version_keys if properties else frozenset()
        if both := sorted(shared & rest.keys()):
            raise CannotEditError(f"The model has several versions, which share {', '.join(both)} in their properties.")
    return {key: value for key, value in rest.items() if value is not None}


def _above(project_dir: Path, fqn: Sequence[str], key: str) -> str | None:
    """Return the most specific path in dbt_project.yml that sets a key for a model, such as models.shop.marts."""
    try:
        level = yaml.safe_load(read(project_dir / "dbt_project.yml"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    found = None
    path: list[str] = []
    for part in ("models", *fqn):
        level = level.get(part) if isinstance(level, dict) else None
        path.append(part)
        if isinstance(level, dict) and (f"+{key}" in level or not isinstance(level.get(key, {}), dict)):
            found = ".".join(path)
    return found


def _read(project_dir: Path, path: Path) -> str:
    """Return the text of a file in the project.

    Raises:
        CannotEditError: the file is outside the project, or cannot be read.
    """
    root = project_dir.resolve()
    if not (root / path).resolve().is_relative_to(root):
        raise CannotEditError(f"The model's file {path} is outside the project directory.")
    try:
        return read(root / path)
    except OSError as error:
        raise CannotEditError(f"The model's file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CannotEditError(f"The model's file {path} is not valid UTF-8.") from error


def _by_hand(node: _Node, config: Mapping[str, object]) -> str:
    """Return the config that the user can add by hand."""
    gone = [key for key, value in config.items() if value is None]
    without = f"\nremove: {', '.join(gone)}" if gone else ""
    if node.is_python:
        pairs = ", ".join(f"{key}={value!r}" for key, value in config.items() if value is not None)
        return f"dbt.config({pairs}){without}"
    if node.is_foreign:
        path = ["models", *node.fqn]
        lines = ["  " * depth + f"{part}:" for depth, part in enumerate(path)]
        indent = "  " * len(path)
        lines += [f"{indent}+{key}: {in_yaml(value)}" for key, value in config.items() if value is not None]
        return "\n".join(["# dbt_project.yml", *lines]) + without
    return config_block(config) + without
