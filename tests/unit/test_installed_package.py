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
