"""A dbt package and a session extension of two releases: dbt says so, once in a run, without asking anything for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

import pytest
from crashes import executing
from test_dbt_spark_parity import warnings

from conftest import Project

MODEL: dict[str, object] = {"materialized": "bucketed_table", "clustered_by": "k", "buckets": 2}
SAID = f"version 0.0.9, but the dbt package spark_bucketing has version {version('spark-bucketing')}."
OLDER = """
    select 'Class: org.apache.spark.sql.bucketing.metadata.BucketSpecsFunction$' as d
    union all select 'Usage: bucket_specs - What it is. (spark-bucketing 0.0.9, for Spark 4.3.0)'
"""


@contextmanager
def recorded(description: str | None = None) -> Iterator[list[str]]:
    """What dbt asks about functions; the extension's own is described in these words, where they are given."""
    asked: list[str] = []

    def act(execute: Callable[[str], None], sql: str) -> None:
        found = re.search(r"(describe function|show user functions like) .*", sql)
        if found:
            asked.append(found[0])
        execute(description if description and found and "describe function bucket_specs" in found[0] else sql)

    with executing(act):
        yield asked


@pytest.fixture
def models(project: Project) -> Project:
    """A project of several models, written by several threads."""
    for name in "abcd":
        project.model(name, "select id as k from range(10)", **MODEL)
    return project


@pytest.mark.usefixtures("extension")
def test_two_releases_are_said_once_and_nothing_more_is_asked(models: Project) -> None:
    with recorded() as asked:
        assert not warnings(models)
    with recorded(OLDER) as asked_of_older:
        found = warnings(models)
    assert found.count(SAID) == 1 and "`dbt deps`" in found and "extension build" in found, found
    assert not [name for name in models.tables() if "__dbt_" in name], "it is said when something is written already"
    # Threads may ask one question at the same moment.
    assert set(asked) == set(asked_of_older)
    with recorded(OLDER):
        assert SAID in warnings(models), "the next run is silent"


def test_without_the_extension_nothing_is_compared(models: Project) -> None:
    with recorded(OLDER):
        assert not warnings(models)
