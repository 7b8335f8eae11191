"""Read the target of a dbt profile, using dbt itself."""

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
