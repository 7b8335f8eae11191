"""Tests that generic tests trust seals, read only unsealed rows, and report partitions without buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import bucketed_tables
import pytest
from bucketed_tables import no_extension, settled
from dbt.artifacts.schemas.results import NodeResult
from test_generic_tests import FILE_TESTS, Tables, of_table, rows_of

from conftest import Project, parameters

pytestmark = pytest.mark.usefixtures("extension")

VALID = "partition_bucket_specs_valid"
TESTS = [*FILE_TESTS, VALID]
ROWS = "select cast(id * 7 % 300 as bigint) as k, {} as p from range(300)"
PARTITIONED = "create table {t} (k bigint) partitioned by (p int) {buckets} stored as parquet"
FOUR = "clustered by (k) sorted by (k) into 4 buckets"
EIGHT = "alter table {t} clustered by (k) sorted by (k) into 8 buckets"
FIRST, SECOND = (f"insert into table {{t}} partition (p) {ROWS.format(p)}" for p in (0, 1))
# p=0 has 4 buckets, p=1 has 8; both are sealed.
MIXED = (PARTITIONED.replace("{buckets}", FOUR), FIRST, EIGHT, SECOND)
PLAIN = (PARTITIONED.replace("{buckets}", ""), FIRST, EIGHT)
WHOLE = (f"create table {{t}} (k bigint) {FOUR} stored as parquet", "insert into table {t} select id from range(100)")
REFRESH = "refresh table {t}"
# Stock Spark adds one unsealed file per bucket.
BY_STOCK = f"stock:insert into table {{t}} partition (p) select /*+ coalesce(1) */ * from ({ROWS.format(1)})"
# The DDL of each table, and the failing tests with their numbers of failing rows.
MADE: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "mixed": (MIXED, {}),
    "several": ((*MIXED, SECOND), {"one_file_per_bucket": 1}),
    "unsealed": (
        (*MIXED, "alter table {t} add partition (p = 2)", REFRESH, BY_STOCK),
        {"one_file_per_bucket": 8, VALID: 1},
    ),
    "plain": (PLAIN, {}),
    "plain_and_more": ((*PLAIN, SECOND), {}),
    "whole": (WHOLE, {}),
    "whole_unsealed": (
        (*WHOLE, REFRESH, "stock:insert into table {t} select /*+ coalesce(1) */ id from range(100)"),
        {"one_file_per_bucket": 4, VALID: 1},
    ),
}


class Shop(NamedTuple):
    project: Project
    results: dict[str, NodeResult]


@pytest.fixture(scope="module")
def shop(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Shop:
    """Create the tables that the tests of this run use, and run the generic tests."""
    project = new_project()
    chosen = parameters(request, "name") | MADE.keys() - {"whole", "whole_unsealed"}
    tables, database = Tables(project), bucketed_tables.Tables(project.spark, project.schema)
    on = {"spark.bucketing.enabled": "true", "hive.exec.dynamic.partition.mode": "nonstrict"}
    with settled(project.spark, on):
        for name in MADE.keys() & chosen:
            for statement in MADE[name][0]:
                database.sql(statement.format(t=name))
            skew = [{"test": "bucket_skew_below", "arguments": {"ratio": 3}}] if name == "mixed" else []
            tables.tests(name, *TESTS, *skew)
        return Shop(project, tables.run())


@pytest.mark.parametrize("name", MADE)
@pytest.mark.some(2)
def test_unsealed_violations_fail(shop: Shop, name: str) -> None:
    assert of_table(shop.results, name) == MADE[name][1]


def test_only_unsealed_rows_are_read(shop: Shop) -> None:
    for name in TESTS:
        assert "input_file_name" not in shop.results[f"mixed__{name}"].node.compiled_code
    broken = rows_of(shop.project, shop.results[f"unsealed__{VALID}"])
    assert [(row.partition, row.problem) for row in broken] == [("p=1", "seal-stale")]
    code = shop.results["unsealed__rows_in_their_buckets"].node.compiled_code
    assert "cast('1' as int)" in code and "cast('0' as int)" not in code


def test_partitions_without_buckets_are_skipped_and_reported(shop: Shop) -> None:
    log = (shop.project.folder / "logs" / "dbt.log").read_text()
    for name in TESTS:
        for table, counted in (("plain", "1 of 1 partition(s)"), ("plain_and_more", "1 of 2 partition(s)")):
            assert (
                f"Test `{table}__{name}` skips {counted} of {shop.project.schema}.{table}, which have no buckets" in log
            )


def test_sealed_table_with_several_files_per_bucket_fails(shop: Shop) -> None:
    assert rows_of(shop.project, shop.results["several__one_file_per_bucket"])[0].files == "2"


@pytest.mark.long
def test_every_file_is_read_without_the_extension(project: Project) -> None:
    project.model(
        "m", "select id as k, id % 2 as ds from range(80)",
        materialized="bucketed_table", clustered_by="k", buckets=4, partition_by="ds",
    )  # fmt: skip
    tables = Tables(project)
    tables.tests("m", *TESTS, {"test": "bucket_skew_below", "arguments": {"ratio": 3}})
    with no_extension(project.spark):
        project.dbt("run")
        # Only a session with the extension can read seals.
        assert of_table(tables.run(), "m") == {VALID: None}
        first, second, *_ = sorted((project.location("m") / "ds=0").glob("0*"))
        first.rename(first.with_name(first.name.replace(first.name[:5], second.name[:5], 1)))
        project.spark.sql(f"refresh table {project.table('m')}")
        assert of_table(tables.run(), "m") == {VALID: None, "one_file_per_bucket": 1, "rows_in_their_buckets": 1}
