"""Tests that bucketed_table writes one sorted file per bucket, with every row in its bucket, for any input."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from session_settings import setting

from conftest import Project, all_long_but, parameters

BUCKET = {"hive": re.compile(r"^(\d+)_\d+"), "spark": re.compile(r"_(\d+)(?:\.|$)")}
TYPED_KEYS = {
    "boolean": "cast(id % 2 as boolean)",
    "tinyint": "cast(id % 200 - 100 as tinyint)",
    "smallint": "cast(id * 37 - 9000 as smallint)",
    "int": "cast((id - 500) * 4000037 as int)",
    "bigint": "(id - 500) * 9000000000000001",
    "decimal(20,4)": "cast((id - 500) * 1.25 as decimal(20,4))",
    "string": "array('', 'abc', 'é', '日本', 'x', ' ', '😀')[id % 7] || cast(id as string)",
    "date": "date_add(date'0001-01-01', cast(id * 800 as int))",
}


def buckets_of(project: Project, table: str, bucket_hash: str) -> dict[str, list[int]]:
    """Return the bucket ids in the file names of each folder of a table."""
    found = defaultdict(list)
    for path in project.files(table):
        match = BUCKET[bucket_hash].search(path.name)
        assert match, f"{path} has no bucket id"
        found[str(path.parent)].append(int(match.group(1)))
    return found


def assert_one_file_per_bucket(project: Project, table: str, bucket_hash: str, buckets: int) -> None:
    for folder, ids in buckets_of(project, table, bucket_hash).items():
        assert len(ids) == len(set(ids)), f"{folder}: {Counter(ids)}"
        assert max(ids) < buckets


def assert_sorted(project: Project, table: str, columns: list[str]) -> None:
    """Compare each row with the previous one in its file; each file is far smaller than a split."""
    names = ", ".join(f"`{column}`" for column in columns)
    query = f"select input_file_name(), monotonically_increasing_id(), {names} from {project.table(table)}"
    rows = sorted(
        (file, position, [(part is not None, part) for part in key]) for file, position, *key in project.rows(query)
    )
    assert all(one[0] != other[0] or one[2] <= other[2] for one, other in pairwise(rows)), table


ORDERS: dict[str, dict[str, list[str]]] = {
    "k_default": {"clustered_by": ["k"]},
    "k_name_s1": {"clustered_by": ["k", "name"], "sorted_by": ["name"]},
    "name_s0": {"clustered_by": ["name"], "sorted_by": []},
}
MATRIX: dict[str, dict[str, Any]] = {
    f"{bucket_hash}_{file_format}_p{len(partition_by)}_{order}": {
        "bucket_hash": bucket_hash, "file_format": file_format, "partition_by": partition_by, **ORDERS[order],
    }
    for bucket_hash in ("hive", "spark")
    for file_format in ("parquet", "orc")
    for partition_by in ([], ["ds", "region"] if file_format == "orc" else ["ds"])
    for order in ORDERS
}  # fmt: skip
# These cases cover every pair of values of layout, format, partitioning and order.
PAIRS = (
    "hive_parquet_p0_k_default", "spark_orc_p2_k_default", "hive_orc_p0_k_name_s1", "spark_parquet_p1_k_name_s1",
    "hive_orc_p2_name_s0", "spark_parquet_p0_name_s0",
)  # fmt: skip


SKEWED = """
    select
        if(id % 50 = 0, null, if(id % 3 = 0, 7, id)) as k,
        case id % 4 when 0 then null when 1 then 'é' else cast(id as string) end as name,
        id as payload,
        date_add(date'2024-01-01', cast(id % 3 as int)) as ds,
        if(id % 5 = 0, null, concat('r', id % 2)) as region
    from range(600)
"""


@pytest.fixture(scope="module")
def matrix(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Project:
    """Build a table for each case of this test run from 600 rows with skewed and missing keys."""
    project = new_project()
    for name in parameters(request, "table") & MATRIX.keys():
        project.model(name, SKEWED, materialized="bucketed_table", buckets=8, **MATRIX[name])
    project.dbt("run")
    return project


@pytest.mark.parametrize("table", all_long_but(PAIRS, MATRIX))
@pytest.mark.some(3)
def test_every_layout_has_one_sorted_file_per_bucket_and_all_rows(matrix: Project, table: str) -> None:
    config = MATRIX[table]
    bucket_hash, file_format = config["bucket_hash"], config["file_format"]
    assert_one_file_per_bucket(matrix, table, bucket_hash, 8)
    if order := config.get("sorted_by", config["clustered_by"]):
        assert_sorted(matrix, table, order)
    assert all(path.suffix == f".{file_format}" for path in matrix.files(table))
    row = matrix.rows(
        f"select count(*) n, count(distinct payload) d, count(k) k, count(region) r from {matrix.table(table)}"
    )[0]
    assert (row.n, row.d, row.k, row.r) == (600, 600, 588, 480)
    assert matrix.detail(table, "Num Buckets") == "8"
    assert matrix.detail(table, "Provider") == ("hive" if bucket_hash == "hive" else file_format)
    folders = {0: 1, 1: 3, 2: 9}[len(config["partition_by"])]
    assert len(buckets_of(matrix, table, bucket_hash)) == folders


@pytest.mark.parametrize("bucket_hash", ["hive", "hive2"])
@pytest.mark.long
def test_each_row_is_in_the_bucket_of_hives_hash(
    project: Project, bucket_hash: str, request: pytest.FixtureRequest
) -> None:
    if bucket_hash == "hive2":
        request.getfixturevalue("extension")
    for sql_type, expression in TYPED_KEYS.items():
        project.model(
            "t_" + re.sub(r"\W", "_", sql_type),
            f"select cast(if(id % 40 = 0, null, {expression}) as {sql_type}) as k, cast(id % 9 as int) as k2, id from range(160)",
            materialized="bucketed_table",
            clustered_by=["k", "k2"],
            buckets=7,
            bucket_hash=bucket_hash,
        )
    # Spark 3.5 refuses to write dates before 1582 without this setting.
    with setting(project.spark, "spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED"):
        project.dbt("run")
    for sql_type in TYPED_KEYS:
        table = "t_" + re.sub(r"\W", "_", sql_type)
        assert_one_file_per_bucket(project, table, "hive", 7)
        assert_sorted(project, table, ["k", "k2"])
        bucket = "cast(regexp_extract(input_file_name(), '/([0-9]+)_[0-9]+[^/]*$', 1) as int)"
        rows = f"select {bucket_hash}_bucket(7, k, k2) <> {bucket} as wrong from {project.table(table)}"
        assert project.rows(f"select count(*), count_if(wrong) from ({rows})") == [(160, 0)], sql_type
