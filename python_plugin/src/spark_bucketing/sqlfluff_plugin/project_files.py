"""Read the dbt project of the linted file.

The project consists of its manifest, or of its YAML files if there is no manifest.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from spark_bucketing.check.layout_config import configured_layout
from spark_bucketing.config.validation import Config
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.manifest import Manifest, Node, read_manifest, relation_parts
from spark_bucketing.spec import BucketSpec
from spark_bucketing.sqlfluff_plugin.config_calls import ConfigCalls, config_calls
from spark_bucketing.sqlfluff_plugin.relation_layouts import Column, Layout, Relation

# sqlfluff shows the warnings of this logger.
_LOGGER = logging.getLogger("sqlfluff.rules")
_REF = re.compile(r"\{\{-?\s*ref\(\s*(?:['\"]\w+['\"]\s*,\s*)?['\"](\w+)['\"]\s*\)\s*-?\}\}")
_SOURCE = re.compile(r"\{\{-?\s*source\(\s*['\"](\w+)['\"]\s*,\s*['\"](\w+)['\"]\s*\)\s*-?\}\}")
#: The name to which sqlfluff's substitute for dbt renders {{ this }}.
THIS = "this_model"
_DEFAULT = "target/manifest.json"


class Project:
    """A dbt project, as far as its files describe it."""

    def __init__(self, root: Path | None, manifest: Manifest | None) -> None:
        """Create a project.

        The argument `root` is the directory of dbt_project.yml, or None outside a project. The manifest is optional.
        """
        self.root, self._manifest = root, manifest
        self._tables: dict[str, Relation | None] = {}

    def config(self, path: Path | None, source: str) -> tuple[Config, ConfigCalls]:
        """Return a model's config.

        Keys that the file does not set come from the manifest.
        """
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

    def own_table(self, path: Path | None) -> Relation | None:
        """Return the table that a model builds, according to the manifest.

        The path is the model's file.
        """
        node = self._node(path)
        return _relation(node) if node else None

    def table(self, parts: tuple[str, ...]) -> Relation | None:
        """Return the table to which a name in a query refers, or None if the name is unknown or ambiguous."""
        name = ".".join(part.lower() for part in parts).removeprefix("spark_catalog.")
        if name not in self._tables:
            nodes = self._named.get(name, [])
            self._tables[name] = _relation(nodes[0]) if len(nodes) == 1 else None
        return self._tables[name]

    @cached_property
    def _named(self) -> Mapping[str, list[Node]]:
        """Return the nodes by all names that a templater may render for their tables."""
        named = defaultdict[str, list[Node]](list)
        for node in self._manifest.nodes.values() if self._manifest else ():
            if node.resource_type not in ("model", "seed", "snapshot", "source"):
                continue
            parts = [part.lower() for part in relation_parts(node.relation or "") or ()]
            short = f"{node.source_name}_{node.name}" if node.resource_type == "source" else node.name
            for name in {short.lower(), ".".join(parts), ".".join(parts[-2:])} - {""}:
                named[name.removeprefix("spark_catalog.")].append(node)
        return named

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
        """Return the text of all YAML files that might configure a model.

        The text helps with models that the manifest does not contain.
        """
        if self.root is None:
            return ""
        folders = (folder for folder in self.root.iterdir() if folder.is_dir() and not folder.name.startswith("."))
        kept = [folder for folder in folders if folder.name not in ("target", "dbt_packages", "logs")]
        files = [self.root / "dbt_project.yml", *(file for folder in kept for file in folder.rglob("*.y*ml"))]
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def project_of(path: Path | None, manifest: str | None) -> Project:
    """Return the project to which a file belongs.

    Args:
        path: the file's path, or None for text that is not in a file.
        manifest: the value of the setting `manifest`, or None for no manifest. A relative path is relative to the
            directory of dbt_project.yml. Outside a project, it is relative to the current directory.
    """
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
def _project(root: Path | None, file: Path | None = None, written: int = 0) -> Project:  # noqa: ARG001  (a cache key)
    manifest = None
    if file:
        try:
            manifest = read_manifest(file)
        except ProjectError as error:
            _warn_once(file, " ".join(str(error).split()))
    return Project(root, manifest)


@lru_cache(maxsize=512)
def _root(folder: Path) -> Path | None:
    return next((one for one in (folder, *folder.parents) if (one / "dbt_project.yml").is_file()), None)


_warned: set[Path] = set()


def _warn_once(file: Path, text: str) -> None:
    if file not in _warned:
        _warned.add(file)
        _LOGGER.warning(
            "spark-bucketing: %s Until then, the rules check only tables that the file itself defines.", text
        )


def _relation(node: Node) -> Relation:
    is_source, is_view = node.resource_type == "source", node.materialized in ("view", "ephemeral")
    contracted = node.contracted and not is_source and not is_view
    columns = {
        name.lower(): Column(kind.lower() if kind else None, certain=is_source or contracted)
        for name, kind in node.columns.items()
    }
    if is_view:
        return Relation(columns, query=_query(node))
    config = node.meta.get("bucketing") if is_source else node.config
    spec = _spec(config if isinstance(config, Mapping) else {}, node)
    layout = None
    if spec:
        places = tuple(frozenset({("", name.lower())}) for name in spec.bucket_columns)
        layout = Layout(spec.num_buckets, spec.bucket_hash, places, node.name, tuple(spec.bucket_columns))
        for name in spec.bucket_columns:
            columns.setdefault(name.lower(), Column())
    return Relation(columns, contracted, layout, small=node.resource_type == "seed")


def _spec(config: Mapping[str, object], node: Node) -> BucketSpec | None:
    try:
        return configured_layout(config, node.materialized, node.name).spec
    except ProjectError:
        # A rule reports the invalid config in the model that sets it.
        return None


def _query(node: Node) -> str | None:
    """Return the SQL of a view.

    The function prefers the compiled SQL. Without compiled SQL, the function resolves the references in the source,
    provided that the source has no other Jinja.
    """
    if node.sql or node.language != "sql":
        return node.sql if node.language == "sql" else None
    text = node.raw_sql
    call = config_calls(text).call
    if call:
        opened, closed = text.rfind("{{", 0, call.start), text.find("}}", call.stop)
        text = text[:opened] + text[closed + 2 :] if opened >= 0 and closed >= 0 else text
    text = _SOURCE.sub(r"\1_\2", _REF.sub(r"\1", text))
    return None if re.search(r"\{[{%]", text) else text
