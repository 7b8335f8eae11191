"""The embedded Spark of this process; the only module that imports PySpark, and only when Spark is needed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from spark_bucketing.errors import SparkError
from spark_bucketing.interrupts import noted_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(settings: Mapping[str, str]) -> SparkSession:
    """Start Spark with Hive support, or reuse the session of this process, as dbt-spark's session method does.

    Args:
        settings: Spark settings, such as a dbt target's server_side_parameters.

    Raises:
        SparkError: Spark does not start, or another process holds the metastore.
    """
    from pyspark.sql import SparkSession

    with tempfile.TemporaryFile() as log:
        try:
            with _stderr_into(log):
                builder = SparkSession.builder.enableHiveSupport()
                for key, value in settings.items():
                    builder = builder.config(key, value)
                session = builder.getOrCreate()
        except Exception as error:
            raise SparkError(f"Spark did not start. {_reason(error)}\n{_tail(log)}".rstrip()) from error
    with spark_call("The metastore does not answer."):
        session.sql("show databases").collect()
    return session


def quiet_errors() -> None:
    """Keep PySpark from printing the errors of queries, which it raises as well, with their traces."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel("CRITICAL")


class SessionStatements:
    """Statements in the embedded Spark, which Ctrl-C cancels.

    Args:
        session: an open session.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        # The main thread is left to signals: a call of Py4J that one breaks off goes on in the JVM.
        self._worker = ThreadPoolExecutor(1, "spark-bucketing")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Rows of a statement, by the names of their columns.

        Raises:
            SparkError: Spark refuses it.
            KeyboardInterrupt: it was cancelled, and has ended.
        """
        with noted_interrupts() as interrupts, spark_call(""):
            done: Future[list[dict[str, Any]]] = self._worker.submit(self._collect, statement)
            while not wait([done], timeout=0.1).done:
                if interrupts.come:
                    # Once more for each job that the statement goes on to start.
                    self._session.sparkContext.cancelAllJobs()
            return done.result()

    def close(self) -> None:
        """Leave the session as it is: it may be that of the process."""
        self._worker.shutdown()

    def _collect(self, statement: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in self._session.sql(statement).collect()]


def is_open() -> bool:
    """Whether this process has a Spark that runs."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


@contextmanager
def spark_call(failure: str) -> Iterator[None]:
    """Turn what Spark raises inside the block into one SparkError.

    Args:
        failure: a sentence that says what failed, or nothing; Spark's own reason follows it.

    Raises:
        SparkError: Spark raised an error.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"{failure} {_reason(error)}".strip()) from error


@contextmanager
def setting(session: SparkSession, key: str, value: str) -> Iterator[None]:
    """Give a Spark setting another value inside the block."""
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, before)


@contextmanager
def _stderr_into(log: IO[bytes]) -> Iterator[None]:
    # The JVM inherits the file descriptor, so what Spark logs, from its start to its end, goes there.
    saved = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _tail(log: IO[bytes], lines: int = 3) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])


def _reason(error: Exception) -> str:
    # PySpark logs an error, with its stack, when it is asked for its text.
    messages = [message for message in _java_messages(error) if message.strip()] or [str(error)]
    if any("Another instance of Derby" in message for message in messages):
        return "Another process, perhaps a running dbt, has the embedded metastore open: wait for it, then try again."
    return next((line for line in messages[0].splitlines() if line.strip()), type(error).__name__)


def _java_messages(error: Exception) -> Iterator[str]:
    """Messages of the Java exception behind an error of Py4J or PySpark, and of its causes."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield str(cause.getMessage())
        cause = cause.getCause()
