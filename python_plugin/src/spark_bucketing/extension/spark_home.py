"""The Spark that PySpark starts here, and the Java that runs it; found without starting either."""

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
    """A Spark installation: the folder of its jars, and the version that they have."""

    jars: Path
    version: str

    @property
    def release(self) -> str:
        """The first two numbers of the version, such as 4.3."""
        return ".".join(self.version.split(".")[:2])


def find_spark() -> SparkHome:
    """Find the Spark that PySpark would start: the one that SPARK_HOME names, otherwise PySpark's own.

    Raises:
        ExtensionError: there is none, or it is not complete.
    """
    named = os.environ.get("SPARK_HOME")
    if named:
        return _read_home(Path(named), "SPARK_HOME")
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ExtensionError("PySpark is not installed. Install it: pip install pyspark")
    package = Path(spec.origin).parent
    # PySpark puts another distribution there when it was installed with PYSPARK_HADOOP_VERSION, and prefers it.
    other = package / "spark-distribution"
    return _read_home(other if (other / "jars").is_dir() else package, "PySpark")


def find_java() -> str:
    """Find the java that Spark's own scripts would run: the one in JAVA_HOME, otherwise the one in PATH.

    Raises:
        ExtensionError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "JAVA_HOME is not set, and PATH has no java"
        raise ExtensionError(f"Java was not found: {where}. Install a Java runtime, 17 or newer, or set JAVA_HOME.")
    return java


def _read_home(home: Path, source: str) -> SparkHome:
    jars = home / "jars"
    cores = sorted(jars.glob("spark-core_*.jar"))
    if not cores:
        raise ExtensionError(f"{source} has no Spark: there is no spark-core_*.jar in {jars}.")
    match = re.fullmatch(r"spark-core_[\d.]+-(.+)", cores[-1].stem)
    if match is None:
        raise ExtensionError(f"The version of Spark cannot be read from the name of {cores[-1]}.")
    return SparkHome(jars, match[1])
