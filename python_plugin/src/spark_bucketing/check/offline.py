"""An embedded Spark with a metastore of its own, in memory, for planning without a warehouse."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spark_bucketing.check.session_planner import SessionPlanner
from spark_bucketing.errors import SparkError
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import EXTENSION_CLASS, extension_settings
from spark_bucketing.session import is_open, open_session

# Settings of a target that say where its warehouse is, or that need jars which are not here.
_LEFT_OUT = (
    "spark.sql.warehouse.dir",
    "spark.sql.extensions",
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.defaultCatalog",
    "spark.sql.hive.metastore.",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.",
    "spark.sql.ui.",
)
_PLANNER = ("spark.sql.", "spark.bucketing.")
_PARALLELISM = "spark.default.parallelism"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
# They would take the size of a shadow's partitions, of which there are none, for the size of the table.
_PARTITION_RULES = (
    "org.apache.spark.sql.execution.datasources.PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
)


def uses_extension(settings: Mapping[str, str]) -> bool:
    """Whether a target's settings load the session extension."""
    return EXTENSION_CLASS in settings.get("spark.sql.extensions", "")


def planner_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Of a target's settings those that decide over plans, fit for an empty Spark.

    Args:
        settings: the target's server_side_parameters.
    """
    kept = {key: value for key, value in settings.items() if key.startswith(_PLANNER) and not key.startswith(_LEFT_OUT)}
    rules = [rule.strip() for rule in kept.get(_EXCLUDED, "").split(",") if rule.strip()]
    return kept | {_EXCLUDED: ",".join([*rules, *(rule for rule in _PARTITION_RULES if rule not in rules)])}


def parallelism(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The cores that a target's Spark has, as a setting; none where its settings do not tell.

    Args:
        settings: the target's server_side_parameters.
    """
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", settings.get("spark.master", "").strip())
    given = settings.get(_PARALLELISM)
    if given is None and local:
        given = str(os.cpu_count() or 1) if local[1] == "*" else local[1] or "1"
    return {} if given is None else {_PARALLELISM: given}


@contextmanager
def offline_planner(settings: Mapping[str, str], extension: bool) -> Iterator[SessionPlanner]:
    """Start a Spark that shares nothing with any warehouse; it is gone after the block.

    Args:
        settings: the target's server_side_parameters.
        extension: load the session extension, which is built when it has to be.

    Raises:
        SparkError: Spark does not start, or this process has one already.
        ExtensionError: the extension cannot be built.
    """
    if is_open():
        raise SparkError(
            "This process has a Spark session already, and --offline needs one with a metastore of its own: "
            "run spark-bucketing check in a process of its own."
        )
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-", ignore_cleanup_errors=True) as name:
        session = open_session(_session_settings(Path(name), settings, extension))
        session.sparkContext.setLogLevel("OFF")
        try:
            yield SessionPlanner("offline", session)
        finally:
            session.stop()


def _session_settings(home: Path, settings: Mapping[str, str], extension: bool) -> Mapping[str, str]:
    return {
        **planner_settings(settings),
        **(extension_settings(build_jar()) if extension else {}),
        # Nothing is run, so one thread is enough; the number of those that run the models decides over some joins.
        "spark.master": "local[1]",
        **parallelism(settings),
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(home / "local"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{home.name};create=true",
        "spark.hadoop.hive.downloaded.resources.dir": str(home / "resources"),
        "spark.hadoop.hive.exec.scratchdir": str(home / "hive"),
        "spark.driver.extraJavaOptions": f'"-Dderby.system.home={home}" -XX:-UsePerfData',
    }
