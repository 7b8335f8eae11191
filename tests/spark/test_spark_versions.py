"""What another version of Spark than the default one cannot do; the rest is shown by the same tests on each version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from versions import SPARK

from conftest import Failed, Project
from spark_bucketing.session import setting

MODEL = {"materialized": "bucketed_table", "clustered_by": "k", "buckets": 2}


@pytest.mark.parametrize("version", ["4.1.0", "4.1.3", "4.2.0", "4.1.1-amzn-0"])
def test_versions_whose_unions_are_wrong_are_known(spark: SparkSession, version: str) -> None:
    bugs = spark.sparkContext._jvm.org.apache.spark.sql.bucketing.compat.KnownBugs  # type: ignore[union-attr]
    assert bugs.hasWrongUnions(version)
    for right in ("4.1.4", "4.1.10", "4.2.1", "4.3.0", "3.5.9", "4.0.5"):
        assert not bugs.hasWrongUnions(right)


@pytest.mark.skipif(SPARK >= (4, 0), reason="a Spark with SQL scripts writes the model")
def test_a_spark_without_scripts_is_named(new_project: Callable[..., Project]) -> None:
    project = new_project()
    with pytest.raises(Failed, match=r"(?s)cannot be written in this session.*found: +Spark 3.5.*expected: +4.0"):
        project.build("select 1 as k", **MODEL)
    assert project.tables() == set()


@pytest.mark.skipif(SPARK[:2] != (4, 0), reason="scripts are off in Spark 4.0 only")
def test_scripts_that_are_off_are_named_with_their_setting(
    new_project: Callable[..., Project], spark: SparkSession
) -> None:
    project = new_project()
    with pytest.raises(Failed, match=r"expected: +spark[.]sql[.]scripting[.]enabled = true"):
        project.build("select 1 as k", **MODEL)
    with setting(spark, "spark.sql.scripting.enabled", "true"):
        project.dbt("run")
        project.dbt("run")
    assert [row.k for row in project.rows("select k from {schema}.m")] == [1]
