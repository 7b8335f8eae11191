"""Open the Spark of a dbt target: a session of this process or of Spark Connect, or a connection to a server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from spark_bucketing.errors import ProfileError, SparkError, headline
from spark_bucketing.project.profile import Target, dbt_message
from spark_bucketing.session import SessionStatements, noted_interrupts, open_session, quiet_errors
from spark_bucketing.statements import Statements


@contextmanager
def opened(
    target: Target,
    on_progress: Callable[[str], None] = lambda _: None,
    on_tasks: Callable[[int, int], None] | None = None,
    session: Any = None,
) -> Iterator[Statements]:
    """Open the Spark of a target inside the block, with the target's own settings."""
    if session is None and target.method != "session":
        on_progress("connecting to the server")
        with closing(ServerStatements(target)) as remote:
            yield remote
        return
    on_progress("starting Spark")
    with (
        closing(SessionStatements(session or open_session(target.settings), on_tasks)) as statements,
        quiet_errors(),
    ):
        yield statements


def require_cancellation(target: Target) -> None:
    """Reject a target whose connection cannot cancel a statement, for commands that change tables."""
    if target.method not in ("session", "thrift", "http"):
        raise ProfileError(
            f"Target `{target.name}` has a connection method that cannot cancel statements.",
            found=target.method,
            expected="`session`, `thrift` or `http`",
            instead="choose a target with one of these methods with `--target`",
        )


class ServerStatements:
    """Runs statements with the method thrift, http or odbc; Ctrl-C cancels them, except with odbc."""

    def __init__(self, target: Target) -> None:
        from dbt.adapters.spark.connections import SparkConnectionManager
        from dbt.mp_context import get_mp_context
        from dbt_common.exceptions import DbtBaseException

        self.kind = target.method
        # dbt uses the profile's credentials and server_side_parameters.
        self._manager = SparkConnectionManager(target.loaded, get_mp_context())
        try:
            # The driver's connection can cancel statements, and polls more often than dbt's.
            self._opened = self._manager.set_connection_name("spark-bucketing").handle.handle
        except DbtBaseException as error:
            raise SparkError(without_stack(dbt_message(error))) from error

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement; see Statements."""
        cursor = self._opened.cursor()
        try:
            with noted_interrupts() as interrupted:
                if hasattr(cursor, "poll"):
                    cursor.execute(statement, async_=True)
                    pause = 0.02
                    while not _has_ended(cursor):
                        if interrupted.is_set():
                            cursor.cancel()
                            break
                        time.sleep(pause)
                        pause = min(1.0, pause * 1.5)
                else:
                    cursor.execute(statement)
                if interrupted.is_set() or cursor.description is None:
                    return []
                names = [column[0] for column in cursor.description]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except _driver_errors() as error:
            raise SparkError(_message(error)) from error
        finally:
            cursor.close()

    def close(self) -> None:
        """Close the connection, and its session on the server."""
        self._manager.cleanup_all()


def _has_ended(cursor: Any) -> bool:
    from TCLIService.ttypes import TOperationState

    status = cursor.poll()
    if status.operationState in (TOperationState.ERROR_STATE, TOperationState.CANCELED_STATE):
        raise SparkError(headline(without_stack(status.errorMessage or "The statement was cancelled.")))
    return bool(status.operationState == TOperationState.FINISHED_STATE)


def _driver_errors() -> tuple[type[Exception], ...]:
    from pyhive.exc import Error
    from thrift.Thrift import TException

    try:
        from pyodbc import Error as OdbcError
    except ImportError:
        return Error, TException, OSError
    return Error, TException, OSError, OdbcError


def _message(error: Exception) -> str:
    status = getattr(error.args[0] if error.args else None, "status", None)
    return headline(without_stack(getattr(status, "errorMessage", None) or str(error) or type(error).__name__))


def without_stack(text: str) -> str:
    """Return Spark's message without exception names and stack traces. SQL lines that the message quotes are kept."""
    found = re.sub(r"^.*?Error running query: (\[[\w.]+\] )?([\w.$]+(Exception|Error):\s+)*", "", text, flags=re.DOTALL)
    return re.split(r"\n\s+at [\w.$/]+\(|\n\s*Caused by: ", found)[0].strip() or text
