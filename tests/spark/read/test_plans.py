"""Tests of plans with the extension: (query, exchanges, sorts, bucketed scans), with AQE on and off."""

from __future__ import annotations

import pytest
from bucketed_tables import Tables

pytestmark = pytest.mark.usefixtures("extension", "aqe", "no_broadcast")


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.long)], ids=["v1", "v2"])
def bucketing_version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create tables with 8 buckets of k, and variants that differ in one property."""
    numbers = "select cast(id{} as int) as k, id as {} from range({})"
    rows = "select cast(id % 700 as int) as k, id as v, cast(id % 5 as string) as s from range(2000)"
    tables.make("a", "k int, v bigint, s string", "k", 8, rows)
    tables.make("b", "k int, w string", "k", 8, "select cast(id as int) as k, concat('w', id) as w from range(1000)")
    tables.make("o", "k int, x bigint", "k", 8, numbers.format("", "x", 300), stored="stored as orc")
    tables.make("unsorted", "k int, v bigint", "k", 8, numbers.format("", "v", 900), sorted_by="")
    pairs = "select cast(id % 40 as int) as k, cast(id % 9 as string) as t, id as v from range(3000)"
    tables.make("m", "k int, t string, v bigint", "k, t", 4, pairs)
    tables.make("m2", "k int, t string, w bigint", "k, t", 4, pairs.replace("as v", "as w"))
    tables.make("by_v", "k int, v bigint", "k", 8, numbers.format(" % 50", "v", 900), "k, v")
    tables.make("one", "k int, v bigint", "k", 1, numbers.format("", "v", 90))
    tables.make("days", "k int, v bigint", "k", 8, rest="partitioned by (ds date)")
    for day, count in ((1, 500), (2, 400)):
        tables.fill("days", f"select *, date'2024-01-0{day}' as ds from ({numbers.format('', 'v', count)})")
    for name, buckets in (("c16", 16), ("c6", 6)):
        tables.make(name, "k int, u bigint", "k", buckets, numbers.format(" % 500", "u", 1200))
    tables.make("grown", "k int, g bigint", "k", 8, numbers.format("", "g", 300))
    tables.fill("grown", numbers.format("", "g", "250, 600"))
    for name, buckets in (("s8", 8), ("s8b", 8), ("s16", 16)):
        tables.make(name, "k int, v bigint", "k", buckets, stored="using parquet")
        tables.sql(
            f"insert into {name} select /*+ REPARTITION({buckets}, k) */ * from ({numbers.format('', 'v', 800)})"
        )
        tables.seal(name)
    tables.sql("create or replace view seen as select k as key, v + 1 as v1, s from a where v > 10")
    tables.sql("create table plain using parquet as select cast(id as int) as k, id as u from range(500)")
    tables.sql("create table long_keys using parquet as select id as k from range(500)")
    tables.sql("create table calendar using parquet as select date'2024-01-02' as ds, 'Tue' as day")
    return tables


# fmt: off
CASES = [
    # Joins of all types.
    ("select * from a join b on a.k = b.k", 0, 0, 2),
    ("select * from a left join b on a.k = b.k", 0, 0, 2),
    ("select * from a right join b on a.k = b.k", 0, 0, 2),
    ("select * from a full join b on a.k = b.k", 0, 0, 2),
    ("select * from a left semi join b on a.k = b.k", 0, 0, 2),
    ("select * from b left anti join a on a.k = b.k", 0, 0, 2),
    ("select * from a where exists (select 1 from b where a.k = b.k) or v < 5", 0, 0, 2),
    ("select /*+ shuffle_hash(b) */ * from a join b on a.k = b.k", 0, 0, 2),
    ("select * from a x join a y on x.k = y.k", 0, 0, 2),
    ("select * from a join b on a.k = b.k join o on b.k = o.k", 0, 0, 3),
    ("select * from a join b on a.k = b.k and length(b.w) < a.v", 0, 0, 2),
    # Aggregates, distinct, windows.
    ("select k, count(*), sum(v) from a group by k", 0, 0, 1),
    ("select distinct k from a", 0, 0, 1),
    ("select k, count(distinct s) from a group by k", 0, 0, 1),
    ("select k, s, count(*) from a group by k, s", 0, 0, 1),
    ("select k, row_number() over (partition by k order by v) as n from by_v", 0, 0, 1),
    ("select k, row_number() over (partition by k order by v) as n from a", 0, 1, 1),
    ("select a.k, count(*) from a join b on a.k = b.k group by a.k", 0, 0, 2),
    ("select k, max(n) from (select k, s, count(*) n from a group by k, s) group by k", 0, 0, 1),
    # More or fewer keys than bucket columns, and keys in another order.
    ("select * from m join m2 on m.k = m2.k and m.t = m2.t", 0, 0, 2),
    ("select * from m join m2 on m.t = m2.t and m.k = m2.k", 0, 0, 2),
    ("select * from m join m2 on m.t = m2.t and m.k = m2.k and m.v = m2.w", 0, 2, 2),
    ("select * from m join m2 on m.k = m2.k", 2, 2, 0),
    ("select t, k, count(*) from m group by t, k", 0, 0, 1),
    ("select k, count(*) from m group by k", 1, 0, 0),
    # Views, CTEs, projections, renamed columns, filters and subqueries preserve buckets.
    ("select * from seen join b on seen.key = b.k", 0, 0, 2),
    ("with c as (select k as i from a where s = '1') select * from c join b on c.i = b.k where b.w <> 'w7'", 0, 0, 2),
    ("select * from (select k as x, v from a) join (select k as y from b) on x = y", 0, 0, 2),
    ("select * from a join b on a.k = b.k where a.v > (select avg(u) from plain)", 1, 0, 2),
    ("select * from a where k in (select k from b)", 0, 0, 2),
    # Only one side is bucketed, and Spark shuffles the other by Hive's hash.
    ("select * from a join plain on a.k = plain.k", 1, 1, 1),
    ("select * from a full join plain on a.k = plain.k", 1, 1, 1),
    ("select * from m join plain p on m.k = p.k and m.t = cast(p.u as string)", 1, 1, 1),
    ("select * from m join plain p on m.k = p.k and m.t = cast(p.u as string) and m.v = p.u", 1, 2, 1),
    ("select a.k, count(*) from a join plain on a.k = plain.k group by a.k", 1, 1, 1),
    ("select a.k, count(*) from a full join plain on a.k = plain.k join c6 on a.k = c6.k group by a.k", 2, 2, 1),
    ("select c.k, count(*) from a join c6 c on a.k = c.k join b on b.k = c.k group by c.k", 1, 1, 2),
    # Keys of another type, and expressions over keys, do not match the bucket columns.
    ("select * from a join long_keys l on a.k = l.k", 2, 2, 0),
    ("select * from a join b on a.k + 1 = b.k", 1, 1, 1),
    ("select cast(k as bigint), count(*) from a group by cast(k as bigint)", 1, 0, 0),
    # Without an operator that requires buckets, the scan is not bucketed.
    ("select * from a", 0, 0, 0),
    ("select count(*) from a", 1, 0, 0),
    ("select s, count(*) from a group by s", 1, 0, 0),
    ("select * from a order by k", 1, 1, 0),
    # The first rows of all rows are among the first rows of each bucket.
    ("select * from b order by k limit 5", 0, 0, 1),
    ("select w, k from b where w > 'w2' order by k limit 5 offset 3", 0, 0, 1),
    ("select * from (select * from b order by k limit 5) join a using (k)", 1, 1, 2),
    ("select k from b order by k desc limit 5", 0, 0, 0),
    ("select k, w from b order by w, k limit 5", 0, 0, 0),
    ("select k from grown order by k limit 5", 0, 0, 0),
    ("select /*+ broadcast(b) */ * from a join b on a.k = b.k", 0, 0, 0),
    ("select k, count(*) from (select /*+ repartition(3) */ * from a) group by k", 2, 0, 0),
    # A table without sort columns has no ordering; one bucket is a single partition; ORC is like Parquet.
    ("select * from unsorted u join b on u.k = b.k", 0, 1, 2),
    ("select sum(v) over (order by k) from one", 0, 0, 1),
    ("select max(k), sum(v) from one", 1, 0, 0),
    ("select * from o join b on o.k = b.k", 0, 0, 2),
    # A partition of a partitioned table has one file per bucket.
    ("select * from days join b on days.k = b.k where ds = '2024-01-01'", 0, 0, 2),
    ("select k, count(*) from days group by k", 0, 0, 1),
    # Several sorted files of a bucket are merged only if an operator requires the ordering.
    ("select * from days join b on days.k = b.k", 0, 0, 2),
    ("select * from (select input_file_name() as f, k from days) d join b on d.k = b.k", 0, 1, 2),
    ("select * from grown join b on grown.k = b.k", 0, 0, 2),
    ("select * from grown g full join days d on g.k = d.k", 0, 0, 2),
    # Spark coalesces buckets if their numbers are multiples, and shuffles the others.
    ("select * from a join c16 c on a.k = c.k", 0, 0, 2),
    ("select * from c16 c full join a on a.k = c.k", 0, 0, 2),
    ("select * from one join a on one.k = a.k", 0, 0, 2),
    ("select * from a join b on a.k = b.k join c16 c on c.k = b.k", 0, 0, 3),
    ("select * from a join c6 c on a.k = c.k", 1, 1, 1),
    ("select a.k, count(*) from a join c16 c on a.k = c.k group by a.k", 0, 0, 2),
    ("select a.k, count(*) from a join c6 c on a.k = c.k group by a.k", 1, 1, 1),
    ("select a.k, count(*) from a join s8 on a.k = s8.k group by a.k", 1, 1, 1),
    # Unions of inputs with the same buckets.
    ("select k, count(*) from (select k from a union all select k from b) group by k", 0, 0, 2),
    ("select * from (select k, v from a where k > 3 union all select k, v from days) u join b on u.k = b.k", 0, 0, 3),
    ("select k, count(*) from (select k from a union all select k from c16) group by k", 1, 0, 0),
    ("select k, count(*) from (select k from a union all select k from plain) group by k", 1, 0, 0),
    ("select k, count(*) from (select k, v from m union all select k, u from plain) group by k", 1, 0, 0),
    # The Spark layout behaves the same.
    ("select * from s8 join s8b on s8.k = s8b.k", 0, 0, 2),
    ("select * from s8 join s16 on s8.k = s16.k", 0, 0, 2),
    ("select * from (select k from s8 where v > 3 union all select k from s8b) u join s8 on u.k = s8.k", 0, 0, 3),
    ("select * from s8 join a on s8.k = a.k", 1, 1, 1),
]
# fmt: on


@pytest.mark.parametrize(("query", "exchanges", "sorts", "bucketed"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.some(12)
def test_plan_has_the_expected_shape_and_rows(
    tables: Tables, query: str, exchanges: int, sorts: int, bucketed: int
) -> None:
    assert tables.read(query).shape == (exchanges, sorts, bucketed)


def test_plans_without_adaptive_execution_have_the_same_shape(tables: Tables) -> None:
    with tables.settings({"spark.sql.adaptive.enabled": "false"}):
        for query, *shape in CASES[::12]:
            assert tables.read(query).shape == tuple(shape), query


ALIGNMENTS = {
    "coalesce": ((0, 0, 2), "16 {} buckets read as 8, merged"),
    "split": ((0, 0, 2), "8 {} buckets read as 16, sorted"),
    "off": ((1, 1, 1), "16 {} buckets, sorted"),
}


@pytest.mark.long
@pytest.mark.parametrize("how", ["join", "left join", "right join", "full join", "left semi join", "left anti join"])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_join_alignment_setting_coalesces_or_splits_buckets(tables: Tables, alignment: str, how: str) -> None:
    shape, said = ALIGNMENTS[alignment]
    with tables.settings({"spark.bucketing.join.alignment": alignment}):
        plan = tables.read(f"select * from a {how} c16 c on a.k = c.k")
        assert plan.shape == shape and said.format({"1": "Hive", "2": "Hive2"}[tables.version]) in plan, plan
        tables.read(f"select * from c16 c {how} a on a.k = c.k", empty=how == "left anti join")


DAYS = "select * from days join b on days.k = b.k"
UNION = "select k, count(*) from (select k from a union all select k from b) group by k"
# Effects of settings: (name, value, query, shape with the setting).
SETTINGS = [
    ("spark.bucketing.join.alignment", "off", "select * from (select k, v from a union all select k, v from unsorted) u join c16 c on u.k = c.k", (1, 1, 1)),
    ("spark.bucketing.read.mergeFiles", "0", DAYS, (0, 1, 2)),
    ("spark.bucketing.read.mergeBytes", "1k", DAYS, (0, 1, 2)),
    # Joins avoid plans with too few tasks unless a setting allows them.
    ("spark.bucketing.join.alignment", "auto", "select * from one join c16 on one.k = c16.k", (1, 1, 1)),
    ("spark.bucketing.join.alignment", "coalesce", "select * from one join c16 on one.k = c16.k", (0, 0, 2)),
    ("spark.sql.optimizer.singleTaskExecution.enabled", "true", "select k, count(*) from a group by k", (0, 0, 1)),
    ("spark.bucketing.union.enabled", "false", UNION, (1, 0, 0)),
    ("spark.bucketing.enabled", "false", UNION, (1, 0, 0)),
    ("spark.bucketing.enabled", "false", "select * from a join b on a.k = b.k", (2, 2, 0)),
    ("spark.bucketing.read.sparkLayout", "false", "select * from s8 join s8b on s8.k = s8b.k", (0, 2, 2)),
    # Spark does not use a subset of the keys if the setting requires all cluster keys.
    ("spark.sql.requireAllClusterKeysForCoPartition", "true", "select * from m join plain p on m.k = p.k and m.t = cast(p.u as string) and m.v = p.u", (2, 2, 0)),
    ("spark.sql.codegen.wholeStage", "false", "select * from a join b on a.k = b.k", (0, 0, 2)),
    # Then, Spark uses buckets also where no operator requires them.
    ("spark.sql.sources.bucketing.autoBucketedScan.enabled", "false", "select k from b order by k desc limit 5", (0, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "value", "query", "shape"), SETTINGS)
@pytest.mark.some(3)
def test_settings_change_plans_but_not_rows(
    tables: Tables, setting: str, value: str, query: str, shape: tuple[int, int, int]
) -> None:
    with tables.settings({setting: value}):
        plan = tables.read(query)
    assert plan.shape == shape, plan
    assert setting != "spark.bucketing.enabled" or "Bucket" not in plan


def test_order_by_with_limit_does_not_read_buckets_to_the_end(tables: Tables) -> None:
    with tables.settings({"spark.sql.parquet.columnarReaderBatchSize": "10", "spark.sql.adaptive.enabled": "false"}):
        frame = tables.frame("select * from b order by k limit 5")
        assert [row.k for row in frame.collect()] == [0, 1, 2, 3, 4]
        scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
        # Only the first batch of each of the 8 buckets.
        assert scan.metrics().apply("numOutputRows").value() == 80


def test_input_without_required_ordering_is_not_merged(tables: Tables) -> None:
    query = "select /*+ shuffle_hash(d) */ a.k, sum(d.v), max(a.v) from a join days d on a.k = d.k group by a.k"
    assert "merged" not in tables.read(query)


@pytest.mark.parametrize("alignment", ["auto", "coalesce", "split"])
@pytest.mark.long
def test_three_way_join_with_incompatible_bucket_counts_is_correct(tables: Tables, alignment: str) -> None:
    """The first join reads 12 buckets as 4; the second would need 8, which is impossible."""
    for buckets, rows in ((12, 300), (4, 200), (8, 90000), (6, 300), (2, 300)):
        query = f"select cast(id as int) as k, id as n{buckets} from range({rows})"
        tables.make(f"n{buckets}", f"k int, n{buckets} bigint", "k", buckets, query)
    with tables.settings({"spark.bucketing.join.alignment": alignment}):
        tables.read("select * from n12 join n4 using (k) join n8 using (k)")
        tables.read("select * from n4 join n2 using (k) join n6 using (k)")


def test_dynamic_pruning_selects_partitions_of_a_bucketed_scan(tables: Tables) -> None:
    query = "select /*+ broadcast(c) */ a.k, d.v from days d join calendar c on d.ds = c.ds join a on a.k = d.k where c.day = 'Tue'"
    plan = tables.read(query)
    assert "dynamicpruning" in plan and plan.shape.bucketed == 2
    assert "Exchange hashpartitioning" not in plan


def test_cached_table_keeps_its_buckets(tables: Tables) -> None:
    tables.sql("cache table kept as select k, v from a where v > 3")
    try:
        assert tables.shape("select * from kept join b on kept.k = b.k")[:2] == (0, 0)
        counted = "select count(*), sum({t}.v) from {t} join b on {t}.k = b.k where {t}.v > 3"
        assert tables.rows(counted.format(t="kept")) == tables.stock_rows(counted.format(t="a"))
    finally:
        tables.sql("uncache table kept")
        tables.sql("drop view kept")


def test_bucketed_scan_pushes_down_filters_and_columns(tables: Tables) -> None:
    plan = tables.plan("select k, count(v) from a where v > 100 group by k")
    assert "PushedFilters: [IsNotNull(v), GreaterThan(v,100)]" in plan
    assert "ReadSchema: struct<k:int,v:bigint>" in plan and "Batched: true, Bucketed: true" in plan
