"""Start an embedded Spark that has only hypothetical tables, to plan queries without a warehouse."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spark_bucketing.check.session_settings import ENABLED
from spark_bucketing.errors import ExtensionError, SparkError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import EXTENSION_CLASS, extension_settings
from spark_bucketing.plan.whatif import WhatIf
from spark_bucketing.session import is_open, open_beside, open_session, pyspark_version, quiet_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Prefixes of a target's settings that refer to its warehouse or require jars that are missing here.
_LEFT_OUT = (
    "spark.sql.warehouse.dir", "spark.sql.extensions", "spark.sql.catalog.", "spark.sql.catalogImplementation",
    "spark.sql.defaultCatalog", "spark.sql.hive.metastore.", "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.", "spark.sql.ui.",
)  # fmt: skip
_PLANNER = ("spark.sql.", "spark.bucketing.")
_PARALLELISM = "spark.default.parallelism"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
# These rules would replace a table's size with the size of its partitions, which do not exist here.
_PARTITION_RULES = (
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
)
# WhatIf puts relations into Spark's cache, where they must stay. Spark must not combine buckets just because the
# tables are empty.
_OF_WHATIF = {"spark.sql.filesourceTableRelationCacheSize": "1000000", "spark.bucketing.read.partitionBytes": "0"}


def planner_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those settings of the target that affect plans, adapted to a Spark without data."""
    kept = {key: value for key, value in settings.items() if key.startswith(_PLANNER) and not key.startswith(_LEFT_OUT)}
    rules = [rule.strip() for rule in kept.get(_EXCLUDED, "").split(",") if rule.strip()]
    return kept | {_EXCLUDED: ",".join([*rules, *(rule for rule in _PARTITION_RULES if rule not in rules)])}


def parallelism(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return a setting with the number of cores of the target's Spark, if the target's settings determine it."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", settings.get("spark.master", "").strip())
    given = settings.get(_PARALLELISM)
    if given is None and local:
        given = str(os.cpu_count() or 1) if local[1] == "*" else local[1] or "1"
    return {} if given is None else {_PARALLELISM: given}


@contextmanager
def embedded_whatif(settings: Mapping[str, str], extension: bool) -> Iterator[WhatIf]:
    """Start a Spark that has no connection to any warehouse, and stop it at the end of the block.

    The session always loads the extension, so that testing a fix can enable it. The extension is disabled unless
    requested.

    Raises:
        SparkError: Spark does not start, or this process already has a Spark.
        ExtensionError: the extension is requested but cannot be built.
    """
    _refuse_old_spark()
    if is_open():
        raise SparkError(
            "Planning without a warehouse requires a separate Spark session.",
            found="a Spark session in this process",
            expected="a process without a session",
            instead="run `spark-bucketing check` in a separate process",
        )
    jar = _built(extension)
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        session = open_session(_session_settings(Path(name), settings, jar) | _switched(extension), hive=False)
        session.sparkContext.setLogLevel("OFF")
        quiet_errors()
        try:
            yield WhatIf(session, Path(name) / "tables")
        finally:
            session.stop()


@contextmanager
def whatif_beside(session: SparkSession, extension: bool) -> Iterator[WhatIf]:
    """Create a separate session without tables in a live session's Spark, with or without the extension.

    Raises:
        SparkError: Spark cannot create the session.
    """
    _refuse_old_spark()
    settings = planner_settings({str(key): str(value) for key, value in session.conf.getAll.items()})
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        jar = None if extension else _built(False)
        own = settings | _OF_WHATIF | _switched(extension) | {"spark.sql.warehouse.dir": str(Path(name) / "warehouse")}
        beside = open_beside(session, own, jar, EXTENSION_CLASS if jar else None)
        yield WhatIf(beside, Path(name) / "tables")


def _refuse_old_spark() -> None:
    if pyspark_version() < (4, 0):
        raise SparkError(
            "This version of PySpark cannot plan over hypothetical tables.",
            found=f"PySpark {'.'.join(map(str, pyspark_version()))}",
            expected="PySpark 4.0 or newer",
            instead="install a newer `pyspark` to run `spark-bucketing check`; with `--offline`, it can also "
            "check a project whose warehouse has an older Spark version",
        )


def _built(needed: bool) -> Path | None:
    try:
        return build_jar()
    except ExtensionError:
        if needed:
            raise
        return None


def _switched(extension: bool) -> dict[str, str]:
    return {} if extension else {ENABLED: "false"}


def _session_settings(folder: Path, settings: Mapping[str, str], jar: Path | None) -> dict[str, str]:
    return {
        **planner_settings(settings),
        **(extension_settings(jar) if jar else {}),
        **_OF_WHATIF,
        # Nothing is executed, so one thread suffices; the number of cores that models run on affects some joins.
        "spark.master": "local[1]",
        **parallelism(settings),
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Each query is planned only once, so the optimizing compiler does not pay off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
