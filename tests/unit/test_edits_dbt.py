"""Tests that dbt reads the requested config from edited files, and no other change, wherever a config can be set."""

import json
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner
from dbt_projects import dbt_project

from spark_bucketing.edits import ConfigChange, apply, plan_edits

WANTED = {"materialized": "bucketed_table", "buckets": 8, "clustered_by": ["k"]}
SELECT = "select 1 as k\n"
FILES = {
    "dbt_project.yml": "name: p\nprofile: p\nmodels:\n  p:\n    +materialized: view\n    deep:\n      +buckets: 4\n",
    "models/none.sql": SELECT,
    "models/deep/of_the_folder.sql": SELECT,
    "models/in_sql.sql": '{{\r\n  config(\r\n    materialized="table", tags=["a"],\r\n  )\r\n}}\r\n' + SELECT,
    "models/in_a_mapping.sql": "{{ config({'materialized': 'table', 'alias': 'other'}) }}\n" + SELECT,
    "models/in_yaml.sql": SELECT,
    "models/in_both.sql": "{{ config(materialized='table') }}\n" + SELECT,
    "models/logic.sql": "{{ config(buckets=var('n', 4)) }}\n" + SELECT,
    "models/by_macro.sql": "{{ ours() }}\n" + SELECT,
    "macros/ours.sql": "{% macro ours() %}{{ inner() }}{% endmacro %}",
    "macros/inner.sql": "{% macro inner() %}{% do config(buckets=4) %}{% endmacro %}",
    "models/versioned_v1.sql": SELECT,
    "models/models.yml": """
models:
  - name: in_yaml
    config:
      materialized: table  # for now
      meta: {owner: us}
  - name: in_both
    config: {buckets: 2, clustered_by: [x]}
  - name: versioned
    config: {materialized: table}
    versions: [{v: 1}]
""",
}
LEFT_TO_THE_USER = {"model.p.logic", "model.p.by_macro", "model.p.versioned.v1"}


def test_dbt_reads_the_requested_config_and_no_other_change(tmp_path: Path) -> None:
    project = dbt_project(tmp_path / "project")
    for name, text in FILES.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(text.encode())
    manifest = parsed(project)
    before = configs(manifest)
    edits, refusals = plan_edits(project, manifest, [ConfigChange(model, WANTED) for model in before])
    assert {refusal.model for refusal in refusals} == LEFT_TO_THE_USER
    apply(project, edits)
    # The notes are about models with a config in dbt_project.yml.
    assert {note.split(":")[0] for edit in edits for note in edit.notes} == {"materialized", "buckets"}
    after = configs(parsed(project))
    assert after == {
        model: config if model in LEFT_TO_THE_USER else {**config, **WANTED} for model, config in before.items()
    }
    assert plan_edits(project, parsed(project), [ConfigChange(model, WANTED) for model in before])[0] == []


def parsed(project: Path) -> dict[str, Any]:
    arguments = ("--project-dir", str(project), "--profiles-dir", str(project), "--quiet", "--no-partial-parse")
    outcome = dbtRunner().invoke(["parse", *arguments, "--log-path", str(project / "logs")])
    assert outcome.success, outcome.exception
    manifest: dict[str, Any] = json.loads((project / "target" / "manifest.json").read_text())
    return manifest


def configs(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: node["config"] for name, node in manifest["nodes"].items() if node["resource_type"] == "model"}
