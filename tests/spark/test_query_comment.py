"""Tests that the package works with dbt's query comment at the end of every statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bucketed_tables import no_extension
from session_settings import setting

from conftest import Project

KEYS: dict[str, Any] = {"clustered_by": ["k"], "buckets": 2, "partition_by": ["p"]}
ORGANIZED: dict[str, Any] = {"range_by": "k", "rows_per_file": 20}
ROWS = "select id as k, concat('v', id) as v, id % 2 as p from range(40)"
TESTS = ("rows_in_their_buckets", "sorted_within_buckets", "one_file_per_bucket", "bucket_spec_matches_config")
INCREMENTAL = KEYS | {
    "materialized": "bucketed_incremental",
    "unique_key": ["k", "p"],
    "on_schema_change": "append_new_columns",
}
MODELS: dict[str, dict[str, Any]] = {
    "whole": KEYS | {"materialized": "bucketed_table", "post_hook": "{{ spark_bucketing.seal_buckets(this) }}"},
    "append": INCREMENTAL | {"incremental_strategy": "append"},
    "overwrite": INCREMENTAL | {"incremental_strategy": "insert_overwrite", "on_bucket_change": "evolve"},
    "merged": INCREMENTAL | {"incremental_strategy": "merge"},
    "organized": ORGANIZED | {"materialized": "organized_table"},
    "merged_files": ORGANIZED
    | {"materialized": "organized_incremental", "incremental_strategy": "merge", "unique_key": "k"},
}


@pytest.fixture
def project(new_project: Callable[..., Project]) -> Project:
    """Create a project in which dbt appends its comment."""
    return new_project(**{"query-comment": {"append": True}})


def build(project: Project, **models: dict[str, Any]) -> None:
    """Build models twice, with their tests, and check the number of their rows."""
    for name, config in models.items():
        project.model(name, ROWS, **config)
    bucketed = [name for name, config in models.items() if config["materialized"].startswith("bucketed")]
    project.describe(
        *({"name": name, "data_tests": [f"spark_bucketing.{test}" for test in TESTS]} for name in bucketed)
    )
    for _ in range(2):
        project.dbt("build")
    for name in models:
        number = 80 if name == "append" else 40
        assert project.rows(f"select count(*) from {project.table(name)}")[0][0] == number, name


@pytest.mark.long
def test_comment_after_the_statements_does_not_break_them(project: Project, extension: None) -> None:
    project.model("a_view", "select * from {{ ref('whole') }}", materialized="view")
    build(project, **MODELS)
    project.model("overwrite", ROWS, **MODELS["overwrite"] | {"buckets": 4})
    project.dbt("build", "--select", "overwrite")
    specs = project.rows("select num_buckets, status from bucket_specs('{schema}.overwrite')")
    assert [tuple(row) for row in specs] == [(4, "sealed")] * 2


@pytest.mark.long
def test_comment_after_the_statements_does_not_break_stock_spark(project: Project) -> None:
    models = {
        "whole": MODELS["whole"] | {"post_hook": []},
        "overwrite": MODELS["overwrite"] | {"on_bucket_change": "fail"},
    }
    with setting(project.spark, "spark.bucketing.enabled", "false"), no_extension(project.spark):
        build(project, **models)
