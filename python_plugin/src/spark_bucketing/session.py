"""Run SQL in a session of PySpark: the embedded Spark of this process, or a session of a Spark Connect server.

Only this module imports PySpark, and only when a command needs Spark.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

from spark_bucketing.errors import SparkError, headline
from spark_bucketing.sql import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark sets the second variable when it connects to a server.
_REMOTE_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")


def rows_of(session: SparkSession, statement: str) -> list[dict[str, Any]]:
    """Run a statement in a session of PySpark, and return its rows. Ctrl-C does not cancel it."""
    with spark_call(""):
        return [row.asDict() for row in session.sql(statement).collect()]


def open_session(settings: Mapping[str, str], hive: bool = True) -> SparkSession:
    """Start Spark, or reuse this process's session, in the same way as dbt-spark's session method.

    With Hive, the session may be one of a Spark Connect server, see is_remote(). Without Hive, it is always one of this
    process, because the session must not have a warehouse.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if session := active():
        for key, value in settings.items():
            # Some settings apply only when Spark starts.
            with suppress(PySparkException):
                session.conf.set(key, value)
        return session
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


def active() -> SparkSession | None:
    """Return the active session of this thread, or None if Spark is not running."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def is_open() -> bool:
    """Return whether Spark is running in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


@contextmanager
def quiet_errors() -> Iterator[None]:
    """Prevent PySpark 4 from printing the stack traces of errors that it also raises inside the block."""
    try:
        from pyspark.logger import PySparkLogger
    except ModuleNotFoundError:
        yield
        return
    loggers = [PySparkLogger.getLogger(f"{name}QueryContextLogger") for name in ("SQL", "DataFrame")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel("CRITICAL")
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class SessionStatements:
    """Runs statements in a session of PySpark. Ctrl-C cancels them. Spark Connect reports no progress."""

    def __init__(self, session: SparkSession, on_tasks: Callable[[int, int], None] | None = None) -> None:
        self.kind = "Spark Connect" if is_remote(session) else "session"
        self._session, self._on_tasks = session, None if is_remote(session) else on_tasks
        # Signals interrupt only the main thread, and an interrupted call of Spark would continue there.
        self._worker = ThreadPoolExecutor(1, "spark-bucketing")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement; see Statements."""
        with noted_interrupts() as interrupted, spark_call(""):
            # A thread that is not the main thread may abandon the statement, which must not block later statements.
            if threading.current_thread() is not threading.main_thread():
                return rows_of(self._session, statement)
            done = self._worker.submit(rows_of, self._session, statement)
            while not wait([done], timeout=0.1).done:
                if interrupted.is_set():
                    # Cancel again, because the statement may have started another job.
                    if is_remote(self._session):
                        self._session.interruptAll()
                    else:
                        self._session.sparkContext.cancelAllJobs()
                elif self._on_tasks:
                    tracker = self._session.sparkContext.statusTracker()
                    stages = [one for number in tracker.getActiveStageIds() if (one := tracker.getStageInfo(number))]
                    self._on_tasks(sum(one.numCompletedTasks for one in stages), sum(one.numTasks for one in stages))
            return done.result()

    def close(self) -> None:
        """Keep the session open, because other code in the process may share it."""
        self._worker.shutdown()


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """On the first Ctrl-C inside the block, set an event instead of interrupting the code that is running."""
    come = threading.Event()
    # Only the main thread can handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield come
        return

    def note(_signal: int, _frame: FrameType | None) -> None:
        come.set()
        # A second Ctrl-C interrupts immediately.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield come
    except Exception as error:
        if come.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if come.is_set():
        raise KeyboardInterrupt


@contextmanager
def spark_call(failure: str) -> Iterator[None]:
    """Convert PySpark's errors inside the block into a SparkError that starts with a sentence, if any."""
    try:
        yield
    except Exception as error:
        # PySpark does not translate all errors of the JVM. A Spark Connect client may have no Py4J.
        if not type(error).__module__.startswith(("pyspark.", "py4j.", "grpc.")):
            raise
        raise SparkError(f"{failure} {_reason(error)}".strip()) from error


@contextmanager
def settings_kept(session: SparkSession | None = None) -> Iterator[None]:
    """Restore the settings of a session at the end of the block, or those of this process's session if Spark runs."""
    # Do not import PySpark for a connection to a server.
    session = session or (active() if "pyspark" in sys.modules else None)
    with with_settings(partial(rows_of, session)) if session else nullcontext():
        yield


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


def _reason(error: BaseException) -> str:
    messages = list(_messages(error))
    if any("Another instance of Derby" in message for message in messages):
        return (
            "Another process, such as a running dbt, has the embedded metastore open. Wait until it ends, then "
            "try again."
        )
    return next(filter(None, map(headline, messages)), type(error).__name__)


def _messages(error: BaseException | None) -> Iterator[str]:
    """Yield the message of an error of PySpark, and those of its causes."""
    while error is not None:
        text = str(error)
        # Py4J puts the Java exception with its stack trace below a line about the call.
        if text.startswith("An error occurred while calling"):
            text = text.partition("\n: ")[2]
            yield text.partition(": ")[2]
        yield text
        error = getattr(error, "_cause", None)
