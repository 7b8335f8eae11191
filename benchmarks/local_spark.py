"""Start an embedded Spark session for a benchmark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


@contextmanager
def temporary_session(
    memory: str, settings: Mapping[str, str], *, extension: bool = True, durable: bool = False
) -> Iterator[tuple[SparkSession, Path]]:
    """Start a session on two cores, and yield it with the directory of its warehouse, which is deleted afterwards.

    Args:
        memory: heap of the driver, e.g. `4g`.
        settings: further settings.
        extension: whether the session has the session extension.
        durable: whether the metastore waits for the disk.
    """
    with tempfile.TemporaryDirectory() as name:
        options = f"-Dderby.system.home={name} -Djava.io.tmpdir={name}"
        two_cores = {
            "spark.master": "local[2]",
            "spark.driver.memory": memory,
            "spark.driver.extraJavaOptions": options if durable else f"{options} -Dderby.system.durability=test",
        }
        spark = session(Path(name), {**two_cores, **settings}, extension=extension)
        yield spark, Path(name)
        spark.stop()
