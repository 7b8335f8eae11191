"""The settings that switch the extension on, in the forms in which people write Spark's settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

EXTENSION_CLASS = "org.apache.spark.sql.bucketing.BucketingExtension"


def extension_settings(jar: Path) -> dict[str, str]:
    """Spark settings that load the extension when a session starts.

    Args:
        jar: the extension's jar, from build_jar().
    """
    return {"spark.jars": str(jar), "spark.sql.extensions": EXTENSION_CLASS}


def server_settings(jar: Path) -> dict[str, str]:
    """Spark settings that load the extension into any driver, a Thrift Server among them.

    Hive closes the class loader of spark.jars together with the first session of a server that ends: what was not
    loaded by then never is. The driver's own class path stays.

    Args:
        jar: the extension's jar, from build_jar(), which is to be there when the driver starts.
    """
    return {**extension_settings(jar), "spark.driver.extraClassPath": str(jar)}


def as_properties(settings: Mapping[str, str]) -> str:
    """Lines for spark-defaults.conf, or any other properties file."""
    return "\n".join(f"{key}={value}" for key, value in settings.items())


def as_options(settings: Mapping[str, str]) -> str:
    """Options for spark-submit, spark-sql, pyspark or start-thriftserver.sh, quoted for a shell."""
    return " ".join(f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items())


def as_profile(settings: Mapping[str, str]) -> str:
    """A block for a target of profiles.yml whose method is session."""
    # A JSON string is a YAML string, whatever is in it.
    lines = [f"  {key}: {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["server_side_parameters:", *lines])


FORMATS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "properties": as_properties,
    "conf": as_options,
    "profiles": as_profile,
}
