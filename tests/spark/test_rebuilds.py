"""Tests that a further build of a bucketed table replaces only its files if only its rows change."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from crashes import content, statements
from session_settings import setting

from conftest import Project, all_long_but, parameters

MODEL: dict[str, Any] = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 3}
PARTITIONED = MODEL | {"partition_by": ["p"]}
QUERY = (
    "select id as k, concat('v', {{ var('v', 0) }}) as v, id % 2 as p from range(20) where id % 2 >= {{ var('v', 0) }}"
)
NEW: list[tuple[object, ...]] = sorted((str(k), "v1", "1") for k in range(1, 20, 2))


class Case(NamedTuple):
    """A model that two runs build, and the changes between the runs."""

    first: dict[str, Any]
    # Of the config.
    changes: dict[str, Any] | None = None
    query: str = QUERY
    alter: str = ""
    keeps_table: bool = True
    rows: list[tuple[object, ...]] = NEW


CASES: dict[str, Case] = {
    "whole": Case(MODEL),
    "partitioned": Case(PARTITIONED),
    "version_2": Case(PARTITIONED | {"file_format": "orc", "bucket_hash": "hive2"}),
    "external": Case(PARTITIONED),
    "overwrite": Case(MODEL | {"materialized": "bucketed_incremental", "incremental_strategy": "insert_overwrite"}),
    "empty": Case(PARTITIONED, query=QUERY.replace("var('v', 0)", "2"), rows=[]),
    # Another definition, a changed table, another type and a setting require another table.
    **{
        key: Case(MODEL, {key: value}, keeps_table=False)
        for key, value in {
            "buckets": 6,
            "sorted_by": ["v"],
            "partition_by": ["p"],
            "bucket_hash": "hive2",
            "file_format": "orc",
            "tblproperties": {"team": "us"},
            "options": {"compression": "gzip"},
            "write_tasks": 2,
        }.items()
    },
    "added": Case(MODEL, alter="add columns (extra int)", keeps_table=False),
    "clustered": Case(MODEL, alter="clustered by (k) sorted by (k) into 6 buckets", keeps_table=False),
    "commented": Case(MODEL, alter="alter column v comment 'by hand'"),
    "undefined": Case(MODEL, alter="unset tblproperties ('bucketing.definition')", keeps_table=False),
    "retyped": Case(MODEL, query=QUERY.replace("id as k", "cast(id as int) as k"), keeps_table=False),
    "read": Case(
        PARTITIONED, query="select k, v, p from {{ this }} where p = 1", keeps_table=False,
        rows=[(k, "v0", p) for k, _, p in NEW],
    ),
    "disabled": Case(PARTITIONED, keeps_table=False),
}  # fmt: skip
LONG = (
    "partitioned",
    "external",
    "bucket_hash",
    "write_tasks",
    "undefined",
    "sorted_by",
    "partition_by",
    "file_format",
    "tblproperties",
    "options",
    "clustered",
    "commented",
)

pytestmark = pytest.mark.usefixtures("extension")


class Rebuilt(NamedTuple):
    project: Project
    # The location of each table after the first run, and the statements of the second run.
    locations: dict[str, Path]
    sent: list[str]


@pytest.fixture(scope="module")
def rebuilt(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Rebuilt:
    """Build the models of this test run twice, and the model `spare`, which tests may run again."""
    project = new_project()
    cases = {name: CASES[name] for name in parameters(request, "name") & CASES.keys()} | {"spare": Case(MODEL)}
    place = {"external": {"location_root": str(project.folder / "external")}}
    for name, case in cases.items():
        project.model(name, QUERY, **case.first, **place.get(name, {}))
    with setting(project.spark, "spark.bucketing.enabled", "true"):
        project.dbt("run")
        locations = {name: project.location(name) for name in cases}
        for name, case in cases.items():
            project.model(name, case.query, **case.first | (case.changes or {}), **place.get(name, {}))
            if case.alter:
                project.spark.sql(f"alter table {project.table(name)} {case.alter}")
        with statements() as sent:
            project.dbt("run", "--exclude", "disabled", v=1)
            with setting(project.spark, "spark.bucketing.write.atomic", "false"):
                project.dbt("run", "--select", "disabled", v=1)
    assert project.tables() == cases.keys()
    return Rebuilt(project, locations, sent)


def replaces_files(sent: list[str], name: str) -> bool:
    """Return whether statements replace the files of a table, and not the table."""
    own = [statement for statement in sent if re.search(rf"`{name}(__dbt_\w+)?`", statement)]
    swaps = any(statement.startswith(("create table", "begin")) for statement in own)
    assert swaps == ("insert overwrite" not in " ".join(own)), own
    return not swaps


@pytest.mark.parametrize("name", all_long_but(tuple(CASES.keys() - {*LONG}), CASES))
def test_table_is_kept_if_only_its_rows_change(rebuilt: Rebuilt, name: str) -> None:
    project, case, query = rebuilt.project, CASES[name], f"select k, v, p from {{schema}}.{name}"
    assert replaces_files(rebuilt.sent, name) == case.keeps_table
    assert content(project, query, name) == case.rows
    if not case.keeps_table:
        return
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        assert content(project, query, name) == case.rows
    assert project.location(name) == rebuilt.locations[name]
    statuses = project.rows(f"select partition, status from bucket_specs('{{schema}}.{name}')")
    if case.rows:
        assert statuses == [("p=1" if "partition_by" in case.first else "", "sealed")]


def test_full_refresh_repairs_damaged_records(rebuilt: Rebuilt) -> None:
    project = rebuilt.project
    project.model("spare", QUERY, **MODEL)
    record = project.location("spare") / "_replaced" / "99990101000000000000-0"
    record.mkdir()
    (record / "started").write_text("damaged")
    _, failure = project.attempt("run", "--select", "spare", v=1)
    assert "is damaged" in failure and "dbt run --full-refresh" in failure
    with statements() as sent:
        project.dbt("run", "--select", "spare", "--full-refresh", v=1)
    assert not replaces_files(sent, "spare") and content(project, "select * from {schema}.spare", "spare") == NEW


def test_failed_query_keeps_the_rows(rebuilt: Rebuilt) -> None:
    project = rebuilt.project
    project.model("spare", "select id as k, raise_error('no value') as v, id % 2 as p from range(20)", **MODEL)
    before = content(project, "select * from {schema}.spare", "spare")
    _, failure = project.attempt("run", "--select", "spare", v=1)
    assert "no value" in failure and content(project, "select * from {schema}.spare", "spare") == before
