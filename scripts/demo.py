"""Build the showcase with or without buckets, and run its queries five times: `demo.py plain`, `demo.py bucketed`.

Spark writes event logs, and `make demo` compares them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from get_data import DEMO

ROOT = Path(__file__).parents[1]
# Each of these models reads bucketed tables, but builds no bucketed table.
QUERIES = ("plane_usage", "delays_by_visibility")
MORE_RUNS = 4
TITLES = {
    "plain": "Without buckets: build the tables that two models read, then build the two models five times",
    "bucketed": "With buckets: build and test the whole showcase, then build the two models five times",
}
_BUCKET_KEYS = re.compile(r"\n  (clustered_by|sorted_by|buckets|bucket_hash|write_tasks)=.*,")


def plain(model: str) -> str:
    """Return the SQL of a model, changed so that it builds an ordinary table instead of a bucketed one."""
    return _BUCKET_KEYS.sub("", re.sub("materialized='bucketed_[a-z]+'", "materialized='table'", model))


def plain_models() -> Path:
    """Write the models without their bucket configs, and return the directory that contains them."""
    folder = DEMO / "plain"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "models", folder)
    for path in folder.rglob("*.sql"):
        path.write_text(plain(path.read_text()))
    return folder


def dbt(*arguments: str, quiet: bool = False) -> None:
    """Run dbt in this process, so that all runs share one Spark session.

    Raises:
        SystemExit: dbt failed.
    """
    from dbt.cli.main import dbtRunner

    print(f"$ dbt {' '.join(arguments)}", flush=True)
    outcome = dbtRunner().invoke([*(["--quiet"] if quiet else []), *arguments])
    if not outcome.success:
        sys.exit(1)


def main() -> None:
    """Build the models with or without buckets, and run the queries repeatedly."""
    variant = sys.argv[1]
    events = DEMO / "events" / variant
    shutil.rmtree(events, ignore_errors=True)
    events.mkdir(parents=True)
    os.chdir(ROOT)
    # profiles.yml uses the variant in the names of the schema and of the event log directory.
    os.environ |= {"DBT_PROJECT_DIR": str(ROOT), "DBT_PROFILES_DIR": str(ROOT), "SPARK_BUCKETING_VARIANT": variant}
    print(f"\n== {TITLES[variant]} ==\n")
    if variant == "plain":
        os.environ["SPARK_BUCKETING_MODELS"] = os.path.relpath(plain_models())
        os.environ["DBT_TARGET_PATH"] = str(DEMO / "target")
        dbt("run", "--select", *(f"+{name}" for name in QUERIES), quiet=True)
    else:
        dbt("build")
    for _ in range(MORE_RUNS):
        dbt("run", "--select", *QUERIES, "--threads", "1", quiet=True)


if __name__ == "__main__":
    main()
