"""Lint models with only this package's rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
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


def fixed(sql: str, manifest: str, path: str) -> str:
    """Return a text after `sqlfluff fix` has changed it."""
    return str(linter(manifest).lint_string(sql, fname=path, fix=True).fix_string()[0])


def model(sql: str, config: Mapping[str, Any]) -> str:
    """Return the text of a model."""
    return f"{{{{ config({', '.join(f'{key}={value!r}' for key, value in config.items())}) }}}}\n{sql}\n"


def write_manifest(file: Path, **model: Any) -> None:
    """Write a manifest.json with a single model, `m`, with the given entries."""
    model = {"name": "m", "package_name": "shop", "original_file_path": "models/m.sql", **model}
    model = {"unique_id": "model.shop.m", "resource_type": "model", **model}
    metadata = {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json", "project_name": "shop"}
    file.write_text(json.dumps({"metadata": metadata, "nodes": {"m": model}}))
