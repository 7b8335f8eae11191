"""Tests that Spark uses the buckets of tables with compatible mixed specs, and an ordinary scan for other tables."""

from __future__ import annotations

import pytest
from bucketed_tables import Tables, plan_of, rows_of
from partition_specs import NUMBERS, SCHEMA, evolve

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

# Bucket columns and numbers of buckets of the partitions of `grown`, in write order.
SPECS = {"a": ("k", 4), "b": ("k", 8), "c": ("k", 16), "d": ("j", 8), "e": ("k", 6)}


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create a table whose number of buckets has grown, and tables to join with it."""
    evolve(tables, "grown", SPECS)
    for buckets in (4, 8, 16):
        tables.make(f"h{buckets}", SCHEMA, "k", buckets, NUMBERS.format(n=5))
    tables.sql("create table days using parquet as select 'b' as ds, 1 as picked union all select 'z', 2")
    return tables


def days(*names: str) -> str:
    return f"(select * from grown where ds in ({', '.join(map(repr, names))}))"


# fmt: off
READ = {
    "old": (f"select * from {days('a')} t join h4 on t.k = h4.k", (0, 0, 2), "(4 Hive buckets, sorted)"),
    "new": (f"select * from {days('c')} t join h16 on t.k = h16.k", (0, 0, 2), "(16 Hive buckets, sorted)"),
    "X and 2X": (f"select * from {days('a', 'b')} t join h4 on t.k = h4.k", (0, 0, 2), "(4 Hive buckets of partitions with 4, 8, merged)"),
    "X, 2X and 4X": (f"select t.k, count(*), sum(h4.v) from {days('a', 'b', 'c')} t join h4 on t.k = h4.k group by t.k", (0, 0, 2), "(4 Hive buckets of partitions with 4, 8, 16, merged)"),
    "2X and 4X": (f"select * from {days('b', 'c')} t full join h8 on t.k = h8.k", (0, 0, 2), "(8 Hive buckets of partitions with 8, 16, merged)"),
    "joined with 4X": (f"select * from {days('b', 'c')} t left join h16 on t.k = h16.k", (0, 0, 2), "(8 Hive buckets of partitions with 8, 16, merged)"),
    "groups": (f"select k, sum(v) from {days('a', 'c')} group by k", (0, 0, 1), "(4 Hive buckets of partitions with 4, 16)"),
    "window": (f"select k, rank() over (partition by k order by v) from {days('a', 'b')}", (0, 1, 1), "(4 Hive buckets of partitions with 4, 8)"),
    "a common divisor": (f"select k, count(*) from {days('b', 'e')} group by k", (0, 0, 1), "(2 Hive buckets of partitions with 6, 8)"),
    "spec with another column": (f"select j, count(*) from {days('d')} group by j", (0, 0, 1), "(8 Hive buckets, sorted)"),
    "grouped by another column": (f"select k, count(*) from {days('d')} group by k", (1, 0, 0), "false [column-not-read] (bucket column j is not read)"),
    "different bucket columns": (f"select k, count(*) from {days('a', 'b', 'd')} group by k", (1, 0, 0), "false [mixed-bucket-specs] (its bucket specs differ: by k in ds=a and 1 more, by j in ds=d)"),
    "none": ("select k, count(*) from grown where ds = 'nothing' group by k", (0, 0, 1), "(6 Hive buckets, sorted)"),
}
# fmt: on


@pytest.mark.parametrize("name", READ)
@pytest.mark.some(2)
def test_compatible_specs_read_their_common_buckets(tables: Tables, aqe: None, name: str) -> None:
    query, shape, read = READ[name]
    plan = tables.read(query, empty=name == "none")
    assert read in plan and plan.shape == shape, plan


def test_different_bucket_counts_are_not_coalesced_when_disabled(tables: Tables) -> None:
    with tables.settings({"spark.bucketing.join.alignment": "off"}):
        plan = tables.read(f"select k, count(*) from {days('a', 'c')} group by k")
    assert "[mixed-bucket-specs] (its bucket specs differ: 4 buckets in ds=a, 16 buckets in ds=c" in plan


def test_partitions_pruned_at_runtime_still_count_for_the_common_spec(tables: Tables, aqe: str) -> None:
    """Runtime pruning happens after planning, so the plan is valid for all partitions."""
    for names, bucketed in (("'a', 'b', 'c'", 1), ("'a', 'b', 'c', 'd'", 0)):
        query = (
            f"select k, count(*) from (select * from grown where ds in ({names})) t "
            "join days on t.ds = days.ds where picked = 1 group by k"
        )
        with tables.settings({"spark.sql.autoBroadcastJoinThreshold": "10485760"}):
            assert tables.read(query).shape.bucketed == bucketed


def test_table_altered_to_not_clustered_gets_an_ordinary_scan(tables: Tables) -> None:
    evolve(tables, "plain_again", {"a": ("k", 4), "b": ("k", 8)})
    tables.sql("alter table plain_again not clustered")
    query = "select k, count(*) from plain_again group by k"
    assert "Bucketed" not in tables.plan(query)
    tables.sql(f"insert into plain_again select *, 'c' as ds from ({NUMBERS.format(n=9)})")
    tables.sql("alter table plain_again clustered by (k) sorted by (k) into 8 buckets")
    assert "[not-sealed] (partition ds=c: " in tables.read(query)
    assert "4 Hive buckets of partitions with 4, 8" in tables.read(query.replace("group", "where ds < 'c' group"))


# Ways to get a partition without files, some with a spec of another column.
ADDED = "alter table sparse add partition (ds = 'n')"
EMPTIED = {
    "added": [ADDED],
    "with another bucket column": [ADDED, "alter table sparse partition (ds = 'n') clustered by (j) into 8 buckets"],
    "without buckets": [ADDED, "alter table sparse partition (ds = 'n') not clustered"],
    "in another folder": [f"{ADDED} location '{{folder}}/elsewhere'"],
    "truncated": ["insert into sparse values (1, 1, 1, 'n')", "truncate table sparse partition (ds = 'n')"],
}


@pytest.fixture
def sparse(tables: Tables) -> Tables:
    """Create a table whose partitions with files are compatible, but whose own spec has another column."""
    evolve(tables, "sparse", {"a": ("k", 4), "b": ("k", 8)})
    tables.sql("alter table sparse clustered by (j) sorted by (j) into 8 buckets")
    return tables


BY_K = "select k, count(*), sum(v) from sparse group by k"


@pytest.mark.parametrize("how", EMPTIED)
@pytest.mark.some(1)
def test_partition_without_files_is_compatible_with_every_spec(sparse: Tables, aqe: None, how: str) -> None:
    for statement in EMPTIED[how]:
        sparse.sql(statement.format(folder=sparse.folder("sparse")))
    for query in (BY_K, BY_K.replace("group", "where ds in ('b', 'n') group")):
        assert sparse.read(query).shape == (0, 0, 1)
    alone = "select j, count(*) from sparse where ds = 'n' group by j"
    assert sparse.read(alone, empty=True).shape == (0, 0, 1)


@pytest.mark.long
def test_rows_added_to_an_empty_partition_after_planning_are_ignored(sparse: Tables) -> None:
    """Rows that arrive between planning and execution, for example from a stream, belong to the next query."""
    sparse.sql(ADDED)
    before = sparse.rows(BY_K)
    frame = sparse.frame(BY_K)
    assert "Bucketed: true (4 Hive buckets of partitions with 4, 8" in plan_of(frame)
    sparse.sql("stock:insert into sparse select k, j, v, 'n' from sparse where ds = 'a'")
    assert rows_of(frame.collect()) == before
    assert sparse.read(BY_K).shape.bucketed == 0 and sparse.rows(BY_K) != before
    sparse.sql("truncate table sparse partition (ds = 'n')")
    assert sparse.rows(BY_K) == before


def test_scan_claims_only_the_ordering_that_all_partitions_share(tables: Tables) -> None:
    tables.make("orders", SCHEMA, "k", 4, rest="partitioned by (ds string)", sorted_by="k, v")
    tables.sql(f"insert into orders select *, 'a' as ds from ({NUMBERS.format(n=1)})")
    tables.sql("alter table orders clustered by (k) sorted by (k) into 4 buckets")
    tables.sql(f"insert into orders select *, 'b' as ds from ({NUMBERS.format(n=2)})")
    ranked = "select k, v, rank() over (partition by k order by v) from orders where ds {days}"
    assert tables.read(ranked.format(days="= 'a'")).shape == (0, 0, 1)
    assert tables.read(ranked.format(days="in ('a', 'b')")).shape == (0, 1, 1)


def test_query_uses_an_alter_from_another_session(tables: Tables) -> None:
    evolve(tables, "shared", {"a": ("k", 4)})
    query = "select k, count(*), sum(v) from shared group by k"
    assert "(4 Hive buckets, sorted)" in tables.plan(query)
    other = tables.spark.newSession()
    other.sql("alter table mixed_specs.shared partition (ds = 'a') not clustered").collect()
    assert "[not-sealed] (partition ds=a: its files are not sealed)" in tables.read(query)
