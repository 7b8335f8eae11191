"""Filters on bucket columns leave out files of the other buckets: which filters, how many buckets, and when."""

from __future__ import annotations

import re

import pytest
from bucketed import Tables
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension")

ROWS = (
    "select if(id % 50 = 0, null, cast(id % 200 - 90 as int)) as k, concat('é', id % 7) as t, id as v from range(1500)"
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    made = Tables(spark, "pruning")
    made.make("a", "k int, t string, v bigint", "k", 8, ROWS)
    made.make("m", "k int, t string, v bigint", "k, t", 16, ROWS)
    made.make("h", "k int, t string, v bigint", "k", 8, ROWS)
    made.rename("h", r"0\1_0")
    made.seal("h")
    made.make("typed", "d date, n decimal(9,2), l bigint", "d, n, l", 4)
    typed = "select date_add(date'1969-12-20', cast(id % 30 as int)) as d, cast(id % 9 / 4 as decimal(9,2)) as n, id % 5 - 2 as l"
    made.fill("typed", "d, n, l", 4, f"{typed} from range(900)")
    return made


# A filter, and how many buckets it leaves; None where it leaves all.
FILTERS = [
    ("a", "k = 5", 1),
    ("a", "5 = k", 1),
    ("a", "k = -7", 1),
    ("a", "k = 5L", 1),
    ("a", "k = 5 and v > 10", 1),
    ("a", "k <=> null", 1),
    ("a", "k <=> 9", 1),
    ("a", "k is null", 1),
    ("a", "k in (1, 9, 17)", 1),
    ("a", "k in (1, 2, null)", 2),
    ("a", "k = 1 or k = 2 or k = 3", 3),
    ("a", "(k = 1 or k = 2) and (k = 2 or k = 3)", 1),
    ("a", "k = 1 and k = 2", 0),
    ("a", "k = 1 or v = 2", None),
    ("a", "not k = 1", None),
    ("a", "k + 1 = 5", None),
    ("a", "k > 5", None),
    ("a", "k is not null", None),
    ("h", "k = 5", 1),
    ("m", "k = 5 and t = 'é3'", 1),
    ("m", "t = 'é3' and k in (1, 2)", 2),
    ("m", "(k = 5 and t = 'é3') or (k = 6 and t is null)", 2),
    ("m", "k = 5", None),
    ("m", "k = 5 and t like 'é%'", None),
    ("typed", "d = date'1969-12-31' and n = 1.25 and l = -2", 1),
    ("typed", "d in (date'1969-12-31', date'1970-01-02') and n = 0.5 and l = 1", 2),
]


@pytest.mark.parametrize(("table", "where", "buckets"), FILTERS)
def test_buckets_left_by_a_filter(tables: Tables, table: str, where: str, buckets: int | None) -> None:
    query = f"select * from {table} where {where}"
    plan = tables.plan(query)
    assert tables.rows(query) == tables.stock_rows(query)
    found = re.search(r"SelectedBucketsCount: (\d+) out of", plan)
    if buckets == 0 and found is None:
        assert "LocalTableScan" in plan
    else:
        assert (found and int(found[1])) == buckets, plan


@pytest.mark.long
@pytest.mark.parametrize(("table", "where", "buckets"), [case for case in FILTERS if case[2]])
def test_a_pruned_scan_is_still_bucketed(tables: Tables, table: str, where: str, buckets: int) -> None:
    query = f"select k, count(*) from (select {'k' if table != 'typed' else 'd as k, n, l'} from {table} where {where}) group by k"
    assert tables.rows(query) == tables.stock_rows(query)


def test_nothing_is_left_out_of_files_that_are_not_sealed(tables: Tables) -> None:
    tables.make("u", "k int, t string, v bigint", "k", 8, ROWS, sealed=False)
    query = "select * from u where k = 5"
    assert "SelectedBucketsCount" not in tables.plan(query)
    assert tables.rows(query) == tables.stock_rows(query)
