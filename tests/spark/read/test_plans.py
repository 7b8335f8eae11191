"""What the extension's plans move and sort: (query, exchanges, sorts, scans read as bucketed), AQE on and off."""

from __future__ import annotations

import pytest
from bucketed import Shape, Tables
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "aqe")

NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """Tables of 8 buckets of k, and some that differ in one thing."""
    made = Tables(spark, "plans")
    rows = "select cast(id % 700 as int) as k, id as v, cast(id % 5 as string) as s from range(2000)"
    made.make("a", "k int, v bigint, s string", "k", 8, rows)
    made.make("b", "k int, w string", "k", 8, "select cast(id as int) as k, concat('w', id) as w from range(1000)")
    made.make(
        "o", "k int, x int", "k", 8, "select cast(id as int) as k, 1 as x from range(300)", stored="stored as orc"
    )
    made.make(
        "unsorted", "k int, v bigint", "k", 8, "select cast(id as int) as k, id as v from range(900)", sorted_by=""
    )
    pairs = "select cast(id % 40 as int) as k, cast(id % 9 as string) as t, id as v from range(3000)"
    made.make("m", "k int, t string, v bigint", "k, t", 4, pairs)
    made.make("m2", "k int, t string, w bigint", "k, t", 4, pairs.replace("as v", "as w"))
    made.make("by_v", "k int, v bigint", "k", 8, "select cast(id % 50 as int) as k, id as v from range(900)", "k, v")
    made.make("one", "k int, v bigint", "k", 1, "select cast(id as int) as k, id as v from range(90)")
    made.make(
        "days",
        "k int, v bigint",
        "k",
        8,
        "select cast(id as int) as k, id as v, date'2024-01-01' as ds from range(500)",
        rest="partitioned by (ds date)",
    )
    made.fill("days", "k", 8, "select cast(id as int) as k, id as v, date'2024-01-02' as ds from range(400)")
    made.make("c16", "k int, u bigint", "k", 16, "select cast(id % 500 as int) as k, id as u from range(1200)")
    made.make("c6", "k int, u bigint", "k", 6, "select cast(id % 500 as int) as k, id as u from range(1200)")
    made.make("grown", "k int, g bigint", "k", 8, "select cast(id as int) as k, id as g from range(300)")
    made.fill("grown", "k", 8, "select cast(id as int) as k, id as g from range(250, 600)")
    for name, buckets in (("s8", 8), ("s8b", 8), ("s16", 16)):
        made.make(name, "k int, v bigint", "k", buckets, stored="using parquet")
        rows = "select cast(id as int) as k, id as v from range(800)"
        made.sql(f"insert into {name} select /*+ REPARTITION({buckets}, k) */ * from ({rows})")
        made.seal(name)
    made.sql("create or replace view seen as select k as key, v + 1 as v1, s from a where v > 10")
    made.sql("create table plain using parquet as select cast(id as int) as k, id as u from range(500)")
    made.sql("create table long_keys using parquet as select id as k from range(500)")
    made.sql("create table calendar using parquet as select date'2024-01-02' as ds, 'Tue' as day")
    return made


# fmt: off
CASES = [
    # Joins of every type.
    ("select * from a join b on a.k = b.k", 0, 0, 2),
    ("select * from a left join b on a.k = b.k", 0, 0, 2),
    ("select * from a right join b on a.k = b.k", 0, 0, 2),
    ("select * from a full join b on a.k = b.k", 0, 0, 2),
    ("select * from a left semi join b on a.k = b.k", 0, 0, 2),
    ("select * from a left anti join b on a.k = b.k", 0, 0, 2),
    ("select * from a where exists (select 1 from b where a.k = b.k) or v < 5", 0, 0, 2),
    ("select /*+ shuffle_hash(b) */ * from a join b on a.k = b.k", 0, 0, 2),
    ("select * from a x join a y on x.k = y.k", 0, 0, 2),
    ("select * from a join b on a.k = b.k join o on b.k = o.k", 0, 0, 3),
    ("select * from a join b on a.k = b.k and length(b.w) < a.v", 0, 0, 2),
    # Grouping, distinct rows, windows.
    ("select k, count(*), sum(v) from a group by k", 0, 0, 1),
    ("select distinct k from a", 0, 0, 1),
    ("select k, count(distinct s) from a group by k", 0, 0, 1),
    ("select k, s, count(*) from a group by k, s", 0, 0, 1),
    ("select k, row_number() over (partition by k order by v) as n from by_v", 0, 0, 1),
    ("select k, row_number() over (partition by k order by v) as n from a", 0, 1, 1),
    ("select a.k, count(*) from a join b on a.k = b.k group by a.k", 0, 0, 2),
    ("select k, max(n) from (select k, s, count(*) n from a group by k, s) group by k", 0, 0, 1),
    # More keys than bucket columns, fewer, and in another order.
    ("select * from m join m2 on m.k = m2.k and m.t = m2.t", 0, 0, 2),
    ("select * from m join m2 on m.t = m2.t and m.k = m2.k", 0, 0, 2),
    ("select * from m join m2 on m.t = m2.t and m.k = m2.k and m.v = m2.w", 0, 2, 2),
    ("select * from m join m2 on m.k = m2.k", 2, 2, 0),
    ("select t, k, count(*) from m group by t, k", 0, 0, 1),
    ("select k, count(*) from m group by k", 1, 0, 0),
    # Through views, CTEs, projections, new names, filters, subqueries.
    ("select * from seen join b on seen.key = b.k", 0, 0, 2),
    ("with c as (select k as i from a where s = '1') select * from c join b on c.i = b.k where b.w <> 'w7'", 0, 0, 2),
    ("select * from (select k as x, v from a) join (select k as y from b) on x = y", 0, 0, 2),
    ("select * from a join b on a.k = b.k where a.v > (select avg(u) from plain)", 1, 0, 2),
    ("select * from a where k in (select k from b)", 0, 0, 2),
    # One side only is bucketed: the other one moves, to Hive's buckets.
    ("select * from a join plain on a.k = plain.k", 1, 1, 1),
    ("select * from a full join plain on a.k = plain.k", 1, 1, 1),
    ("select * from m join plain p on m.k = p.k and m.t = cast(p.u as string)", 1, 1, 1),
    ("select * from m join plain p on m.k = p.k and m.t = cast(p.u as string) and m.v = p.u", 1, 2, 1),
    ("select a.k, count(*) from a join plain on a.k = plain.k group by a.k", 1, 1, 1),
    ("select a.k, count(*) from a full join plain on a.k = plain.k join c6 on a.k = c6.k group by a.k", 2, 2, 1),
    ("select c.k, count(*) from a join c6 c on a.k = c.k join b on b.k = c.k group by c.k", 1, 1, 2),
    # Keys of another type, or behind an expression, are other keys.
    ("select * from a join long_keys l on a.k = l.k", 2, 2, 0),
    ("select * from a join b on a.k + 1 = b.k", 1, 1, 1),
    ("select cast(k as bigint), count(*) from a group by cast(k as bigint)", 1, 0, 0),
    # Without an operator that needs the buckets the scan is a plain one.
    ("select * from a", 0, 0, 0),
    ("select count(*) from a", 1, 0, 0),
    ("select s, count(*) from a group by s", 1, 0, 0),
    ("select * from a order by k", 1, 1, 0),
    ("select /*+ broadcast(b) */ * from a join b on a.k = b.k", 0, 0, 0),
    ("select k, count(*) from (select /*+ repartition(3) */ * from a) group by k", 2, 0, 0),
    # No order is claimed where the table has none; one bucket is one partition; ORC is as Parquet.
    ("select * from unsorted u join b on u.k = b.k", 0, 1, 2),
    ("select sum(v) over (order by k) from one", 0, 0, 1),
    ("select max(k), sum(v) from one", 1, 0, 0),
    ("select * from o join b on o.k = b.k", 0, 0, 2),
    # One partition of a partitioned table is one file per bucket.
    ("select * from days join b on days.k = b.k where ds = '2024-01-01'", 0, 0, 2),
    ("select k, count(*) from days group by k", 0, 0, 1),
    # Several sorted files per bucket are merged where an order is needed, and only there.
    ("select * from days join b on days.k = b.k", 0, 0, 2),
    ("select * from grown join b on grown.k = b.k", 0, 0, 2),
    ("select * from grown g full join days d on g.k = d.k", 0, 0, 2),
    # N against k x N buckets; others are shuffled.
    ("select * from a join c16 c on a.k = c.k", 0, 0, 2),
    ("select * from c16 c full join a on a.k = c.k", 0, 0, 2),
    ("select * from one join a on one.k = a.k", 0, 0, 2),
    ("select * from a join b on a.k = b.k join c16 c on c.k = b.k", 0, 0, 3),
    ("select * from a join c6 c on a.k = c.k", 1, 1, 1),
    ("select a.k, count(*) from a join c16 c on a.k = c.k group by a.k", 0, 0, 2),
    ("select a.k, count(*) from a join c6 c on a.k = c.k group by a.k", 1, 1, 1),
    ("select a.k, count(*) from a join s8 on a.k = s8.k group by a.k", 1, 1, 1),
    # Unions of inputs that are bucketed alike.
    ("select k, count(*) from (select k from a union all select k from b) group by k", 0, 0, 2),
    ("select * from (select k, v from a where k > 3 union all select k, v from days) u join b on u.k = b.k", 0, 0, 3),
    ("select k, count(*) from (select k from a union all select k from c16) group by k", 1, 0, 0),
    ("select k, count(*) from (select k from a union all select k from plain) group by k", 1, 0, 0),
    ("select k, count(*) from (select k, v from m union all select k, u from plain) group by k", 1, 0, 0),
    # The same for Spark's own layout.
    ("select * from s8 join s8b on s8.k = s8b.k", 0, 0, 2),
    ("select * from s8 join s16 on s8.k = s16.k", 0, 0, 2),
    ("select * from (select k from s8 where v > 3 union all select k from s8b) u join s8 on u.k = s8.k", 0, 0, 3),
    ("select * from s8 join a on s8.k = a.k", 1, 1, 1),
]
# fmt: on


def shaped(tables: Tables, query: str) -> Shape:
    with tables.settings(NO_BROADCAST):
        return tables.shape(query)


@pytest.mark.parametrize(("query", "exchanges", "sorts", "bucketed"), CASES, ids=[case[0] for case in CASES])
def test_plan_and_rows(tables: Tables, query: str, exchanges: int, sorts: int, bucketed: int) -> None:
    assert shaped(tables, query) == (exchanges, sorts, bucketed)
    assert tables.rows(query) == tables.stock_rows(query)


ALIGNMENTS = {
    "coalesce": ((0, 0, 2), "16 Hive buckets read as 8, merged"),
    "split": ((0, 0, 2), "8 Hive buckets read as 16, sorted"),
    "off": ((1, 1, 1), "16 Hive buckets, sorted"),
}


@pytest.mark.long
@pytest.mark.parametrize("how", ["join", "left join", "right join", "full join", "left semi join", "left anti join"])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_one_to_many_joins_can_be_chosen(tables: Tables, alignment: str, how: str) -> None:
    shape, told = ALIGNMENTS[alignment]
    query = f"select * from a {how} c16 c on a.k = c.k"
    with tables.settings({"spark.bucketing.join.alignment": alignment, **NO_BROADCAST}):
        assert tables.shape(query) == shape
        assert told in tables.plan(query)
        assert tables.rows(query) == tables.stock_rows(query)
        swapped = f"select * from c16 c {how} a on a.k = c.k"
        assert tables.rows(swapped) == tables.stock_rows(swapped)


def test_a_union_below_an_exchange_is_a_plain_one(tables: Tables) -> None:
    query = "select * from (select k, v from a union all select k, v from unsorted) u join c16 c on u.k = c.k"
    with tables.settings({"spark.bucketing.join.alignment": "off"}):
        assert shaped(tables, query) == (1, 1, 1)
        assert tables.rows(query) == tables.stock_rows(query)


def test_without_merging_files_are_sorted(tables: Tables) -> None:
    query = "select * from days join b on days.k = b.k"
    with tables.settings({"spark.bucketing.read.mergeFiles": "0"}):
        assert shaped(tables, query) == (0, 1, 2)


def test_files_that_would_take_too_much_memory_together_are_sorted(tables: Tables) -> None:
    query = "select * from days join b on days.k = b.k"
    assert shaped(tables, query) == (0, 0, 2)
    with tables.settings({"spark.bucketing.read.mergeBytes": "1k"}):
        assert shaped(tables, query) == (0, 1, 2)


def test_an_input_whose_order_nobody_needs_is_not_merged(tables: Tables) -> None:
    query = "select /*+ shuffle_hash(d) */ a.k, sum(d.v), max(a.v) from a join days d on a.k = d.k group by a.k"
    with tables.settings(NO_BROADCAST):
        assert "merged" not in tables.plan(query)
    assert tables.rows(query) == tables.stock_rows(query)


def test_a_join_is_not_forced_into_too_few_tasks(tables: Tables) -> None:
    query = "select * from one join c16 on one.k = c16.k"
    assert shaped(tables, query).exchanges == 1
    with tables.settings({"spark.bucketing.join.alignment": "coalesce"}):
        assert shaped(tables, query).exchanges == 0
    assert tables.rows(query) == tables.stock_rows(query)


@pytest.mark.parametrize("alignment", ["auto", "coalesce", "split"])
def test_three_tables_whose_numbers_do_not_all_divide(tables: Tables, alignment: str) -> None:
    """12 buckets are read as 4 for the first join, and cannot be read as 8 for the second one."""
    for name, buckets, rows in (("n12", 12, 300), ("n4", 4, 200), ("n8", 8, 90000)):
        query = f"select cast(id as int) as k, id as {name} from range({rows})"
        tables.make(name, f"k int, {name} bigint", "k", buckets, query)
    tables.make("n6", "k int, n6 bigint", "k", 6, "select cast(id as int) as k, id as n6 from range(300)")
    tables.make("n2", "k int, n2 bigint", "k", 2, "select cast(id as int) as k, id as n2 from range(300)")
    for query in (
        "select * from n12 join n4 using (k) join n8 using (k)",
        "select * from n4 join n2 using (k) join n6 using (k)",
    ):
        with tables.settings({"spark.bucketing.join.alignment": alignment, **NO_BROADCAST}):
            assert tables.rows(query) == tables.stock_rows(query), query


def test_small_tables_are_not_read_by_one_task(tables: Tables) -> None:
    query = "select k, count(*) from a group by k"
    with tables.settings({"spark.sql.optimizer.singleTaskExecution.enabled": "true"}):
        assert tables.rows(query) == tables.stock_rows(query)


def test_a_query_that_asks_for_the_file_is_not_merged(tables: Tables) -> None:
    query = "select * from (select input_file_name() as f, k from days) d join b on d.k = b.k"
    assert shaped(tables, query) == (0, 1, 2)
    assert tables.rows(query) == tables.stock_rows(query)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.bucketing.union.enabled": "false"},
        {"spark.bucketing.enabled": "false"},
    ],
)
def test_bucket_unions_can_be_switched_off(tables: Tables, settings: dict[str, str]) -> None:
    with tables.settings(settings):
        assert (
            shaped(tables, "select k, count(*) from (select k from a union all select k from b) group by k").exchanges
            == 1
        )


def test_the_spark_layout_can_be_left_to_stock_spark(tables: Tables) -> None:
    with tables.settings({"spark.bucketing.read.sparkLayout": "false"}):
        assert shaped(tables, "select * from s8 join s8b on s8.k = s8b.k") == (0, 2, 2)


def test_switched_off_the_plan_is_stock_spark_s(tables: Tables) -> None:
    with tables.settings({"spark.bucketing.enabled": "false", **NO_BROADCAST}):
        plan = tables.plan("select * from a join b on a.k = b.k")
    assert plan.count("Exchange hashpartitioning") == 2 and "Bucket" not in plan


def test_dynamic_pruning_reads_the_right_partitions_of_a_bucketed_scan(tables: Tables) -> None:
    query = "select /*+ broadcast(c) */ a.k, d.v from days d join calendar c on d.ds = c.ds join a on a.k = d.k where c.day = 'Tue'"
    with tables.settings(NO_BROADCAST):
        plan = tables.plan(query)
    assert "dynamicpruning" in plan and plan.count("Bucketed: true") == 2
    assert "Exchange hashpartitioning" not in plan
    assert tables.rows(query) == tables.stock_rows(query)


def test_a_cached_table_keeps_its_buckets(tables: Tables) -> None:
    tables.sql("cache table kept as select k, v from a where v > 3")
    try:
        assert shaped(tables, "select * from kept join b on kept.k = b.k")[:2] == (0, 0)
        query = "select count(*), sum(kept.v) from kept join b on kept.k = b.k"
        assert tables.rows(query) == tables.stock_rows(
            "select count(*), sum(a.v) from a join b on a.k = b.k where v > 3"
        )
    finally:
        tables.sql("uncache table kept")
        tables.sql("drop view kept")


def test_a_part_of_the_keys_is_not_shuffled_by_where_the_user_asks_for_all(tables: Tables) -> None:
    query = "select * from m join plain p on m.k = p.k and m.t = cast(p.u as string) and m.v = p.u"
    with tables.settings({"spark.sql.requireAllClusterKeysForCoPartition": "true"}):
        assert shaped(tables, query).exchanges == 2


def test_filters_and_columns_are_still_pushed_down(tables: Tables) -> None:
    plan = tables.plan("select k, count(v) from a where v > 100 group by k")
    assert "PushedFilters: [IsNotNull(v), GreaterThan(v,100)]" in plan
    assert "ReadSchema: struct<k:int,v:bigint>" in plan and "Batched: true, Bucketed: true" in plan


def test_without_generated_code_the_rows_are_the_same(tables: Tables) -> None:
    query = "select * from a join b on a.k = b.k"
    with tables.settings({"spark.sql.codegen.wholeStage": "false"}):
        assert shaped(tables, query) == (0, 0, 2)
        assert tables.rows(query) == tables.stock_rows(query)
