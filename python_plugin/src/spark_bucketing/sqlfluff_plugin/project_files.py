"""Read the dbt project of the linted file.

The project consists of its manifest, or of its YAML files if there is no manifest.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from spark_bucketing.config.validation import Config
from spark_bucketing.edits.sql_config import ConfigCalls, config_calls
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.manifest import Manifest, Node, read_manifest

# sqlfluff shows the warnings of this logger.
_LOGGER = logging.getLogger("sqlfluff.rules")
_DEFAULT = "target/manifest.json"


class LintedProject:
    """A dbt project, as far as its files describe it."""

    def __init__(self, root: Path | None, manifest: Manifest | None) -> None:
        """Create a project; `root` has dbt_project.yml, and is None outside a project."""
        self.root, self._manifest = root, manifest

    def config(self, path: Path | None, source: str) -> tuple[Config, ConfigCalls]:
        """Return a model's config. Keys that the file does not set come from the manifest."""
        calls = config_calls(source)
        node = self._node(path)
        if node is None:
            elsewhere = self._yaml if path is not None else ""
            return Config(
                calls.values, lambda key: not calls.open and not re.search(rf"\b{key}\W?\s*:", elsewhere)
            ), calls
        # The file may have changed since dbt wrote the manifest.
        before = config_calls(node.raw_sql)
        others = {key: value for key, value in node.config.items() if key not in before.settings}
        return Config({**others, **calls.values}, lambda _: not calls.open and not before.open), calls

    def contract(self, path: Path | None) -> Mapping[str, str | None] | None:
        """Return the columns of a model's contract with their types, or None if the model has no enforced contract."""
        node = self._node(path)
        return {name.lower(): kind for name, kind in node.columns.items()} if node and node.contracted else None

    def _node(self, path: Path | None) -> Node | None:
        if path is None or self.root is None or self._manifest is None:
            return None
        try:
            relative = path.resolve().relative_to(self.root).as_posix()
        except ValueError:
            return None
        return self._by_path.get(relative)

    @cached_property
    def _by_path(self) -> Mapping[str, Node]:
        nodes = self._manifest.nodes.values() if self._manifest else ()
        return {node.path: node for node in nodes if node.resource_type in ("model", "snapshot")}

    @cached_property
    def _yaml(self) -> str:
        """Return the text of all YAML files that might configure a model outside the manifest."""
        if self.root is None:
            return ""
        folders = (folder for folder in self.root.iterdir() if folder.is_dir() and not folder.name.startswith("."))
        kept = [folder for folder in folders if folder.name not in ("target", "dbt_packages", "logs")]
        files = [self.root / "dbt_project.yml", *(file for folder in kept for file in folder.rglob("*.y*ml"))]
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def project_of(path: Path | None, manifest: str | None) -> LintedProject:
    """Return the project to which a file belongs."""
    root = _root(path.resolve().parent if path else Path.cwd())
    if manifest is None:
        return _project(root)
    file = ((root or Path.cwd()) / manifest).resolve()
    try:
        return _project(root, file, file.stat().st_mtime_ns)
    except OSError as error:
        # Do not warn about a file outside a project, which has no manifest.
        if root is not None or manifest != _DEFAULT:
            _warn_once(file, f"Cannot read the manifest {file} ({error.strerror}). Run `dbt parse` to write it.")
    return _project(root)


@lru_cache(maxsize=8)
def _project(root: Path | None, file: Path | None = None, written: int = 0) -> LintedProject:  # noqa: ARG001  (a cache key)
    manifest = None
    if file:
        try:
            manifest = read_manifest(file)
        except ProjectError as error:
            _warn_once(file, " ".join(str(error).split()))
    return LintedProject(root, manifest)


@lru_cache(maxsize=512)
def _root(folder: Path) -> Path | None:
    return next((one for one in (folder, *folder.parents) if (one / "dbt_project.yml").is_file()), None)


_warned: set[Path] = set()


def _warn_once(file: Path, text: str) -> None:
    if file not in _warned:
        _warned.add(file)
        _LOGGER.warning("spark-bucketing: %s Until then, the rules check only the config in the file itself.", text)
