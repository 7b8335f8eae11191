"""Tests that aggregates over buckets sorted by the grouping keys run without a hash table.

Since Spark 4.3, sort aggregates with grouping keys generate code, so Spark prefers them if the input is ordered.
"""

from __future__ import annotations

import random
import re

import pytest
from bucketed_tables import Plan, Tables
from spark_features import SPARK, needs_collations

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "aqe", "no_broadcast")

BY_ORDER = SPARK >= (4, 3)
ROWS = """
    select if(id % 11 = 0, null, cast(id % 170 as int)) as k, nullif(concat('s', id % 7), 's3') as s, id % 13 as v,
        cast(id % 17 as decimal(9, 2)) as d from range(2500)
"""


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create tables with one or two keys, sorted or unsorted, each with a NULL key."""
    columns = "k int, s string, v bigint, d decimal(9, 2)"
    tables.make("a", columns, "k", 4, ROWS)
    tables.make("by_s", columns, "k", 4, ROWS, "k, s")
    tables.make("pairs", columns, "k, s", 4, ROWS, "k, s")
    tables.make("unsorted", columns, "k", 4, ROWS, sorted_by="")
    tables.make("b", "k int, w bigint", "k", 4, "select cast(id * 3 as int) as k, id as w from range(90)")
    tables.sql("create table plain using parquet as select cast(id as int) as k, id as u from range(120)")
    return tables


def count_operators(plan: Plan) -> tuple[int, int, int]:
    """Count sort aggregates, hash aggregates and sorts in a plan."""
    sorted_ones = len(re.findall(r"\bSortAggregate\(", plan))
    return sorted_ones, len(re.findall(r"\b(?:Object)?HashAggregate\(", plan)), plan.shape.sorts


# fmt: off
CASES = [
    # The rows are sorted by the grouping keys; the table may have more sort columns.
    ("select k, count(*), sum(v), avg(d) from a group by k", (1, 0, 0)),
    ("select distinct k from a", (1, 0, 0)),
    ("select k, s, max(v) from by_s group by k, s", (1, 0, 0)),
    ("select s, k, max(v) from by_s group by s, k", (0, 1, 0)),
    ("select k, max(v) from by_s group by k", (1, 0, 0)),
    ("select s, k, count(*) from pairs group by s, k", (0, 1, 0)),
    ("select k, s, count(*) from a group by k, s", (0, 1, 0)),
    ("select k, count(*) from unsorted group by k", (0, 1, 0)),
    ("select k, count(*) from plain group by k", (0, 2, 0)),
    # Filters and functions that Spark evaluates in several steps.
    ("select k, sum(v) filter (where s = 's1') from a where v > 2 group by k having count(*) > 3", (1, 0, 0)),
    ("select k, count(distinct s) from by_s group by k", (2, 0, 0)),
    ("select k, sort_array(collect_list(v)), approx_count_distinct(s) from a group by k", (1, 0, 0)),
    # The groups have the order of a join's output, of a sorted input, or of another aggregate's output.
    ("select a.k, count(*), sum(w) from a join b on a.k = b.k group by a.k", (1, 0, 0)),
    ("select b.k, count(v), sum(w) from b left join a on a.k = b.k group by b.k", (1, 0, 0)),
    ("select a.k, count(*) from a join plain p on a.k = p.k group by a.k", (1, 0, 1)),
    ("select k, max(n) from (select k, s, count(*) n from by_s group by k, s) group by k", (2, 0, 0)),
    # The operator above already requires this order.
    ("select * from (select k, sum(v) from a group by k) x join b on x.k = b.k", (1, 0, 0)),
    ("select * from (select k, sum(v) from unsorted group by k) x join b on x.k = b.k", (0, 1, 1)),
    ("select k, n, rank() over (partition by k order by n) from (select k, count(*) n from a group by k)", (1, 0, 1)),
    # The query has a computed key, a key of the other input, or no key.
    ("select k + 1, count(*) from a group by k + 1", (0, 2, 0)),
    ("select sum(v) from a join b on a.k = b.k", (0, 2, 0)),
    ("select a.k, w, count(*) from a join b on a.k = b.k group by a.k, w", (0, 1, 0)),
]
# fmt: on


@pytest.mark.parametrize(("query", "expected"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.some(5)
def test_sorted_groups_need_no_hash_table(tables: Tables, query: str, expected: tuple[int, int, int]) -> None:
    plan = tables.read(query)
    assert count_operators(plan) == expected or not BY_ORDER, plan


FUNCTIONS = (
    "count(*)", "count(v)", "count(distinct s)", "count(distinct v, s)", "sum(v)", "sum(distinct v)", "avg(d)", "max(s)",
    "min(struct(v, s))", "sum(d) filter (where v > 4)", "count(*) filter (where s is null)", "max_by(v, struct(v, s))",
    "sort_array(collect_list(s))", "sort_array(collect_set(v))", "first(k)", "approx_count_distinct(v)", "median(v)",
)  # fmt: skip
INPUTS = (
    "a", "by_s", "pairs", "(select * from a where v > 11)", "(select * from by_s where false)",
    "(select a.*, w from a left join b using (k))", "(select a.* from a left semi join b using (k))",
    "(select coalesce(x.k, y.k) as k, x.s, y.v, y.d from by_s x full join (select * from a where v = 5) y on x.k = y.k)",
    "(select k, s, sum(v) as v, max(d) as d from by_s group by k, s)", "(select * from a union all select * from by_s)",
    "(select *, row_number() over (partition by k order by s, v, d) as n from a)",
)  # fmt: skip
KEYS = ("k", "s, k", "k, s", "k, v", "k, length(s)")


@pytest.mark.parametrize("seed", all_long_but(0, range(3)))
@pytest.mark.long
def test_rows_equal_stock_spark(tables: Tables, seed: int) -> None:
    choose = random.Random(seed)
    found = 0
    for _ in range(12):
        keys, read = choose.choice(KEYS), choose.choice(INPUTS)
        query = f"select {keys}, {', '.join(choose.sample(FUNCTIONS, 3))} from {read} group by {keys}"
        found += count_operators(tables.read(query, empty="where false" in query))[0]
    assert found > 3 or not BY_ORDER


COLLATED = {
    "minimum and maximum": "select k, min(c), max(c) from collated group by k",
    "with a hash of the rows": "select k, max(c), sort_array(collect_list(v)) from collated group by k",
    "an expression": "select k, max(s collate UTF8_LCASE) from collated group by k",
    "after a join": "select x.k, max(y.c) from collated x join collated y on x.k = y.k group by x.k",
}


@needs_collations
@pytest.mark.parametrize("query", COLLATED.values(), ids=COLLATED)
@pytest.mark.parametrize("mode", ["NO_CODEGEN", "FALLBACK"])
@pytest.mark.some(2)
def test_collated_strings_in_a_group_outlive_their_rows(tables: Tables, query: str, mode: str) -> None:
    """Without generated code, Spark's aggregates refer to such strings in rows that the scan reuses."""
    rows = (
        "select cast(id % 3 as int), repeat(cast(id * 7 % 60 as string), int(id % 5)), 's' || id % 7, id from range(60)"
    )
    tables.make("collated", "k int, c string collate UTF8_LCASE, s string, v bigint", "k", 4, rows)
    expected = tables.stock_rows(query)
    with tables.settings({"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": mode}):
        found, plan = tables.run(query)
    assert found == expected and plan.shape.exchanges == 0, plan
