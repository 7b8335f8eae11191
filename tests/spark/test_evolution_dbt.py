"""Tests of bucket evolution in dbt: a table of flights by month whose buckets change between runs.

The tests follow the two cases in the talk "Bucketing 2.0": an unbucketed incremental table becomes bucketed, and X
buckets grow to 2X, both without a rewrite. A second table has months with four specs. The expected rows come from
unbucketed tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bucketed_tables import Shape, Tables, settled

from conftest import Project, parameters

pytestmark = pytest.mark.long
FLIGHTS = """
    select tailnum, flight, carrier, delay, month from {{ ref('all_flights') }}
    where array_contains(split('{{ var('months')[this.identifier] }}', ' '), month)"""
SOURCE = """
    select concat('N', id * 37 % 90) as tailnum, id as flight, concat('C', id % 7) as carrier, cast(id % 61 - 10 as int) as delay,
           format_string('2013-%02d', id % 4 + 1) as month
    from range(800)"""
PLAIN = {
    "materialized": "incremental", "file_format": "parquet", "partition_by": ["month"],
    "incremental_strategy": "insert_overwrite",
}  # fmt: skip
EVOLVING: dict[str, Any] = PLAIN | {"materialized": "bucketed_incremental", "on_bucket_change": "evolve"}
BY_PLANE: dict[str, Any] = EVOLVING | {"clustered_by": ["tailnum"], "sorted_by": ["tailnum", "flight"]}
# For each run, the config and the months (last digits) that it writes: for the talk's table, and for the table with
# four specs.
RUNS: list[tuple[dict[str, Any], str, dict[str, Any], str]] = [
    (PLAIN, "12", PLAIN, "1"),
    (BY_PLANE | {"buckets": 8}, "3", BY_PLANE | {"buckets": 8}, "2"),
    (BY_PLANE | {"buckets": 8}, "12", BY_PLANE | {"buckets": 16}, "3"),
    (BY_PLANE | {"buckets": 16}, "4", EVOLVING | {"clustered_by": ["carrier"], "buckets": 4}, "4"),
    (BY_PLANE | {"buckets": 16}, "123", EVOLVING | {"clustered_by": ["carrier"], "buckets": 4}, ""),
]
JOIN = "select f.month, f.flight, p.seats from {flights} f join planes p on f.tailnum = p.tailnum"
GROUPING = "select tailnum, count(*), sum(delay) from {flights} group by tailnum"
# Number of bucketed scans over months with four specs. Only planes is bucketed, unless the months are compatible.
QUERIES = {
    JOIN: 1,
    GROUPING: 0,
    JOIN + " where month = '2013-03'": 2,
    JOIN + " where month in ('2013-02', '2013-03')": 2,
    "select carrier, count(*), sum(delay) from {flights} where month = '2013-04' group by carrier": 1,
}


class Observation:
    """Results and plans of the join, the aggregate and the join within one month after a run."""

    def __init__(self, tables: Tables) -> None:
        queries = [query.format(flights="flights") for query in (JOIN, GROUPING, JOIN + " where month = '2013-03'")]
        plans = [tables.plan(query) for query in queries]
        self.exchanges, self.plan = tuple(plan.shape.exchanges for plan in plans), plans[0]
        with tables.settings({"spark.bucketing.enabled": "false"}):
            self.stock = tables.shape(queries[0])


class Story:
    """The dbt project that contains the two tables; each method call performs one run."""

    def __init__(self, project: Project) -> None:
        self.project, self.tables, self.months = project, Tables(project.spark, project.schema), ["", ""]
        self.seen: dict[int, Observation] = {}
        project.model("all_flights", SOURCE, materialized="view")
        project.model(
            "planes", "select distinct tailnum, carrier, length(tailnum) * 30 as seats from {{ ref('all_flights') }} where flight % 3 = 0",
            materialized="bucketed_table", clustered_by=["tailnum"], buckets=8,
        )  # fmt: skip

    def run(self, number: int, is_observed: bool) -> None:
        config, months, other, other_months = RUNS[number]
        self.project.model("flights", FLIGHTS, **config)
        self.project.model("four_specs", FLIGHTS, **other)
        written = {"flights": self.names(months), "four_specs": self.names(other_months)}
        selected = ["--select", "flights", *["four_specs"] * bool(other_months)] if number else []
        self.project.dbt("run", *selected, months=written)
        self.months = ["".join(sorted({*self.months[0], *months})), "".join(sorted({*self.months[1], *other_months}))]
        if is_observed:
            self.seen[number] = Observation(self.tables)
            self.assert_rows("flights", self.months[0], [JOIN, GROUPING])

    def names(self, months: str) -> str:
        return " ".join(f"2013-0{month}" for month in months)

    def assert_rows(self, table: str, months: str, queries: list[str]) -> None:
        """Check that the queries return the rows of unbucketed tables, with and without the extension."""
        listed = ", ".join(f"'{name}'" for name in self.names(months).split())
        plain = f"(select tailnum, flight, carrier, delay, month from all_flights where month in ({listed}))"
        for query in queries:
            expected = self.tables.stock_rows(query.format(flights=plain))
            assert self.tables.stock_rows(query.format(flights=table)) == expected, query
            assert self.tables.rows(query.format(flights=table)) == expected, query


@pytest.fixture(scope="module")
def story(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Iterator[Story]:
    """Perform all runs, and observe those that the tests of this test run need."""
    story, observed = Story(new_project()), parameters(request, "run")
    with settled(
        story.project.spark, {"spark.bucketing.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    ):
        for number in range(len(RUNS)):
            story.run(number, number in observed)
        yield story


# Exchanges of the join, the aggregate and the join within the third month, which the first run does not write. Spark
# shuffles an unbucketed table of flights to the buckets of planes.
SEEN = {
    "unbucketed table": ((1, 1, 0), ""),
    "one bucketed month": ((1, 1, 0), "[not-sealed] (partition month=2013-01 and 1 more: "),
    "all months bucketed": ((0, 0, 0), "8 Hive buckets"),
    "one month with twice as many buckets": ((0, 0, 0), "8 Hive buckets of partitions with 8, 16"),
    "all months with twice as many buckets": ((0, 0, 0), "16 Hive buckets"),
}


@pytest.mark.parametrize("run", range(len(RUNS)), ids=SEEN)
def test_queries_use_the_buckets_of_their_months(story: Story, run: int) -> None:
    seen, (exchanges, said) = story.seen[run], [*SEEN.values()][run]
    assert seen.exchanges == exchanges, seen.plan
    assert said in seen.plan
    assert seen.stock == Shape(2, 2, 0), "stock Spark must shuffle both sides after every run"


def test_table_has_partitions_with_four_specs(story: Story) -> None:
    rows = story.project.rows("select partition, num_buckets, bucket_columns from bucket_specs('{schema}.four_specs')")
    assert {row.partition: (row.num_buckets, row.bucket_columns) for row in rows} == {
        "month=2013-01": (None, None),
        "month=2013-02": (8, ["tailnum"]),
        "month=2013-03": (16, ["tailnum"]),
        "month=2013-04": (4, ["carrier"]),
    }


@pytest.mark.parametrize("query", QUERIES)
def test_queries_over_four_specs_return_the_rows_of_an_unbucketed_table(story: Story, query: str) -> None:
    assert story.tables.shape(query.format(flights="four_specs")).bucketed == QUERIES[query]
    story.assert_rows("four_specs", "1234", [query])
