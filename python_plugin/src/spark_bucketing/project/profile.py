"""The target of a dbt profile, read by dbt itself; the only module that imports dbt."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_bucketing.errors import ProfileError


@dataclass(frozen=True)
class SessionTarget:
    """A target whose Spark runs in the same process: its name, its schema and its Spark settings."""

    name: str
    schema: str
    settings: Mapping[str, str]


def session_target(project_dir: Path | None, profiles_dir: Path | None, target: str | None) -> SessionTarget:
    """Read the target that dbt would use for this project.

    Args:
        project_dir: folder of dbt_project.yml; None for where dbt looks.
        profiles_dir: folder of profiles.yml; None for where dbt looks.
        target: name of the target; None for the profile's default.

    Raises:
        ProfileError: dbt is not installed, cannot read the project or the profile, or the method is not session.
    """
    try:
        from dbt.cli.resolvers import default_profiles_dir, default_project_dir
        from dbt.config.runtime import load_profile
        from dbt.flags import set_from_args
        from dbt_common.context import set_invocation_context
        from dbt_common.exceptions import DbtRuntimeError
    except ImportError as error:
        raise ProfileError(
            f"Reading a dbt profile needs dbt ({error}). Install it: pip install 'spark-bucketing[dbt]'"
        ) from error

    project_dir = project_dir or default_project_dir()
    profiles_dir = profiles_dir or default_profiles_dir()
    set_from_args(Namespace(PROFILES_DIR=str(profiles_dir)), None)
    set_invocation_context(os.environ)
    try:
        profile = load_profile(str(project_dir), {}, target_override=target)
    except DbtRuntimeError as error:
        message = f"dbt cannot read the target from {project_dir} and {profiles_dir}: {str(error.msg).strip()}"
        raise ProfileError(message) from error
    credentials = profile.credentials
    method = str(getattr(credentials, "method", credentials.type))
    if method != "session":
        raise ProfileError(
            f"Target {profile.target_name!r} has the connection method {method!r}, and this command starts Spark "
            "itself: choose a target with method 'session' with --target."
        )
    return SessionTarget(profile.target_name, credentials.schema, credentials.server_side_parameters)
