"""Tests of increments that publish builds: no row is lost or comes back, and storage does not grow."""

from __future__ import annotations

from typing import Any

import pytest
from crashes import content, executing, statements

from conftest import Project, all_long_but, data_files
from spark_bucketing.session import setting


def query(ds: str, rows: int = 6) -> str:
    return f"select id as k, '{{{{ var('v') }}}}' as v, {ds} as ds from range({{{{ var('n', {rows}) }}}})"


NUMBERS = query("id % 3")
CONFIG: dict[str, Any] = {
    "materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 1, "partition_by": ["ds"],
    "incremental_strategy": "insert_overwrite",
}  # fmt: skip
STRATEGIES: dict[str, dict[str, Any]] = {
    "insert_overwrite": CONFIG,
    "append": CONFIG | {"incremental_strategy": "append"},
    "merge": CONFIG | {"incremental_strategy": "merge", "unique_key": ["k", "ds"]},
    "merge that moves rows": CONFIG | {"incremental_strategy": "merge", "unique_key": "k"},
    "organized": {
        "materialized": "organized_incremental",
        "partition_by": ["ds"],
        "range_by": ["k"],
        "rows_per_file": 4,
    }
    | {"incremental_strategy": "insert_overwrite"},
}


@pytest.fixture(params=["extension", "stock"])
def enabled(request: pytest.FixtureRequest) -> bool:
    if request.param == "extension":
        request.getfixturevalue("extension")
    return bool(request.param == "extension")


def folders(project: Project) -> list[str]:
    """Return the folders with data below the table's, with the letters A, B, ... for the builds."""
    root = project.location("m")
    names = sorted({str(path.parent.relative_to(root)) for path in data_files(root)})
    names = [name for name in names if not name.startswith("_")]
    builds = sorted({name.split("/")[0] for name in names if name.startswith("build-")})
    for letter, name in zip("ABCDEF", builds, strict=False):
        names = [found.replace(name, letter) for found in names]
    return names


@pytest.mark.parametrize(
    "where",
    all_long_but(
        ("managed hive", "external spark"), ("managed hive", "external spark", "managed spark", "external hive")
    ),
)
@pytest.mark.parametrize("crash", ["", "crash"])
@pytest.mark.usefixtures("extension")
def test_partition_that_is_dropped_by_hand_gets_no_old_rows_back(project: Project, where: str, crash: str) -> None:
    place, bucket_hash = where.split()
    root = {"location_root": str(project.folder / "external")} if place == "external" else {}
    project.model("m", NUMBERS, **CONFIG, **root, bucket_hash=bucket_hash)
    project.dbt("run", v="old")
    with statements(crash_before=" publish build " if crash else None):
        project.attempt("run", v="new", n=4)
    if crash:
        assert folders(project) == ["A/ds=0", "A/ds=1", "A/ds=2", "ds=0", "ds=1", "ds=2"]
        project.dbt("run", v="new", n=4)
    assert folders(project) == ["A/ds=0", "A/ds=1", "A/ds=2"]
    project.spark.sql(f"alter table {project.table('m')} drop partition (ds = 0)")
    project.spark.sql(f"msck repair table {project.table('m')}")
    assert content(project) == [("1", "new", "1"), ("2", "new", "2")]
    project.spark.sql(f"insert into {project.table('m')} select 7, 'by hand', 0")
    assert content(project) == [("1", "new", "1"), ("2", "new", "2"), ("7", "by hand", "0")]
    project.dbt("run", v="", n=0)
    assert content(project) == [("1", "new", "1"), ("2", "new", "2"), ("7", "by hand", "0")]
    assert project.tables() == {"m"}


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", ["insert_overwrite", "organized"])
def test_storage_does_not_grow(project: Project, kind: str) -> None:
    project.model("m", NUMBERS, **STRATEGIES[kind])
    runs = [("one", 6), ("two", 6), ("three", 1), ("four", 6), ("five", 6)]
    found = []
    for version, rows in runs:
        project.dbt("run", v=version, n=rows)
        found.append(folders(project))
    three = ["ds=0", "ds=1", "ds=2"]
    # A directory that a run replaced stays until a run replaces its partition again.
    assert found == [
        three,
        [f"A/{name}" for name in three],
        ["A/ds=0", "A/ds=1", "A/ds=2", "B/ds=0"],
        ["A/ds=1", "A/ds=2", "B/ds=0", *(f"C/{name}" for name in three)],
        [f"{build}/{name}" for build in "AB" for name in three],
    ]
    project.dbt("run", v="", n=0)
    assert [build for build in project.location("m").glob("build-*") if not data_files(build)] == []
    assert {row[1] for row in content(project)} == {"five"} and project.tables() == {"m"}


VALUES = ["a,b", "c:d", "e%2C]f", "it's", "${x} ü", "", "x/y=z"]


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", ["insert_overwrite", "append"])
def test_partitions_with_special_names_are_published(project: Project, kind: str) -> None:
    literals = ", ".join("'" + value.replace("'", "\\'").replace("$", "\\u0024") + "'" for value in VALUES)
    project.model("m", query(f"array({literals})[id]", len(VALUES)), **STRATEGIES[kind])
    versions = ("one", "two", "three")
    for version in versions:
        project.dbt("run", v=version)
    assert {name[0] for name in folders(project)} == {"A", "B"}
    assert len(folders(project)) == 2 * len(VALUES)
    kept = versions if kind == "append" else ("three",)
    assert sorted(str(row[1]) for row in content(project)) == sorted(len(VALUES) * list(kept))


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", all_long_but(("append", "merge that moves rows"), STRATEGIES))
def test_partition_in_two_columns_is_published(project: Project, kind: str) -> None:
    project.model("m", query("id % 2 as hour, id % 3"), **STRATEGIES[kind] | {"partition_by": ["ds", "hour"]})
    for version in ("one", "two", "three"):
        project.dbt("run", v=version)
    assert len(folders(project)) == 12 and {name[0] for name in folders(project)} == {"A", "B"}
    assert len(content(project)) == (18 if kind == "append" else 6)


@pytest.mark.usefixtures("extension")
def test_concurrent_insert_is_not_lost(project: Project) -> None:
    """Another statement writes to a partition between the build and its publication."""
    project.model("m", NUMBERS, **STRATEGIES["append"])
    project.dbt("run", v="one")
    written: list[Any] = []

    def insert_first(execute: Any, sql: str) -> None:
        if " publish build " in sql and not written:
            written.append(project.spark.sql(f"insert into {project.table('m')} select 99, 'other', 1"))
        execute(sql)

    with executing(insert_first):
        _, failure = project.attempt("run", v="two")
    assert "changes by another statement in the partition ds=1 since the build read it" in failure
    assert len(content(project)) == 7
    project.dbt("run", v="two")
    rows = content(project)
    assert len(rows) == 13 and ("99", "other", "1") in rows
    assert project.tables() == {"m"}


@pytest.mark.parametrize("reads_itself", [True, False], ids=["reads itself", ""])
@pytest.mark.parametrize(
    "kind", all_long_but(("append", "merge that moves rows"), ("append", "merge", "merge that moves rows"))
)
@pytest.mark.usefixtures("extension")
def test_rows_that_were_inserted_before_the_run_reads_the_table_are_kept(
    project: Project, kind: str, reads_itself: bool
) -> None:
    """The session has cached the table's files, and then another session inserts a row."""
    condition = " where 0 < (select count(*) from {{ this }})" if reads_itself else ""
    project.model("m", f"{NUMBERS}{{% if is_incremental() %}}{condition}{{% endif %}}", **STRATEGIES[kind])
    project.dbt("run", v="one")
    other, done = project.spark.newSession(), list[str]()
    other.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")

    def insert_first(execute: Any, sql: str) -> None:
        if " start build in " in sql and not done:
            other.sql(f"insert into {project.table('m')} select 99, 'other', 1")
        done.extend([sql] if " start build in " in sql else [])
        execute(sql)

    with executing(insert_first):
        project.dbt("run", v="two")
    rows = content(project)
    assert ("99", "other", "1") in rows and len(rows) == (13 if kind == "append" else 7)
    assert len(done) == 1, "the run records partitions once"


@pytest.mark.parametrize("kind", all_long_but(("append", "insert_overwrite"), STRATEGIES))
def test_cached_table_is_replaced_and_loses_nothing(project: Project, enabled: bool, kind: str) -> None:
    project.model("m", NUMBERS, **STRATEGIES[kind])
    project.dbt("run", v="one")
    for version in ("two", "three"):
        project.spark.sql(f"cache table {project.table('m')}")
        project.spark.sql(f"select count(*) from {project.table('m')}").collect()
        project.dbt("run", v=version)
    project.spark.sql(f"uncache table {project.table('m')}")
    rows = content(project)
    assert len(rows) == (18 if kind == "append" else 6) and rows.count(rows[0]) == 1
    project.spark.catalog.clearCache()
    project.spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()
    assert content(project) == rows


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", all_long_but(("append", "merge that moves rows"), STRATEGIES))
def test_runs_with_and_without_the_extension_take_turns(project: Project, kind: str) -> None:
    project.model("m", NUMBERS, **STRATEGIES[kind])
    versions = ["one", "two", "three", "four", "five", "six"]
    for number, version in enumerate(versions):
        with setting(project.spark, "spark.bucketing.enabled", "false" if number % 3 == 2 else "true"):
            project.dbt("run", v=version, n=6 - number % 2)
        found = content(project)
        if kind == "append":
            assert len(found) == sum(6 - run % 2 for run in range(number + 1))
        else:
            assert len(found) == 6 and {row[1] for row in found} >= {version}
    assert project.tables() == {"m"}


@pytest.mark.usefixtures("extension")
def test_build_that_was_published_before_a_crash_is_kept(project: Project) -> None:
    """The run crashes when the metastore has changed, and then runs without the extension."""
    project.model("m", NUMBERS, **CONFIG)
    project.dbt("run", v="one")

    def publish_and_crash(execute: Any, sql: str) -> None:
        # The statement keeps running on the server after its client has crashed.
        execute(sql)
        if " publish build " in sql:
            raise RuntimeError("the process crashed here")

    with executing(publish_and_crash):
        project.attempt("run", v="two")
    before = content(project)
    assert {row[1] for row in before} == {"two"}
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        project.dbt("run", v="", n=0)
    assert content(project) == before and project.tables() == {"m"}


@pytest.mark.usefixtures("extension")
def test_run_without_the_extension_keeps_an_unpublished_build_until_a_run_with_it(project: Project) -> None:
    project.model("m", NUMBERS, **CONFIG)
    project.dbt("run", v="one")
    with statements(crash_before=" publish build "):
        project.attempt("run", v="two")
    before = content(project)
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        project.dbt("run", v="", n=0)
    assert content(project) == before and project.tables() == {"m", "m__dbt_build"}
    project.dbt("run", v="", n=0)
    assert content(project) == before and project.tables() == {"m"}
    assert folders(project) == ["ds=0", "ds=1", "ds=2"] and not list(project.location("m").glob("build-*"))


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("kind", ["append", "insert_overwrite"])
def test_rows_are_written_once(project: Project, kind: str) -> None:
    """New partitions and replaced partitions get the files of the first build."""
    sql = "select id as k, '{{ var('v') }}' as v, id % 3 + {{ var('p') }} as ds from range(9)"
    project.model("m", sql, **STRATEGIES[kind])
    project.dbt("run", v="one", p=0)
    with statements() as sent:
        project.dbt("run", v="two", p=3 if kind == "append" else 0)
    assert len([statement for statement in sent if statement.startswith(("insert", "create table"))]) == 2, sent
