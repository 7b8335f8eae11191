"""Tests of errors during a swap of two tables: the run reverts the swap and reports why, or the next run repairs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from crashes import content, executing
from metastore_interception import failing
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from session_settings import setting
from spark_features import has_scripts, needs_scripts

from conftest import Project, all_long_but

# The rename call of Hive's client.
RENAME = "alter_table_with_environmentContext"
MODEL: dict[str, Any] = {"materialized": "bucketed_table", "clustered_by": "k", "buckets": 2}


def refuse_rename(spark: SparkSession, number: int) -> AbstractContextManager[list[str]]:
    """Make the metastore refuse the rename with this number with an error, and collect all renames."""
    jvm: Any = spark.sparkContext._jvm
    error = jvm.org.apache.hadoop.hive.metastore.api.MetaException("failed on purpose")
    return failing(spark, RENAME, number, Py4JJavaError("an error of the metastore", error))


def test_swap_restores_the_previous_relation_if_a_directory_is_in_the_way(project: Project) -> None:
    project.model("m", "select 1 as k", materialized="view")
    project.model("other", "select 1 as k", **MODEL)
    project.dbt("run")
    in_the_way = project.location("other").with_name("m")
    in_the_way.mkdir()
    project.model("m", "select 2 as k", **MODEL)
    _, failure = project.attempt("run", "--select", "m")
    if has_scripts(project.spark):
        assert "The previous one is restored" in failure, failure
        assert content(project) == [("1",)] and project.tables() == {"m", "other", "m__dbt_tmp"}
    else:
        assert "LOCATION_ALREADY_EXISTS" in failure, failure
        assert project.tables() == {"m__dbt_backup", "other", "m__dbt_tmp"}
    in_the_way.rmdir()
    project.dbt("run", "--select", "m")
    assert content(project) == [("2",)] and project.tables() == {"m", "other"}


@pytest.mark.long
def test_directory_with_the_backups_name_stops_the_run_before_any_change(project: Project) -> None:
    project.model("m", "select '{{ var('v') }}' as k", **MODEL)
    project.dbt("run", v="old")
    in_the_way = project.location("m").with_name("m__dbt_backup")
    in_the_way.mkdir()
    for options in ((), ("--full-refresh",)):
        _, failure = project.attempt("run", *options, v="new")
        assert "a directory m__dbt_backup without a table" in failure, failure
        assert content(project) == [("old",)] and project.tables() == {"m"}
    in_the_way.rmdir()
    project.dbt("run", v="new")
    assert content(project) == [("new",)]


@pytest.mark.long
def test_directory_with_the_backups_name_does_not_affect_an_external_table(project: Project) -> None:
    project.model("m", "select '{{ var('v') }}' as k", **MODEL, location_root=str(project.folder / "external"))
    project.dbt("run", v="old")
    project.model("other", "select 1 as k", **MODEL)
    project.dbt("run", "--select", "other")
    project.location("other").with_name("m__dbt_backup").mkdir()
    project.dbt("run", "--select", "m", v="new")
    assert content(project) == [("new",)] and project.tables() == {"m", "other"}


@pytest.mark.parametrize("materialized", ["bucketed_table", "bucketed_incremental"])
@pytest.mark.usefixtures("extension")
@pytest.mark.long
def test_view_of_a_missing_table_is_replaced(project: Project, materialized: str) -> None:
    project.spark.sql(f"create table {project.table('gone')} as select 1 as k")
    project.spark.sql(f"create view {project.table('m')} as select * from {project.table('gone')}")
    in_the_way = project.location("gone").with_name("m")
    project.spark.sql(f"drop table {project.table('gone')}")
    in_the_way.mkdir()
    project.model("m", "select 2 as k", **MODEL | {"materialized": materialized})
    _, failure = project.attempt("run")
    said = "unless it was a view of a missing table" if has_scripts(project.spark) else "LOCATION_ALREADY_EXISTS"
    assert said in failure, failure
    in_the_way.rmdir()
    project.dbt("run")
    assert content(project) == [("2",)] and project.tables() == {"m"}


@pytest.mark.long
@needs_scripts
def test_script_cannot_read_the_message_of_a_metastore_error(project: Project) -> None:
    """For this reason, swap_relations() first tests whether the metastore permits altering these tables."""
    spark, table = project.spark, project.table("m")
    project.model("m", "select 1 as k", **MODEL)
    project.dbt("run")
    rename = f"alter table {table} rename to {project.table('n')}"
    handler = "declare exit handler for sqlexception begin select 'handled'; end;"
    with refuse_rename(spark, 1), pytest.raises(Exception, match="failed on purpose"):
        spark.sql(rename)
    for script in (
        f"begin {rename}; end",
        f"begin {handler} {rename}; end",
        f"begin execute immediate '{rename}'; end",
    ):
        with refuse_rename(spark, 1), pytest.raises(Exception, match="NullPointerException") as error:
            spark.sql(script)
        assert "sqlState" in str(error.value) and "failed on purpose" not in str(error.value)
    assert content(project) == [("1",)]


@pytest.mark.parametrize("number", all_long_but(2, [1, 2]))
def test_next_run_repairs_a_failed_swap(project: Project, number: int) -> None:
    project.model("m", "select '{{ var('v') }}' as k", **MODEL)
    project.dbt("run", v="old")
    renames: list[str] = []
    scripts = has_scripts(project.spark)

    def watched(execute: Callable[[str], None], sql: str) -> None:
        # Without scripts, the second rename is the only one in its statement.
        nth = number if scripts or len(renames) + 1 < number else 1
        with refuse_rename(project.spark, nth) if "rename to" in sql else nullcontext([]) as calls:
            try:
                execute(sql)
            finally:
                renames.extend(calls)

    with executing(watched):
        _, failure = project.attempt("run", v="new")
    assert failure and len(renames) == number
    assert project.tables() == {"m__dbt_tmp", "m" if number == 1 else "m__dbt_backup"}
    kept = project.rows(f"select * from {{schema}}.{'m' if number == 1 else 'm__dbt_backup'}")
    assert [tuple(row) for row in kept] == [("old",)]
    project.dbt("run", v="new")
    assert content(project) == [("new",)] and project.tables() == {"m"}


@pytest.mark.parametrize(
    ("seals", "config", "last"),
    [
        ("false", {}, "bucketing.written"),
        pytest.param("true", {}, "bucket_specs(", marks=pytest.mark.long),
        ("true", {"partition_by": "p"}, "bucketing.written"),
    ],
    ids=["without seals", "sealed", "sealed partitions"],
)
@pytest.mark.some(1)
def test_table_built_by_another_run_is_not_swapped_in(
    project: Project, seals: str, config: dict[str, object], last: str
) -> None:
    query = "select '{{ var('v', 'old') }}' as k" + (", 1 as p" if config else "")
    project.build(query, **MODEL, **config)
    # With the same definition, the extension would replace the rows of the table.
    project.spark.sql(f"alter table {project.table('m')} unset tblproperties ('bucketing.definition')")
    tmp = f"{project.schema}.m__dbt_tmp"

    def another_run_begins(execute: Callable[[str], None], sql: str) -> None:
        if last in sql:
            project.spark.sql(f"drop table {tmp}")
            project.spark.sql(
                f"create table {tmp} (k string) using parquet tblproperties ('bucketing.build' = 'another')"
            )
        execute(sql)

    with setting(project.spark, "spark.bucketing.enabled", seals), executing(another_run_begins):
        _, failure = project.attempt("run", v="new")
    assert "another run of the model is active" in failure and "m__dbt_tmp: another" in failure, failure
    assert [row[0] for row in content(project)] == ["old"] and project.tables() == {"m", "m__dbt_tmp"}
    project.dbt("run", v="new")
    assert [row[0] for row in content(project)] == ["new"] and project.tables() == {"m"}
