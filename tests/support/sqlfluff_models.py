"""Lint models with only this package's rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sqlfluff.core import FluffConfig, Linter, SQLLintError

# A file outside any dbt project.
DEFAULT = "target/manifest.json"
NOWHERE = "/nowhere/models/model.sql"


@cache
def linter(manifest: str | None = DEFAULT) -> Linter:
    """Return a cached linter with only this package's rules; creating a linter takes longer than linting."""
    settings: Any = {"core": {"dialect": "sparksql"}, "rules": {"spark_bucketing": {"manifest": manifest}}}
    return Linter(config=FluffConfig(configs=settings, overrides={"rules": "spark_bucketing"}))


def lint(sql: str, manifest: str | None = DEFAULT, path: str = NOWHERE) -> list[SQLLintError]:
    """Lint a text, check that it parses, and return the violations."""
    violations = linter(manifest).lint_string(sql, fname=path).get_violations()
    assert all(isinstance(one, SQLLintError) for one in violations), violations
    return [one for one in violations if isinstance(one, SQLLintError)]


def slugs(sql: str) -> list[str]:
    """Return the names of the violated rules without duplicates, in the order of the text."""
    return list(dict.fromkeys(one.rule_name().rpartition(".")[2].replace("_", "-") for one in lint(sql)))


def fixed(sql: str, manifest: str) -> str:
    """Return a text after `sqlfluff fix` has changed it."""
    return str(linter(manifest).lint_string(sql, fname=NOWHERE, fix=True).fix_string()[0])


def model(sql: str, config: Mapping[str, Any]) -> str:
    """Return the text of a model."""
    return f"{{{{ config({', '.join(f'{key}={value!r}' for key, value in config.items())}) }}}}\n{sql}\n"


def write_manifest(file: Path, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Write a manifest.json; each node needs a name, and may have a config, columns and SQL."""
    entries: dict[str, dict[str, Any]] = {"nodes": {}, "sources": {}}
    for node in nodes:
        kind = node.get("resource_type", "model")
        unique_id = f"{kind}.shop.{node['name']}"
        columns = {name: {"name": name, "data_type": data_type} for name, data_type in node.get("columns", {}).items()}
        known = {
            "unique_id": unique_id,
            "resource_type": kind,
            "package_name": "shop",
            "original_file_path": f"models/{node['name']}.sql",
            "relation_name": f"`shop`.`{node['name']}`",
            "language": "sql",
            "contract": {"enforced": kind == "model"},
        }
        entries["sources" if kind == "source" else "nodes"][unique_id] = {**known, **node, "columns": columns}
    schema = "https://schemas.getdbt.com/dbt/manifest/v12.json"
    file.write_text(json.dumps({"metadata": {"dbt_schema_version": schema, "project_name": "shop"}, **entries}))
