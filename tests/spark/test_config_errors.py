"""Tests that every invalid config is an error that names the model, the value and the correct value."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from crashes import READS, statements
from pyspark.sql import SparkSession
from session_settings import setting

from conftest import REPOSITORY, Failed, Project, parameters

pytestmark = pytest.mark.usefixtures("extension_for_module")
TABLE = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 4}
SQL = (
    "select 1 as k, 'a' as v, 2 as ds, timestamp'2024-01-01 00:00:00' as ts, map('a', 1) as m, cast('x' as binary) as b"
)

SHARED = REPOSITORY / "tests" / "cases" / "shared"
CASES: dict[str, dict[str, Any]] = {
    name: case
    for file in ("config.yml", "query_config.yml")
    for name, case in yaml.safe_load((SHARED / file).read_text()).items()
    if "message" in case
}
TYPES = yaml.safe_load((SHARED / "bucket_types.yml").read_text())


@pytest.fixture(scope="module")
def messages(
    new_project: Callable[..., Project], extension_for_module: None, request: pytest.FixtureRequest
) -> dict[str, str]:
    """Return dbt's message for each invalid model of this test run; "" maps to the statements that dbt sent."""
    project = new_project()
    for name in parameters(request, "name") & CASES.keys():
        project.model(name, CASES[name].get("sql", SQL), **CASES[name]["config"])
    with statements() as sent:
        results, _ = project.attempt("run")
    assert project.tables() == set()
    return {name: str(result.message) for name, result in results.items()} | {"": "\n".join(sent)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.some(70)
def test_config_error_names_model_value_and_remedy(messages: dict[str, str], name: str) -> None:
    message = messages[name]
    assert re.search(rf"[Mm]odel `{name}`", message)
    for part in ["found:", "expected:", "instead:", *CASES[name]["message"]]:
        assert part in message, message


def test_invalid_configs_write_nothing(messages: dict[str, str]) -> None:
    assert [sent for sent in messages[""].splitlines() if not sent.lower().startswith("create schema")] == []


def test_extension_accepts_the_types_of_the_hive_layout(spark: SparkSession) -> None:
    packages = spark.sparkContext._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    fields = ", ".join(f"`{case['type']}` {case['type']}" for case in TYPES)
    schema = packages.types.StructType.fromDDL(fields)
    accepted = {field.name(): packages.bucketing.hash.BucketHash.spreads(field) for field in schema.fields()}
    assert accepted == {case["type"]: case["hive"] for case in TYPES}


def test_reading_statements_are_recognized() -> None:
    assert READS.match("/* {} */ describe table x") and not READS.match("/* {} */ drop table x")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.runSQLOnFiles", "false"),
        ("spark.sql.optimizer.disableHints", "true"),
        ("spark.sql.hive.convertMetastoreParquet", "false"),
        ("spark.sql.hive.convertInsertingPartitionedTable", "false"),
        ("spark.sql.hive.convertInsertingUnpartitionedTable", "false"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
    ],
)
@pytest.mark.some(2)
def test_session_that_cannot_write_buckets_is_an_error(project: Project, key: str, value: str) -> None:
    project.model("m", SQL, **TABLE)
    message = rf"`m` cannot be built in this session.\s+found: +{key} = {value}"
    with setting(project.spark, key, value), pytest.raises(Failed, match=message):
        project.dbt("run")
