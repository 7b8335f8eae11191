"""Build the extension's jar on the machine that uses it, once for each version of Spark and of the extension.

Catalyst's classes change between Spark versions, so a jar works with only one version of Spark. Spark includes the
Scala compiler, so building the extension requires only a Java runtime.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spark_bucketing.errors import ExtensionError
from spark_bucketing.extension.settings import EXTENSION_CLASS

SOURCES = Path(__file__).parent / "scala"
# A wheel contains jars for several Spark versions. The digest in a jar's name identifies the version.
PRECOMPILED = Path(__file__).parent / "jars"
CACHE_VARIABLE = "SPARK_BUCKETING_CACHE"
KNOWN_RELEASES = ("3.5", "4.0", "4.1", "4.2", "4.3")

# The build generates only this source, because the versions are known only at build time.
_BUILT = """\
package org.apache.spark.sql.bucketing

/** The versions of the extension and of Spark for which this jar was built. */
object Built {{
  val Version: String = {version}
  val Spark: String = {spark}
}}
"""


def build_jar(cache: Path | None = None) -> Path:
    """Return the extension's jar for the installed Spark, compiled unless this package or the cache has it."""
    spark = find_spark()
    sources = sources_for(spark)
    plugin = version("spark-bucketing")
    name = f"spark-bucketing-{plugin}-spark-{spark.version}-{_digest(spark, sources)}.jar"
    if zipfile.is_zipfile(PRECOMPILED / name):
        return PRECOMPILED / name
    folder = cache or cache_folder()
    jar = folder / name
    # A power failure can leave an empty file behind.
    if not zipfile.is_zipfile(jar):
        sentence = f"The jar cannot be written to the directory `{folder}`."
        instead = f"set `{CACHE_VARIABLE}` to another directory"
        with ExtensionError.replacing(OSError, sentence, "a directory that this user can write", instead):
            folder.mkdir(parents=True, exist_ok=True)
            # A rename is atomic only within one file system. Readers see either no jar or a complete one, and
            # concurrent builds replace each other's identical jar.
            with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as workshop:
                versions, built = Path(workshop) / "Built.scala", Path(workshop) / "extension.jar"
                versions.write_text(_BUILT.format(version=json.dumps(plugin), spark=json.dumps(spark.version)))
                _compile(spark, [*sources, versions], built)
                built.replace(jar)
    return jar.absolute()


def copy_jar(jar: Path, target: Path) -> Path:
    """Copy the jar to a path that stays the same for all versions."""
    expected, instead = "a path that this user can write", "choose another path with `--output`"
    with ExtensionError.replacing(OSError, f"The jar cannot be copied to `{target}`.", expected, instead):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Do not overwrite the jar in place, because a running Spark may have it open.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as workshop:
            shutil.copyfile(jar, Path(workshop) / target.name).replace(target)
    return target.absolute()


def is_other_build(entry: str, jar: Path) -> bool:
    """Return whether an entry of `spark.jars` is another build of the extension, such as one for another Spark version.

    A file that does not exist is another build if it has the name of a jar from build_jar(). A copy of the jar is not.
    """
    path = Path(unquote(urlsplit(entry).path) if entry.startswith("file:") else entry)
    if path == jar:
        return False
    if not zipfile.is_zipfile(path):
        return not path.exists() and path.name.startswith("spark-bucketing-")
    classes = _checksums(path)
    return EXTENSION_CLASS.replace(".", "/") + ".class" in classes and classes != _checksums(jar)


def _checksums(jar: Path) -> dict[str, int]:
    with zipfile.ZipFile(jar) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def sources_for(spark: SparkHome) -> list[Path]:
    """Return the Scala sources for a Spark version, including the newest compat/ sources that are not newer than it."""
    if spark.release not in KNOWN_RELEASES:
        raise ExtensionError(
            f"The session extension does not support Spark {spark.version}.",
            found=f"Spark {spark.version} in `{spark.jars}`",
            expected=f"one of the versions {', '.join(KNOWN_RELEASES)}",
            instead="install PySpark of one of these versions, or set `SPARK_HOME` to a Spark of one of these versions",
        )
    common, by_name = [], {}
    for source in sorted(SOURCES.rglob("*.scala")):
        if not source.parent.name[0].isdigit():
            common.append(source)
        elif KNOWN_RELEASES.index(source.parent.name) <= KNOWN_RELEASES.index(spark.release):
            by_name[source.name] = source
    return [*common, *by_name.values()]


def cache_folder() -> Path:
    """Return SPARK_BUCKETING_CACHE, or `spark-bucketing` in the user's cache directory."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    sentence = "The user's cache directory cannot be determined."
    instead = f"set `{CACHE_VARIABLE}` to a directory for the jar"
    with ExtensionError.replacing(RuntimeError, sentence, "a home directory", instead):
        return (Path(base) if base else Path.home() / ".cache") / "spark-bucketing"


def _digest(spark: SparkHome, sources: list[Path]) -> str:
    digest = hashlib.sha256(_BUILT.encode())
    # Vendors publish their own builds under Spark's version numbers. The jars of these builds differ at least in size.
    for jar in sorted(spark.jars.glob("spark-*.jar")):
        digest.update(f"{jar.name} {jar.stat().st_size}\n".encode())
    for source in sources:
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def _compile(spark: SparkHome, sources: list[Path], jar: Path) -> None:
    if not list(spark.jars.glob("scala-compiler-*.jar")):
        raise ExtensionError(
            f"The directory `{spark.jars}` contains no Scala compiler.",
            expected="`scala-compiler-*.jar`, which is part of Spark and builds the extension",
            instead="install Spark again, or set `SPARK_HOME` to a complete Spark",
        )
    # The compiler runs once and briefly: without the JVM's optimizing compiler, it takes half the time.
    java = [find_java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(spark.jars / "*")]
    command = [*java, "scala.tools.nsc.Main", "-usejavacp", "-deprecation", "-d"]
    expected, instead = "a Java runtime for this machine", "install Java 17 or newer, or set `JAVA_HOME`"
    with ExtensionError.replacing(OSError, "Java cannot be run.", expected, instead):
        result = subprocess.run(
            [*command, str(jar), *map(str, sources)], capture_output=True, text=True, errors="replace", check=False
        )
    if result.returncode:
        output = (result.stdout + result.stderr).strip()
        raise ExtensionError(
            f"The session extension does not compile against Spark {spark.version} in `{spark.jars}`.",
            found=f"this output of the compiler:\n{output}",
            expected="Java 17 or newer",
            instead="install a newer Java, or set `JAVA_HOME`",
        )


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
    """Find the Spark that PySpark would start: in SPARK_HOME, or else in PySpark's own package."""
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
    """Find the java command that Spark's scripts would run: in JAVA_HOME if it is set, or else in PATH."""
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
