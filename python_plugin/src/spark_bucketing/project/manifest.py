"""Read the manifest of a dbt project, with compiled SQL, dependencies and configs, and its tables as dbt knows them.

A catalog contains the columns, types and sizes of tables at the time of the last `dbt docs generate`. A manifest that
is up to date with the project's files need not be compiled again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing import sql
from spark_bucketing.errors import ProjectError

# The oldest manifest version with all required fields, written by dbt 1.6.
_OLDEST_SCHEMA = 10
_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_RELATION = re.compile(rf"{_PART}(?:\.{_PART})*")


@dataclass(frozen=True)
class Node:
    """A model, seed, snapshot, analysis or source."""

    unique_id: str  # dbt's unique id
    name: str  # as in ref()
    resource_type: str  # model, seed, snapshot, analysis, source
    path: str  # path of its file, relative to the project directory
    relation: str | None = None  # name of its table in compiled SQL; None if it has no table
    materialized: str = "table"  # materialization; "source" for a source, "seed" for a seed
    sql: str | None = None  # compiled SQL; None if the node has no SQL or was not compiled
    raw_sql: str = ""  # SQL before rendering
    config: Mapping[str, Any] = field(default_factory=dict)  # its complete config
    # Names and data types of the columns in the node's YAML, in order; None for a column without a type.
    columns: Mapping[str, str | None] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()  # unique ids of its parents
    meta: Mapping[str, Any] = field(default_factory=dict)  # its meta, including the config's meta
    language: str = "sql"  # sql or python
    contracted: bool = False  # whether a contract enforces its columns
    source_name: str = ""  # name of the source, for sources

    @property
    def is_incremental(self) -> bool:
        """Return whether a run of the model keeps its existing rows and adds new ones."""
        return self.materialized in ("incremental", "bucketed_incremental")


@dataclass(frozen=True)
class Manifest:
    """All nodes of a project, by unique id."""

    nodes: Mapping[str, Node]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Return the unique ids of all nodes, with parents before their children."""
        nodes = sorted(self.nodes.items())
        parents = {name: [one for one in node.depends_on if one in self.nodes] for name, node in nodes}
        return tuple(TopologicalSorter(parents).static_order())

    def with_ancestors(self, unique_ids: Iterable[str]) -> set[str]:
        """Return the unique ids of these nodes and of all their ancestors."""
        found: set[str] = set()
        waiting = [name for name in unique_ids if name in self.nodes]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += [name for name in self.nodes[current].depends_on if name in self.nodes]
        return found


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.json."""
    first, again = "run `dbt compile` to write it", "run `dbt compile` to write it again"
    with ProjectError.replacing(OSError, f"The manifest `{path}` cannot be read.", instead=first):
        text = path.read_bytes()
    with ProjectError.replacing(ValueError, f"The manifest `{path}` is not valid JSON.", instead=again):
        data = json.loads(text)
    metadata = data.get("metadata") if isinstance(data, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    found = metadata.get("dbt_schema_version", "no dbt_schema_version")
    version = re.search(r"/manifest/v(\d+)\.json$", str(found))
    if version is None or int(version[1]) < _OLDEST_SCHEMA:
        raise ProjectError(
            f"The file `{path}` is not a supported manifest.",
            found=found,
            expected=f"manifest v{_OLDEST_SCHEMA} or newer, written by dbt 1.6 or newer",
            instead="compile with dbt-core 1.10.8 or newer",
        )
    project = str(metadata.get("project_name") or "")
    kinds = (AttributeError, KeyError, TypeError, ValueError)
    with ProjectError.replacing(
        kinds, f"The manifest `{path}` has an invalid node.", "a manifest that dbt wrote", again
    ):
        entries = [*data["nodes"].values(), *(data.get("sources") or {}).values()]
        return Manifest({str(entry["unique_id"]): _node(entry, project) for entry in entries})


def relation_parts(relation: str) -> tuple[str, ...] | None:
    """Return the parts of a qualified name without quotes, or None if the text is not a qualified name."""
    return sql.parts(relation) if _RELATION.fullmatch(relation) else None


def table_name(relation: str) -> str:
    """Return a table's name in the form that plans show.

    Plans show names in lower case, and without Spark's own catalog. A text that is not a table name stays unchanged.
    """
    parts = relation_parts(relation)
    return ".".join(parts).lower().removeprefix("spark_catalog.") if parts else relation


def _node(entry: Mapping[str, Any], project: str) -> Node:
    config = entry.get("config") or {}
    kind = str(entry["resource_type"])
    path = str(entry.get("original_file_path", ""))
    package = str(entry.get("package_name", project))
    return Node(
        unique_id=entry["unique_id"],
        name=str(entry["name"]),
        resource_type=kind,
        path=path if package == project or not project else f"dbt_packages/{package}/{path}",
        relation=entry.get("relation_name"),
        materialized=kind if kind in ("source", "seed", "snapshot") else str(config.get("materialized") or "table"),
        sql=entry.get("compiled_code"),
        raw_sql=str(entry.get("raw_code") or ""),
        config=config,
        columns={str(each["name"]): each.get("data_type") or None for each in (entry.get("columns") or {}).values()},
        depends_on=tuple(dict.fromkeys((entry.get("depends_on") or {}).get("nodes") or ())),
        meta={**(config.get("meta") or {}), **(entry.get("meta") or {})},
        language=str(entry.get("language") or "sql"),
        contracted=bool((entry.get("contract") or config.get("contract") or {}).get("enforced")),
        source_name=str(entry.get("source_name", "")),
    )


@dataclass(frozen=True)
class CatalogTable:
    """A table in the catalog: its column names and types in order, and its size in bytes if known."""

    columns: Mapping[str, str]
    size_bytes: int | None = None
    partitions: int | None = None  # number of partitions; None if unknown


def read_catalog(path: Path) -> Mapping[str, CatalogTable]:
    """Read the tables in a catalog.json, by unique id."""
    kinds = (OSError, ValueError, AttributeError, KeyError, TypeError)
    expected, instead = "a `catalog.json` that dbt wrote", "run `dbt docs generate` to write it again, or delete it"
    with ProjectError.replacing(kinds, f"The catalog `{path}` cannot be read.", expected, instead):
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = {**data.get("nodes", {}), **data.get("sources", {})}
        return {unique_id: _table(entry) for unique_id, entry in entries.items()}


def _table(entry: Mapping[str, Any]) -> CatalogTable:
    columns = sorted(entry["columns"].values(), key=lambda column: column.get("index") or 0)
    # dbt-spark's name for this statistic is the unit that Spark prints.
    value = ((entry.get("stats") or {}).get("bytes") or {}).get("value")
    size = re.fullmatch(r"\d+(\.\d*)?", str(value))
    return CatalogTable({column["name"]: column["type"] for column in columns}, int(float(size[0])) if size else None)


def seed_columns(file: Path, config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the names and Spark types of a seed's columns, which are determined in the same way as by dbt."""
    from dbt.adapters.spark.impl import SparkAdapter
    from dbt_common.clients.agate_helper import from_csv

    given = {name.lower(): kind for name, kind in (config.get("column_types") or {}).items()}
    # agate raises various exceptions for a file that is not valid CSV.
    with ProjectError.replacing(Exception, f"The seed `{file}` cannot be read.", "a CSV file", "correct the file"):
        table = from_csv(
            file, text_columns=list(config.get("column_types") or ()), delimiter=config.get("delimiter", ",")
        )
    return {
        name: given.get(name.lower()) or str(SparkAdapter.convert_agate_type(table, index))
        for index, name in enumerate(table.column_names)
    }


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
    packages = project_dir / str(read_project(project_dir).get("packages-install-path") or "dbt_packages")
    # A package may be a link to a directory under development.
    projects = [project_dir, *(sorted(packages.iterdir()) if packages.is_dir() else ())]
    files = chain([profiles_dir / "profiles.yml", packages], *map(_files, projects))
    return all(path.stat().st_mtime < written for path in files if path.exists())


def _files(project_dir: Path) -> Iterator[Path]:
    """Yield the files of a project or package, also in links, and their directories, which reveal deleted files."""
    yield from (project_dir / name for name in _FILES)
    settings = read_project(project_dir) if (project_dir / "dbt_project.yml").exists() else {}
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
                yield from (Path(folder, file) for file in ("", *files))
