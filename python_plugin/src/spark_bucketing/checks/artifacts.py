"""Choose the manifest for a check.

The manifest is the file that the user names, an existing file that is up to date, or a newly compiled file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_bucketing.checks.session_settings import Settings
from spark_bucketing.project.catalog import CatalogTable, read_catalog
from spark_bucketing.project.dbt import Dbt, Selection, write_session_profile
from spark_bucketing.project.freshness import is_fresh, read_project
from spark_bucketing.project.manifest import Manifest, read_manifest
from spark_bucketing.project.profile import Place, Target

# A subdirectory of the project's target directory, whose artifacts must not change because `dbt retry` reads them.
_OWN_FOLDER = "spark-bucketing"


@dataclass(frozen=True)
class Artifacts:
    """A project's manifest and catalog."""

    # The manifest with the compiled SQL; empty if no project is checked.
    manifest: Manifest = field(default_factory=lambda: Manifest({}))
    path: Path = Path()  # path of the manifest
    errors: Mapping[str, str] = field(default_factory=dict)  # dbt's errors for nodes that do not compile, by unique id
    catalog: Mapping[str, CatalogTable] = field(default_factory=dict)  # tables by unique id; empty without a catalog


@dataclass(frozen=True)
class CheckRequest:
    """The arguments of a check; paths are absolute."""

    files: tuple[Path, ...] = ()  # SQL files; with files, only explicitly selected models are checked
    selection: Selection = field(default_factory=Selection)  # dbt's --select and --exclude
    place: Place = field(default_factory=Place)  # the project and target
    variables: str = "{}"  # --vars, as YAML
    manifest: Path | None = None  # an existing manifest.json
    compile_anyway: bool = False  # compile even if there is an up-to-date manifest
    offline: bool = False  # plan without the warehouse
    # For offline planning: whether the session extension is loaded; None to follow the target's settings.
    extension: bool | None = None
    baseline: Path | None = None  # a file of accepted findings
    time_limit: float | None = None  # time limit per query in seconds; None for no limit
    session: Any = None  # a session of PySpark to use instead of the target's


@dataclass(frozen=True)
class Project:
    """A dbt project, and the request to check it."""

    target: Target
    request: CheckRequest

    @property
    def wants_extension(self) -> bool:
        """Return whether offline planning loads the session extension."""
        given = self.request.extension
        return Settings(self.target.settings).loaded if given is None else given

    def artifacts(self) -> Artifacts:
        """Find or create the manifest. A live check of SQL files outside the project's directory needs no manifest."""
        request = self.request
        errors: Mapping[str, str] = {}
        elsewhere = request.files and not any(file.is_relative_to(self.target.project_dir) for file in request.files)
        path = request.manifest
        if elsewhere and not (request.selection or request.offline or path):
            return Artifacts()
        if path is None and not request.compile_anyway:
            existing = (folder / "manifest.json" for folder in (self._own_folder, self._target_folder))
            path = next((found for found in existing if self._is_fresh(found)), None)
        if path is None:
            errors = self._compile()
            path = self._own_folder / "manifest.json"
        places = dict.fromkeys((path.parent, self._target_folder))
        catalog = next((place / "catalog.json" for place in places if (place / "catalog.json").exists()), None)
        return Artifacts(read_manifest(path), path, errors, read_catalog(catalog) if catalog else {})

    def select(self, manifest: Path) -> tuple[str, ...]:
        """Return the unique ids of the nodes in a manifest that dbt's selectors choose."""
        return self._dbt(self.target.profiles_dir).select(self.request.selection, manifest)

    def _compile(self) -> Mapping[str, str]:
        if not self.request.offline:
            return self._dbt(self.target.profiles_dir).compile()
        with tempfile.TemporaryDirectory(prefix="spark-bucketing-") as name:
            target = self.target
            write_session_profile(Path(name), target.profile, target.name, target.schema)
            return self._dbt(Path(name)).compile()

    def _is_fresh(self, manifest: Path) -> bool:
        target, place, variables = self.target, self.request.place, self.request.variables
        if not is_fresh(manifest, target.project_dir, target.profiles_dir, place.target, variables):
            return False
        nodes = read_manifest(manifest).nodes.values()
        return all(node.sql is not None for node in nodes if node.resource_type == "model" and node.language == "sql")

    @property
    def _target_folder(self) -> Path:
        settings = read_project(self.target.project_dir)
        name = os.environ.get("DBT_TARGET_PATH") or settings.get("target-path") or "target"
        return self.target.project_dir / str(name)

    @property
    def _own_folder(self) -> Path:
        return self._target_folder / _OWN_FOLDER

    def _dbt(self, profiles_dir: Path) -> Dbt:
        request = self.request
        return Dbt(self.target.project_dir, profiles_dir, self._own_folder, request.place.target, request.variables)
