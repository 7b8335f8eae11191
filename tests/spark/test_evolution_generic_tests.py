"""The generic tests on tables whose partitions have bucket specs of their own, good ones and such that are broken by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from bucketed import Tables as Session
from evolved import put_parameters
from test_generic_tests import Tables, data_files, of_table, rows_of

from conftest import Project
from spark_bucketing.session import setting

if TYPE_CHECKING:
    from dbt.artifacts.schemas.results import NodeResult

VALID = "partition_bucket_specs_valid"
TESTS = [VALID, "one_file_per_bucket", "rows_in_their_buckets", "sorted_within_buckets"]
QUERY = "select cast(id * 7 % 300 as bigint) as k, cast(id % 50 as string) as v, {} as p from range(300)"


class Workshop:
    """Makes tables of two specs: partition p=0 of 4 buckets and p=1 of 8, which is the table's."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.session = Session(project.spark, project.schema)
        self.sources = Tables(project)

    def sql(self, text: str) -> None:
        self.session.sql(text)

    def make(self, name: str) -> None:
        self.sql(
            f"create table {name} (k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as parquet"
        )
        self.insert(name, "0")
        self.alter(name, 8)
        self.insert(name, "1")

    def insert(self, name: str, value: str, how: str = "into") -> None:
        self.sql(f"refresh table {name}")
        self.sql(f"insert {how} table {name} partition (p) select /*+ coalesce(1) */ * from ({QUERY.format(value)})")

    def stock_insert(self, name: str, value: str, how: str = "into") -> None:
        """As a session without the extension writes, which leaves no record."""
        with setting(self.project.spark, "spark.bucketing.enabled", "false"):
            self.insert(name, value, how)

    def alter(self, name: str, buckets: int, columns: str = "k", partition: str = "") -> None:
        self.sql(
            f"alter table {name} {partition} clustered by ({columns}) sorted by ({columns}) into {buckets} buckets"
        )

    def first_file(self, name: str, partition: str) -> None:
        """A file that claims no bucket any more."""
        file = data_files(self.project.location(name) / partition)[0]
        file.rename(file.with_name("part-00000-copied" + "".join(file.suffixes[-2:])))
        self.sql(f"refresh table {name}")

    def copied_file(self, name: str) -> None:
        file = data_files(self.project.location(name) / "p=1")[0]
        shutil.copy(file, file.with_name(file.name.replace("part-", "part-again-")))
        self.sql(f"refresh table {name}")


# What is done to a good table, and for each test that must fail then its failing rows; for VALID (partition, problem) of them.
Broken = tuple[Callable[[Workshop, str], None], set[tuple[str, str]], dict[str, int]]
BROKEN: dict[str, Broken] = {
    "record_of_fewer_buckets": (
        lambda shop, name: shop.alter(name, 4, partition="partition (p = 1)"),
        {("p=1", "name")},
        {"one_file_per_bucket": 4, "rows_in_their_buckets": 4},
    ),
    "record_of_more_buckets": (
        lambda shop, name: shop.alter(name, 16, partition="partition (p = 0)"),
        {("p=0", "rows")},
        {"rows_in_their_buckets": 4},
    ),
    "record_of_other_columns": (
        lambda shop, name: shop.alter(name, 4, "v", partition="partition (p = 0)"),
        {("p=0", "rows")},
        {"rows_in_their_buckets": 4, "sorted_within_buckets": 4},
    ),
    "broken_record": (
        lambda shop, name: put_parameters(shop.session, name, "p=0", {"bucketing.num_buckets": "four"}),
        {("p=0", "broken record")},
        {"one_file_per_bucket": 4, "rows_in_their_buckets": 4, "sorted_within_buckets": 4},
    ),
    "unknown_column": (
        lambda shop, name: put_parameters(
            shop.session, name, "p=0", {"bucketing.columns": '["gone"]', "bucketing.sort_columns": '["k"]'}
        ),
        {("p=0", "unknown columns"), ("p=0", "descriptor")},
        {"rows_in_their_buckets": -1},
    ),
    "analyzed": (
        lambda shop, name: shop.sql(f"analyze table {name} partition (p = 0) compute statistics"),
        {("p=0", "descriptor")},
        {},
    ),
    "new_partition_of_stock_spark": (lambda shop, name: shop.stock_insert(name, "2"), {("p=2", "no record")}, {}),
    "overwritten_by_stock_spark": (
        lambda shop, name: shop.stock_insert(name, "0", "overwrite"),
        {("p=0", "name")},
        {"one_file_per_bucket": 4, "rows_in_their_buckets": 4},
    ),
    "not_marked_as_evolved": (
        lambda shop, name: shop.sql(f"alter table {name} set tblproperties ('bucketing.evolved' = 'false')"),
        {("p=0", "not the table's")},
        {"rows_in_their_buckets": 4},
    ),
    "file_without_bucket": (
        lambda shop, name: shop.first_file(name, "p=0"),
        {("p=0", "name")},
        {"one_file_per_bucket": 1, "rows_in_their_buckets": 1},
    ),
    "two_files_in_a_bucket": (lambda shop, name: shop.copied_file(name), set(), {"one_file_per_bucket": 1}),
}


QUICK = ["record_of_more_buckets", "broken_record", "overwritten_by_stock_spark"]


@pytest.fixture(scope="module")
def shop(new_project: Callable[..., Project]) -> Iterator[Workshop]:
    project = new_project()
    project.spark.sql(f"create schema {project.schema}")
    with (
        setting(project.spark, "spark.bucketing.enabled", "true"),
        setting(project.spark, "hive.exec.dynamic.partition.mode", "nonstrict"),
    ):
        yield Workshop(project)


@pytest.fixture(scope="module")
def broken(request: pytest.FixtureRequest, shop: Workshop) -> dict[str, NodeResult]:
    """Results on the broken tables of the tests that are selected."""
    shop.sources = Tables(shop.project)
    names = [name for name in BROKEN if any(f"[{name}]" in item.name for item in request.session.items)]
    for name in names:
        shop.make(name)
        BROKEN[name][0](shop, name)
        shop.sources.tests(name, *TESTS)
    return shop.sources.run()


@pytest.fixture(scope="module")
def verdicts(shop: Workshop) -> dict[str, NodeResult]:
    """Results on a good table of four specs, and where the test cannot tell."""
    shop.sources = Tables(shop.project)
    skew = {"test": "bucket_skew_below", "arguments": {"ratio": 1.7}}
    spec = {
        "test": "bucket_spec_matches_config",
        "arguments": {"clustered_by": ["k"], "buckets": 8, "bucket_hash": "hive"},
    }
    shop.make("good")
    shop.alter("good", 4, "v")
    shop.insert("good", "3")
    shop.alter("good", 8)
    shop.stock_insert("good", "2")
    shop.first_file("good", "p=2")
    shop.sql("alter table good partition (p = 2) not clustered")
    halves = [{"test": test, "as": f"half_{test}", "config": {"where": "p < 2"}} for test in TESTS]
    shop.sources.tests("good", *TESTS, *halves, skew, spec)
    shop.make("half_bad")
    shop.alter("half_bad", 16, partition="partition (p = 0)")
    halves = [{"test": VALID, "as": f"half_{value}", "config": {"where": f"p = {value}"}} for value in (0, 1)]
    shop.sources.tests("half_bad", *halves)
    shop.sql(
        "create table stock (k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as orc"
    )
    shop.stock_insert("stock", "0")
    shop.sources.tests("stock", *TESTS)
    shop.sql("create table whole (k bigint) clustered by (k) into 4 buckets stored as parquet")
    shop.sources.tests("whole", VALID)
    shop.sql("create table of_spark (k bigint, p int) using parquet partitioned by (p) clustered by (k) into 4 buckets")
    shop.sources.tests("of_spark", VALID)
    return shop.sources.run()


def test_a_good_table_of_four_specs_passes(verdicts: dict[str, NodeResult]) -> None:
    assert of_table(verdicts, "good") == {}
    assert len([name for name in verdicts if name.startswith("good__")]) == 2 * len(TESTS) + 2


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in BROKEN]
)
def test_a_broken_partition_is_found_and_said(shop: Workshop, broken: dict[str, NodeResult], name: str) -> None:
    _, problems, others = BROKEN[name]
    rows = rows_of(shop.project, broken[f"{name}__{VALID}"])
    assert {(row.partition, row.problem) for row in rows} == problems, rows
    assert all(row.found and row.expected for row in rows)
    found = {test: -1 if rows is None else rows for test, rows in of_table(broken, name).items() if test != VALID}
    assert found == others


def test_where_selects_the_partitions_that_are_looked_at(verdicts: dict[str, NodeResult]) -> None:
    assert list(of_table(verdicts, "half_bad")) == ["half_0"]


def test_a_table_that_never_evolved_needs_no_records(verdicts: dict[str, NodeResult]) -> None:
    assert of_table(verdicts, "stock") == {}


@pytest.mark.parametrize(
    ("name", "said"), [("whole", "a table without partitions"), ("of_spark", "a table of the Spark layout")]
)
def test_what_has_no_records_cannot_be_told(verdicts: dict[str, NodeResult], name: str, said: str) -> None:
    result = verdicts[f"{name}__{VALID}"]
    assert result.status == "error" and said in str(result.message)
