"""Tests of statements in the Spark of this process, and of their progress."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

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
