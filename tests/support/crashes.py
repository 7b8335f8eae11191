"""Simulate crashes between statements of dbt runs and of `spark-bucketing table rewrite`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from conftest import Project
from spark_bucketing.tables.warehouse import Warehouse

# Matches statements without effects outside the session.
READS = re.compile(
    r"\s*(/\*.*?\*/)?\s*(describe|show|set|select|explain|refresh|create or replace temporary|drop view)\b",
    re.IGNORECASE | re.DOTALL,
)


def plain(sql: str) -> str:
    """Return a statement without comments and line breaks."""
    return " ".join(re.sub(r"/\*.*?\*/", "", sql, flags=re.DOTALL).split())


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
            sent.append(plain(sql))
            if len(sent) - 1 == crash_before or (isinstance(crash_before, str) and crash_before in sent[-1]):
                crashed.append(sql)
                raise DbtRuntimeError("the process crashed here")
        execute(sql)

    with executing(watched):
        yield sent


def content(project: Project, query: str = "select * from {schema}.m", table: str = "m") -> list[tuple[object, ...]]:
    project.spark.sql(f"refresh table {project.schema}.{table}")
    return sorted(tuple(str(value) for value in row) for row in project.rows(query))


class Crashed(Exception):
    """Raised where a process would crash."""


@contextmanager
def crashing() -> Iterator[list[str]]:
    """Let a rewrite crash before each statement that changes anything, and record these statements."""
    sent: list[str] = []
    real = Warehouse.change

    def watched(self: Warehouse, statement: str) -> None:
        if not READS.match(statement):
            sent.append(statement)
            raise Crashed
        real(self, statement)

    with patch.object(Warehouse, "change", watched):
        yield sent
