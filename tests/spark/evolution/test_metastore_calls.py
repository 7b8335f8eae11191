"""Tests that the number of a query's metastore calls does not depend on the number of partitions."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from bucketed_tables import Tables
from partition_specs import metastore_calls
from py4j.protocol import Py4JJavaError

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

PARTITIONS = (3, 12)
ROWS = "select id as k, cast(id as string) as v, id % {partitions} as p from range(48)"


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create a table for each number of partitions; the partitions have 4 or 8 buckets."""
    conf = {"spark.bucketing.enabled": "true", "hive.exec.dynamic.partition.mode": "nonstrict"}
    with tables.settings(conf):
        for partitions in PARTITIONS:
            rows = ROWS.format(partitions=partitions)
            tables.make(f"evolved{partitions}", "k bigint, v string", "k", 4, rest="partitioned by (p bigint)")
            tables.sql(f"insert into evolved{partitions} {rows}")
            tables.sql(f"alter table evolved{partitions} clustered by (k) sorted by (k) into 8 buckets")
            tables.sql(f"insert overwrite evolved{partitions} partition (p) select * from ({rows}) where p > 0")
    return tables


GROUPED = "select k, count(*) from {t} group by k"
JOINED = "select a.k, b.v from {t} a join {t} b on a.k = b.k"
# Both sides of a self join share a call, unlike in stock Spark. The extension needs no other call for the seals.
CALLS = {
    "group by": (GROUPED, {"get_partitions": 1}),
    "self join": (JOINED, {"get_partitions": 1}),
    "two group by": (f"{GROUPED} union all {GROUPED}", {"get_partitions": 1}),
    "no bucketed operator": ("select * from {t}", {"get_partitions": 1}),
    "selected partitions": (GROUPED.replace("group", "where p < 2 group"), {"get_partitions_by_filter": 1}),
    "self join of selected partitions": (f"{JOINED} where a.p < 2 and b.p < 2", {"get_partitions_by_filter": 1}),
    # The optimizer plans a subquery on its own.
    "subquery": (f"{GROUPED} having k > (select max(p) from {{t}})", {"get_partitions": 2}),
}


def calls(tables: Tables, name: str, query: str) -> Counter[str]:
    """Count the metastore calls to plan and run a query."""
    with metastore_calls(tables.spark) as seen:
        tables.sql(query.format(t=name))
    return Counter(seen)


@pytest.mark.parametrize(("query", "expected"), CALLS.values(), ids=CALLS)
@pytest.mark.some(2)
def test_calls_do_not_depend_on_the_number_of_partitions(tables: Tables, query: str, expected: dict[str, int]) -> None:
    few, many = (calls(tables, f"evolved{partitions}", query) for partitions in PARTITIONS)
    assert few == many
    assert {name: number for name, number in few.items() if "partition" in name} == expected


def test_adaptive_replanning_makes_no_further_calls(tables: Tables) -> None:
    # Spark reads the buckets of `a` only after two other stages have run.
    query = (
        "select a.k, c.most from {t} a join (select cast(v as bigint) as k, max(k) as most from {t} group by v) c "
        "on a.k = c.k"
    )
    seen = {}
    for adaptive in ("false", "true"):
        with tables.settings({"spark.sql.adaptive.enabled": adaptive}):
            seen[adaptive] = calls(tables, "evolved12", query)
    assert seen["true"] == seen["false"]


@pytest.mark.parametrize("query", [GROUPED, JOINED], ids=["group by", "self join"])
def test_counted_queries_read_buckets(tables: Tables, query: str) -> None:
    text = query.format(t="evolved12")
    assert "Bucketed: true (4 Hive buckets of partitions with 4, 8" in tables.read(text)


# A query, and whether it lists files. Spark optimizes a subquery before and after it becomes a join.
LISTED = [
    ("select * from {t}", True),
    ("explain select * from {t}", False),
    ("select * from {t} a, lateral (select sum(p) from {t} b where b.k = a.k)", True),
]


@pytest.mark.parametrize(("query", "lists"), LISTED)
def test_queries_list_the_directories_of_partitions_once(tables: Tables, query: str, lists: bool) -> None:
    metrics: Any = cast("Any", tables.spark)._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    tables.sql("refresh table evolved12")
    seen = []
    for _ in range(2):
        before = metrics.METRIC_FILES_DISCOVERED().getCount()
        tables.sql(query.format(t="evolved12"))
        seen.append(metrics.METRIC_FILES_DISCOVERED().getCount() - before)
    files = len(tables.sql("select distinct input_file_name() from evolved12"))
    assert seen == [files if lists else 0, 0]


def test_seals_that_change_after_spark_has_selected_partitions(tables: Tables) -> None:
    tables.make("changing", "k bigint, v string", "k", 4, rest="partitioned by (p bigint)")
    tables.sql(f"insert into changing {ROWS.format(partitions=3)}")
    query: Any = tables.spark.sql("select p, k from changing where p >= 1 group by p, k")
    plans = query._jdf.queryExecution()
    plans.optimizedPlan()
    tables.sql("insert overwrite changing partition (p) values (1000, 'new', 1)")
    assert sorted(map(tuple, query.collect())) == [(1, 1000), *((2, k) for k in range(2, 48, 3))]
    assert "Bucketed: true" in str(plans.executedPlan())


# Filters of a self join whose sides select different files. `_metadata` is available only in DataFrames.
SIDES = [
    ("p = 1", "p < 3"),
    ("_metadata.file_path like '%p=1/%'", "_metadata.file_path like '%p=%'"),
    ("_metadata.file_path like '%p=1/%'", "p in (0, 1)"),
    ("_metadata.file_path like '%p=%'", "true"),
]


@pytest.mark.parametrize(("left", "right"), SIDES)
@pytest.mark.some(1)
def test_sides_with_different_files_do_not_share_a_listing(tables: Tables, left: str, right: str) -> None:
    table = tables.spark.table("metastore_calls.evolved3")
    table.where(left).createOrReplaceTempView("one_side")
    table.where(right).createOrReplaceTempView("other_side")
    # Try both orders, because the sides could share the first listing.
    for first, second in (("one_side", "other_side"), ("other_side", "one_side")):
        tables.read(f"select * from {first} a full join {second} b using (k)")


def test_bucket_specs_lists_no_files_for_columns_of_the_metastore(tables: Tables) -> None:
    tables.make("moved", "k bigint", "k", 4, rest="partitioned by (p bigint)")
    tables.sql("insert into moved values (1, 0), (2, 1)")
    described = (
        "select max(partition), descriptor_num_buckets from bucket_specs('moved') where num_buckets = 4 group by 2"
    )
    with_files = "select partition from bucket_specs('moved') where status = 'sealed'"
    assert tables.sql(described) == [("p=1", 4)] and len(tables.sql(with_files)) == 2
    # Nothing can be listed there.
    tables.sql("alter table moved partition (p = 1) set location 'unknown://host/p=1'")
    # SET LOCATION clears the descriptor.
    assert {row[0] for row in tables.sql("select partition from bucket_specs('moved') where num_buckets = 4")} == {
        "p=0",
        "p=1",
    }
    assert sorted(map(repr, tables.sql("select descriptor_num_buckets from bucket_specs('moved')"))) == [
        "(4,)",
        "(None,)",
    ]
    with pytest.raises(Py4JJavaError, match='No FileSystem for scheme "unknown"'):
        tables.sql(with_files)
