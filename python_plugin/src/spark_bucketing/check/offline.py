"""An embedded Spark for planning without a warehouse: nothing but hypothetical tables."""

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

# Settings of a target for its warehouse, or that need jars which are not here.
_LEFT_OUT = (
    "spark.sql.warehouse.dir", "spark.sql.extensions", "spark.sql.catalog.", "spark.sql.catalogImplementation",
    "spark.sql.defaultCatalog", "spark.sql.hive.metastore.", "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.", "spark.sql.ui.",
)  # fmt: skip
_PLANNER = ("spark.sql.", "spark.bucketing.")
_PARALLELISM = "spark.default.parallelism"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
# They would take the size of a table's partitions, of which there are none, for the size of the table.
_PARTITION_RULES = (
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
)
# Every name's relation stays in Spark's cache, where WhatIf has put it; and no table's buckets are read several as one
# for its being empty here.
_OF_WHATIF = {"spark.sql.filesourceTableRelationCacheSize": "1000000", "spark.bucketing.read.partitionBytes": "0"}


def planner_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Of a target's settings those that decide over plans, fit for an empty Spark."""
    kept = {key: value for key, value in settings.items() if key.startswith(_PLANNER) and not key.startswith(_LEFT_OUT)}
    rules = [rule.strip() for rule in kept.get(_EXCLUDED, "").split(",") if rule.strip()]
    return kept | {_EXCLUDED: ",".join([*rules, *(rule for rule in _PARTITION_RULES if rule not in rules)])}


def parallelism(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The cores that a target's Spark has, as a setting; none where its settings do not tell."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", settings.get("spark.master", "").strip())
    given = settings.get(_PARALLELISM)
    if given is None and local:
        given = str(os.cpu_count() or 1) if local[1] == "*" else local[1] or "1"
    return {} if given is None else {_PARALLELISM: given}


@contextmanager
def embedded_whatif(settings: Mapping[str, str], extension: bool) -> Iterator[WhatIf]:
    """Start a Spark that shares nothing with any warehouse; it is gone after the block.

    The session extension is loaded in any case, so that it can be tried out; where nobody asks for it, it is off.

    Raises:
        SparkError: Spark does not start, or this process has one already.
        ExtensionError: the extension is asked for and cannot be built.
    """
    _refuse_old_spark()
    if is_open():
        raise SparkError(
            "This process has a Spark session already, and planning without a warehouse needs one of its own: "
            "run spark-bucketing check in a process of its own."
        )
    jar = _built(extension)
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        session = open_session(_session_settings(Path(name), settings, jar) | _switched(extension), hive=False)
        session.sparkContext.setLogLevel("OFF")
        quiet_errors()
        try:
            yield WhatIf(session, Path(name) / "tables", jar is not None)
        finally:
            session.stop()


@contextmanager
def whatif_beside(session: SparkSession, extension: bool) -> Iterator[WhatIf]:
    """A planner in the Spark of a live session, which has the session extension or not, with none of its tables.

    Raises:
        SparkError: Spark does not make one.
    """
    _refuse_old_spark()
    settings = planner_settings({str(key): str(value) for key, value in session.conf.getAll.items()})
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        jar = None if extension else _built(False)
        own = settings | _OF_WHATIF | _switched(extension) | {"spark.sql.warehouse.dir": str(Path(name) / "warehouse")}
        beside = open_beside(session, own, jar, EXTENSION_CLASS if jar else None)
        yield WhatIf(beside, Path(name) / "tables", extension or jar is not None)


def _refuse_old_spark() -> None:
    if pyspark_version() < (4, 0):
        raise SparkError(
            f"Hypothetical tables cannot be planned with PySpark {'.'.join(map(str, pyspark_version()))}, "
            "which lacks the classes for it: install pyspark 4.0 or newer where spark-bucketing check runs. "
            "It may plan offline (--offline) for a warehouse whose Spark is older."
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
        # Nothing is run, so one thread is enough; the number of those that run the models decides over some joins.
        "spark.master": "local[1]",
        **parallelism(settings),
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Plans are made once each, too seldom for the best compiler.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
