"""The extension's jar: compiled where it is used, against the Spark that will load it, once for each version of both.

Catalyst's classes change between versions of Spark, so that a jar fits one version only; Spark brings the Scala
compiler along, so that a Java runtime is enough to make it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

from spark_bucketing.errors import ExtensionError
from spark_bucketing.extension.spark_home import SparkHome, find_java, find_spark

SOURCES = Path(__file__).parent / "scala"
# A wheel brings the jars of the Spark versions that it was built for; the key in a jar's name says which.
PRECOMPILED = Path(__file__).parent / "jars"
CACHE_VARIABLE = "SPARK_BUCKETING_CACHE"
KNOWN_RELEASES = ("3.5", "4.0", "4.1", "4.2", "4.3")

# The one source that is not kept as a file: versions that are known when the jar is built.
_BUILT = """\
package org.apache.spark.sql.bucketing

/** What this jar was built from, and for. */
object Built {{
  val Version: String = {version}
  val Spark: String = {spark}
}}
"""


def build_jar(cache: Path | None = None) -> Path:
    """Return the extension's jar for the installed Spark, and compile it unless the package or the cache has it.

    Args:
        cache: folder of jars; None for the user's own, see cache_folder().

    Returns: the jar, named by Spark's version and a hash of Spark's jars and the sources.

    Raises:
        ExtensionError: Spark or Java is missing, the sources do not compile, or the folder cannot be written.
    """
    spark = find_spark()
    sources = sources_for(spark)
    plugin = version("spark-bucketing")
    name = f"spark-bucketing-{plugin}-spark-{spark.version}-{_digest(spark, sources)}.jar"
    if zipfile.is_zipfile(PRECOMPILED / name):
        return PRECOMPILED / name
    folder = cache or cache_folder()
    jar = folder / name
    # A power cut may leave a file without its content.
    if not zipfile.is_zipfile(jar):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Beside the jar, since only a rename within one file system is atomic: whoever looks sees no jar or all of
            # it, and of two that build at once the later replaces the earlier by its equal.
            with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as workshop:
                versions, built = Path(workshop) / "Built.scala", Path(workshop) / "extension.jar"
                versions.write_text(_BUILT.format(version=json.dumps(plugin), spark=json.dumps(spark.version)))
                _compile(spark, [*sources, versions], built)
                built.replace(jar)
        except OSError as error:
            raise ExtensionError(
                f"The jar cannot be written into {folder}: {error}. Name another folder in {CACHE_VARIABLE}."
            ) from error
    return jar.absolute()


def copy_jar(jar: Path, target: Path) -> Path:
    """Put a copy of the jar where its name stays the same from version to version.

    Args:
        jar: from build_jar().
        target: the copy's file.

    Raises:
        ExtensionError: the copy cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Never written in place: a Spark that runs may have the old one open.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as workshop:
            shutil.copyfile(jar, Path(workshop) / target.name).replace(target)
    except OSError as error:
        raise ExtensionError(f"The jar cannot be copied to {target}: {error}") from error
    return target.absolute()


def sources_for(spark: SparkHome) -> list[Path]:
    """The Scala sources for a version of Spark.

    What differs between versions is in folders named by the release from which it holds, `compat/4.0` for one: of the
    files of one name, the newest that is not newer than Spark.

    Args:
        spark: from find_spark(); a vendor's version counts as what it begins with.

    Raises:
        ExtensionError: the extension is not written for this version.
    """
    if spark.release not in KNOWN_RELEASES:
        raise ExtensionError(
            f"The extension does not know Spark {spark.version}, found in {spark.jars}. It is written for "
            f"{', '.join(KNOWN_RELEASES)}. Install a PySpark of one of these, or name its folder in SPARK_HOME."
        )
    common, by_name = [], {}
    for source in sorted(SOURCES.rglob("*.scala")):
        if not source.parent.name[0].isdigit():
            common.append(source)
        elif KNOWN_RELEASES.index(source.parent.name) <= KNOWN_RELEASES.index(spark.release):
            by_name[source.name] = source
    return [*common, *by_name.values()]


def cache_folder() -> Path:
    """Where jars are kept: SPARK_BUCKETING_CACHE, otherwise `spark-bucketing` in the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "spark-bucketing"
    except RuntimeError as error:
        raise ExtensionError(f"There is no folder to keep the jar in: {error} Name one in {CACHE_VARIABLE}.") from error


def _digest(spark: SparkHome, sources: list[Path]) -> str:
    digest = hashlib.sha256(_BUILT.encode())
    # Vendors build their own Spark under the same version; its jars differ in size at least.
    for jar in sorted(spark.jars.glob("spark-*.jar")):
        digest.update(f"{jar.name} {jar.stat().st_size}\n".encode())
    for source in sources:
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def _compile(spark: SparkHome, sources: list[Path], jar: Path) -> None:
    if not list(spark.jars.glob("scala-compiler-*.jar")):
        raise ExtensionError(
            f"{spark.jars} has no scala-compiler-*.jar, which comes with Spark and builds the extension."
        )
    command = [find_java(), "-cp", str(spark.jars / "*"), "scala.tools.nsc.Main", "-usejavacp", "-deprecation", "-d"]
    try:
        result = subprocess.run(
            [*command, str(jar), *map(str, sources)], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise ExtensionError(
            f"Java cannot be run: {error}. Install a Java runtime for this machine, or set JAVA_HOME."
        ) from error
    if result.returncode:
        output = (result.stdout + result.stderr).strip()
        raise ExtensionError(
            f"The extension does not compile against Spark {spark.version} of {spark.jars}. It needs Java 17 "
            f"or newer. The compiler says:\n{output}"
        )
