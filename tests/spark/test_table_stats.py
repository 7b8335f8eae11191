"""Tests that `table stats` and `table verify` show exact statistics of organized tables, or report differences."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest
from commands import command
from pyspark.sql import SparkSession
from session_settings import setting
from test_organized_ranges import ROWS, data_files
from test_organized_table import TABLE

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension_for_module")
ORGANIZED = {**TABLE, "range_by": "o", "rows_per_file": 150}


def shown(project: Project) -> list[dict[str, Any]]:
    result = command(project, "table", "stats", project.table("m"), "--format", "json")
    assert result.exit_code == 0, result.output
    files: list[dict[str, Any]] = json.loads(result.stdout)["files"]
    return files


def verified(project: Project, expected: int = 0) -> list[dict[str, Any]]:
    result = command(project, "table", "verify", project.table("m"), "--deep", "--format", "json")
    assert result.exit_code == expected, result.output
    (table,) = json.loads(result.stdout)["tables"]
    assert bool(table["findings"]) == (expected == 1)
    files: list[dict[str, Any]] = table["file_statistics"]
    return files


@pytest.mark.parametrize(
    "config",
    [
        {"partition_by": ["ds"], "implicit_partition_by": ["s"]},
        {"implicit_partition_by": ["s"], "range_by": None},
        {},
    ],
)
@pytest.mark.long
def test_statistics_are_correct_until_files_change(project: Project, config: dict[str, Any]) -> None:
    """The extension writes the statistics, and the command computes them separately; both must agree."""
    project.build(ROWS, **ORGANIZED | config)
    files = verified(project)
    assert {one["state"] for one in files} == {"covered"} and not any(one["overlaps"] for one in files)
    assert [one["name"] for one in files] == sorted(map(str, data_files(project, "m")))
    assert sum(one["rows"] for one in files) == 1000
    assert [(one["name"], one["lower"], one["rows"]) for one in shown(project)] == [
        (one["name"], one["lower"], one["rows"]) for one in files
    ]
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        project.spark.sql(f"insert into {project.table('m')} select * from {project.table('m')} where id = 7")
    assert [one["state"] for one in verified(project, expected=1)].count("not-covered") == 1
    assert [one["state"] for one in shown(project)].count("not-covered") == 1
    result = command(project, "table", "stats", project.table("m"), "--repair")
    assert result.exit_code == 0 and f"{len(files) + 1} files" in result.output, result.output
    repaired = verified(project, expected=1 if "range_by" not in config else 0)
    assert {one["state"] for one in repaired} == {"covered"}
    assert sum(one["overlaps"] for one in repaired) == ("range_by" not in config)


def test_wrong_or_missing_statistics_are_repaired(project: Project) -> None:
    project.build(ROWS, **ORGANIZED)
    (part,) = (project.location("m") / "_file_statistics").iterdir()
    project.spark.sql(f"create temporary view wrong as select * from parquet.`{part}`")
    project.spark.sql("cache table wrong")
    wrong = "select file, bytes, modified, struct(lower.o - 1 as o) as lower, upper, nulls, rows, checksum from wrong"
    project.spark.sql(f"insert overwrite directory '{part}' using parquet {wrong}")
    project.spark.sql("drop view wrong")
    states = [one["state"] for one in verified(project, expected=1)]
    assert states.count("wrong") == len(states) - 1, "all files except the file of NULLs must be wrong"
    result = command(project, "table", "verify", project.table("m"), "--deep")
    assert result.exit_code == 1 and "table stats" in result.output
    assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    verified(project)
    page = command(project, "table", "show", project.table("m"), "--format", "html").output
    assert page.count('class="range"') == len(states) - 1, "the file of NULLs has no range"
    for path in (project.location("m") / "_file_statistics").rglob("part-*"):
        path.unlink()
    assert {one["state"] for one in verified(project, expected=1)} == {"not-covered"}


@pytest.mark.long
def test_folders_are_listed_once_for_the_statistics(project: Project, extension: None, spark: SparkSession) -> None:
    project.build(ROWS, **ORGANIZED, partition_by=["ds"])
    project.rows("select count(*) from {schema}.m")
    listed = f"select file, rows, count(*) over (partition by rows) as n from file_statistics('{project.table('m')}')"
    queries = {
        listed: 1,
        f"select * from ({listed}) as one join ({listed}) as other using (file) order by 1": 2,
        "select count(*) from {schema}.m": 0,
    }
    with setting(spark, "spark.sql.sources.parallelPartitionDiscovery.threshold", "0"):
        for query, expected in queries.items():
            before = listings(spark)
            project.rows(query)
            assert len(listings(spark) - before) == expected, query
    # Each query lists the folder again.
    for path in sorted((project.location("m")).glob("ds=*/part-*"))[:2]:
        path.unlink()
    assert len(project.rows(listed)) == len(data_files(project, "m"))


def listings(spark: SparkSession) -> set[int]:
    """Return the most recent jobs that listed partition folders of `ds`."""
    return {number for number, description in jobs(spark).items() if re.search("Listing .*/ds=", description)}


def jobs(spark: SparkSession) -> dict[int, str]:
    """Return the descriptions of the most recent jobs."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    found = context.statusStore().jobsList(None)
    return {job.jobId(): str(job.description()) for job in map(found.apply, range(found.size()))}


@pytest.mark.long
def test_driver_reads_all_parts_of_the_statistics(project: Project, extension: None, spark: SparkSession) -> None:
    """Reading runs no job, and ignores a part in which a former column has another type."""
    incremental = {**ORGANIZED, "materialized": "organized_incremental", "incremental_strategy": "append"}
    project.build(ROWS, **incremental)
    for _ in range(2):
        project.dbt("run")
    query = "select file, rows, lower from file_statistics('{table}')"
    expected = sorted(project.rows(query.format(table=project.table("m"))))
    assert len({row.file for row in expected}) == len(data_files(project, "m")) and all(row.rows for row in expected)
    folder = project.location("m") / "_file_statistics"
    parts = sorted(folder.iterdir())
    assert len(parts) == 3
    for other in ("once", "of_another_type"):
        # No query has read the copied folder, so none of its parts is cached.
        copy = project.location("m").with_name(other)
        (statement,) = spark.sql(f"show create table {project.table('m')}").collect()[0]
        spark.sql(statement.replace(".m (", f".{other} (", 1))
        shutil.copytree(project.location("m"), copy, dirs_exist_ok=True)
        if other == "of_another_type":
            bounds = ", ".join(f"struct(cast({bound}.o as string) as o) as {bound}" for bound in ("lower", "upper"))
            part = f"select file, bytes, modified, {bounds}, nulls, rows, checksum from parquet.`{parts[0]}`"
            spark.sql(f"insert overwrite directory '{copy / '_file_statistics' / '0'}' using parquet {part}")
        before = jobs(spark)
        found = project.rows(query.format(table=project.table(other)))
        assert sorted(found) == expected
        assert len(jobs(spark).keys() - before.keys()) == 1, "only the query itself needs a job"
    assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    assert [path.parent for path in folder.rglob("part-*")] == [folder], "exactly one part must remain"
    assert sorted(project.rows(query.format(table=project.table("m")))) == expected
    assert {one["state"] for one in verified(project, expected=1)} == {"covered"}


def test_commands_report_tables_without_statistics(project: Project) -> None:
    project.spark.sql(f"create table {project.table('m')} using parquet as select 1 as k")
    result = command(project, "table", "stats", project.table("m"))
    assert result.exit_code == 2 and "`range_by` or `implicit_partition_by`" in result.output
    result = command(project, "table", "stats", "nope.nope")
    assert result.exit_code == 2 and "does not exist" in result.output
