"""Plan the file edits that implement config changes, and refuse changes that only the user can make safely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_bucketing.edits.file_edits import CannotEditError, FileEdit, Refusal, in_yaml, read
from spark_bucketing.edits.sql_config import config_block, config_calls, edit_sql
from spark_bucketing.edits.yaml_files import edit_properties, read_properties


def plan_edits(
    project_dir: Path, manifest: Mapping[str, Any], changes: Mapping[str, Mapping[str, object]]
) -> tuple[list[FileEdit], list[Refusal]]:
    """Plan the file edits that set config keys of models, by unique id, and return them with the refused changes.

    A key is edited where it is already set: in the SQL's config() call, which takes precedence, or in the YAML
    properties. A new key goes into an existing config() call, else into the config of the properties, else into a new
    config() call. The plan never edits dbt_project.yml, whose settings a model's own files override.
    """
    files: dict[Path, FileEdit] = {}
    refusals = []
    for unique_id, config in changes.items():
        model = _ChangedModel(project_dir, manifest, unique_id, config, files)
        try:
            model.refuse_foreign()
            files |= {path: replace(files[path], after=text) for path, text in model.edited().items()}
        except CannotEditError as error:
            refusals.append(Refusal(unique_id, str(error), model.by_hand()))
    return [edit for _, edit in sorted(files.items()) if edit.after != edit.before], refusals


class _ChangedModel:
    """A model, as described in the manifest, and a change of its config."""

    def __init__(
        self,
        project_dir: Path,
        manifest: Mapping[str, Any],
        unique_id: str,
        config: Mapping[str, object],
        files: dict[Path, FileEdit],
    ) -> None:
        self.entry: Mapping[str, Any] = (manifest.get("nodes") or {}).get(unique_id) or {}
        self.config, self._project_dir, self._files = config, project_dir, files
        self._macros: Mapping[str, Any] = manifest.get("macros") or {}
        project = str((manifest.get("metadata") or {}).get("project_name") or "")
        self._is_foreign = bool(project) and str(self.entry.get("package_name", project)) != project
        self._is_python = self.entry.get("language") == "python"
        self._name = str(self.entry.get("name") or "")
        patch = str(self.entry.get("patch_path") or "")
        self._properties = Path(patch.partition("://")[2]) if patch else None

    def refuse_foreign(self) -> None:
        """Raise an error unless the node is a SQL model of this project, and no macro that it calls sets its config."""
        if not self.entry:
            raise CannotEditError("The manifest does not contain this model.")
        if self.entry.get("resource_type", "model") != "model":
            raise CannotEditError(f"The node is a {self.entry['resource_type']}, but only models can be edited.")
        if self._is_foreign:
            raise CannotEditError(
                f"The model belongs to the package {self.entry['package_name']}, but only the project's files can be "
                "edited."
            )
        if self._is_python:
            raise CannotEditError("The model is a Python model, but only SQL models can be edited.")
        for name, sql in self._called_macros():
            if config_calls(sql).number:
                raise CannotEditError(f"The model calls the macro {name}, which calls config().")

    def edited(self) -> dict[Path, str]:
        """Return the edited texts of the model's files."""
        path = Path(str(self.entry["original_file_path"]))
        sql = self.text(path)
        in_sql, in_properties = self._places(sql)
        edited = {path: edit_sql(sql, in_sql)} if in_sql else {}
        if in_properties and self._properties is not None:
            edited[self._properties] = edit_properties(self.text(self._properties), self._name, in_properties)
        return edited

    def text(self, path: Path) -> str:
        """Return the text of a file with all edits so far."""
        if path in self._files:
            return self._files[path].after
        root = self._project_dir.resolve()
        if not (root / path).resolve().is_relative_to(root):
            raise CannotEditError(f"The model's file {path} is outside the project directory.")
        try:
            text = read(root / path)
        except OSError as error:
            raise CannotEditError(f"The model's file {path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CannotEditError(f"The model's file {path} is not valid UTF-8.") from error
        self._files[path] = FileEdit(path, text, text)
        return text

    def by_hand(self) -> str:
        """Return the config that the user can add by hand."""
        if self._is_python:
            return f"dbt.config({', '.join(f'{key}={value!r}' for key, value in self.config.items())})"
        if self._is_foreign:
            # The names that select the model in dbt_project.yml, starting with the project's name.
            path = ["models", *(self.entry.get("fqn") or ())]
            lines = ["  " * depth + f"{part}:" for depth, part in enumerate(path)]
            lines += ["  " * len(path) + f"+{key}: {in_yaml(value)}" for key, value in self.config.items()]
            return "\n".join(["# dbt_project.yml", *lines])
        return config_block(self.config)

    def _called_macros(self) -> list[tuple[str, str]]:
        """Return the names and the texts of all macros that the model's SQL calls, directly or indirectly."""
        waiting = list((self.entry.get("depends_on") or {}).get("macros") or ())
        seen: dict[str, Mapping[str, Any]] = {}
        while waiting:
            name = waiting.pop()
            if name not in seen and name in self._macros:
                seen[name] = self._macros[name]
                waiting += (self._macros[name].get("depends_on") or {}).get("macros") or ()
        return [(str(macro.get("name", name)), str(macro.get("macro_sql", ""))) for name, macro in seen.items()]

    def _places(self, sql: str) -> tuple[dict[str, object], dict[str, object]]:
        """Divide the keys into those to set in the SQL and those to set in the YAML properties."""
        calls = config_calls(sql)
        rest = {key: value for key, value in self.config.items() if key not in calls.settings}
        found = read_properties(self.text(self._properties), self._name) if rest and self._properties else None
        entry = found[1] if found else {}
        in_file = set(entry.get("config") or ())
        if self.entry.get("version") is not None:
            # Each version has its own SQL, but all versions share the YAML properties.
            versions = [one for one in entry.get("versions") or () if isinstance(one, dict)]
            shared = in_file.union(*(one.get("config") or () for one in versions))
            if both := sorted(shared & rest.keys()):
                raise CannotEditError(
                    f"The model has several versions, which share {', '.join(both)} in their properties."
                )
            return dict(self.config), {}
        new_into_properties = not calls.number and entry.get("config") is not None
        in_properties = {key: value for key, value in rest.items() if key in in_file or new_into_properties}
        return {key: value for key, value in self.config.items() if key not in in_properties}, in_properties
