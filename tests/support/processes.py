"""Settings of a Spark in a process of its own, which keeps all of its files below one folder."""

from __future__ import annotations

from pathlib import Path

# Many small statements, each with code of its own, which is run too seldom to be worth the best compiler.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def settings_below(home: Path, memory: str = "1g", java: str = QUICK_JVM) -> dict[str, str]:
    """Warehouse, metastore and temporary files below this folder."""
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home} -Djava.io.tmpdir={home} {java}",
    }
