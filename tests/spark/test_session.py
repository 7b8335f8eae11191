"""Tests of statements in the Spark of this process, and of their progress."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from TCLIService.ttypes import TOperationState

from spark_bucketing.errors import SparkError
from spark_bucketing.project.profile import ServerStatements
from spark_bucketing.session import SessionStatements

# A query with eight tasks of a third of a second each.
SLOW = "select id from range(0, 8, 1, 8) where java_method('java.lang.Thread', 'sleep', 300L + id) is not null"


def test_statement_reports_completed_tasks(spark: SparkSession) -> None:
    seen: list[tuple[int, int]] = []
    with closing(SessionStatements(spark, lambda done, total: seen.append((done, total)))) as statements:
        assert len(statements.rows(SLOW)) == 8
    assert any(0 < done < total == 8 for done, total in seen), seen


class RemoteSession:
    """A session of a Spark Connect server, which runs SQL until it is interrupted, and has no SparkContext."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, seconds: float) -> None:
        self.seconds, self.is_interrupted = seconds, threading.Event()

    def sql(self, _: str) -> Any:
        return self

    def collect(self) -> list[Row]:
        self.is_interrupted.wait(self.seconds)
        return [Row(id=7)]

    def interruptAll(self) -> None:  # noqa: N802 PySpark's name
        self.is_interrupted.set()


def test_statement_runs_over_connect_and_can_be_interrupted() -> None:
    session: Any = RemoteSession(0.3)
    with closing(SessionStatements(session, lambda *_: None)) as statements:
        assert statements.rows("select 7 as id") == [{"id": 7}]
        session.seconds = 60
        threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
        with pytest.raises(KeyboardInterrupt):
            statements.rows("select 7 as id")
    assert session.is_interrupted.is_set()


class Cursor:
    """A cursor of a Thrift server, whose statement ends after some polls, or when it is cancelled."""

    description = (("id", "bigint"),)

    def __init__(self, polls: int, error: str = "") -> None:
        self.polls, self.error, self.events = polls, error, list[str]()

    def cursor(self) -> Cursor:
        return self

    def execute(self, _: str, async_: bool) -> None:
        self.events.append(f"executed {async_}")

    def poll(self) -> Any:
        self.polls -= 1
        state = TOperationState.RUNNING_STATE if self.polls > 0 else TOperationState.FINISHED_STATE
        return SimpleNamespace(
            operationState=TOperationState.ERROR_STATE if self.error else state, errorMessage=self.error
        )

    def fetchall(self) -> list[tuple[int]]:
        return [(7,)]

    def cancel(self) -> None:
        self.events.append("cancelled")

    def close(self) -> None:
        self.events.append("closed")


def on_server(cursor: Cursor) -> ServerStatements:
    statements = ServerStatements.__new__(ServerStatements)
    statements._opened = cursor
    return statements


def test_statement_on_a_server_is_polled_and_can_be_interrupted() -> None:
    cursor = Cursor(3)
    assert on_server(cursor).rows("select 7 as id") == [{"id": 7}] and cursor.events == ["executed True", "closed"]
    endless = Cursor(10_000)
    threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
    with pytest.raises(KeyboardInterrupt):
        on_server(endless).rows("select 7 as id")
    assert endless.events == ["executed True", "cancelled", "closed"]
    with pytest.raises(SparkError, match=r"^No such table\.$"):
        on_server(Cursor(1, "Error running query: [X] org.MyError: No such table.")).rows("select * from t")
