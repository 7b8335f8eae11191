"""A run that dies while a table's buckets change leaves it whole, with true records; the next run finishes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_crash_safety import assert_survives_every_death, content, statements
from test_evolution_runs import EVOLVING, assert_files_match_records

from conftest import Project
from spark_bucketing.session import setting

SQL = """{{{{ config(materialized='bucketed_incremental', clustered_by=['k'], buckets=env_var('BUCKETS') | int, partition_by=['ds'],
    on_bucket_change='evolve', incremental_strategy='{strategy}', unique_key=['k', 'ds']) }}}}
{{% if is_incremental() %}}
select id as k, '{{{{ env_var('VERSION') }}}}' as v, 1 as ds from range(3)
{{% else %}}
select id as k, 'first' as v, id % 3 as ds from range(12)
{{% endif %}}
"""


@pytest.fixture(autouse=True)
def extended(project: Project) -> Iterator[None]:
    with setting(project.spark, "spark.bucketing.enabled", "true"):
        yield


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["insert_overwrite", "merge"])
def test_an_evolving_table_survives_every_death(
    project: Project, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("models/m.sql", SQL.format(strategy=strategy))
    attempt = project.attempt

    def checked(*arguments: str, **variables: object) -> Any:
        # After every run and every death.
        outcome = attempt(*arguments, **variables)
        assert_files_match_records(project, "m")
        return outcome

    monkeypatch.setattr(project, "attempt", checked)
    one, other = {"VERSION": "one", "BUCKETS": "2"}, {"VERSION": "other", "BUCKETS": "4"}
    assert_survives_every_death(project, one, other)


@pytest.mark.long
def test_a_plain_table_that_becomes_bucketed_survives_every_death(new_project: Callable[..., Project]) -> None:
    rows = "select id as k, {} as v, id % 3 as ds from range(12)"
    plain = {"materialized": "incremental", "file_format": "parquet", "partition_by": ["ds"]}

    def prepared() -> Project:
        project = new_project()
        project.model("m", rows.format("'old'"), **plain)
        project.dbt("run")
        project.model(
            "m",
            rows.format("'new'") + " where id % 3 = 1",
            **EVOLVING | {"buckets": 4, "incremental_strategy": "merge", "unique_key": "k"},
        )
        return project

    project = prepared()
    before = content(project)
    with statements() as sent:
        project.dbt("run")
    after = content(project)
    assert before != after
    for number, statement in enumerate(sent):
        project = prepared()
        with statements(die_before=number):
            _, failure = project.attempt("run")
        assert "the process died here" in failure, statement
        assert content(project) in (before, after), statement
        project.dbt("run")
        assert content(project) == after, statement
        assert project.tables() == {"m"}, statement
        assert_files_match_records(project, "m")
