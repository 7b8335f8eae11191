"""Start an embedded Spark session for a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings
from spark_bucketing.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(folder: Path, settings: Mapping[str, str], *, extension: bool = True) -> SparkSession:
    """Start an embedded Spark session with its warehouse and metastore in this directory.

    Args:
        folder: directory for the warehouse and the metastore.
        settings: settings that override the default settings.
        extension: whether the session has the session extension.
    """
    spark = open_session(
        {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.hadoop.hive.downloaded.resources.dir": str(folder / "resources"),
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder}",
            **(extension_settings(build_jar()) if extension else {}),
            **settings,
        }
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def two_core_session(folder: Path, memory: str, shuffle_partitions: int, *, extension: bool = True) -> SparkSession:
    """Start a session on two cores, whose metastore does not wait for the disk.

    Args:
        folder: directory for the warehouse and the metastore.
        memory: heap of the driver, e.g. `4g`.
        shuffle_partitions: number of tasks after a shuffle.
        extension: whether the session has the session extension.
    """
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Dderby.system.durability=test",
    }
    return session(folder, settings, extension=extension)
