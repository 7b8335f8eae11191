"""Tests that dbt warns once per run, without extra queries, if the package and the extension have different versions."""

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
def record_queries(description: str | None = None) -> Iterator[list[str]]:
    """Record dbt's queries about functions; `description` replaces the description of the extension's function."""
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
    """Create a project with several models, which several threads build."""
    for name in "abcd":
        project.model(name, "select id as k from range(10)", **MODEL)
    return project


@pytest.mark.usefixtures("extension")
@pytest.mark.long
def test_version_mismatch_is_reported_once_per_run(models: Project) -> None:
    with record_queries() as asked:
        assert not warnings(models)
    with record_queries(OLDER) as asked_of_older:
        found = warnings(models)
    assert found.count(SAID) == 1 and "`dbt deps`" in found and "extension build" in found, found
    assert not [name for name in models.tables() if "__dbt_" in name], "the warning must come before the first write"
    # Several threads may send the same query at the same time.
    assert set(asked) == set(asked_of_older)
    with record_queries(OLDER):
        assert SAID in warnings(models), "the next run must warn again"


def test_versions_are_not_compared_without_the_extension(models: Project) -> None:
    with record_queries(OLDER):
        assert not warnings(models)
