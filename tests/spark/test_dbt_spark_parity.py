"""Tests that types, docs, constraints and keys work as in dbt-spark, or cause an error before any write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import pytest
from bucketed_tables import no_extension
from crashes import executing

from conftest import Failed, Project

pytestmark = pytest.mark.usefixtures("extension_for_module")
TABLE = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 2}
INCREMENTAL = TABLE | {"materialized": "bucketed_incremental"}
MERGE = INCREMENTAL | {"incremental_strategy": "merge"}


def warnings(project: Project, *arguments: str) -> str:
    """Return the warnings of a run, as errors under --warn-error."""
    return project.attempt("run", "--warn-error", *arguments)[1]


def describe(project: Project, *names: str, **properties: object) -> None:
    """Write a properties file for these models, or for m."""
    project.describe(*({"name": name, **properties} for name in names or ("m",)))


LONG = "word " * 60
DOCUMENTED = {
    "t": TABLE,
    "spark": TABLE | {"bucket_hash": "spark"},
    "overwrite": INCREMENTAL | {"partition_by": "p", "incremental_strategy": "insert_overwrite"},
    "merge": MERGE | {"unique_key": "k", "partition_by": "p"},
}


@pytest.mark.long
def test_comment_too_long_for_the_metastore_is_truncated_with_a_warning(project: Project) -> None:
    def document(text: str) -> None:
        columns = [{"name": "k", "description": text}, {"name": "p", "description": "p"}]
        describe(project, *DOCUMENTED, description=text * 20, columns=columns)

    for name, config in DOCUMENTED.items():
        project.model(name, "select 1 as k, 2 as p", **config, persist_docs={"relation": True, "columns": True})
    document(LONG)
    found = warnings(project)
    assert all(f"`{name}`" in found for name in DOCUMENTED) and found.count("at most 256 characters") == len(DOCUMENTED)
    assert project.tables() == set()
    project.dbt("run")
    document("\U0001f600" + LONG)
    project.dbt("run")
    for name in DOCUMENTED:
        comment = project.spark.table(project.table(name)).schema["k"].metadata["comment"]
        assert comment == "\U0001f600" + LONG[:253] + "…"
        assert project.detail(name, "Comment") == ("\U0001f600" + LONG) * 20


@pytest.mark.long
def test_warning_names_documented_columns_that_do_not_exist(project: Project) -> None:
    describe(project, "t", "i", columns=[{"name": "K"}, {"name": "gone", "description": "no more"}])
    for name, config in (("t", TABLE), ("i", INCREMENTAL)):
        project.model(name, "select 1 as k", **config, persist_docs={"columns": True})
    for _ in range(2):
        found = warnings(project)
        assert all(
            re.search(f"`{name}`: The following columns .* not present in the database: gone", found) for name in "ti"
        )
        project.dbt("run")


@pytest.mark.long
def test_quoted_column_is_documented_only_in_its_exact_case(project: Project) -> None:
    quoted = {"name": "MyCol", "quote": True, "description": "of MyCol"}
    columns = [quoted, {"name": "Other", "quote": False, "description": "of any case"}]
    models = {"t": TABLE, "i": INCREMENTAL, "s": TABLE | {"bucket_hash": "spark"}}
    describe(project, *models, columns=columns)
    for name, config in models.items():
        project.model(name, "select 1 as k, 2 as mycol, 3 as other", **config, persist_docs={"columns": True})
    for _ in range(2):
        found = warnings(project)
        assert all(
            re.search(f"`{name}`: The following columns .* not present in the database: MyCol", found)
            for name in models
        )
        project.dbt("run")
        for name in models:
            fields = project.spark.table(project.table(name)).schema
            assert {field.name: field.metadata.get("comment") for field in fields} == {
                "k": None,
                "mycol": None,
                "other": "of any case",
            }
    for name, config in models.items():
        project.model(name, "select 1 as k, 2 as MyCol, 3 as other", **config, persist_docs={"columns": True})
    assert not warnings(project, "--full-refresh")
    for name in models:
        assert project.spark.table(project.table(name)).schema["MyCol"].metadata["comment"] == "of MyCol"


def test_contract_constraints_hold_for_every_written_row(project: Project) -> None:
    positive = {"type": "check", "expression": "v > 0", "name": "positive"}
    constraints = {"k": [{"type": "not_null"}], "v": [positive]}
    columns = [{"name": name, "data_type": "int", "constraints": of} for name, of in constraints.items()]
    models: dict[str, dict[str, object]] = {"t": TABLE, "i": INCREMENTAL | {"full_refresh": False}}
    describe(project, *models, config={"contract": {"enforced": True}}, columns=columns)
    for name, config in models.items():
        project.model(name, "select cast({{ var('k') }} as int) as k, cast({{ var('v') }} as int) as v", **config)
    for v in (1, "null"):
        project.dbt("run", k=1, v=v)
    for k, v, broken in (("null", 1, "'not_null' of k"), (1, -1, "'positive' of v")):
        results, _ = project.attempt("run", k=k, v=v)
        assert all(f"a row violates the constraint {broken}" in str(results[name].message) for name in models)
    for name in models:
        assert {row.k for row in project.rows(f"select k from {project.table(name)}")} == {1}


@pytest.mark.parametrize(
    ("constraint", "missing", "instead"),
    [
        ({"type": "not_null"}, "'not_null' without `columns`", "columns: [id]"),
        ({"type": "check", "name": "c"}, "'c' without `expression`", 'expression: "id > 0"'),
    ],
    ids=["not_null", "check"],
)
def test_empty_constraints_are_config_errors(
    project: Project, constraint: dict[str, str], missing: str, instead: str
) -> None:
    contract = {"config": {"contract": {"enforced": True}}, "columns": [{"name": "k", "data_type": "int"}]}
    describe(project, **contract, constraints=[constraint])
    project.model("m", "select 1 as k", **TABLE)
    _, failure = project.attempt("run")
    assert "Model `m` has an invalid `constraints`" in failure and missing in failure and instead in failure, failure
    assert project.tables() == set()


@pytest.mark.long
def test_constraints_across_rows_cause_a_warning(project: Project) -> None:
    constraint = {"type": "unique", "columns": ["k"]}
    contract = {"config": {"contract": {"enforced": True}}, "columns": [{"name": "k", "data_type": "int"}]}
    describe(project, **contract, constraints=[constraint])
    project.model("m", "select 1 as k", **TABLE)
    assert "'unique' of k is not enforced" in warnings(project)
    describe(project, **contract, constraints=[constraint | {"warn_unenforced": False}])
    assert not warnings(project)


def test_merge_without_a_key_appends_with_a_warning(project: Project) -> None:
    project.model("m", "select 1 as k", **MERGE)
    assert "without `unique_key` appends" in warnings(project)
    project.dbt("run")
    project.dbt("run")
    assert [row.k for row in project.rows("select k from {schema}.m")] == [1, 1]


@pytest.mark.long
def test_missing_key_column_fails_the_run_and_leaves_nothing_behind(project: Project) -> None:
    project.build("select 1 as k", **MERGE, unique_key="k")
    # The query returns the column, but the model ignores new columns.
    project.model("m", "select 1 as k, 2 as nk", **MERGE, unique_key="nk")
    with pytest.raises(Failed, match=r"Model `m` has an invalid `unique_key`[^$]*found: +nk"):
        project.dbt("run")
    assert project.tables() == {"m"}


def test_catalog_has_the_same_sizes_as_with_dbt_spark(project: Project) -> None:
    project.model("stock", "select id as k from range(100)", materialized="table", file_format="parquet")
    for bucket_hash in ("hive", "spark"):
        project.model(bucket_hash, "select id as k from range(100)", **TABLE, bucket_hash=bucket_hash)
    project.keeps_artifacts = True
    project.dbt("run")
    project.dbt("docs", "generate")
    catalog = json.loads((project.folder / "target" / "catalog.json").read_text())["nodes"]
    sizes = {node["metadata"]["name"]: node["stats"].get("bytes", {}).get("value", 0) for node in catalog.values()}
    assert sizes.keys() == {"stock", "hive", "spark"} and all(sizes.values()), sizes


@pytest.mark.long
def test_metastore_error_is_shown_unchanged(project: Project) -> None:
    project.model("m", "select '{{ var('v') }}' as k", **TABLE)
    project.dbt("run", v="old")
    # The metastore limits keys to 256 characters, and Spark reports this error without a SQLSTATE.
    project.model("m", "select '{{ var('v') }}' as k", **TABLE, tblproperties={"long" * 70: "v"})
    _, failure = project.attempt("run", v="new")
    assert "TABLE_PARAMS" in failure and "NullPointerException" not in failure
    assert [row.k for row in project.rows("select * from {schema}.m")] == ["old"]
    project.model("m", "select '{{ var('v') }}' as k", **TABLE)
    project.dbt("run", v="new")
    assert project.tables() == {"m"}


def test_too_many_buckets_for_few_rows_cause_a_warning(project: Project) -> None:
    project.model("m", "select id as k from range(1000)", **TABLE | {"buckets": 1000})
    found = warnings(project)
    assert "buckets=1000" in found and "very small files" in found and "Try buckets=1" in found
    assert project.tables() == set()


# The package and the extension may have different versions.
SAID = f"version 0.0.9, but the dbt package spark_bucketing has version {version('spark-bucketing')}."
OLDER = """
    select 'Class: org.apache.spark.sql.bucketing.metadata.BucketSpecsFunction$' as d
    union all select 'Usage: bucket_specs - What it is. (spark-bucketing 0.0.9, for Spark 4.3.0)'
"""


@contextmanager
def record_queries(description: str | None = None) -> Iterator[list[str]]:
    """Record dbt's queries about functions; `description` replaces the description of the extension's function."""
    asked: list[str] = []

    def act(execute: Callable[[str], None], sql: str) -> None:
        found = re.search(r"(describe function|show user functions like) .*", sql)
        if found:
            asked.append(found[0])
        execute(description if description and found and "describe function bucket_specs" in found[0] else sql)

    with executing(act):
        yield asked


@pytest.fixture
def models(project: Project) -> Project:
    """Create a project with several models, which several threads build."""
    for name in "abcd":
        project.model(name, "select id as k from range(10)", **TABLE)
    return project


@pytest.mark.usefixtures("extension")
@pytest.mark.long
def test_version_mismatch_is_reported_once_per_run(models: Project) -> None:
    with record_queries() as asked:
        assert not warnings(models)
    with record_queries(OLDER) as asked_of_older:
        found = warnings(models)
    assert found.count(SAID) == 1 and "`dbt deps`" in found and "extension build" in found, found
    assert not [name for name in models.tables() if "__dbt_" in name], "the warning must come before the first write"
    # Several threads may send the same query at the same time.
    assert set(asked) == set(asked_of_older)
    with record_queries(OLDER):
        assert SAID in warnings(models), "the next run must warn again"


def test_versions_are_not_compared_without_the_extension(models: Project) -> None:
    with record_queries(OLDER), no_extension(models.spark):
        assert SAID not in warnings(models)
