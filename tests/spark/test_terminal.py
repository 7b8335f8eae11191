"""Tests of the terminal output of successful runs, with Spark's default log level."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from spark_subprocess import SparkSubprocess

STACK_TRACE = re.compile(r"^\s+at [\w.$/<>]+\(.*\)$|^Traceback |^Caused by: ", re.MULTILINE)
MODELS = {
    "customers": "{{ config(materialized='bucketed_table', clustered_by=['k'], buckets=2) }}"
    " select id as k, id % 3 as day from range(9)",
    "orders": "{{ config(materialized='bucketed_incremental', clustered_by=['k'], buckets=2, partition_by=['day'],"
    " incremental_strategy='merge', unique_key='k') }} select * from {{ ref('customers') }}",
    "by_day": "{{ config(materialized='bucketed_incremental', clustered_by=['k'], buckets=2, partition_by=['day'],"
    " bucket_hash='spark', incremental_strategy='insert_overwrite') }} select * from {{ ref('customers') }}",
    "events": "{{ config(materialized='organized_incremental', range_by='k', num_files=2, partition_by=['day']) }}"
    " select * from {{ ref('customers') }}",
}
# All dbt runs are in one process, so that Spark starts only once.
RUNS = """
import sys
from dbt.cli.main import dbtRunner
for arguments in (["run"], ["run"], ["run", "--full-refresh"]):
    if not dbtRunner().invoke([*arguments, *sys.argv[1:]]).success:
        sys.exit(1)
"""


# Models that stock Spark can write.
ON_STOCK_SPARK = ("customers", "by_day")


@pytest.mark.parametrize("extension", [True, False], ids=["extension", "stock"])
@pytest.mark.long
def test_successful_run_prints_no_stack_trace(tmp_path: Path, extension: bool) -> None:
    subprocess_spark = SparkSubprocess(tmp_path, "s", extension=extension)
    subprocess_spark.install({name: sql for name, sql in MODELS.items() if extension or name in ON_STOCK_SPARK})
    done = subprocess.run(
        [sys.executable, "-c", RUNS, *subprocess_spark.place], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert not STACK_TRACE.search(done.stdout), done.stdout
