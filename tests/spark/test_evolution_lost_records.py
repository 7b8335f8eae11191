"""A run whose INSERT cannot write the records of its partitions states them itself, once the rows are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from intercepted import failing
from test_crash_safety import statements
from test_evolution_runs import EVOLVING, alterations, assert_files_match_records, content, records, spec

from conftest import Project
from spark_bucketing.session import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Two days, which lie so far apart.
ROWS = "select id as k, '{v}' as v, date_add(date'2024-01-01', cast(id % 2 as int) * {apart}) as ds from range(40)"


@pytest.fixture(autouse=True)
def extended(spark: SparkSession) -> Iterator[None]:
    with setting(spark, "spark.bucketing.enabled", "true"):
        yield


@contextmanager
def inserts_without_records(spark: SparkSession) -> Iterator[list[str]]:
    """No INSERT of dbt can alter a partition; the calls that failed are collected."""
    from dbt.adapters.spark.session import Cursor

    execute = Cursor.execute
    lost: list[str] = []

    def losing(self: Cursor, sql: str, *parameters: object) -> None:
        with ExitStack() as stack:
            failed = stack.enter_context(failing(spark, "alter_partitions")) if "insert " in sql.lower() else []
            execute(self, sql, *parameters)
        lost.extend(failed)

    Cursor.execute = losing
    try:
        yield lost
    finally:
        Cursor.execute = execute


# An append makes a partition of a day that is new; an overwrite replaces the first day's, too.
@pytest.mark.parametrize(
    ("strategy", "condition", "days", "rows"),
    [
        ("append", "id % 2 = 1", "4", 60),
        pytest.param("insert_overwrite", "true", "14", 60, marks=pytest.mark.long),
    ],
)
def test_records_that_an_insert_loses_are_stated_by_the_run(
    project: Project, strategy: str, condition: str, days: str, rows: int
) -> None:
    config = EVOLVING | {"incremental_strategy": strategy}
    project.model("m", ROWS.format(v="old", apart=1), buckets=4, **config)
    project.dbt("run")
    project.model("m", f"{ROWS.format(v='new', apart=3)} where {condition}", buckets=8, **config)
    with inserts_without_records(project.spark) as lost, statements() as sent:
        project.dbt("run")
    assert lost, "the rows are written nevertheless"
    assert records(project, "m") == {"1": spec(4), "2": spec(4)} | dict.fromkeys(days, spec(8))
    stated = [statement for statement in alterations(sent) if " partition " in statement]
    assert len(stated) == len(days), sent
    assert_files_match_records(project, "m")
    assert len(content(project, "m")) == rows
