"""Simulate crashes between statements of dbt runs and of `spark-bucketing table rewrite`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from spark_features import has_scripts

from conftest import Project
from spark_bucketing.tables.warehouse import Warehouse

# Matches statements without effects outside the session.
READS = re.compile(
    r"\s*(/\*.*?\*/)?\s*(describe|show|set|select|explain|refresh|create or replace temporary|drop view)\b",
    re.IGNORECASE | re.DOTALL,
)


@contextmanager
def executing(act: Callable[[Callable[[str], None], str], None]) -> Iterator[None]:
    """Pass each statement that dbt sends to Spark to `act`, with a function that executes it."""
    from dbt.adapters.spark.session import Cursor

    execute = Cursor.execute

    def acted(self: Cursor, sql: str, *parameters: object) -> None:
        act(lambda text: execute(self, text, *parameters), sql)

    with patch.object(Cursor, "execute", acted):
        yield


@contextmanager
def statements(crash_before: int | str | None = None, ignored: re.Pattern[str] = READS) -> Iterator[list[str]]:
    """Record the statements that dbt sends to Spark, except ignored statements.

    `crash_before` is the number of a statement or part of its text. The first matching statement and all later
    statements raise an error instead of reaching Spark.
    """
    from dbt_common.exceptions import DbtRuntimeError

    sent: list[str] = []

    crashed: list[str] = []

    def watched(execute: Callable[[str], None], sql: str) -> None:
        if crashed:
            raise DbtRuntimeError("the process is dead")
        if not ignored.match(sql):
            sent.append(" ".join(re.sub(r"/\*.*?\*/", "", sql, flags=re.DOTALL).split()))
            if len(sent) - 1 == crash_before or (isinstance(crash_before, str) and crash_before in sent[-1]):
                crashed.append(sql)
                raise DbtRuntimeError("the process crashed here")
        execute(sql)

    with executing(watched):
        yield sent


def content(project: Project, query: str = "select * from {schema}.m", table: str = "m") -> list[tuple[object, ...]]:
    project.spark.sql(f"refresh table {project.schema}.{table}")
    return sorted(tuple(str(value) for value in row) for row in project.rows(query))


Rows = list[tuple[object, ...]]


def assert_survives_a_crash(project: Project, number: int, statement: str, before: Rows, after: Rows) -> None:
    """Crash a run before a statement; check that the table is old or new, and that the next run finishes."""
    with statements(crash_before=number):
        _, failure = project.attempt("run")
    assert "the process crashed here" in failure, statement
    assert_old_or_new(project, before, after, f"after crashing before #{number}: {statement}")
    project.dbt("run")
    assert content(project) == after, f"wrong rows in the run after a crash before #{number}: {statement}"
    assert project.tables() == {"m"}, statement


def assert_old_or_new(project: Project, before: Rows, after: Rows, where: str) -> None:
    """Check that the table has either the old or the new rows.

    Without SQL scripts, another state is possible: the table's name is gone, and its rows are in the backup.
    """
    if not has_scripts(project.spark) and "m" not in project.tables():
        assert content(project, "select * from {schema}.m__dbt_backup", "m__dbt_backup") == before, where
    else:
        assert content(project) in (before, after), where


def assert_survives_every_crash(project: Project, one: dict[str, str], other: dict[str, str]) -> None:
    """Alternate between two versions of a model, and crash before each statement that changes anything."""
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
        assert_survives_a_crash(project, number, statement, before, after)
        before, after = after, before


class Crashed(Exception):
    """Raised where a process would crash."""


@contextmanager
def crashing(before: str | None, last_act: Callable[[], object] = lambda: None) -> Iterator[list[str]]:
    """Record the changing statements of a rewrite; from the statement `before` on, run only `last_act`."""
    sent: list[str] = []
    real = Warehouse.change

    def watched(self: Warehouse, statement: str) -> None:
        if "dead" in sent:
            raise Crashed
        if before is not None and statement.startswith(before):
            last_act()
            sent.append("dead")
            raise Crashed
        if not READS.match(statement):
            sent.append(statement)
        real(self, statement)

    with patch.object(Warehouse, "change", watched):
        yield sent
