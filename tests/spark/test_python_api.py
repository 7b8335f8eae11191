"""Tests that the Python API gives the commands' results for a session and for a project, and leaves both as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import command
from pyspark.sql import SparkSession

import spark_bucketing
from conftest import Project
from spark_bucketing import SparkError, TableError

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")
COLUMNS = "(k bigint, v bigint) clustered by (k) sorted by (k) into {} buckets stored as parquet"


@pytest.fixture(autouse=True)
def unchanged(spark: SparkSession) -> Iterator[None]:
    before = Path.cwd(), {tuple(row) for row in spark.sql("set").collect()}, spark.catalog.currentDatabase()
    yield
    after = Path.cwd(), {tuple(row) for row in spark.sql("set").collect()}, spark.catalog.currentDatabase()
    assert (before[0], before[1] ^ after[1], before[2]) == (after[0], set(), after[2])


@pytest.fixture
def schema(project: Project, spark: SparkSession) -> str:
    spark.sql(f"create schema if not exists {project.schema}")
    for name, buckets in (("a", 4), ("b", 6)):
        spark.sql(f"create table {project.schema}.{name} {COLUMNS.format(buckets)}")
        spark.sql(f"insert into {project.schema}.{name} select id, id from range(100)")
    return str(project.schema)


def test_query_is_checked_in_the_session(spark: SparkSession, schema: str) -> None:
    spark.range(10).createOrReplaceTempView("numbers")
    sql = f"select * from {schema}.a join {schema}.b using (k) where k in (select id from numbers)"
    result = spark_bucketing.check(sql=sql, spark=spark)
    (model,) = result.to_dict()["models"]
    assert [finding["reason"] for operator in model["operators"] for finding in operator["findings"]]
    assert "bucket-count-mismatch" in str(result) and "bucket-count-mismatch" in result._repr_html_()
    assert {"exchange", "bucketed"} <= {line.kind for line in result.content.models[0].plan}
    assert spark_bucketing.check(f"select k, count(*) from {schema}.a group by k").state == "ok"
    missing = spark_bucketing.check("select * from no_such_table", spark)
    assert missing.state == "unknown" and "TABLE_OR_VIEW_NOT_FOUND" in str(missing.content.models[0].error)


def test_table_is_shown_verified_and_sealed(spark: SparkSession, schema: str, project: Project) -> None:
    spark.conf.set("spark.bucketing.enabled", "false")
    spark.sql(f"insert into {schema}.b select id, id from range(100)")
    spark.conf.set("spark.bucketing.enabled", "true")
    table = spark_bucketing.table(f"{schema}.a", spark)
    shown = table.show()
    assert shown.state == "ok" and shown.to_dict()["tables"][0]["rows"] == 100
    run = command(project, "table", "show", f"{schema}.a", "--format", "json")
    assert run.exit_code == 0, run.output
    said = json.loads(run.stdout)
    assert shown.to_dict()["tables"] == said["tables"]
    assert table.verify(deep=True).state == "ok" and "<pre>" in table.verify()._repr_html_()
    assert [one["status"] for one in table.seal(dry_run=True).to_dict()["partitions"]] == ["unchanged"]
    loose = spark_bucketing.table("b", project_dir=project.folder, profiles_dir=project.folder)
    assert loose.show().state == "wrong"
    assert loose.seal().state == "ok" and loose.seal().content[0].status == "unchanged"
    with pytest.raises(TableError, match="does not exist"):
        spark_bucketing.table(f"{schema}.nowhere", spark).show()


def test_project_is_checked_and_advised(spark: SparkSession, schema: str, project: Project) -> None:
    for name in "ab":
        project.write(f"models/s_{name}.yml", json.dumps({"version": 2}))
    project.model("joined", f"select k, x.v from {schema}.a as x join {schema}.b using (k)", materialized="view")
    project.dbt("run")
    place: dict[str, Any] = {"project_dir": project.folder, "profiles_dir": project.folder}
    for session in (None, spark):
        result = spark_bucketing.check(**place, select="joined", spark=session)
        assert result.state == "wrong" and [model.name for model in result.content.models] == ["joined"]
    assert spark_bucketing.check(**place, select="joined", fail_on="never").state == "ok"
    advice = spark_bucketing.advise(project.folder, spark, profiles_dir=project.folder, assume_size=2**30)
    assert advice.state == "ok" and advice.to_dict()["total"]["models"] == 1 and advice._repr_html_()
    with pytest.raises(SparkError, match="separate Spark session"):
        spark_bucketing.check(**place, offline=True)
    refusing: Any = Refusing()
    with pytest.raises(SparkError, match="extension"):
        spark_bucketing.check(f"select count(*) from {schema}.a", spark=refusing)


class Refusing:
    """A session without the extension."""

    def sql(self, statement: str) -> Any:
        from pyspark.errors import ParseException

        raise ParseException(f"[PARSE_SYNTAX_ERROR] {statement}")
