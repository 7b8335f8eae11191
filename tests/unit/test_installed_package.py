"""Tests that a project that installs this package gets its macros and tests, but not the showcase."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dbt_projects import dbt_project

from conftest import REPOSITORY
from spark_bucketing.config.schema import KEYS, MATERIALIZATIONS


def dbt(folder: Path, *arguments: str) -> Any:
    from dbt.cli.main import dbtRunner

    return dbtRunner().invoke([*arguments, "--project-dir", str(folder), "--profiles-dir", str(folder), "--quiet"])


def parsed(project: Path, model: str) -> Any:
    """Parse a project that contains the model m and installs this package."""
    (project / "packages.yml").write_text(json.dumps({"packages": [{"local": str(REPOSITORY)}]}))
    (project / "models" / "m.sql").write_text(model)
    assert dbt(project, "deps").success
    return dbt(project, "parse")


@pytest.mark.parametrize("profile", ["theirs", "spark_bucketing"])
def test_installed_package_has_no_showcase(tmp_path: Path, profile: str) -> None:
    assert parsed(dbt_project(tmp_path, profile), "select 1 as k").success
    manifest = json.loads((tmp_path / "target" / "manifest.json").read_text())
    ours = {
        kind: [name for name in content if "spark_bucketing" in name]
        for kind, content in manifest.items()
        if isinstance(content, dict) and kind != "macros"
    }
    assert not any(ours.values()), ours
    for name in MATERIALIZATIONS:
        described = manifest["macros"][f"macro.spark_bucketing.materialization_{name}_spark"]["description"]
        keys = {key for key, spec in KEYS.items() if name in spec.taken_by}
        assert set(re.findall(r"^\| `(\w+)`", described, re.MULTILINE)) == keys


def test_project_of_this_repository_has_the_showcase(tmp_path: Path) -> None:
    result = dbt(REPOSITORY, "parse", "--target-path", str(tmp_path), "--no-partial-parse").result
    assert "model.spark_bucketing.flights_by_plane" in result.nodes


@pytest.mark.parametrize(
    ("dispatched", "config", "message"),
    [
        (True, "buckets=4", None),
        (True, "bucket=4", "found:    bucket=4"),
        (True, "buckets=4, materialized='bucketed_incremental', on_schema_change='append'", "`on_schema_change`"),
        (False, "bucket=4", None),
        (True, "materialized='organized_table', num_files=4", "Model `m` has an invalid `clustered_by`"),
        (
            True,
            "materialized='organized_incremental', clustered_by=none, num_files=4, target_file_size=7",
            "target_file_size and num_files",
        ),
        (
            True,
            "materialized='organized_incremental', clustered_by=none, num_files=4, incremental_strategy='merge', unique_key='k'",
            "`incremental_strategy`",
        ),
    ],
)
def test_parsing_reports_config_errors_if_the_package_may_name_tables(
    tmp_path: Path, dispatched: bool, config: str, message: str | None
) -> None:
    dbt_project(tmp_path)
    if dispatched:
        order = {"macro_namespace": "dbt", "search_order": ["p", "spark_bucketing", "dbt"]}
        (tmp_path / "dbt_project.yml").write_text(json.dumps({"name": "p", "profile": "p", "dispatch": [order]}))
    config = config if "materialized" in config else f"materialized='bucketed_table', {config}"
    config = config if "clustered_by" in config else f"clustered_by=['k'], {config}"
    found = parsed(tmp_path, f"{{{{ config(alias='n', {config}) }}}} select 1 as k")
    assert (str(found.exception) if found.exception else "").count(message or " has an invalid ") == bool(message)
    assert message or found.result.nodes["model.p.m"].alias == "n"
