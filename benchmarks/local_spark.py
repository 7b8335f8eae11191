"""Start an embedded Spark session for a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark_bucketing.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """Start an embedded Spark session with its warehouse and metastore in this directory."""
    spark = open_session(
        {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.hadoop.hive.downloaded.resources.dir": str(folder / "resources"),
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder}",
            **settings,
        }
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark
