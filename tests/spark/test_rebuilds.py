"""Tests that a further build of a bucketed table replaces only its files if only its rows change."""

from __future__ import annotations

from pathlib import Path

import pytest
from crashes import content, statements

from conftest import Project
from spark_bucketing.session import setting

MODEL = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 3}
PARTITIONED = MODEL | {"partition_by": ["p"]}
QUERY = (
    "select id as k, concat('v', {{ var('v', 0) }}) as v, id % 2 as p from range(20) where id % 2 >= {{ var('v', 0) }}"
)
NEW = sorted((str(k), "v1", "1") for k in range(1, 20, 2))
RENAMES = ("rename to", "begin")

pytestmark = pytest.mark.usefixtures("extension")


def rebuilt(project: Project, *arguments: str, v: int = 1) -> bool:
    """Run the model, and return whether the run has kept the table."""
    with statements() as sent:
        project.dbt("run", *arguments, v=v)
    assert project.tables() == {"m"}
    swapped = any(statement.startswith(("create table", *RENAMES)) for statement in sent)
    assert swapped == ("insert overwrite" not in " ".join(sent)), sent
    return not swapped


@pytest.mark.parametrize("config", [MODEL, PARTITIONED, PARTITIONED | {"file_format": "orc", "bucket_hash": "hive2"}])
@pytest.mark.some(2)
def test_rows_are_replaced_in_the_same_table(project: Project, config: dict[str, object]) -> None:
    project.build(QUERY, **config)
    location = project.location("m")
    assert rebuilt(project) and content(project) == NEW
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        assert content(project) == NEW
    statuses = project.rows("select partition, status from bucket_specs('{schema}.m')")
    assert {row[1] for row in statuses} == {"sealed"}
    assert [row[0] for row in statuses] == (["p=1"] if "partition_by" in config else [""])
    assert project.location("m") == location
    assert rebuilt(project, v=2) and content(project) == []


def test_tables_outside_of_the_warehouse_stay_in_place(project: Project, tmp_path: Path) -> None:
    config = PARTITIONED | {"location_root": str(tmp_path)}
    project.build(QUERY, **config)
    assert rebuilt(project) and content(project) == NEW


def test_unpartitioned_insert_overwrite_replaces_the_rows(project: Project) -> None:
    project.build(QUERY, **MODEL | {"materialized": "bucketed_incremental", "incremental_strategy": "insert_overwrite"})
    assert rebuilt(project) and content(project) == NEW


@pytest.mark.parametrize(
    "changed",
    [
        {"buckets": 6},
        {"sorted_by": ["v"]},
        {"partition_by": ["p"]},
        {"bucket_hash": "hive2"},
        {"file_format": "orc"},
        {"tblproperties": {"team": "us"}},
        {"options": {"compression": "gzip"}},
        {"write_tasks": 2},
    ],
    ids=str,
)
@pytest.mark.some(3)
def test_another_definition_builds_the_table_again(project: Project, changed: dict[str, object]) -> None:
    project.build(QUERY, **MODEL)
    project.model("m", QUERY, **MODEL | changed)
    assert not rebuilt(project) and content(project) == NEW


@pytest.mark.parametrize(
    "alter",
    [
        "add columns (extra int)",
        "clustered by (k) sorted by (k) into 6 buckets",
        "alter column v comment 'by hand'",
        "unset tblproperties ('bucketing.definition')",
    ],
)
@pytest.mark.some(2)
def test_altered_table_is_built_again(project: Project, alter: str) -> None:
    project.build(QUERY, **MODEL)
    project.spark.sql(f"alter table {project.table('m')} {alter}")
    kept = rebuilt(project)
    assert kept == alter.startswith("alter column") and content(project) == NEW


def test_another_type_builds_the_table_again(project: Project) -> None:
    project.build(QUERY, **MODEL)
    project.model("m", QUERY.replace("id as k", "cast(id as int) as k"), **MODEL)
    assert not rebuilt(project) and content(project) == NEW


def test_query_may_read_the_table(project: Project) -> None:
    project.build(QUERY, **PARTITIONED)
    project.model("m", "select k, v, p from {{ this }} where p = 1", **PARTITIONED)
    assert not rebuilt(project)
    assert {row[2] for row in content(project)} == {"1"}


def test_full_refresh_repairs_damaged_records(project: Project) -> None:
    project.build(QUERY, **MODEL)
    assert rebuilt(project)
    record = project.location("m") / "_replaced" / "99990101000000000000-0"
    record.mkdir()
    (record / "started").write_text("damaged")
    _, failure = project.attempt("run", v=1)
    assert "is damaged" in failure and "dbt run --full-refresh" in failure
    assert not rebuilt(project, "--full-refresh") and content(project) == NEW


def test_setting_disables_the_replacement(project: Project) -> None:
    project.build(QUERY, **PARTITIONED)
    with setting(project.spark, "spark.bucketing.write.atomicOverwrite", "false"):
        assert not rebuilt(project) and content(project) == NEW


def test_failed_query_keeps_the_rows(project: Project) -> None:
    project.build(QUERY, **PARTITIONED)
    before = content(project)
    project.model("m", "select id as k, raise_error('no value') as v, id % 2 as p from range(20)", **PARTITIONED)
    _, failure = project.attempt("run", v=1)
    assert "no value" in failure and content(project) == before
