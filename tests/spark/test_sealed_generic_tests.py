"""Generic tests ask the seals, and read rows only of what is not sealed; what has no buckets is left out, and said."""

from __future__ import annotations

import pytest
from test_generic_tests import FILE_TESTS, Tables, failed, rows_of

from conftest import Project
from spark_bucketing.session import setting

VALID = "partition_bucket_specs_valid"
TESTS = [*FILE_TESTS, VALID]
ROWS = "select cast(id * 7 % 300 as bigint) as k, {} as p from range(300)"
TABLE = (
    "create table {} (k bigint) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as parquet"
)


@pytest.fixture
def shop(project: Project, extension: None, dynamic_partitions: None) -> Project:
    project.spark.sql(f"create schema {project.schema}")
    return project


def run(project: Project, text: str) -> None:
    project.spark.sql(f"use {project.schema}")
    project.spark.sql(text)


def insert(project: Project, name: str, p: int, how: str = "into") -> None:
    run(project, f"insert {how} table {name} partition (p) {ROWS.format(p)}")


def mixed(project: Project, name: str) -> None:
    """p=0 of 4 buckets, p=1 of 8, both sealed."""
    run(project, TABLE.format(name))
    insert(project, name, 0)
    run(project, f"alter table {name} clustered by (k) sorted by (k) into 8 buckets")
    insert(project, name, 1)


def test_of_what_is_sealed_no_row_is_read(shop: Project) -> None:
    mixed(shop, "m")
    tables = Tables(shop)
    tables.tests("m", *TESTS, {"test": "bucket_skew_below", "arguments": {"ratio": 3}})
    results = tables.run()
    assert failed(results) == {}
    for name in TESTS:
        assert "input_file_name" not in results[f"m__{name}"].node.compiled_code


def test_partitions_without_buckets_are_left_out_counted_and_said(shop: Project) -> None:
    run(shop, "create table m (k bigint) partitioned by (p int) stored as parquet")
    insert(shop, "m", 0)
    run(shop, "alter table m clustered by (k) sorted by (k) into 8 buckets")
    tables = Tables(shop)
    tables.tests("m", *TESTS)
    assert failed(tables.run()) == {}
    insert(shop, "m", 1)
    assert failed(tables.run()) == {}
    log = (shop.folder / "logs" / "dbt.log").read_text()
    for name in TESTS:
        assert f"Test 'm__{name}' of {shop.schema}.m: 1 of 1 partition(s) have no buckets and are left out." in log
        assert f"Test 'm__{name}' of {shop.schema}.m: 1 of 2 partition(s) have no buckets and are left out." in log


def test_rows_are_read_only_of_what_is_not_sealed(shop: Project) -> None:
    mixed(shop, "m")
    run(shop, "alter table m add partition (p = 2)")
    tables = Tables(shop)
    tables.tests("m", *TESTS)
    with setting(shop.spark, "spark.bucketing.enabled", "false"):
        # One more file for each bucket, which belongs to no seal.
        run(shop, "refresh table m")
        run(shop, f"insert into table m partition (p) select /*+ coalesce(1) */ * from ({ROWS.format(1)})")
    results = tables.run()
    assert failed(results) == {"m__one_file_per_bucket": 8, f"m__{VALID}": 1}
    assert [(row.partition, row.problem) for row in rows_of(shop, results[f"m__{VALID}"])] == [("p=1", "seal-broken")]
    code = results["m__rows_in_their_buckets"].node.compiled_code
    assert "cast('1' as int)" in code and "cast('0' as int)" not in code


def test_a_seal_of_several_files_for_a_bucket_says_so(shop: Project) -> None:
    mixed(shop, "m")
    insert(shop, "m", 1)
    tables = Tables(shop)
    tables.tests("m", *TESTS)
    results = tables.run()
    assert failed(results) == {"m__one_file_per_bucket": 1}
    assert rows_of(shop, results["m__one_file_per_bucket"])[0].files == "2"


def test_a_table_without_partitions_has_one_seal(shop: Project) -> None:
    run(shop, "create table m (k bigint) clustered by (k) sorted by (k) into 4 buckets stored as parquet")
    run(shop, "insert into table m select id from range(100)")
    tables = Tables(shop)
    tables.tests("m", *TESTS)
    assert failed(tables.run()) == {}
    with setting(shop.spark, "spark.bucketing.enabled", "false"):
        run(shop, "refresh table m")
        run(shop, "insert into table m select /*+ coalesce(1) */ id from range(100)")
    assert failed(tables.run()) == {"m__one_file_per_bucket": 4, f"m__{VALID}": 1}
