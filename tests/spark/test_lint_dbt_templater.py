"""Tests of the lint rules with sqlfluff's dbt templater, which compiles the project on its own Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dbt_projects import dbt_project

_VISITS = """\
{{ config(materialized='bucketed_table', clustered_by=['user_id', 'day'], buckets=64) }}
select 1 as user_id, date '2024-01-01' as day
"""
_BY_USER = """\
{{ config(materialized='bucketed_table', cluster_by=['user_id'], num_buckets=64) }}
select {% for key in keys() %}v.{{ key }}{% endfor %}, count(*) as n
from {{ ref('visits') }} as v
group by v.user_id
"""
_SETTINGS = """\
[sqlfluff]
dialect = sparksql
templater = dbt
rules = spark_bucketing
[sqlfluff:templater:dbt]
project_dir = ./
profiles_dir = ./
"""


@pytest.mark.long
def test_dbt_templater_lints_and_fixes_like_the_jinja_templater(tmp_path: Path) -> None:
    project = dbt_project(tmp_path / "project")
    files = {
        "models/visits.sql": _VISITS,
        "models/by_user.sql": _BY_USER,
        "macros/keys.sql": "{% macro keys() %}{{ return(['user_id']) }}{% endmacro %}",
        ".sqlfluff": _SETTINGS,
    }
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    _run(project, "dbt", "parse")

    said = _run(project, "sqlfluff", "fix", "--show-lint-violations", "models")

    assert "SparkBucketing_SB02" in said and "did you mean `clustered_by`?" in said, said
    right = _BY_USER.replace("cluster_by", "clustered_by").replace("num_buckets", "buckets")
    assert (project / "models/by_user.sql").read_text() == right
    assert (project / "models/visits.sql").read_text() == _VISITS


def _run(project: Path, command: str, *arguments: str) -> str:
    program = str(Path(sys.executable).parent / command)
    done = subprocess.run([program, *arguments], cwd=project, capture_output=True, text=True, timeout=300, check=False)
    return " ".join((done.stdout + done.stderr).replace("|", " ").split())
