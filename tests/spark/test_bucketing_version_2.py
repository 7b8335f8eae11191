"""Tests of a dbt project with tables in bucketing version 2: dbt tests, checks, table commands, metadata for Trino."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from commands import command, verdicts

from conftest import Project, data_files
from spark_bucketing.doctor.trino import PROVIDER_PROPERTY
from spark_bucketing.session import setting

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

BUCKETED = {"materialized": "bucketed_table", "clustered_by": "user_id", "bucket_hash": "hive2"}
DAYS = BUCKETED | {
    "materialized": "bucketed_incremental", "partition_by": "day", "incremental_strategy": "insert_overwrite",
    "on_bucket_change": "evolve",
}  # fmt: skip
ROWS = "select id as user_id, id * 2 as {} from range(100)"
ROWS_OF_DAYS = """
select id as user_id, id as v, cast(id % 3 as int) as day from range(90)
{% if is_incremental() %} where id % 3 = 0 {% endif %}
"""
JOIN = (
    "select a.user_id, b.name from {{{{ ref('clicks') }}}} as a join {{{{ ref('{}') }}}} as b on a.user_id = b.user_id"
)
TESTS = (
    "rows_in_their_buckets", "sorted_within_buckets", "one_file_per_bucket", "bucket_spec_matches_config",
    "partition_bucket_specs_valid",
)  # fmt: skip


@pytest.fixture(scope="module")
def built(new_project: Callable[..., Project]) -> Project:
    """Build tables in both versions and in the Spark layout, and run the generic tests."""
    project = new_project()
    with setting(project.spark, "spark.bucketing.enabled", "true"):
        project.model("clicks", ROWS.format("click"), buckets=8, **BUCKETED)
        project.model("users", ROWS.format("name"), buckets=16, **BUCKETED)
        project.model("old_users", ROWS.format("name"), buckets=8, **BUCKETED | {"bucket_hash": "hive"})
        project.model("spark_users", ROWS.format("name"), buckets=8, **BUCKETED | {"bucket_hash": "spark"})
        project.model("days", ROWS_OF_DAYS, buckets=4, **DAYS)
        project.model("good", JOIN.format("users"), materialized="view")
        project.model("versions", JOIN.format("old_users"), materialized="view")
        tests = [f"spark_bucketing.{name}" for name in TESTS]
        project.describe(*({"name": name, "data_tests": tests} for name in ("clicks", "users", "days")))
        project.dbt("build")
    return project


def set_version(project: Project, name: str, version: str) -> None:
    project.rows(f"alter table {project.table(name)} set tblproperties ('bucketing_version' = '{version}')")


def test_generic_test_finds_a_changed_version(built: Project) -> None:
    set_version(built, "clicks", "1")
    try:
        _, failure = built.attempt("test", "--select", "clicks")
    finally:
        set_version(built, "clicks", "2")
    assert "bucket_spec_matches_config" in failure


def test_check_reports_the_versions_and_the_fix(built: Project) -> None:
    result = command(built, "check", "--format", "json")
    models: dict[str, Any] = {model["name"]: model for model in json.loads(result.stdout)["models"]}
    assert verdicts(models["good"]) == [("join", "sort-free")]
    assert verdicts(models["versions"]) == [("join", "one-sided")]
    ((finding,),) = (operator["findings"] for operator in models["versions"]["operators"])
    schema = built.schema
    assert finding["reason"] == "hash-mismatch"
    assert f"{schema}.old_users is bucketed by Hive's hash of bucketing_version 1" in finding["message"]
    assert f"{schema}.clicks by Hive's hash of bucketing_version 2" in finding["message"]
    assert [(fix["table"], fix["spec"]["bucket_hash"], fix["promises"]) for fix in finding["fixes"]] == [
        (f"{schema}.old_users", "hive2", "sort-free"),
        (f"{schema}.clicks", "hive", "sort-free"),
    ]


def test_doctor_names_the_table_whose_buckets_trino_ignores(built: Project) -> None:
    result = command(built, "doctor")
    assert result.exit_code == 0, result.output
    assert f"Trino: reads 4 tables of {built.schema} as bucketed, but not spark_users, because" in result.stdout


def test_tables_in_the_hive_layout_do_not_have_sparks_provider(built: Project) -> None:
    """Spark hides this property, so the test reads it from the metastore, as Trino does."""
    built.rows(f"create table {built.table('turned')} using parquet as select 1 as user_id")
    built.rows(f"alter table {built.table('turned')} clustered by (user_id) into 4 buckets")
    metastore = built.spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()
    found = {
        name: metastore.getTable(built.schema, name).properties().contains(PROVIDER_PROPERTY)
        for name in ("clicks", "old_users", "days", "turned", "spark_users")
    }
    built.rows(f"drop table {built.table('turned')}")
    assert found == dict.fromkeys(found, False) | {"spark_users": True}


@pytest.mark.parametrize("arguments", [["show"], ["verify"], ["verify", "--deep"]], ids=" ".join)
def test_table_commands_report_no_problem(built: Project, arguments: list[str]) -> None:
    result = command(built, "table", *arguments, "clicks", "days")
    assert result.exit_code == 0, result.output
    assert arguments != ["show"] or "hive2" in result.stdout


def test_seal_command_reports_the_version_of_the_rows(built: Project) -> None:
    location = built.location("users")
    for number, file in enumerate(data_files(location)):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.rename(location / f"0{file.name[:5]}_0_copy_{number + 1}")
    set_version(built, "users", "1")
    result = command(built, "table", "seal", "users")
    set_version(built, "users", "2")
    assert result.exit_code == 0, result.output
    assert "bucketing_version 2, but the table states 1" in " ".join(result.stdout.split())


def test_changed_buckets_keep_the_version(built: Project) -> None:
    specs = f"select num_buckets, hash from bucket_specs('{built.schema}.days')"
    built.model("days", ROWS_OF_DAYS, buckets=8, **DAYS)
    built.dbt("build", "--select", "days")
    assert sorted(map(tuple, built.rows(specs))) == [(4, "hive2"), (4, "hive2"), (8, "hive2")]
    result = command(built, "table", "rewrite", "days")
    assert result.exit_code == 0, result.output
    assert [tuple(row) for row in built.rows(specs)] == [(8, "hive2")] * 3
    built.dbt("test", "--select", "days")
