"""Tests that `table show` shows the real layout of files, including files that violate the spec."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import command
from pyspark.sql import SparkSession
from session_settings import setting

from conftest import Project
from spark_bucketing.cli import main
from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.session import SessionStatements
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.overview import Overview, read_overviews
from spark_bucketing.tables.warehouse import Warehouse

ROWS = "insert into {t} select /*+ repartition(4, k) */ * from (select id as k, 'x y' as region from range(1000))"


APPEND = "insert into {t} select 4, 'z'"
HIVE = "stored as parquet"
# How Spark stores and fills a table with four buckets, without dbt; its rows if known, its state, and the reason.
CASES: dict[str, tuple[str, tuple[str, ...], int | None, str, str]] = {
    "spark_parquet": ("using parquet", (ROWS,), 1000, "ok", ""),
    "spark_orc": ("using orc", (ROWS,), 1000, "ok", ""),
    "hive_parquet": (HIVE, (ROWS, APPEND), 1001, "wrong", "more than one file"),
    "hive_orc": ("stored as orc", (ROWS, APPEND), 1001, "wrong", "more than one file"),
    # A copy of a file has a bucket id beyond the last bucket.
    "beyond": ("using parquet", (ROWS,), 1228, "wrong", "bucket id above 3"),
    # One file is not a Parquet file.
    "broken": (HIVE, (ROWS,), None, "wrong", "no valid seal"),
    "text": ("stored as textfile", (APPEND,), None, "wrong", "no valid seal"),
}


def create(project: Project, name: str, stored: str, *statements: str) -> None:
    """Create a table; USING precedes CLUSTERED BY, and STORED AS follows it."""
    using, stored = ("", stored) if stored.startswith("stored") else (stored, "")
    table, buckets = project.table(name), "clustered by (k) sorted by (k) into 4 buckets"
    for statement in (f"create table {{t}} (k bigint, region string) {using} {buckets} {stored}", *statements):
        project.spark.sql(statement.format(t=table)).collect()


def read(project: Project, *names: str) -> dict[str, Overview]:
    before = project.spark.conf.get("spark.sql.sources.bucketing.enabled")
    with closing(SessionStatements(project.spark)) as statements:
        found = list(read_overviews(Warehouse(statements.rows), project.schema, names))
    assert project.spark.conf.get("spark.sql.sources.bucketing.enabled") == before, (
        "the command must restore the setting"
    )
    assert not project.spark.catalog.tableExists("spark_bucketing_listing")
    return {one.table.name.rpartition(".")[2]: one for one in found if one.spec}


@pytest.fixture(scope="module")
def shop(new_project: Callable[..., Project]) -> Project:
    """Create a bucketed table for each case, and tables without buckets."""
    project = new_project()
    for name, (stored, statements, *_) in CASES.items():
        create(project, name, stored, *statements)
    first, broken = (project.location(name) / project.files(name)[0] for name in ("beyond", "broken"))
    shutil.copy(first, first.with_name(first.name.replace("_0000", "_0010")))
    broken.write_text("no parquet")
    project.spark.sql(f"create table {project.table('plain')} using parquet as select 1 as k")
    project.spark.sql(f"create view {project.table('view')} as select 1 as k")
    return project


@pytest.fixture(scope="module")
def layouts(shop: Project) -> dict[str, Overview]:
    return read(shop)


@pytest.mark.parametrize("name", CASES)
def test_layout_and_state_are_read_from_files(shop: Project, layouts: dict[str, Overview], name: str) -> None:
    (_, _, rows, state, found), layout = CASES[name], layouts[name]
    assert (layout.state, layout.rows) == (state, layout.rows if rows is None else rows)
    assert not found or found in layout.findings[0]
    assert bool(layout.unreadable) == (name in ("broken", "text"))
    bucket_hash, _, file_format = name.partition("_")
    if file_format:
        assert layout.spec is not None
        assert (layout.spec.bucket_hash, layout.table.file_format, bool(layout.table.columns)) == (
            bucket_hash,
            file_format,
            False,
        )
        assert layout.spec == BucketSpec(4, ("k",), ("k",), layout.spec.bucket_hash)
        read_files = {Path(file.path.removeprefix("file:")).name for file in layout.files}
        assert read_files == {file.name for file in shop.files(name)} and len(layout.files) >= 4


def test_only_bucketed_tables_are_listed(shop: Project, layouts: dict[str, Overview]) -> None:
    assert list(layouts) == sorted(CASES)
    with pytest.raises(TableError, match=r"plain` has no buckets"):
        read(shop, "plain")
    with pytest.raises(TableError, match=r"missing` does not exist"):
        read(shop, "missing")


def test_each_partition_has_its_own_files(project: Project) -> None:
    project.spark.sql(
        f"create table {project.table('t')} (k bigint, day string, `an hour` string) using parquet "
        "partitioned by (day, `an hour`) clustered by (k) into 4 buckets"
    )
    for hour in ("0", "a b%c/é=#?"):
        project.spark.sql(ROWS.replace(" * ", f" *, '{hour}' ").format(t=project.table("t")))
    layout = read(project)["t"]
    assert (bool(layout.table.columns), layout.partitions, layout.rows, len(layout.files)) == (True, 2, 2000, 8)
    assert layout.state == "ok"


def days(project: Project, buckets: int) -> str:
    """Create a table in the Hive layout that is partitioned by day."""
    clustered = f"partitioned by (day string) clustered by (k) sorted by (k) into {buckets} buckets"
    project.spark.sql(f"create table {project.table('t')} (k bigint) {clustered} stored as parquet")
    return project.table("t")


@pytest.mark.usefixtures("extension")
def test_partitions_are_checked_against_their_own_buckets(project: Project) -> None:
    spark, table = project.spark, days(project, 8)
    with setting(spark, "spark.bucketing.enabled", "true"):
        for day, buckets in {"é a%b/=": 8, "b": 4, "c": 16}.items():
            spark.sql(f"alter table {table} clustered by (k) sorted by (k) into {buckets} buckets")
            spark.sql(f"insert into {table} partition (day = '{day}') select id from range(1600)")
        spark.sql(f"alter table {table} clustered by (k) sorted by (k) into 4 buckets")
    layout = read(project)["t"]
    assert sorted(part.spec.num_buckets for part in layout.by_spec) == [4, 8, 16]
    assert (layout.skew, layout.state) == (1.0, "ok")
    with setting(spark, "spark.bucketing.enabled", "false"):
        spark.sql(f"insert overwrite table {table} partition (day = 'c') select id from range(8)")
    # Stock Spark replaced the sealed files, so the table's spec applies.
    assert sorted(part.spec.num_buckets for part in read(project)["t"].by_spec) == [4, 8]


@pytest.mark.usefixtures("extension")
def test_rewrite_covers_only_partitions_with_several_files_per_bucket(project: Project) -> None:
    spark, table = project.spark, days(project, 2)
    with setting(spark, "spark.bucketing.enabled", "true"):
        for day in ("2024-01-01", "it's", "2024-01-01"):
            spark.sql(f'insert into {table} partition (day = "{day}") select id from range(100)')
    (finding,) = read(project)["t"].findings
    assert "of day=2024-01-01 with 2" in finding
    command = f"spark-bucketing table rewrite {project.schema}.t --where \"day = '2024-01-01'\""
    assert finding.endswith(f"rewrite these partitions ({command}).")


def test_missing_schema_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(SparkError, match="no_such_schema"):
        list(read_overviews(Warehouse(SessionStatements(spark).rows), "no_such_schema"))


def test_exit_code_reports_findings(project: Project) -> None:
    create(project, "good", "using parquet", ROWS)
    clean = command(project, "table", "show")
    assert clean.exit_code == 0, clean.output
    cells = clean.output.splitlines()[-1].split()
    assert (cells[:8], cells[-4]) == ([f"{project.schema}.good", "spark", "parquet", "k", "k", "4", "-", "4"], "1,000")
    assert (float(cells[-3]) >= 1, cells[-1]) == (True, "ok")
    (data,) = json.loads(command(project, "table", "show", "--format", "json").output)["tables"]
    sizes = sorted((project.location("good") / name).stat().st_size for name in project.files("good"))
    expected = {"smallest": sizes[0], "median": sum(sizes[1:3]) // 2, "largest": sizes[-1], "total": sum(sizes)}
    assert (data["table"], data["bytes"]) == (f"{project.schema}.good", expected)
    create(project, "bad", HIVE, ROWS, "select * from {t}", APPEND)
    page = command(project, "table", "show", "good", "--format", "html")
    assert (page.exit_code, page.output.count('title="bucket ')) == (0, 4)
    found = command(project, "table", "show", "bad")
    assert found.exit_code == 1
    assert "bad: 1 file without a bucket id" in found.output


def test_schema_without_bucketed_tables_has_no_findings(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    result = CliRunner().invoke(main, ["table", "show"])
    assert (result.exit_code, result.output) == (0, f"Schema {project.schema} has no bucketed or organized tables.\n")


@pytest.mark.parametrize(
    ("keys", "advice"),
    [
        ("id * 2", "2 of 4 buckets are empty, and the largest has 2.0 times the mean number of rows; "
         "with bucket_hash='hive2', the largest of 4 buckets has 1.0 times"),
        ("if(id < 3000, 7, id)", "the largest of 4 buckets has 3.2 times the mean number of rows; "
         "bucket_hash='hive2' would not help"),
        ("id", ""),
    ],
)  # fmt: skip
def test_advice_compares_uneven_buckets_with_the_other_hash(
    project: Project, extension: None, keys: str, advice: str
) -> None:
    create(project, "uneven", HIVE, f"insert into {{t}} select {keys}, 'x' from range(4000)")
    try:
        with closing(SessionStatements(project.spark)) as statements:
            (overview,) = read_overviews(Warehouse(statements.rows), project.schema, ["uneven"])
        assert overview.advice.startswith(advice)
        assert bool(overview.advice) == bool(advice)
        assert not overview.findings
    finally:
        project.spark.sql(f"drop table {project.table('uneven')}")
