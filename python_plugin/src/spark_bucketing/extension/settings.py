"""Format the settings that enable the extension, for Spark's configuration files and command-line options."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

EXTENSION_CLASS = "org.apache.spark.sql.bucketing.BucketingExtension"


def extension_settings(jar: Path) -> dict[str, str]:
    """Return the Spark settings that load the extension when a session starts."""
    return {"spark.jars": str(jar), "spark.sql.extensions": EXTENSION_CLASS}


def server_settings(jar: Path) -> dict[str, str]:
    """Return the settings that load the extension in any driver, including a Thrift Server.

    When the first session of a Thrift Server ends, Hive closes the class loader for spark.jars, but not the class path.
    """
    return {**extension_settings(jar), "spark.driver.extraClassPath": str(jar)}


def event_log_settings(folder: str) -> dict[str, str]:
    """Return the settings that make Spark write event logs for `spark-bucketing report` into an existing directory."""
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder, "spark.eventLog.compress": "true"}


def as_properties(settings: Mapping[str, str]) -> str:
    """Return the settings as lines for spark-defaults.conf or any other properties file."""
    return "\n".join(f"{key}={value}" for key, value in settings.items())


def as_options(settings: Mapping[str, str]) -> str:
    """Return the settings as options, quoted for a shell, for spark-submit, spark-sql or start-thriftserver.sh."""
    return " ".join(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items())


def as_profile(settings: Mapping[str, str]) -> str:
    """Return the settings as YAML for a target of profiles.yml that uses the method session."""
    # Every JSON string is a valid YAML string.
    lines = [f"  {key}: {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["server_side_parameters:", *lines])


FORMATS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "properties": as_properties,
    "conf": as_options,
    "profiles": as_profile,
}
