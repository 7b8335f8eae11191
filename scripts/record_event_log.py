"""Record a small event log of four runs of a dbt project that contains a join.

The script uses the first Spark on Python's path.

Usage: PYTHONPATH=.venv/spark-3.5 record_event_log.py [--bucketed] FOLDER CASE.gz [SETTING=VALUE ...]

With --bucketed, the joined tables are bucketed. The script deletes the contents of FOLDER, and writes the project and
the complete log to it. The script writes a copy of the log without paths and host names to CASE.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from strip_event_log import write_case

from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings

ROOT = Path(__file__).parents[1]
BUCKETS = "{{ config(materialized='bucketed_table', clustered_by='customer_id', buckets=4) }}\n"
BUCKETED = ("customers", "orders")
MODELS = {
    "customers": "select id as customer_id, id % 7 as region from range(20000)",
    "orders": "select id as order_id, id % 20000 as customer_id, id % 11 as price from range(100000)",
    "revenue": """\
select c.customer_id, max(c.region) as region, sum(o.price) as price
from {{ ref('orders') }} as o inner join {{ ref('customers') }} as c on o.customer_id = c.customer_id
group by c.customer_id""",
}


def settings(folder: Path) -> dict[str, str]:
    """Return the Spark settings for the project."""
    return {
        **extension_settings(build_jar()),
        "spark.master": "local[2]",
        "spark.driver.host": "localhost",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }


def make_project(folder: Path, bucketed: bool, more: dict[str, str]) -> None:
    """Write the project to an empty directory."""
    shutil.rmtree(folder, ignore_errors=True)
    output = {"type": "spark", "method": "session", "host": "NA", "schema": "shop", "threads": 1}
    output["server_side_parameters"] = {**settings(folder), **more}
    files = {
        "dbt_project.yml": json.dumps({"name": "shop", "profile": "shop", "models": {"+materialized": "table"}}),
        "profiles.yml": json.dumps({"shop": {"target": "t", "outputs": {"t": output}}}),
        "packages.yml": json.dumps({"packages": [{"local": str(ROOT)}]}),
        **{
            f"models/{name}.sql": f"{BUCKETS if bucketed and name in BUCKETED else ''}{text}\n"
            for name, text in MODELS.items()
        },
    }
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "spark_bucketing").symlink_to(ROOT)
    (folder / "events").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def main() -> None:
    """Run the project four times, and write the event log as a test case."""
    from dbt.cli.main import dbtRunner
    from pyspark import SparkContext

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bucketed", action="store_true")
    parser.add_argument("folder", type=Path)
    parser.add_argument("case", type=Path)
    parser.add_argument("settings", nargs="*", metavar="SETTING=VALUE")
    given = parser.parse_args()
    folder = given.folder.absolute()
    make_project(folder, given.bucketed, dict(setting.split("=", 1) for setting in given.settings))
    for _ in range(4):
        outcome = dbtRunner().invoke(["--quiet", "run", "--project-dir", str(folder), "--profiles-dir", str(folder)])
        if not outcome.success:
            sys.exit(f"dbt run failed. {outcome.exception or ''}")
    context = SparkContext._active_spark_context
    if context:
        context.stop()
    write_case(folder / "events", given.case, list(MODELS))


if __name__ == "__main__":
    main()
