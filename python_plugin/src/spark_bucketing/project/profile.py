"""The target of a dbt profile, read by dbt itself."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_bucketing.errors import ProfileError


@dataclass(frozen=True)
class Target:
    """A target of any connection method, and the folders that it was read from."""

    name: str  # the target's
    schema: str  # where its models go
    method: str  # of the connection: session, thrift, http, odbc
    settings: Mapping[str, str]  # its server_side_parameters
    profile: str  # name of the profile
    project_dir: Path  # folder of dbt_project.yml, absolute
    profiles_dir: Path  # folder of profiles.yml, absolute
    loaded: Any = field(default=None, repr=False, compare=False)  # dbt's own object, for opening connections


@dataclass(frozen=True)
class Place:
    """Where dbt finds a project, its profile and the target; None for where it looks by itself."""

    project_dir: Path | None = None
    profiles_dir: Path | None = None
    target: str | None = None


def session_target(place: Place) -> Target:
    """Read the target that dbt would use for this project, for a command that starts Spark itself.

    Raises:
        ProfileError: dbt is not installed, cannot read the project or the profile, or the method is not session.
    """
    found = read_target(place)
    if found.method != "session":
        raise ProfileError(
            f"Target {found.name!r} has the connection method {found.method!r}, and this command starts Spark "
            "itself: choose a target with method 'session' with --target."
        )
    return found


def read_target(place: Place, variables: str = "{}") -> Target:
    """Read the target that dbt would use for this project, whatever its connection is.

    Raises:
        ProfileError: dbt is not installed, or cannot read the project, the profile or the variables.
    """
    try:
        from dbt.cli.resolvers import default_profiles_dir, default_project_dir

        project_dir = place.project_dir or default_project_dir()
        profiles_dir = place.profiles_dir or default_profiles_dir()
        profile = _profile(project_dir, profiles_dir, place.target, variables)
    except ImportError as error:
        raise ProfileError(
            f"Reading a dbt profile needs dbt ({error}). Install it: pip install 'spark-bucketing[dbt]'"
        ) from error
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

    # Outside of its own commands dbt logs on standard output, which is the report's.
    cleanup_event_logger()
    set_from_args(Namespace(PROFILES_DIR=str(profiles_dir)), None)
    set_invocation_context(os.environ)
    try:
        return load_profile(str(project_dir), parse_cli_vars(variables), target_override=target)
    except DbtBaseException as error:
        raise ProfileError(
            f"dbt cannot read the target from {project_dir} and {profiles_dir}: {dbt_message(error)}"
        ) from error
    # dbt leaves a file that is no UTF-8 to Python.
    except UnicodeDecodeError as error:
        raise ProfileError(
            f"dbt_project.yml in {project_dir} or profiles.yml in {profiles_dir} is no UTF-8: {error}. Save it as such."
        ) from error


def dbt_message(error: Exception) -> str:
    """What an error of dbt says, without what it prints around it."""
    return str(getattr(error, "msg", error)).strip() or type(error).__name__
