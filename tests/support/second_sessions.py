"""Open a second session, with its own in-memory catalog, in the Spark of a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def open_beside(
    session: SparkSession, settings: Mapping[str, str], jar: Path | None = None, extension: str | None = None
) -> SparkSession:
    """Open a second session, whose extensions include one more if it has a jar and a class name."""
    context = session.sparkContext
    jvm: Any = context._jvm
    with _extended(context, jar, extension):
        options = jvm.java.util.HashMap()
        for key, value in {**settings, "spark.sql.catalogImplementation": "in-memory"}.items():
            options.put(key, value)
        java = jvm.org.apache.spark.sql.classic.SparkSession(context._jsc.sc(), options)
        java.sessionState()
        with active_session(session):
            return SparkSession(context, jsparkSession=java)


@contextmanager
def _extended(context: Any, jar: Path | None, extension: str | None) -> Iterator[None]:
    if jar is None or extension is None:
        yield
        return
    jvm, conf, key = context._jvm, context._jsc.sc().conf(), "spark.sql.extensions"
    before, thread = conf.get(key, ""), jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    urls = context._gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.net.URI(jar.as_uri()).toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, loader))
    conf.set(key, ",".join(name for name in (before, extension) if name))
    try:
        yield
    finally:
        thread.setContextClassLoader(loader)
        conf.set(key, before) if before else conf.remove(key)


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make a session the active session of this thread inside the block, so that Spark uses its settings."""
    sessions: Any = session.sparkContext._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
