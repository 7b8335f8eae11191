"""Start an embedded Spark that has only stub tables, to plan queries without a warehouse."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from spark_bucketing.check.session_settings import ENABLED
from spark_bucketing.errors import SparkError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings
from spark_bucketing.plan.planner import STUB_SETTINGS, StubPlanner
from spark_bucketing.session import is_open, open_session, quiet_errors, rows_of
from spark_bucketing.table import sql

# Prefixes of a target's settings that refer to its warehouse or require jars that are missing here.
_LEFT_OUT = (
    "spark.sql.warehouse.dir", "spark.sql.extensions", "spark.sql.catalog.", "spark.sql.catalogImplementation",
    "spark.sql.defaultCatalog", "spark.sql.hive.metastore.", "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.", "spark.sql.ui.",
)  # fmt: skip
_PLANNER = ("spark.sql.", "spark.bucketing.")
_PARALLELISM = "spark.default.parallelism"


def planner_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those settings of the target that affect plans, adapted to a Spark without data."""
    return {key: value for key, value in settings.items() if key.startswith(_PLANNER) and not key.startswith(_LEFT_OUT)}


def parallelism(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return a setting with the number of cores of the target's Spark, if the target's settings determine it."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", settings.get("spark.master", "").strip())
    given = settings.get(_PARALLELISM)
    if given is None and local:
        given = str(os.cpu_count() or 1) if local[1] == "*" else local[1] or "1"
    return {} if given is None else {_PARALLELISM: given}


@contextmanager
def embedded_planner(settings: Mapping[str, str], extension: bool, schema: str) -> Iterator[StubPlanner]:
    """Start a Spark that has no connection to any warehouse, and stop it at the end of the block.

    The session always loads the extension, which plans over stub tables. The extension's reads are disabled unless
    requested.

    Raises:
        SparkError: Spark does not start, or this process already has a Spark.
        ExtensionError: the extension cannot be built.
    """
    if is_open():
        raise SparkError(
            "Planning without a warehouse requires a separate Spark session.",
            found="a Spark session in this process",
            expected="a process without a session",
            instead="run `spark-bucketing check` in a separate process",
        )
    own = {} if extension else {ENABLED: "false"}
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        session = open_session(_session_settings(Path(name), settings, build_jar()) | own, hive=False)
        try:
            with quiet_errors():
                planner = StubPlanner("offline", partial(rows_of, session), settings={})
                if schema:
                    planner.rows(f"create schema if not exists {sql.name(schema)}")
                    planner.rows(f"use {sql.name(schema)}")
                yield planner
        finally:
            session.stop()


def _session_settings(folder: Path, settings: Mapping[str, str], jar: Path) -> dict[str, str]:
    return {
        **planner_settings(settings),
        **extension_settings(jar),
        **STUB_SETTINGS,
        # Nothing is executed, so one thread suffices; the number of cores that models run on affects some joins.
        "spark.master": "local[1]",
        **parallelism(settings),
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Each query is planned only once, so the optimizing compiler does not pay off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
