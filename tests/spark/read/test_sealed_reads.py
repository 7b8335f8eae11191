"""Tests that all queries use sealed buckets, starting with the first: limits, cursors, caches, writes, overwrites."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest
from bucketed_tables import ERRORS, Tables, plan_of, put, rows_of
from pyspark.sql import DataFrame, Row

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

NUMBERS = "select cast(pmod(id * 37, 600) - 100 as int) as k, id as v from range({})"
JOIN = "select t.k, t.v, good.v as w from t join good on t.k = good.k"


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create two tables with 8 buckets and one with 16, all sealed by the writes."""
    for name, rows, buckets in (("t", 900, 8), ("good", 700, 8), ("finer", 600, 16)):
        tables.make(name, "k int, v bigint", "k", buckets)
        with tables.settings({"spark.bucketing.enabled": "true"}):
            tables.sql(f"insert into {name} {NUMBERS.format(rows)}")
    tables.sql(f"create table plain using parquet as {NUMBERS.format(500)}")
    return tables


@pytest.fixture
def plan_in_new_session(tables: Tables) -> DataFrame:
    """Plan the join in a new session."""
    return tables.new_session({"spark.sql.autoBroadcastJoinThreshold": "-1"}).sql(JOIN)


WAYS: dict[str, Callable[[DataFrame], Iterable[Row]]] = {
    "collect": lambda frame: frame.collect(),
    "a cursor": lambda frame: frame.toLocalIterator(),
    "rdd": lambda frame: frame.rdd.collect(),
    "a cache": lambda frame: frame.cache().collect(),
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.some(2)
def test_first_query_of_a_session_reads_buckets(tables: Tables, plan_in_new_session: DataFrame, how: str) -> None:
    plan = plan_of(plan_in_new_session)
    assert plan.count("Bucketed: true (8 Hive buckets, sorted)") == 2 and "Exchange" not in plan
    assert rows_of(WAYS[how](plan_in_new_session)) == tables.stock_rows(JOIN)
    plan_in_new_session.unpersist()


@pytest.mark.parametrize(
    ("query", "bucketed"),
    [
        (f"{JOIN} limit 5", 2),
        (f"select * from ({JOIN}) limit 3 offset 2", 2),
        (f"select v, count(*) from ({JOIN}) group by v limit 5", 2),
        ("select k, count(*) from t group by k limit 3", 1),
        ("select t.k, count(*) from t join finer on t.k = finer.k group by t.k limit 3", 2),
        ("select * from (select k, rank() over (partition by k order by v) as r from t) where r <= 1 limit 9", 1),
    ],
)
@pytest.mark.some(2)
def test_limit_reads_buckets(tables: Tables, aqe: None, query: str, bucketed: int) -> None:
    assert tables.shape(query).bucketed == bucketed
    found, everything = tables.rows(query), tables.stock_rows(query.partition(" limit")[0])
    assert len(found) == min(len(everything), int(query.partition("limit ")[2].split()[0]))
    assert set(found) <= set(everything)


def test_ordered_limit_returns_the_first_rows(tables: Tables) -> None:
    assert tables.read(f"select * from ({JOIN}) order by v, w limit 7").shape.bucketed == 2


COUNT = "select t.k, count(*) as n from t join good on t.k = good.k group by t.k"


def test_writes_and_overwrites_read_buckets(tables: Tables, aqe: None) -> None:
    tables.create("kept using parquet as select 1 as k, 1L as n")
    for statement in (f"insert into kept {COUNT}", f"insert overwrite kept {COUNT}"):
        assert str(tables.sql(f"explain {statement}")).count("Bucketed: true") == 2
        tables.sql(statement)
    assert tables.rows("select * from kept") == tables.stock_rows(COUNT)
    tables.spark.sql(COUNT).write.mode("overwrite").saveAsTable("sealed_reads.kept")
    assert tables.rows("select * from kept") == tables.stock_rows(COUNT)


@pytest.mark.long
@pytest.mark.parametrize(
    "query",
    [
        "select s.k, count(*) from (select named_struct('k', k) as s from t) group by s.k",
        "select * from (select named_struct('k', k) as s, v from t) x join good on x.s.k = good.k",
        "select * from t join good on cast(t.k as bigint) = cast(good.k as bigint)",
        "select * from t x join t y on x.k = y.v",
        "select k, count(*) from (select * from t union all select * from good) group by k",
        "select * from t join (select distinct k as j from good) on t.k = j join good g on g.k = j",
        "select k, sum(v) from t group by grouping sets ((k), ())",
        "select k, sum(v) from (select explode(array(k, k + 1)) as k, v from t) group by k",
        "select * from t join good on t.k <=> good.k",
        "select count(*), count(distinct k) from t",
        "select k from t except all select k from good where v > 3",
        "select * from t where k not in (select k from good where v > 300 and k is not null)",
        "select input_file_name() like '%parquet%', k, count(*) from t group by 1, 2",
        "select spark_partition_id() >= 0, k, t.v from t join good using (k)",
        "select k, count(*) from (select k, rank() over (order by k) as r from good) where r <= 40 group by k",
        "select k, count(*) from (select k, v, rank() over (partition by v order by k) as r from t) where r < 2 group by k",
    ],
)
def test_all_kinds_of_queries_return_the_rows_of_stock_spark(tables: Tables, query: str) -> None:
    tables.read(query)


@pytest.mark.parametrize("codegen", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_bucket_read_twice_by_one_task_returns_all_rows_both_times(tables: Tables, codegen: str) -> None:
    tables.make("few", "k int, v bigint", "k", 2)
    tables.sql(f"insert into few {NUMBERS.format(300)}")
    with tables.settings({"spark.sql.codegen.wholeStage": codegen}):
        frame = tables.frame("select a.k from few a join few b on a.k = b.k where a.k < 5")
        assert plan_of(frame).shape.bucketed == 2
        rows = frame._jdf.javaRDD()
        count = rows.count()
        assert rows.cartesian(rows).count() == count * count > 0


GROUPED = "select k, sum(v) from r group by k"
REPLACED = ("select r.k, r.v, good.v as w from r join good on r.k = good.k", GROUPED)


def planned_frame(tables: Tables, query: str = GROUPED) -> DataFrame:
    """Return a query that Spark has planned over listed, bucketed files, but has not run."""
    frame = tables.frame(query)
    assert "Bucketed: true" in plan_of(frame)
    return frame


@pytest.fixture
def replaceable(tables: Tables) -> Tables:
    tables.make("r", "k int, v bigint", "k", 8)
    tables.sql(f"insert into r {NUMBERS.format(900)}")
    return tables


@pytest.mark.parametrize(
    ("query", "other"),
    [*((query, True) for query in REPLACED), pytest.param(GROUPED, False, id="different modification time")],
)
@pytest.mark.some(1)
def test_query_fails_with_a_clear_error_if_a_file_is_replaced(replaceable: Tables, query: str, other: bool) -> None:
    tables, frame = replaceable, planned_frame(replaceable, query)
    first, second, *_ = tables.files("r")
    put(second, (first if other else second).read_bytes())
    with pytest.raises(ERRORS, match=r"(?s)r was replaced while the query ran.*REFRESH TABLE"):
        frame.collect()
    tables.sql("refresh table r")
    assert "Bucketed: false [seal-stale]" in tables.read(query)


def test_modification_time_truncated_to_seconds_is_not_a_replacement(replaceable: Tables) -> None:
    """Some object stores return milliseconds in a listing, but whole seconds for a single file."""
    tables, second = replaceable, 1_700_000_000 * 10**9
    for path in tables.files("r"):
        os.utime(path, ns=(second, second + 345_000_000))
    tables.sql("refresh table r")
    tables.seal("r")
    frame = planned_frame(tables)
    for path in tables.files("r"):
        os.utime(path, ns=(second, second))
    assert rows_of(frame.collect()) == tables.stock_rows(GROUPED)


def test_missing_files_are_ignored_if_configured(replaceable: Tables) -> None:
    tables = replaceable
    with tables.settings({"spark.sql.files.ignoreMissingFiles": "true"}):
        frame = planned_frame(tables)
        tables.files("r")[0].unlink()
        found = rows_of(frame.collect())
        tables.sql("refresh table r")
        assert found == tables.stock_rows(GROUPED)


def test_stream_reads_the_table_like_stock_spark(tables: Tables) -> None:
    tables.make("streamed", "k int, v bigint", "k", 8, stored="using parquet")
    tables.sql(f"insert into streamed {NUMBERS.format(300)}")
    stream = tables.spark.readStream.table("sealed_reads.streamed").groupBy("k").count()
    query = stream.writeStream.format("memory").queryName("counted").outputMode("complete").start()
    try:
        query.processAllAvailable()
        assert tables.rows("select * from counted") == tables.stock_rows("select k, count(*) from streamed group by k")
    finally:
        query.stop()


def test_dataframe_created_before_the_seal_can_use_it(tables: Tables) -> None:
    tables.make("late", "k int, v bigint", "k", 8, NUMBERS.format(300), sealed=False)
    frame = tables.spark.table(f"{tables.database}.late")

    def plan() -> str:
        grouped = frame.groupBy("k").count()
        assert len(grouped.collect()) == 300
        return plan_of(grouped)

    assert "[not-sealed]" in plan()
    tables.seal("late")
    assert "Bucketed: true (8 Hive buckets" in plan()
