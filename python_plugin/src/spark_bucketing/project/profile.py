"""Read the target of a dbt profile, using dbt itself, and open its Spark.

The Spark is a session of this process or of Spark Connect, or a connection to a server.
"""

from __future__ import annotations

import os
import re
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_bucketing.errors import ProfileError, SparkError, headline
from spark_bucketing.session import SessionStatements, noted_interrupts, open_session, quiet_errors
from spark_bucketing.sql import Statements


@dataclass(frozen=True)
class Target:
    """A target with any connection method, and the directories of its project and profile."""

    name: str  # name of the target
    schema: str  # schema of its models
    method: str  # connection method: session, thrift, http, odbc
    settings: Mapping[str, str]  # its server_side_parameters
    profile: str  # name of the profile
    project_dir: Path  # directory of dbt_project.yml, absolute
    profiles_dir: Path  # directory of profiles.yml, absolute
    loaded: Any = field(default=None, repr=False, compare=False)  # dbt's own object, for opening connections


@dataclass(frozen=True)
class Place:
    """The options that select a project, its profile and a target. None stands for dbt's default."""

    project_dir: Path | None = None
    profiles_dir: Path | None = None
    target: str | None = None


def read_target(place: Place, variables: str = "{}") -> Target:
    """Read the target that dbt would use, whatever its connection method."""
    sentence, instead = "Reading a dbt profile requires dbt.", "pip install 'spark-bucketing[dbt]'"
    with ProfileError.replacing(ImportError, sentence, "dbt-core and dbt-spark in this Python", instead):
        from dbt.cli.resolvers import default_profiles_dir, default_project_dir

        project_dir = place.project_dir or default_project_dir()
        profiles_dir = place.profiles_dir or default_profiles_dir()
        profile = _profile(project_dir, profiles_dir, place.target, variables)
    credentials = profile.credentials
    return Target(
        name=profile.target_name,
        schema=credentials.schema,
        method=str(getattr(credentials, "method", credentials.type)),
        settings={key: str(value) for key, value in getattr(credentials, "server_side_parameters", {}).items()},
        profile=profile.profile_name,
        project_dir=project_dir.absolute(),
        profiles_dir=profiles_dir.absolute(),
        loaded=profile,
    )


def _profile(project_dir: Path, profiles_dir: Path, target: str | None, variables: str) -> Any:
    from dbt.config.runtime import load_profile
    from dbt.config.utils import parse_cli_vars
    from dbt.flags import set_from_args
    from dbt_common.context import set_invocation_context
    from dbt_common.events.event_manager_client import cleanup_event_logger
    from dbt_common.exceptions import DbtBaseException

    # Outside its own commands, dbt logs to standard output, where the report goes.
    cleanup_event_logger()
    set_from_args(Namespace(PROFILES_DIR=str(profiles_dir)), None)
    set_invocation_context(os.environ)
    try:
        return load_profile(str(project_dir), parse_cli_vars(variables), target_override=target)
    except DbtBaseException as error:
        raise ProfileError(
            f"dbt cannot read the target from `{project_dir}` and `{profiles_dir}`.",
            found=dbt_message(error),
            expected="a `dbt_project.yml` and a `profiles.yml` that dbt accepts",
            instead="run `dbt debug` in the project",
        ) from error
    # For a file that is not UTF-8, dbt raises Python's error.
    except UnicodeDecodeError as error:
        raise ProfileError(
            f"`dbt_project.yml` in `{project_dir}` or `profiles.yml` in `{profiles_dir}` is not valid UTF-8.",
            found=error,
            expected="text in UTF-8",
            instead="save the file as UTF-8",
        ) from error


def dbt_message(error: Exception) -> str:
    """Return the message of a dbt error without the heading that dbt adds."""
    return str(getattr(error, "msg", error)).strip() or type(error).__name__


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
    session = session or open_session(target.settings)
    with closing(SessionStatements(session, on_tasks)) as statements, quiet_errors():
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
