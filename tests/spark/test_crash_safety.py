"""A run that dies at any statement leaves the previous table whole; the next run cleans up and completes.

Each test finds out which statements a run makes, then repeats it, dying before each statement that changes anything.
(Dying after one is the same as dying before the next.)
"""

from __future__ import annotations

import os
import re
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


@pytest.mark.parametrize("external", [False, True], ids=["managed", "external"])
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


@pytest.mark.parametrize("bucket_hash", ["hive", pytest.param("spark", marks=pytest.mark.long)])
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
