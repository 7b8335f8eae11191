"""The layout that the Python package reads: files that Spark wrote, also where they break the table's promise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from spark_bucketing.cli import main
from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.layout.read import read_layouts
from spark_bucketing.layout.table import TableLayout
from spark_bucketing.session import setting
from spark_bucketing.spec import BucketSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from conftest import Project

ROWS = "select /*+ repartition(4, k) */ * from (select id as k, 'x y' as region from range(1000))"
HIVE = "stored as parquet"


@pytest.fixture
def project(project: Project) -> Project:
    project.spark.sql(f"create schema {project.schema}")
    return project


def create(project: Project, name: str, ddl: str, *inserts: str) -> None:
    """A table of four buckets, made without dbt; using comes before clustered by, stored as after it."""
    using, stored = ("", ddl) if ddl.startswith("stored") else (ddl, "")
    table, buckets = project.table(name), "clustered by (k) sorted by (k) into 4 buckets"
    project.spark.sql(f"create table {table} (k bigint, region string) {using} {buckets} {stored}")
    for query in inserts:
        project.spark.sql(f"insert into {table} {query}")


def read(project: Project, name: str) -> TableLayout:
    before = project.spark.conf.get("spark.sql.sources.bucketing.enabled")
    (layout,) = read_layouts(project.spark, project.schema, [name])
    assert project.spark.conf.get("spark.sql.sources.bucketing.enabled") == before, "a setting was not put back"
    return layout


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_table_in_spark_layout_is_read(project: Project, file_format: str) -> None:
    create(project, "t", f"using {file_format}", ROWS)
    layout = read(project, "t")
    assert layout.spec == BucketSpec(4, ("k",), ("k",), "spark")
    assert (layout.file_format, layout.partitioned, layout.rows, len(layout.files)) == (file_format, False, 1000, 4)
    assert layout.state == "ok"
    assert {Path(file.path.removeprefix("file:")).name for file in layout.files} == {f.name for f in project.files("t")}


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_table_in_hive_layout_is_read_and_crowded_buckets_are_found(project: Project, file_format: str) -> None:
    create(project, "t", f"stored as {file_format}", ROWS, "select 4, 'z'")
    layout = read(project, "t")
    assert layout.spec.bucket_hash == "hive"
    assert (layout.file_format, layout.rows, len(layout.files)) == (file_format, 1001, len(project.files("t")))
    assert "more than one file" in layout.findings[0]


def test_inserts_that_lost_the_buckets_are_found(project: Project) -> None:
    create(project, "t", HIVE, ROWS)
    project.rows("select * from {schema}.t")
    project.spark.sql(f"insert overwrite {project.table('t')} select id, 'a' from range(10)")
    layout = read(project, "t")
    assert layout.rows == 10
    assert "without a bucket id" in layout.findings[0]
    assert layout.skew is None


def test_rows_of_files_beyond_the_last_bucket_are_counted(project: Project) -> None:
    create(project, "t", "using parquet", ROWS)
    file = project.location("t") / project.files("t")[0]
    shutil.copy(file, file.with_name(file.name.replace("_0000", "_0010")))
    layout = read(project, "t")
    assert layout.rows > 1000
    assert "bucket id above 3" in layout.findings[0]


def test_each_partition_has_its_own_files(project: Project) -> None:
    project.spark.sql(
        f"create table {project.table('t')} (k bigint, day string, `an hour` string) using parquet "
        "partitioned by (day, `an hour`) clustered by (k) into 4 buckets"
    )
    for hour in ("0", "a b%c/é=#?"):
        project.spark.sql(
            f"insert into {project.table('t')} {ROWS.replace('region', 'day')}".replace(" * ", f" *, '{hour}' ")
        )
    layout = read(project, "t")
    assert (layout.partitioned, layout.partitions, layout.rows, len(layout.files)) == (True, 2, 2000, 8)
    assert layout.state == "ok"


@pytest.mark.usefixtures("extension")
def test_partitions_are_judged_by_their_own_buckets(project: Project) -> None:
    spark, table = project.spark, project.table("t")
    spark.sql(f"create schema if not exists {project.schema}")
    spark.sql(
        f"create table {table} (k bigint) partitioned by (day string) clustered by (k) sorted by (k) into 8 buckets "
        "stored as parquet"
    )
    with setting(spark, "spark.bucketing.enabled", "true"):
        for day, buckets in {"é a%b/=": 8, "b": 4, "c": 16}.items():
            spark.sql(f"alter table {table} clustered by (k) sorted by (k) into {buckets} buckets")
            spark.sql(f"insert into {table} partition (day = '{day}') select id from range(1600)")
        spark.sql(f"alter table {table} clustered by (k) sorted by (k) into 4 buckets")
    layout = read(project, "t")
    assert sorted(part.spec.num_buckets for part in layout.by_spec) == [4, 8, 16]
    assert (layout.skew, layout.state) == (1.0, "ok")
    with setting(spark, "spark.bucketing.enabled", "false"):
        spark.sql(f"insert overwrite table {table} partition (day = 'c') select id from range(8)")
    # What stock Spark has written is not what was sealed: the table's own buckets are what there is to go by.
    assert sorted(part.spec.num_buckets for part in read(project, "t").by_spec) == [4, 8]


def test_files_that_cannot_be_read_are_unknown_not_ok(project: Project) -> None:
    create(project, "text", "stored as textfile", "select 1, 'x'")
    create(project, "broken", HIVE, ROWS)
    (project.location("broken") / project.files("broken")[0]).write_text("no parquet")
    assert [read(project, name).state for name in ("text", "broken")] == ["unknown", "unknown"]


def test_only_bucketed_tables_are_listed(project: Project) -> None:
    create(project, "b", HIVE)
    create(project, "a", HIVE)
    project.spark.sql(f"create table {project.table('plain')} using parquet as select 1 as k")
    project.spark.sql(f"create view {project.table('view')} as select 1 as k")
    assert [layout.name for layout in read_layouts(project.spark, project.schema)] == ["a", "b"]
    with pytest.raises(TableError, match=r"'plain'.* has no buckets"):
        read(project, "plain")
    with pytest.raises(TableError, match="no table 'missing'"):
        read(project, "missing")


def test_a_missing_schema_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(SparkError, match="no_such_schema"):
        read_layouts(spark, "no_such_schema")


def test_the_command_tells_findings_by_its_exit_code(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    create(project, "good", "using parquet", ROWS)
    monkeypatch.chdir(project.folder)
    clean = CliRunner().invoke(main, ["layout"])
    assert clean.exit_code == 0, clean.output
    cells = clean.output.splitlines()[-1].split()
    assert (cells[:8], cells[-3]) == (["good", "spark", "parquet", "k", "k", "4", "-", "4"], "1,000")
    assert (float(cells[-2]) >= 1, cells[-1]) == (True, "ok")
    (data,) = json.loads(CliRunner().invoke(main, ["layout", "--format", "json"]).output)["tables"]
    sizes = sorted((project.location("good") / name).stat().st_size for name in project.files("good"))
    expected = {"smallest": sizes[0], "median": sum(sizes[1:3]) // 2, "largest": sizes[-1], "total": sum(sizes)}
    assert (data["table"], data["bytes"]) == ("good", expected)
    create(project, "bad", HIVE, ROWS)
    project.rows("select * from {schema}.bad")
    project.spark.sql(f"insert into {project.table('bad')} select 1, 'x'")
    assert CliRunner().invoke(main, ["layout", "good"]).exit_code == 0
    found = CliRunner().invoke(main, ["layout", "bad"])
    assert found.exit_code == 1
    assert "bad: 1 file without a bucket id" in found.output


def test_a_schema_without_bucketed_tables_is_clean(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    result = CliRunner().invoke(main, ["layout"])
    assert (result.exit_code, result.output) == (0, f"Schema {project.schema} has no bucketed tables.\n")
