"""Locate the Spark that PySpark would start and the Java that would run it, without starting either."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from spark_bucketing.errors import ExtensionError


@dataclass(frozen=True)
class SparkHome:
    """A Spark installation: the directory that contains its jars, and its version."""

    jars: Path
    version: str

    @property
    def release(self) -> str:
        """Return the first two numbers of the Spark version, such as 4.3."""
        return ".".join(self.version.split(".")[:2])


def find_spark() -> SparkHome:
    """Find the Spark that PySpark would start.

    PySpark starts the Spark in SPARK_HOME if this variable is set, otherwise the Spark in its own package.

    Raises:
        ExtensionError: Spark is missing or incomplete.
    """
    named = os.environ.get("SPARK_HOME")
    if named:
        return _read_home(Path(named), "SPARK_HOME")
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ExtensionError(
            "PySpark is not installed.", expected="PySpark in this Python", instead="pip install pyspark"
        )
    package = Path(spec.origin).parent
    # With PYSPARK_HADOOP_VERSION, PySpark installs another distribution in this directory and prefers it.
    other = package / "spark-distribution"
    return _read_home(other if (other / "jars").is_dir() else package, "PySpark")


def find_java() -> str:
    """Find the java command that Spark's scripts would run.

    The scripts run the java command in JAVA_HOME if this variable is set, otherwise the first java command in PATH.

    Raises:
        ExtensionError: neither JAVA_HOME nor PATH contains Java.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = (
            f"JAVA_HOME is {home}, which does not contain bin/java"
            if home
            else "JAVA_HOME is not set, and PATH does not contain java"
        )
        raise ExtensionError(
            "Java was not found.", found=where, expected="Java 17 or newer", instead="install it, or set `JAVA_HOME`"
        )
    return java


def _read_home(home: Path, source: str) -> SparkHome:
    jars = home / "jars"
    cores = sorted(jars.glob("spark-core_*.jar"))
    if not cores:
        raise ExtensionError(
            f"{source} does not contain Spark.",
            found=f"no `spark-core_*.jar` in `{jars}`",
            expected="the directory of a Spark distribution",
            instead="set `SPARK_HOME` to such a directory, or unset it to use PySpark",
        )
    match = re.fullmatch(r"spark-core_[\d.]+-(.+)", cores[-1].stem)
    if match is None:
        raise ExtensionError(
            f"The Spark version cannot be read from the file name `{cores[-1]}`.",
            expected="a name such as `spark-core_2.13-4.3.0.jar`",
            instead="set `SPARK_HOME` to an unchanged Spark distribution",
        )
    return SparkHome(jars, match[1])
