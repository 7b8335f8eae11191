"""Manage the embedded Spark in this process.

Only this module imports PySpark, and only when a command needs Spark.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from spark_bucketing.errors import SparkError, headline
from spark_bucketing.interrupts import noted_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark sets the second variable when it connects to a server.
_REMOTE_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")


def open_session(settings: Mapping[str, str], hive: bool = True) -> SparkSession:
    """Start Spark, or reuse this process's session, in the same way as dbt-spark's session method.

    With Hive, the session may be one of a Spark Connect server, see is_remote(). Without Hive, it is always one of this
    process, because the session must not have a warehouse.

    Raises:
        SparkError: Spark does not start, or another process is using the metastore.
    """
    from pyspark.sql import SparkSession

    with tempfile.TemporaryFile() as log:
        try:
            with _stderr_into(log), nullcontext() if hive else _without_remote():
                builder = SparkSession.builder.enableHiveSupport() if hive else SparkSession.builder
                # An event log of these statements would count as a workload.
                session = builder.config(map={**settings, "spark.eventLog.enabled": "false"}).getOrCreate()
        except Exception as error:
            raise SparkError("Spark did not start.", found=f"{_reason(error)}\n{_tail(log)}") from error
    with spark_call("The metastore does not answer."):
        session.sql("show databases").collect()
    return session


@contextmanager
def _without_remote() -> Iterator[None]:
    """Remove the environment variables inside the block with which PySpark connects to a Spark Connect server."""
    removed = {name: value for name in _REMOTE_VARIABLES if (value := os.environ.pop(name, None)) is not None}
    try:
        yield
    finally:
        os.environ.update(removed)


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is one of a Spark Connect server, which runs only SQL and has no JVM in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def rows_of(session: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement in a session, and return its rows.

    Raises:
        SparkError: Spark rejects the statement.
    """
    with spark_call(""):
        return [tuple(row) for row in session.sql(statement).collect()]


def active() -> SparkSession | None:
    """Return the active session of this thread, or None if Spark is not running."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def quiet_errors() -> None:
    """Prevent PySpark from printing the stack trace of a query error, because PySpark also raises the error.

    PySpark versions before 4.0 do not print stack traces.
    """
    try:
        from pyspark.logger import PySparkLogger
    except ModuleNotFoundError:
        return
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel("CRITICAL")


class SessionStatements:
    """Runs statements in the embedded Spark, or in a session of a Spark Connect server, which does not report progress.

    Ctrl-C cancels the running statement.
    """

    def __init__(self, session: SparkSession, on_tasks: Callable[[int, int], None] | None = None) -> None:
        self._session, self._on_tasks = session, None if is_remote(session) else on_tasks
        # Signals interrupt only the main thread, and an interrupted Py4J call would continue in the JVM.
        self._worker = ThreadPoolExecutor(1, "spark-bucketing")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement, and return its rows as dictionaries by column name.

        Raises:
            SparkError: Spark rejects the statement.
            KeyboardInterrupt: the statement was cancelled and has ended.
        """
        with noted_interrupts() as interrupted, spark_call(""):
            done = self._worker.submit(lambda: [row.asDict() for row in self._session.sql(statement).collect()])
            while not wait([done], timeout=0.1).done:
                if interrupted.is_set():
                    # Cancel again, because the statement may have started another job.
                    self._cancel()
                elif self._on_tasks:
                    self._on_tasks(*self._tasks())
            return done.result()

    def _cancel(self) -> None:
        if is_remote(self._session):
            self._session.interruptAll()
        else:
            self._session.sparkContext.cancelAllJobs()

    def _tasks(self) -> tuple[int, int]:
        tracker = self._session.sparkContext.statusTracker()
        stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
        return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)

    def close(self) -> None:
        """Do nothing: the session stays open, because other code in the process may share it."""
        self._worker.shutdown()


def is_open() -> bool:
    """Return whether Spark is running in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


@contextmanager
def spark_call(failure: str) -> Iterator[None]:
    """Convert errors that Spark raises inside the block into a SparkError.

    Args:
        failure: a sentence that describes the failure, or an empty string. In the message, Spark's own error text
            follows it.

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
    """Change the value of a Spark setting inside the block."""
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
    # The JVM inherits the file descriptor, so this captures Spark's log from start to end.
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
    # PySpark logs an error with its stack trace when this function reads the error's text.
    messages = [message for message in _java_messages(error) if message.strip()] or [str(error)]
    if any("Another instance of Derby" in message for message in messages):
        return (
            "Another process, such as a running dbt, has the embedded metastore open. Wait until it ends, then "
            "try again."
        )
    return headline(messages[0]) or type(error).__name__


def _java_messages(error: Exception) -> Iterator[str]:
    """Yield the messages of the Java exception behind a Py4J or PySpark error, and the messages of its causes."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        # Some errors of the JVM, such as a stack overflow, have no message.
        yield str(cause.getMessage() or cause.getClass().getName())
        cause = cause.getCause()
