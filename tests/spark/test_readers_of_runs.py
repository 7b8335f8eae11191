"""Tests that queries during dbt runs of every kind see all rows of a run or none: RUNS=200 for more runs."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conftest import Project

RUNS = int(os.environ.get("RUNS", "5"))
BUCKETED = {"materialized": "bucketed_incremental", "clustered_by": ["id"], "buckets": 4}
ORGANIZED = {"materialized": "organized_incremental", "range_by": "id", "rows_per_file": 10}
PARTITIONED = {"partition_by": ["ds"]}
APPEND = {"incremental_strategy": "append"}
MERGE = {"incremental_strategy": "merge", "unique_key": "id"}
OVERWRITE = {"incremental_strategy": "insert_overwrite"}
# Models whose runs replace all rows.
REPLACED: dict[str, dict[str, Any]] = {
    "built": {**BUCKETED, "materialized": "bucketed_table"},
    "built_partitions": {**BUCKETED, "materialized": "bucketed_table", **PARTITIONED},
    "overwritten": {**BUCKETED, **OVERWRITE, **PARTITIONED},
    "merged": {**BUCKETED, **MERGE},
    "merged_partitions": {**BUCKETED, **MERGE, **PARTITIONED},
    "built_ranges": {**ORGANIZED, "materialized": "organized_table"},
    "overwritten_ranges": {**ORGANIZED, **OVERWRITE, **PARTITIONED},
    "merged_ranges": {**ORGANIZED, **MERGE, **PARTITIONED},
}
# Models whose runs add rows.
EXTENDED: dict[str, dict[str, Any]] = {
    "appended": {**BUCKETED, **APPEND},
    "appended_partitions": {**BUCKETED, **APPEND, **PARTITIONED},
    "appended_ranges": {**ORGANIZED, **APPEND, **PARTITIONED},
}
SELECT = "select id{0} as id, cast({{{{ var('run') }}}} as int) as v, concat('p', id % 2) as ds from range({1})"
# Errors after which a user can run a query again.
DELETED = re.compile("Run the query again|(FileNotFound|NoSuchFile)Exception|FILE_NOT_EXIST")


def outcome(spark: SparkSession, name: str, table: str, enabled: bool) -> str:
    """Read a table, and compare its rows with those of whole runs."""
    spark.conf.set("spark.bucketing.enabled", str(enabled).lower())
    try:
        rows = spark.sql(f"select v, count(*), count(distinct id) from {table} group by v order by v").collect()
    except Exception as error:
        return "a file was deleted" if DELETED.search(str(error)) else str(error)
    numbers, found, distinct = zip(*rows, strict=True) if rows else ((), (), ())
    if name in REPLACED:
        is_complete, is_exact = sum(distinct) >= 40, found == (40,)
    else:
        is_complete, is_exact = numbers == tuple(range(len(rows))) and set(distinct) == {10}, set(found) == {10}
    return "whole runs" if is_complete and is_exact else "rows twice" if is_complete else f"rows missing: {rows}"


@pytest.mark.long
def test_queries_during_runs_see_whole_runs(project: Project, extension: None) -> None:
    """A session without the extension may also see rows twice."""
    models = REPLACED | EXTENDED
    for name, config in models.items():
        project.model(
            name, SELECT.format(*(("", 40) if name in REPLACED else (" + 10 * {{ var('run') }}", 10))), **config
        )
    project.dbt("run", run=0)
    cached = project.spark.newSession()
    for name in models:
        cached.sql(f"cache table {project.table(name)}")
    done, seen = threading.Event(), {reader: Counter[str]() for reader in ("extension", "stock", "cached")}

    def read(reader: str) -> None:
        while not done.is_set():
            for name in models:
                session = cached if reader == "cached" else project.spark.newSession()
                found = outcome(session, name, project.table(name), enabled=reader != "stock")
                seen[reader][found if found in ("whole runs", "a file was deleted") else f"{name}: {found}"] += 1

    with ThreadPoolExecutor(len(seen)) as pool:
        reads = [pool.submit(read, reader) for reader in seen]
        try:
            for run in range(1, RUNS + 1):
                project.dbt("run", run=run)
        finally:
            done.set()
    for name in models:
        cached.sql(f"uncache table {project.table(name)}")
        assert outcome(project.spark.newSession(), name, project.table(name), enabled=True) == "whole runs"
    print(f"\n{RUNS} runs of {len(models)} models: {seen}", flush=True)
    assert [one.exception() for one in reads] == [None] * len(reads)
    assert seen["extension"].keys() | seen["cached"].keys() <= {"whole runs", "a file was deleted"}
    assert not [
        found
        for found in seen["stock"]
        if found not in ("whole runs", "a file was deleted") and not found.endswith("rows twice")
    ]
