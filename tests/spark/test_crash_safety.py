"""A run that dies at any statement leaves the previous table whole; the next run cleans up and completes.

Each test finds out which statements a run makes, then repeats it, dying before each statement that changes anything.
(Dying after one is the same as dying before the next.)
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import Project

# What changes nothing that outlives the session.
READS = re.compile(
    r"\s*(/\*.*?\*/)?\s*(describe|show|set|select|explain|refresh|create or replace temporary|drop view)\b",
    re.IGNORECASE | re.DOTALL,
)


@contextmanager
def statements(die_before: int | None = None, ignored: re.Pattern[str] = READS) -> Iterator[list[str]]:
    """Record the statements that dbt sends to Spark, without the ignored; raise instead of sending this one of them."""
    from dbt.adapters.spark.session import Cursor
    from dbt_common.exceptions import DbtRuntimeError

    sent: list[str] = []
    execute = Cursor.execute

    def watched(self: Cursor, sql: str, *parameters: object) -> None:
        if die_before is not None and len(sent) > die_before:
            raise DbtRuntimeError("the process is dead")
        if not ignored.match(sql):
            sent.append(" ".join(re.sub(r"/\*.*?\*/", "", sql, flags=re.DOTALL).split()))
            if die_before is not None and len(sent) > die_before:
                raise DbtRuntimeError("the process died here")
        execute(self, sql, *parameters)

    Cursor.execute = watched
    try:
        yield sent
    finally:
        Cursor.execute = execute


def content(project: Project, query: str = "select * from {schema}.m") -> list[tuple[object, ...]]:
    project.spark.sql(f"refresh table {project.schema}.m")
    return sorted(tuple(str(value) for value in row) for row in project.rows(query))


def assert_survives_every_death(project: Project, one: dict[str, str], other: dict[str, str]) -> None:
    """Let two versions of the model, told by the environment, replace each other, dying before each changing statement."""
    versions = [one, other]
    expected = []
    for version in versions * 2:
        os.environ.update(version)
        with statements() as sent:
            project.dbt("run")
        expected.append(content(project))
    before, after = expected[-1], expected[-2]
    assert before != after
    for number, statement in enumerate(sent):
        os.environ.update(versions[number % 2])
        with statements(die_before=number):
            _, failure = project.attempt("run")
        assert "the process died here" in failure, statement
        assert content(project) in (before, after), f"after dying before #{number}: {statement}"
        project.dbt("run")
        assert content(project) == after, f"next run after dying before #{number}: {statement}"
        assert project.tables() == {"m"}, statement
        before, after = after, before


@pytest.fixture
def project(new_project: Callable[..., Project]) -> Project:
    return new_project()


@pytest.mark.parametrize(
    "external", [pytest.param(False, id="managed"), pytest.param(True, id="external", marks=pytest.mark.long)]
)
def test_table_survives_every_death(project: Project, external: bool) -> None:
    place = {"location_root": str(project.folder / "external")} if external else {}
    project.model(
        "m",
        "select id as k, id % 2 as ds, '{{ env_var('VERSION') }}' as version from range(10)",
        materialized="bucketed_table",
        clustered_by=["k"],
        buckets=2,
        partition_by=["ds"],
        **place,
    )
    assert_survives_every_death(project, {"VERSION": "one"}, {"VERSION": "other"})
    if external:
        builds = [path.name for path in (project.folder / "external" / "m").iterdir()]
        assert builds == [project.location("m").name], "a build directory was left behind"
        warehouse = Path(str(project.spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
        assert list((warehouse / f"{project.schema}.db").iterdir()) == [], "an empty directory was left behind"


MOVES_A_ROW = """
    {% if is_incremental() %}
    select 3 as k, '{{ env_var('VERSION') }}' as v, {{ env_var('PLACE') }} as ds union all select 9, '{{ env_var('VERSION') }}', 2
    {% else %}
    select k, 'first' as v, ds from values (1, 0), (3, 1), (5, 2) as t(k, ds)
    {% endif %}
"""


@pytest.mark.long
@pytest.mark.parametrize("bucket_hash", ["hive", "spark"])
def test_merge_that_empties_a_partition_survives_every_death(project: Project, bucket_hash: str) -> None:
    project.model(
        "m",
        MOVES_A_ROW,
        materialized="bucketed_incremental",
        incremental_strategy="merge",
        unique_key="k",
        clustered_by=["k"],
        buckets=2,
        partition_by=["ds"],
        bucket_hash=bucket_hash,
    )
    assert_survives_every_death(project, {"VERSION": "one", "PLACE": "1"}, {"VERSION": "other", "PLACE": "7"})


@pytest.mark.long
def test_merge_into_an_unpartitioned_table_survives_every_death(project: Project) -> None:
    project.model(
        "m",
        MOVES_A_ROW,
        materialized="bucketed_incremental",
        incremental_strategy="merge",
        unique_key="k",
        clustered_by=["k"],
        buckets=2,
    )
    assert_survives_every_death(project, {"VERSION": "one", "PLACE": "1"}, {"VERSION": "other", "PLACE": "7"})


def test_a_failing_second_rename_brings_the_previous_table_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dbt.adapters.spark.session import Cursor

    project.model(
        "m", "select 1 as k, '{{ var('v') }}' as v", materialized="bucketed_table", clustered_by="k", buckets=2
    )
    project.dbt("run", v="old")
    execute = Cursor.execute

    def break_second_rename(self: Cursor, sql: str, *parameters: object) -> None:
        execute(self, sql.replace("`m__dbt_tmp` rename", "`no_such_table` rename"), *parameters)

    monkeypatch.setattr(Cursor, "execute", break_second_rename)
    _, failure = project.attempt("run", v="new")
    monkeypatch.undo()
    assert "the previous one is back" in failure
    assert content(project) == [("1", "old")]
    project.dbt("run", v="new")
    assert content(project) == [("1", "new")]
    assert project.tables() == {"m"}


def test_staged_rows_that_no_longer_fit_stop_the_run_until_a_full_refresh(project: Project) -> None:
    project.model(
        "m",
        "select 1 as k, 2 as ds",
        materialized="bucketed_incremental",
        clustered_by=["k"],
        buckets=2,
        partition_by=["ds"],
    )
    project.dbt("run")
    project.spark.sql(f"create table {project.table('m__dbt_staged')} (k int) using parquet")
    _, failure = project.attempt("run")
    assert "its finished rows no longer fit the table" in failure and "--full-refresh" in failure
    assert content(project) == [("1", "2")]
    project.dbt("run", "--full-refresh")
    assert project.tables() == {"m"}


STAGED = {
    "materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 2, "partition_by": ["ds"],
}  # fmt: skip


@pytest.mark.long
def test_staged_rows_of_another_build_of_the_table_are_not_applied(project: Project) -> None:
    project.model("m", "select 1 as k, 2 as ds, '{{ var('v') }}' as v", **STAGED)
    project.dbt("run", v="first")
    with statements() as sent:
        project.dbt("run", v="second")
    commit = next(number for number, statement in enumerate(sent) if "`m__dbt_staged`" in statement)
    with statements(die_before=commit + 1):
        project.attempt("run", v="third")
    assert "m__dbt_staged" in project.tables()
    project.spark.sql(f"alter table {project.table('m')} set tblproperties ('bucketing.build' = 'build-1')")
    project.spark.sql(f"insert overwrite table {project.table('m')} values (9, 'newer', 2)")
    _, failure = project.attempt("run", v="fourth")
    assert "no longer fit the table" in failure and "build-1" in failure
    assert content(project, "select k, v from {schema}.m") == [("9", "newer")]
    project.dbt("run", "--full-refresh", v="fifth")
    assert content(project, "select k, v from {schema}.m") == [("1", "fifth")]
    assert project.tables() == {"m"}


def test_directories_that_a_dead_run_left_without_their_tables_are_cleared(project: Project) -> None:
    os.environ.update({"VERSION": "one", "PLACE": "7"})
    project.model("m", MOVES_A_ROW, **STAGED | {"incremental_strategy": "merge", "unique_key": "k"})
    project.dbt("run")
    schema_folder = project.location("m").parent
    for role in ("tmp", "input", "staged"):
        (schema_folder / f"m__dbt_{role}").mkdir()
        (schema_folder / f"m__dbt_{role}" / "left_behind").write_text("by a dead process")
    project.dbt("run")
    project.dbt("run", "--full-refresh")
    assert [path.name for path in schema_folder.iterdir()] == ["m"]


@pytest.mark.parametrize("external", [False, pytest.param(True, marks=pytest.mark.long)], ids=["managed", "external"])
def test_a_table_whose_files_somebody_deleted_can_be_built_again(project: Project, external: bool) -> None:
    place = {"location_root": str(project.folder / "external")} if external else {}
    project.model("m", "select 1 as k", materialized="bucketed_table", clustered_by="k", buckets=2, **place)
    project.dbt("run")
    shutil.rmtree(project.location("m"))
    project.dbt("run")
    assert content(project) == [("1",)]
    assert project.tables() == {"m"}


def test_a_failing_first_rename_says_why_and_changes_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from dbt.adapters.spark.session import Cursor

    project.model("m", "select '{{ var('v') }}' as k", materialized="bucketed_table", clustered_by="k", buckets=2)
    project.dbt("run", v="old")
    execute = Cursor.execute

    def break_first_rename(self: Cursor, sql: str, *parameters: object) -> None:
        execute(self, sql.replace("`m` rename to", "`m` rename to no_such_schema."), *parameters)

    monkeypatch.setattr(Cursor, "execute", break_first_rename)
    _, failure = project.attempt("run", v="new")
    monkeypatch.undo()
    assert "no_such_schema" in failure and "previous one is back" not in failure
    assert content(project) == [("old",)]
    project.dbt("run", v="new")
    assert content(project) == [("new",)]


def test_another_nodes_table_is_never_taken_for_a_leftover(project: Project) -> None:
    project.model("m", "select 1 as k", materialized="bucketed_table", clustered_by="k", buckets=2)
    project.model("other", "select 'precious' as v", materialized="table", file_format="parquet", alias="m__dbt_input")
    project.dbt("run", "--select", "other")
    _, failure = project.attempt("run", "--select", "m")
    assert "Invalid `alias` of model 'm'" in failure and "another alias for 'other'" in failure
    assert [row.v for row in project.rows("select v from {schema}.m__dbt_input")] == ["precious"]


def test_a_rename_that_was_cut_off_is_an_error_and_not_an_empty_table(project: Project) -> None:
    project.model("m", "select 1 as k, 2 as ds, '{{ var('v') }}' as v", **STAGED)
    project.dbt("run", v="first")
    # What Hive's metastore leaves when it dies between the move of the directory and its commit.
    folder = project.location("m")
    backup = folder.rename(folder.with_name("m__dbt_backup"))
    for command in (("run",), ("run", "--full-refresh")):
        _, failure = project.attempt(*command, v="second")
        assert "m__dbt_backup" in failure
        assert list(backup.rglob("*.parquet")), "the only copy of the rows"
    shutil.rmtree(folder, ignore_errors=True)
    backup.rename(folder)
    project.dbt("run", v="third")
    assert content(project, "select v from {schema}.m") == [("first",), ("third",)]
