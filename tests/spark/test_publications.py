"""Directories that a publication leaves: no old row comes back, storage does not grow, and no used file is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from crashes import content, statements

from conftest import Project, all_long_but, data_files
from spark_bucketing.session import setting


def query(ds: str, rows: int = 6) -> str:
    return f"select id as k, '{{{{ var('v') }}}}' as v, {ds} as ds from range({{{{ var('n', {rows}) }}}})"


NUMBERS = query("id % 3")
CONFIG: dict[str, Any] = {
    "materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 1, "partition_by": ["ds"],
    "incremental_strategy": "insert_overwrite",
}  # fmt: skip


@pytest.fixture(params=["extension", "stock"])
def enabled(request: pytest.FixtureRequest) -> bool:
    if request.param == "extension":
        request.getfixturevalue("extension")
    return bool(request.param == "extension")


def folders(project: Project) -> list[str]:
    """Return the folders with data below the table's, with the letters A, B, ... for the builds."""
    root = project.location("m")
    names = sorted({str(path.parent.relative_to(root)) for path in data_files(root)})
    builds = sorted({name.split("/")[0] for name in names if name.startswith("build-")})
    for letter, name in zip("ABCDEF", builds, strict=False):
        names = [found.replace(name, letter) for found in names]
    return names


def assert_no_empty_builds(project: Project, enabled: bool) -> None:
    """Check that each build has files, except with the extension for the build of the last run, which had no rows."""
    empty = [build for build in project.location("m").glob("build-*") if not data_files(build)]
    assert len(empty) <= enabled, empty


@contextmanager
def crashes_before_deletion(project: Project, enabled: bool) -> Iterator[None]:
    """Prevent a run from deleting default directories after it has published their partitions."""
    moment = f"drop table `{project.schema}`.`m__dbt_trash`"
    if not enabled:
        with statements(crash_before=moment):
            yield
        return
    root = project.location("m")
    for name in ("ds=0", "ds=1", "ds=2"):
        project.spark.sql(
            f"create table {project.table(name.replace('=', ''))} (k bigint) using parquet location '{root / name}'"
        )
    yield
    for name in ("ds=0", "ds=1", "ds=2"):
        project.spark.sql(f"drop table {project.table(name.replace('=', ''))}")


@pytest.mark.parametrize(
    "where",
    all_long_but(
        ("managed hive", "external spark"), ("managed hive", "external spark", "managed spark", "external hive")
    ),
)
@pytest.mark.parametrize("crash", ["", "crash"])
def test_partition_that_is_dropped_by_hand_gets_no_old_rows_back(
    project: Project, enabled: bool, where: str, crash: str
) -> None:
    place, bucket_hash = where.split()
    root = {"location_root": str(project.folder / "external")} if place == "external" else {}
    project.model("m", NUMBERS, **CONFIG, **root, bucket_hash=bucket_hash)
    project.dbt("run", v="old")
    with crashes_before_deletion(project, enabled) if crash else nullcontext():
        project.attempt("run", v="new", n=4)
    if crash:
        assert folders(project) == ["A/ds=0", "A/ds=1", "A/ds=2", "ds=0", "ds=1", "ds=2"]
        project.dbt("run", v="", n=0)
    assert folders(project) == ["A/ds=0", "A/ds=1", "A/ds=2"]
    project.spark.sql(f"alter table {project.table('m')} drop partition (ds = 0)")
    project.spark.sql(f"msck repair table {project.table('m')}")
    assert content(project) == [("1", "new", "1"), ("2", "new", "2")]
    project.spark.sql(f"insert into {project.table('m')} select 7, 'by hand', 0")
    assert content(project) == [("1", "new", "1"), ("2", "new", "2"), ("7", "by hand", "0")]
    project.dbt("run", v="", n=0)
    assert content(project) == [("1", "new", "1"), ("2", "new", "2"), ("7", "by hand", "0")]
    assert project.tables() == {"m"}


def test_storage_does_not_grow(project: Project, enabled: bool) -> None:
    project.model("m", NUMBERS, **CONFIG)
    runs = [("one", 6), ("two", 6), ("three", 1), ("four", 6), ("five", 6)]
    found = []
    for version, rows in runs:
        project.dbt("run", v=version, n=rows)
        found.append(folders(project))
    three = ["ds=0", "ds=1", "ds=2"]
    # The directories of the run before stay until the next run.
    assert found == [
        three,
        [f"A/{name}" for name in three],
        ["A/ds=0", "A/ds=1", "A/ds=2", "B/ds=0"],
        ["A/ds=1", "A/ds=2", "B/ds=0", *(f"C/{name}" for name in three)],
        [f"{build}/{name}" for build in "AB" for name in three],
    ]
    project.dbt("run", v="", n=0)
    assert folders(project) == [f"A/{name}" for name in three]
    assert_no_empty_builds(project, enabled)
    assert {row[1] for row in content(project)} == {"five"} and project.tables() == {"m"}


VALUES = ["a,b", "c:d", "e%2C]f", "it's", "${x} ü", "", "x/y=z"]


def test_directories_with_special_names_are_deleted(project: Project, enabled: bool) -> None:
    literals = ", ".join("'" + value.replace("'", "\\'").replace("$", "\\u0024") + "'" for value in VALUES)
    project.model("m", query(f"array({literals})[id]", len(VALUES)), **CONFIG)
    for version in ("one", "two", "three"):
        project.dbt("run", v=version)
    project.dbt("run", v="", n=0)
    assert len(folders(project)) == len(VALUES) and {name[0] for name in folders(project)} == {"A"}
    assert [row[1] for row in content(project)] == ["three"] * len(VALUES)


def test_record_of_many_directories_is_complete(project: Project) -> None:
    """The record has several properties."""
    number = 45
    project.model("m", query("id", number), **CONFIG)
    for version in ("one", "two", "three"):
        project.dbt("run", v=version)
    project.dbt("run", v="", n=0)
    assert len(folders(project)) == number


def test_partition_in_two_columns_leaves_nothing(project: Project, enabled: bool) -> None:
    project.model("m", query("id % 2 as hour, id % 3"), **CONFIG | {"partition_by": ["ds", "hour"]})
    for version in ("one", "two", "three"):
        project.dbt("run", v=version)
    project.dbt("run", v="", n=0)
    assert len(folders(project)) == 6 and {name[0] for name in folders(project)} == {"A"}
    assert_no_empty_builds(project, enabled)


def test_directory_that_a_partition_uses_again_is_not_deleted(project: Project, enabled: bool) -> None:
    project.model("m", NUMBERS, **CONFIG)
    for version in ("one", "two", "three"):
        project.dbt("run", v=version)
    old = sorted(project.location("m").glob("build-*"))[0]
    project.spark.sql(f"alter table {project.table('m')} partition (ds = 1) set location '{old}/ds=1'")
    before = content(project)
    assert ("1", "two", "1") in before
    for _ in range(2):
        project.dbt("run", v="", n=0)
        assert content(project) == before
    project.dbt("run", v="four")
    project.dbt("run", v="", n=0)
    # Without the extension, the directory that was replaced by hand stays, because no run has recorded it.
    kept = [] if enabled else ["A/ds=1"]
    assert folders(project) == kept + [f"{'A' if enabled else 'B'}/ds={number}" for number in range(3)]


def test_build_of_a_crashed_run_is_deleted(project: Project, enabled: bool) -> None:
    project.model("m", NUMBERS, **CONFIG)
    project.dbt("run", v="one")
    for _ in range(2):
        with statements(crash_before=" publish build " if enabled else "'bucketing.replaces'"):
            project.attempt("run", v="two")
        assert folders(project) == ["A/ds=0", "A/ds=1", "A/ds=2", "ds=0", "ds=1", "ds=2"]
    project.dbt("run", v="", n=0)
    assert folders(project) == ["ds=0", "ds=1", "ds=2"]
    assert_no_empty_builds(project, enabled)


@pytest.mark.usefixtures("extension")
def test_build_that_the_extension_published_is_not_deleted_without_it(project: Project) -> None:
    """The run crashes after the publication, and before it drops the build."""
    project.model("m", NUMBERS, **CONFIG)
    project.dbt("run", v="one")
    with statements(crash_before="drop table if exists"):
        project.attempt("run", v="two")
    before = content(project)
    assert {row[1] for row in before} == {"two"} and "m__dbt_build" in project.tables()
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        project.dbt("run", v="", n=0)
    assert content(project) == before and project.tables() == {"m"}
