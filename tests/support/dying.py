"""Deaths between statements: of dbt runs, and of `spark-bucketing evolution rewrite`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from conftest import Project
from spark_bucketing.evolution.warehouse import Warehouse

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


class Died(Exception):
    """The process is dead."""


@contextmanager
def dying(
    monkeypatch: pytest.MonkeyPatch, before: str | None, last_act: Callable[[], object] = lambda: None
) -> Iterator[list[str]]:
    """Record the statements by which a rewrite changes something that outlives it; let nothing happen from one on.

    Args:
        monkeypatch: takes everything back in the end.
        before: the beginning of the statement that is sent no more; None for all.
        last_act: what is done of it.
    """
    sent: list[str] = []
    real = Warehouse.change

    def watched(self: Warehouse, statement: str) -> None:
        if "dead" in sent:
            raise Died
        if before is not None and statement.startswith(before):
            last_act()
            sent.append("dead")
            raise Died
        if not READS.match(statement):
            sent.append(statement)
        real(self, statement)

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "change", watched)
        yield sent
