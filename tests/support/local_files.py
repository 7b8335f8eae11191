"""Build the local file system and a function for the tests, and hold one of its operations while another statement runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from spark_subprocess import SMALL_DEFAULTS

from spark_bucketing.extension.build import build_jar, cache_folder, find_java, find_spark

# A test runs ManyFiles as a program.
SOURCES = sorted(path for path in Path(__file__).parent.glob("*.scala") if path.stem != "ManyFiles")
CLASS = "org.apache.spark.sql.bucketing.support.TestFileSystem"
SECONDS = 120


def build_jars() -> None:
    """Compile the session extension and the classes for the tests, before several processes need them."""
    build_jar()
    _built()


def file_system_settings() -> dict[str, str]:
    """Return the settings with which a new Spark uses this file system for local files."""
    class_path = os.pathsep.join(map(str, (_built(), SMALL_DEFAULTS)))
    return {"spark.driver.extraClassPath": class_path, "spark.hadoop.fs.file.impl": CLASS}


def _built() -> Path:
    spark = find_spark()
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:12]
    jar = cache_folder() / f"test-files-{spark.version}-{digest}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as workshop:
            made = Path(workshop) / jar.name
            compiler = [find_java(), "-cp", f"{spark.jars}/*", "scala.tools.nsc.Main", "-usejavacp"]
            subprocess.run([*compiler, "-d", str(made), *map(str, SOURCES)], check=True)
            made.replace(jar)
    return jar.absolute()


class Held:
    """A rename or deletion that waits until open() is called."""

    def __init__(self, files: Any, pattern: str) -> None:
        self.files, self.pattern = files, pattern
        self.java = files.hold(pattern)

    def await_reached(self) -> None:
        assert self.java.awaitReached(SECONDS), "no operation matched the pattern"

    def open(self) -> None:
        self.java.open()

    def open_once(self) -> None:
        """Let this operation run, and hold the next one."""
        opened, self.java = self.java, self.files.hold(self.pattern)
        opened.open()


def _file_system(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm.org.apache.spark.sql.bucketing.support.TestFileSystem  # type: ignore[union-attr]


@contextmanager
def _set(function: Callable[[str], None], pattern: str) -> Iterator[None]:
    function(pattern)
    try:
        yield
    finally:
        function("(?!)")


def vanishing(spark: SparkSession, pattern: str) -> AbstractContextManager[None]:
    """Delete each directory whose path matches a Java pattern while it is listed, as another session could."""
    return _set(_file_system(spark).vanish, pattern)


def denied(spark: SparkSession, pattern: str) -> AbstractContextManager[None]:
    """Deny to list directories whose path matches a Java pattern."""
    return _set(_file_system(spark).deny, pattern)


def failing(spark: SparkSession, pattern: str) -> AbstractContextManager[None]:
    """Let the first operation that matches a Java pattern fail."""
    return _set(_file_system(spark).fail, pattern)


@contextmanager
def held(spark: SparkSession, pattern: str) -> Iterator[Held]:
    """Hold the first operation that matches a Java pattern, such as `rename file:/w/t/a`; release it at the end."""
    files = _file_system(spark)
    operation = Held(files, pattern)
    try:
        yield operation
    finally:
        operation.open()
        files.hold("(?!)")


@contextmanager
def while_held(spark: SparkSession, pattern: str, run: Callable[..., Any], *arguments: Any) -> Iterator[Future[Any]]:
    """Run a statement in another thread, which waits before its first operation that matches until the block ends.

    An error of the statement is raised after the block.
    """
    with ThreadPoolExecutor(1) as pool:
        with held(spark, pattern) as operation:
            statement = pool.submit(run, *arguments)
            operation.await_reached()
            yield statement
        statement.result()
