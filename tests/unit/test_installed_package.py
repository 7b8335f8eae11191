"""What a project gets that installs this one: macros and tests to use, and nothing of the showcase."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dbt_projects import dbt_project

from conftest import REPOSITORY


@pytest.mark.parametrize("profile", ["theirs", "spark_bucketing"])
def test_nothing_of_the_showcase_is_in_the_manifest(tmp_path: Path, profile: str) -> None:
    from dbt.cli.main import dbtRunner

    dbt_project(tmp_path, profile)
    (tmp_path / "packages.yml").write_text(json.dumps({"packages": [{"local": str(REPOSITORY)}]}))
    (tmp_path / "models" / "m.sql").write_text("select 1 as k")
    place = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path), "--quiet"]
    for command in ("deps", "parse"):
        assert dbtRunner().invoke([command, *place]).success
    manifest = json.loads((tmp_path / "target" / "manifest.json").read_text())
    ours = {
        kind: [name for name in content if "spark_bucketing" in name]
        for kind, content in manifest.items()
        if isinstance(content, dict) and kind != "macros"
    }
    assert not any(ours.values()), ours
    assert any(name.startswith("macro.spark_bucketing.") for name in manifest["macros"])


def test_the_showcase_is_there_in_its_own_project(tmp_path: Path) -> None:
    from dbt.cli.main import dbtRunner

    place = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(REPOSITORY), "--target-path", str(tmp_path)]
    result = dbtRunner().invoke(["parse", *place, "--quiet", "--no-partial-parse"]).result
    assert "model.spark_bucketing.flights_by_plane" in result.nodes


@pytest.mark.parametrize(
    ("dispatched", "config", "message"),
    [
        (True, "buckets=4", None),
        (True, "bucket=4", "found:    bucket=4"),
        (True, "buckets=4, materialized='bucketed_incremental', on_schema_change='append'", "`on_schema_change`"),
        (False, "bucket=4", None),
        (True, "materialized='organized_table', files=4", "`clustered_by` of model 'm'"),
        (True, "materialized='organized_incremental', clustered_by=none, files=4, file_size=7", "file_size and files"),
        (
            True,
            "materialized='organized_incremental', clustered_by=none, files=4, incremental_strategy='merge', unique_key='k'",
            "`incremental_strategy`",
        ),
    ],
)
def test_parsing_says_what_is_wrong_with_a_config_where_the_package_may_name_tables(
    tmp_path: Path, dispatched: bool, config: str, message: str | None
) -> None:
    from dbt.cli.main import dbtRunner

    dbt_project(tmp_path)
    if dispatched:
        order = {"macro_namespace": "dbt", "search_order": ["p", "spark_bucketing", "dbt"]}
        (tmp_path / "dbt_project.yml").write_text(json.dumps({"name": "p", "profile": "p", "dispatch": [order]}))
    (tmp_path / "packages.yml").write_text(json.dumps({"packages": [{"local": str(REPOSITORY)}]}))
    config = config if "materialized" in config else f"materialized='bucketed_table', {config}"
    config = config if "clustered_by" in config else f"clustered_by=['k'], {config}"
    (tmp_path / "models" / "m.sql").write_text(f"{{{{ config(alias='n', {config}) }}}} select 1 as k")
    place = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path), "--quiet"]
    assert dbtRunner().invoke(["deps", *place]).success
    parsed = dbtRunner().invoke(["parse", *place])
    assert (str(parsed.exception) if parsed.exception else "").count(message or "Invalid") == bool(message)
    assert message or parsed.result.nodes["model.p.m"].alias == "n"
