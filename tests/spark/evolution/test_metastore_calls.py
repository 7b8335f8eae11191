"""What planning a query of partitions asks of the metastore: as often for many partitions as for few."""

from __future__ import annotations

from collections import Counter

import pytest
from bucketed_tables import Tables
from partition_specs import metastore_calls

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

PARTITIONS = (3, 12)
ROWS = "select id as k, cast(id as string) as v, id % {partitions} as p from range(48)"


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """For each number of partitions a table that evolved, with partitions of 4 and of 8 buckets."""
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
# Of the calls for partitions, Spark itself makes one for each listing of files: those of a self join share theirs where they
# ask for the same. For the seals they are asked for once more.
CALLS = [
    pytest.param(GROUPED, {"get_partitions": 2}, id="group by"),
    pytest.param(JOINED, {"get_partitions": 2}, id="self join"),
    pytest.param(f"{GROUPED} union all {GROUPED}", {"get_partitions": 2}, id="two group by"),
    pytest.param("select * from {t}", {"get_partitions": 2}, id="no use for buckets"),
    pytest.param(GROUPED.replace("group", "where p < 2 group"), {"get_partitions_by_filter": 2}, id="group by of some"),
    # The optimizer lists the partitions that a filter selects, for each side.
    pytest.param(f"{JOINED} where a.p < 2 and b.p < 2", {"get_partitions_by_filter": 3}, id="self join of some"),
]


def calls(tables: Tables, name: str, query: str) -> Counter[str]:
    """What planning and running a query asks of the metastore."""
    with metastore_calls(tables.spark) as seen:
        tables.sql(query.format(t=name))
    return Counter(seen)


@pytest.mark.parametrize(("query", "expected"), CALLS)
def test_calls_are_as_many_for_any_number_of_partitions(tables: Tables, query: str, expected: dict[str, int]) -> None:
    few, many = (calls(tables, f"evolved{partitions}", query) for partitions in PARTITIONS)
    assert few == many
    assert {name: number for name, number in few.items() if "partition" in name} == expected


def test_what_adaptive_execution_plans_again_is_not_asked_again(tables: Tables) -> None:
    # The buckets of `a` are read once two other stages have run.
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
def test_these_queries_are_read_by_buckets(tables: Tables, query: str) -> None:
    text = query.format(t="evolved12")
    assert "Bucketed: true (4 Hive buckets of partitions with 4, 8" in tables.read(text)


# What the sides of a self join ask for, where it is not the same. Spark finds `_metadata` in the plan of a frame.
SIDES = [
    ("p = 1", "p < 3"),
    ("_metadata.file_path like '%p=1/%'", "_metadata.file_path like '%p=%'"),
    ("_metadata.file_path like '%p=1/%'", "p in (0, 1)"),
    ("_metadata.file_path like '%p=%'", "true"),
]


@pytest.mark.parametrize(("left", "right"), SIDES)
def test_sides_that_select_other_files_share_no_listing(tables: Tables, left: str, right: str) -> None:
    table = tables.spark.table("metastore_calls.evolved3")
    table.where(left).createOrReplaceTempView("one_side")
    table.where(right).createOrReplaceTempView("other_side")
    # In both orders, since who is listed first would be shared.
    for first, second in (("one_side", "other_side"), ("other_side", "one_side")):
        tables.read(f"select * from {first} a full join {second} b using (k)")
