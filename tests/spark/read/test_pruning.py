"""Tests that filters on bucket columns prune the files of other buckets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from bucketed_tables import Tables, rows_of
from partition_specs import evolve

pytestmark = pytest.mark.usefixtures("extension")

ROWS = (
    "select if(id % 50 = 0, null, cast(id % 200 - 90 as int)) as k, concat('é', id % 7) as t, id as v from range(1500)"
)


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.long)], ids=["v1", "v2"])
def bucketing_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    tables.make("a", "k int, t string, v bigint", "k", 8, ROWS)
    tables.make("m", "k int, t string, v bigint", "k, t", 16, ROWS)
    tables.make("h", "k int, t string, v bigint", "k", 8, ROWS)
    tables.rename("h", r"0\1_0")
    tables.seal("h")
    tables.make("typed", "d date, n decimal(9,2), l bigint", "d, n, l", 4)
    typed = "select date_add(date'1969-12-20', cast(id % 30 as int)) as d, cast(id % 9 / 4 as decimal(9,2)) as n, id % 5 - 2 as l"
    tables.fill("typed", f"{typed} from range(900)")
    return tables


# A filter, and the number of buckets that remain after pruning; None if the filter prunes nothing.
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
    ("typed", "d = date'1969-12-31' and n = 1.25 and l = -1", 1),
    ("typed", "d in (date'1969-12-31', date'1970-01-02') and n = 0.25 and l = 1", 2),
]
# Filters that leave a different number of buckets in bucketing version 2.
OF_VERSION_2 = {"k in (1, 9, 17)": 2, "d in (date'1969-12-31', date'1970-01-02') and n = 0.25 and l = 1": 1}


@pytest.mark.parametrize(("table", "where", "buckets"), FILTERS)
@pytest.mark.some(12)
def test_filter_prunes_buckets(tables: Tables, table: str, where: str, buckets: int | None) -> None:
    buckets = OF_VERSION_2.get(where, buckets) if tables.version == "2" else buckets
    query = f"select * from {table} where {where}"
    plan = tables.read(query, empty=buckets == 0)
    found = re.search(r"SelectedBucketsCount: (\d+) out of", plan)
    if buckets == 0 and found is None:
        assert "LocalTableScan" in plan
    else:
        assert (found and int(found[1])) == buckets, plan


def test_unsealed_files_are_not_pruned(tables: Tables) -> None:
    # Stock Spark writes the table, so its buckets have version 1.
    stored = "stored as parquet tblproperties ('bucketing_version' = '1')"
    tables.make("u", "k int, t string, v bigint", "k", 8, ROWS, stored=stored, sealed=False)
    assert "SelectedBucketsCount" not in tables.read("select * from u where k = 5")


# Partitions with different numbers of buckets.

SPECS = {"a": ("k", 4), "b": ("k", 8), "c": ("k", 16)}
Buckets = dict[str, set[int]]
ALL: Buckets = {"a": set(range(4)), "b": set(range(8)), "c": set(range(16))}
QUERIES = ["select * from pruned where k = 7", "select k, count(*), sum(v) from pruned where k = 7 group by k"]


def _buckets(files: Iterable[object]) -> Buckets:
    found: Buckets = {}
    for file in files:
        folder, name = str(file).rsplit("/", 2)[1:]
        found.setdefault(folder.removeprefix("ds="), set()).add(int(name.split("_")[0]))
    return found


def _scan(plan: Any) -> Any:
    """Return the only scan of an executed plan."""
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return _scan(plan.executedPlan())
    if name.endswith("QueryStageExec"):
        return _scan(plan.plan())
    return _scan(plan.children().apply(0)) if plan.children().size() else plan


def read(tables: Tables, query: str) -> Buckets:
    """Return the buckets that a query reads from each partition, and check that stock Spark returns the same rows."""
    expected = tables.stock_rows(query)
    frame = tables.frame(query)
    assert rows_of(frame.collect()) == expected != []
    scan = _scan(frame._jdf.queryExecution().executedPlan())
    files = [file.urlEncodedPath() for file in scan.listing().files()]
    assert scan.metrics().apply("numFiles").value() == len(files)
    return _buckets(files)


@pytest.mark.usefixtures("dynamic_partitions")
def test_pruning_uses_each_partitions_number_of_buckets(tables: Tables) -> None:
    evolve(tables, "pruned", SPECS)
    assert _buckets(tables.files("pruned")) == ALL
    bucket = "hive_bucket({}, 7)" if tables.version == "1" else "hive2_bucket({}, 7)"
    own: Buckets = {day: {int(str(tables.sql(f"select {bucket.format(n)}")[0][0]))} for day, (_, n) in SPECS.items()}
    for query in QUERIES:
        assert "SelectedBucketsCount: 1 out of 4, 1 out of 8, 1 out of 16" in tables.plan(query)
        assert read(tables, query) == own
        assert read(tables, query.replace("k = 7", "k = 7 and ds > 'a'")) == {day: own[day] for day in "bc"}
