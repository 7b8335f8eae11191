"""Run SQL over a connection that dbt-spark opens for a dbt target, with the method thrift, http or odbc."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from spark_bucketing.errors import ProfileError, SparkError, headline
from spark_bucketing.interrupts import noted_interrupts
from spark_bucketing.project.profile import Target, dbt_message

_POLL_SECONDS = 0.05


class _Connected:
    """A dbt-spark connection that uses the profile's credentials and server_side_parameters."""

    def __init__(self, target: Target) -> None:
        from dbt.adapters.spark.connections import SparkConnectionManager
        from dbt.mp_context import get_mp_context

        # dbt polls a statement every five seconds, but planning takes less time.
        target.loaded.credentials.poll_interval = _POLL_SECONDS
        self._manager = SparkConnectionManager(target.loaded, get_mp_context())
        self._connection = self._manager.set_connection_name("spark-bucketing")

    def close(self) -> None:
        """Close the connection and its session on the server, if it was opened."""
        self._manager.cleanup_all()


class Connection(_Connected):
    """A connection with any method."""

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement, and return its rows.

        Raises:
            SparkError: the connection fails, or Spark rejects the statement.
        """
        from dbt_common.exceptions import DbtBaseException

        # dbt opens one connection per thread. Queries with a time limit run in other threads, so reuse this connection
        # for them.
        if self._manager.get_if_exists() is None:
            self._manager.set_thread_connection(self._connection)
        try:
            _, cursor = self._manager.add_query(sql, auto_begin=False)
            return [tuple(row) for row in cursor.fetchall()]
        except DbtBaseException as error:
            raise SparkError(without_stack(dbt_message(error))) from error


class RemoteStatements(_Connected):
    """Runs statements over a thrift or http connection.

    Ctrl-C cancels the running statement.

    Raises:
        ProfileError: the target has a different connection method.
        SparkError: the server does not respond.
    """

    def __init__(self, target: Target) -> None:
        from dbt_common.exceptions import DbtBaseException

        if target.method not in ("thrift", "http"):
            raise ProfileError(
                f"Target `{target.name}` has a connection method that cannot cancel statements.",
                found=target.method,
                expected="`session`, `thrift` or `http`",
                instead="choose a target with one of these methods with `--target`",
            )
        super().__init__(target)
        try:
            # PyHive's connection can cancel statements.
            self._opened = self._connection.handle.handle
        except DbtBaseException as error:
            raise SparkError(dbt_message(error)) from error

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement, and return its rows as dictionaries by column name.

        Raises:
            SparkError: Spark rejects the statement, or the connection is lost.
            KeyboardInterrupt: the statement was cancelled.
        """
        from pyhive.exc import Error
        from thrift.Thrift import TException

        cursor = self._opened.cursor()
        try:
            with noted_interrupts() as interrupted:
                cursor.execute(statement, async_=True)
                pause = 0.02
                while not self._has_ended(cursor):
                    if interrupted.is_set():
                        cursor.cancel()
                        break
                    time.sleep(pause)
                    pause = min(1.0, pause * 1.5)
                if interrupted.is_set() or cursor.description is None:
                    return []
                names = [column[0] for column in cursor.description]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (Error, TException, OSError) as error:
            raise SparkError(_message(error)) from error
        finally:
            cursor.close()

    @staticmethod
    def _has_ended(cursor: Any) -> bool:
        from TCLIService.ttypes import TOperationState

        status = cursor.poll()
        if status.operationState in (TOperationState.ERROR_STATE, TOperationState.CANCELED_STATE):
            raise SparkError(headline(without_stack(status.errorMessage or "The statement was cancelled.")))
        return bool(status.operationState == TOperationState.FINISHED_STATE)


def _message(error: Exception) -> str:
    status = getattr(error.args[0] if error.args else None, "status", None)
    return headline(without_stack(getattr(status, "errorMessage", None) or str(error) or type(error).__name__))


def without_stack(text: str) -> str:
    """Return Spark's message without exception names and stack traces.

    SQL lines that the message quotes are kept.
    """
    found = re.sub(r"^.*?Error running query: (\[[\w.]+\] )?([\w.$]+(Exception|Error):\s+)*", "", text, flags=re.DOTALL)
    return re.split(r"\n\s+at [\w.$/]+\(|\n\s*Caused by: ", found)[0].strip() or text
