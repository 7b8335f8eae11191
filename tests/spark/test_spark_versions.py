"""Tests of the differences between Spark versions; all other tests run on every version."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from crashes import executing, statements
from pyspark import __version__ as this_spark
from pyspark.sql import SparkSession
from session_settings import setting
from spark_features import ANCIENT_DAYS, COLLATIONS, SCRIPTS, WRITE_OPTIONS, can
from spark_subprocess import CREATE, SparkSubprocess

from conftest import Failed, Project
from spark_bucketing.extension.build import build_jar

NOTHING = re.compile(r"(?!)")
MODEL: dict[str, Any] = {"materialized": "bucketed_table", "clustered_by": "k", "buckets": 2}


@pytest.mark.parametrize("version", ["4.1.0", "4.1.3", "4.2.0", "4.1.1-amzn-0"])
def test_versions_with_incorrect_unions_are_known(spark: SparkSession, version: str) -> None:
    bugs = spark.sparkContext._jvm.org.apache.spark.sql.bucketing.compat.KnownBugs  # type: ignore[union-attr]
    assert bugs.hasWrongUnions(version)
    for right in ("4.1.4", "4.1.10", "4.2.1", "4.3.0", "3.5.9", "4.0.5"):
        assert not bugs.hasWrongUnions(right)


PROBES = {
    SCRIPTS: "begin select 1; end",
    WRITE_OPTIONS: "insert overwrite probe with ('partitionOverwriteMode' = 'dynamic') select date'2000-01-01', 0",
    COLLATIONS: "select 'a' collate UTF8_LCASE",
    ANCIENT_DAYS: "insert into probe partition (p = 1) select date'1000-01-01'",
}


@pytest.mark.parametrize("feature", PROBES)
def test_this_spark_has_the_documented_features_of_its_version(
    project: Project, spark: SparkSession, feature: str
) -> None:
    table = project.table("probe")
    spark.sql(f"create table {table} (k date, p int) using parquet partitioned by (p)")
    statement = PROBES[feature].replace("probe", table)
    # The exception of PySpark varies, and a syntax error may be a Java exception.
    with nullcontext() if can(feature) else pytest.raises(Exception, match=r"(?i)pars|syntax|script|ANCIENT"):
        spark.sql(statement)


def test_session_without_scripts_writes_the_same_tables(
    new_project: Callable[..., Project], spark: SparkSession
) -> None:
    project = new_project()
    with setting(spark, "spark.sql.scripting.enabled", "false"), statements(ignored=NOTHING) as sent:
        for version in ("one", "other"):
            project.build(f"select '{version}' as k", **MODEL)
    assert [row.k for row in project.rows("select k from {schema}.m")] == ["other"]
    assert project.tables() == {"m"} and not [sql for sql in sent if "begin" in sql.split()]


def test_error_names_a_spark_version_that_is_too_old(project: Project) -> None:
    older = "select '3.4.1 0000' as version"
    said = r"(?s)cannot be built in this session.*found: +Spark 3.4.1.*3.5 or newer"
    with (
        executing(lambda execute, sql: execute(sql.replace("select version()", older))),
        pytest.raises(Failed, match=said),
    ):
        project.build("select 1 as k", **MODEL)
    assert project.tables() == set()


def test_unreadable_location_stops_the_run(project: Project) -> None:
    project.build("select 1 as k", **MODEL)
    with executing(lambda execute, sql: execute(sql.replace("from binaryFile.", "from noSuchFormat."))):
        _, failure = project.attempt("run")
    assert "cannot list the directory" in failure and "noSuchFormat" in failure, failure
    assert [row.k for row in project.rows("select k from {schema}.m")] == [1]


@pytest.mark.long
def test_partition_overwrite_keeps_other_partitions_and_settings(project: Project, spark: SparkSession) -> None:
    """Cover a table that has its own overwrite mode, as on a Spark version without write options."""
    key = "spark.sql.sources.partitionOverwriteMode"
    before = spark.conf.get(key)
    overwriting = MODEL | {"materialized": "bucketed_incremental", "incremental_strategy": "insert_overwrite"}
    config = overwriting | {"partition_by": "p", "bucket_hash": "spark"}
    rows = "select '{}' as k, id as p from range({}, 3)"
    project.build(rows.format("first", 0), **config)
    for number, version in enumerate(("second", "third"), 1):
        project.build(rows.format(version, number), **config)
        statement = f"alter table {project.table('m')} set serdeproperties ('partitionOverwriteMode' = 'dynamic')"
        assert ("partitionOverwriteMode=dynamic" in (project.detail("m", "Storage Properties") or "")) == (
            not can(WRITE_OPTIONS) or version == "third"
        )
        spark.sql(statement)
    found = project.rows("select p, k from {schema}.m order by p")
    assert [row.k for row in found] == ["first", "second", "third"]
    assert spark.conf.get(key) == before


def jar_for(spark: str, jar: Path) -> Path:
    """Write a copy of this Spark's jar that states another Spark version."""
    with zipfile.ZipFile(build_jar()) as built, zipfile.ZipFile(jar, "w") as copy:
        for name in built.namelist():
            content = built.read(name)
            copy.writestr(name, content.replace(this_spark.encode(), spark.encode()) if "/Built$" in name else content)
    return jar


@pytest.mark.long
def test_session_with_a_jar_for_another_spark_works_without_the_extension(tmp_path: Path) -> None:
    other = "9" + this_spark[1:]
    spark = SparkSubprocess(tmp_path, "s")
    spark.settings["spark.jars"] = str(jar_for(other, tmp_path / "other.jar"))
    (tmp_path / "profiles.yml").write_text(
        (tmp_path / "profiles.yml").read_text().replace(str(build_jar()), str(tmp_path / "other.jar"))
    )
    *_, rows, functions, reason, doctor, seal = spark.run(
        *CREATE, "insert into s.t partition (p = 1) select id, id from range(9)", "select count(*) from s.t",
        "show user functions", "select spark_bucketing_not_loaded()", ("doctor",), ("seal", "s.t"),
    )  # fmt: skip
    assert rows == [[9]] and functions == [["spark_bucketing_not_loaded"]]
    assert re.search(f"Found: .*for Spark {other}. Expected: .* Spark {this_spark}. Instead: ", reason[0][0])
    assert doctor[0] == 1 and f"built for Spark {other}, but the session runs Spark {this_spark}" in doctor[1]
    assert seal[0] == 2 and f"for Spark {other}, but the session runs another version of Spark" in seal[1]
