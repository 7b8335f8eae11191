"""Tests that a join with a broadcast table skips buckets and files whose rows it drops."""

from __future__ import annotations

from typing import Any

import pytest
from bucketed_tables import Tables, rows_of
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "aqe", "broadcast")

COLUMNS = "k int, t string, d date, v bigint"
ROWS = (
    "select cast(id as int) as k, string(id % 40) as t, date_add(date'2024-01-01', int(id / 100)) as d, id as v "
    "from range(2000) union all select null, null, null, id from range(3)"
)
DAYS = "(select explode(array(date'2024-01-02', date'2024-01-15')) as day)"


@pytest.fixture
def broadcast(spark: SparkSession, tables: Tables) -> Any:
    threshold = {"spark.sql.autoBroadcastJoinThreshold": "10MB", "spark.bucketing.read.partitionBytes": "0"}
    with tables.settings(threshold):
        yield


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create sealed tables, an organized table of 20 days, and small tables of keys.

    The sealed tables are in the Hive and the Spark layout, in Parquet and ORC, partitioned, and bucketed by two columns.
    """
    made = [("hive", "k", "parquet"), ("orc", "k", "orc"), ("text", "t", "parquet"), ("two", "k, t", "parquet")]
    layouts = [(name, by, f"stored as {stored}") for name, by, stored in made]
    for name, by, stored in (*layouts, ("spark", "k", "using parquet")):
        tables.make(name, COLUMNS, by, 8, stored=stored)
        with tables.settings({"spark.bucketing.enabled": "true"}):
            tables.sql(f"insert into {name} {ROWS}")
    tables.make("parts", "k int, v bigint", "k", 4, rest="partitioned by (p int)")
    with tables.settings({"spark.bucketing.enabled": "true", "hive.exec.dynamic.partition.mode": "nonstrict"}):
        insert = "insert into parts select cast(id as int), id, {} from range(100)"
        tables.sql(insert.format(1))
        tables.sql("alter table parts clustered by (k) sorted by (k) into 8 buckets")
        tables.sql(insert.format(2))
        properties = "'bucketing.range_by'='[\"d\"]', 'bucketing.rows_per_file'='100'"
        tables.create(f"organized ({COLUMNS}) using parquet tblproperties ({properties})")
        tables.sql(f"insert into organized {ROWS}")
    tables.create("keys stored as parquet as select k, k % 3 as g from (values (5), (13), (null)) as of (k)")
    tables.create("texts stored as parquet as select '7' as t, 1 as g")
    tables.sql("create or replace temporary view nothing as select k from keys where g = 77")
    return tables


def scans(frame: Any) -> dict[str, int]:
    """Return the number of files that a query read of each table."""

    def below(plan: Any) -> Any:
        name = plan.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            yield from below(plan.executedPlan())
        elif name.endswith("QueryStageExec"):
            yield from below(plan.plan())
        else:
            yield plan
            for place in range(plan.children().size()):
                yield from below(plan.children().apply(place))

    found: dict[str, int] = {}
    for plan in below(frame._jdf.queryExecution().executedPlan()):
        if plan.nodeName().startswith("Scan parquet") or plan.nodeName().startswith("Scan orc"):
            table = plan.tableIdentifier().get().table()
            found[table] = max(found.get(table, 0), plan.metrics().apply("numFiles").value())
    return found


SKIPPED = [
    # An ordinary scan, which no operator requires to be bucketed, in each layout. 5 and 13 are in the same bucket of Hive's hash.
    ("select f.v from hive f join keys on f.k = keys.k", {"hive": 1}),
    ("select f.v from orc f join keys on f.k = keys.k", {"orc": 1}),
    ("select f.v from spark f join keys on f.k = keys.k", {"spark": 2}),
    ("select f.v from text f join texts on f.t = texts.t", {"text": 1}),
    ("select f.v from hive f where f.k in (select k from keys)", {"hive": 1}),
    # Each partition has its own number of buckets.
    ("select f.v from parts f join keys on f.k = keys.k", {"parts": 2}),
    ("select f.v from parts f join keys on f.k = keys.k where p = 2", {"parts": 1}),
    # A bucketed scan, and the other side of its join.
    ("select f.k, count(*) from hive f join keys on f.k = keys.k group by f.k", {"hive": 1}),
    ("select /*+ merge(f, o) */ f.v, o.v from hive f join orc o on f.k = o.k join keys on f.k = keys.k", {"hive": 1, "orc": 1}),
    ("select /*+ merge(f, o) */ f.v, o.v from hive f left join orc o on f.k = o.k join keys on f.k = keys.k", {"hive": 1, "orc": 8}),
    # Both filters of a scan.
    ("select f.v from hive f join keys on f.k = keys.k where f.k in (5, 6)", {"hive": 1}),
    # Files of an organized table.
    (f"select f.v from organized f join {DAYS} on f.d = day", {"organized": 2}),
    (f"select f.v from organized f join {DAYS} on f.d = day where d > date'2024-01-10'", {"organized": 1}),
    (f"select f.v from organized f join {DAYS} on f.d = day join keys on f.k - 100 = keys.k", {"organized": 2}),
]  # fmt: skip
READ = [
    # The join keeps rows without a match.
    ("select f.v, g from hive f left join keys on f.k = keys.k", {"hive": 8}),
    ("select f.v from hive f where not exists (select 1 from keys where f.k = keys.k)", {"hive": 8}),
    ("select /*+ broadcast(keys) */ f.v, g from keys right join hive f on f.k = keys.k", {"hive": 8}),
    # A filter below would change the result.
    ("select count(*) from (select k from hive order by v limit 50) f join keys on f.k = keys.k", {"hive": 8}),
    ("select f.n from (select k, row_number() over (order by v) as n from hive) f join keys on f.k = keys.k", {"hive": 8}),
    ("select /*+ merge(f, o) */ count(o.v) from orc o full join hive f on f.k = o.k join keys on coalesce(f.k, o.k) = keys.k", {"hive": 8}),
    # Other rows of an outer, anti or existence join could fail before the join drops them.
    ("select f.v from organized f left join hive o on f.k = o.k join keys on f.k = keys.k where coalesce(1 / coalesce(o.v + 1, 0), 9) > 0", {"hive": 8}),
    ("select f.v from organized f left join hive o on f.k = o.k join keys on f.k = keys.k and 1 / coalesce(o.v + 1, 0) <= keys.k", {"hive": 8}),
    ("select f.v from organized f join keys on f.k = keys.k where f.k in (select k from hive) or 1 / (f.v - 100) > 0", {"hive": 8}),
    # The join does not use the bucket column, or only one of them, or an expression over it.
    ("select f.v from hive f join keys on f.v = keys.k", {"hive": 8}),
    ("select f.v from two f join keys on f.k = keys.k", {"two": 4}),  # all of its files
    ("select f.v from hive f join keys on f.k + 1 = keys.k", {"hive": 8}),
    ("select f.v from organized f join keys on f.k = keys.k", {"organized": 21}),
]  # fmt: skip


@pytest.mark.parametrize(("query", "files"), SKIPPED + READ)
@pytest.mark.some(10)
def test_scan_reads_the_files_that_may_have_matches(tables: Tables, query: str, files: dict[str, int]) -> None:
    frame = tables.frame(query)
    assert rows_of(frame.collect()) == tables.stock_rows(query) != []
    assert {name: number for name, number in scans(frame).items() if name in files} == files


@pytest.mark.parametrize(
    "condition", ["f.k not in (select k from gaps)", "f.v > 5000 or f.k not in (select k from gaps)"]
)
@pytest.mark.some(1)
def test_anti_join_sees_the_nulls_of_skipped_buckets(tables: Tables, condition: str) -> None:
    tables.make("gaps", COLUMNS, "k", 8, "select k, null, null, v from hive where k <> 5 or k is null")
    query = f"select f.v from organized f join keys on f.k = keys.k where {condition}"
    assert tables.rows(query) == tables.stock_rows(query) == []


@pytest.mark.parametrize("aqe", ["true", "false"])
@pytest.mark.parametrize("hint", ["", "/*+ merge(o) */"])
@pytest.mark.parametrize(
    "condition", ["f.k in (select {} k from orc o)", "f.k not in (select {} k from orc o where k > 7)"]
)
@pytest.mark.some(2)
def test_condition_that_spark_copies_to_the_broadcast_table(
    tables: Tables, condition: str, hint: str, aqe: str
) -> None:
    """Both copies of the subquery have the same column ids."""
    query = f"select f.v from hive f join keys on f.k = keys.k where {condition.format(hint)}"
    with tables.settings({"spark.sql.adaptive.enabled": aqe}):
        assert tables.rows(query) == tables.stock_rows(query) != []


def test_broadcast_table_has_no_filters_itself(tables: Tables) -> None:
    """Otherwise, Spark would plan it again for each filter of each table that it filters, and would not reuse its broadcast."""
    query = "select f.v from hive f join orc o on f.k = o.k join spark s on f.k = s.k join keys on f.k = keys.k where o.v < 10"
    frame = tables.frame(query)
    assert frame._jdf.queryExecution().sparkPlan().toString().count("dynamicpruning#") == 3
    assert rows_of(frame.collect()) == tables.stock_rows(query) != []


def test_plans_can_be_hashed(tables: Tables) -> None:
    frame = tables.frame(f"select f.v from organized f join {DAYS} on f.d = day")
    assert frame._jdf.queryExecution().sparkPlan().hashCode()


def test_empty_broadcast_table_skips_everything(tables: Tables) -> None:
    for name in ("hive", "organized"):
        frame = tables.frame(f"select f.v from {name} f join nothing on f.k = nothing.k")
        assert frame.collect() == [] and scans(frame).get("hive", 0) == 0


@pytest.mark.parametrize("setting", ["spark.sql.optimizer.dynamicPartitionPruning.enabled", "spark.sql.exchange.reuse"])
@pytest.mark.some(1)
def test_settings_of_spark_disable_the_filters(tables: Tables, setting: str) -> None:
    query = SKIPPED[0][0]
    with tables.settings({setting: "false"}):
        frame = tables.frame(query)
        frame.collect()
    assert scans(frame)["hive"] == 8


def test_unsealed_files_are_all_read(tables: Tables) -> None:
    """The name of a file that is not sealed says nothing about its rows."""
    tables.make("unsealed", COLUMNS, "k", 8, stored="stored as parquet tblproperties ('bucketing_version' = '1')")
    tables.fill("unsealed", ROWS, sealed=False)
    query = "select f.v from unsealed f join keys on f.k = keys.k"
    frame = tables.frame(query)
    assert rows_of(frame.collect()) == tables.stock_rows(query) != []
    assert scans(frame)["unsealed"] == 8


def test_file_added_after_the_seal_is_read(tables: Tables) -> None:
    tables.make("stale", COLUMNS, "k", 8, ROWS)
    with tables.settings({"spark.bucketing.enabled": "false"}):
        tables.sql("insert into stale select 13, 'x', date'2024-01-01', id from range(2)")
    query = "select f.v from stale f join keys on f.k = keys.k"
    assert rows_of(tables.frame(query).collect()) == tables.stock_rows(query)
    assert len(tables.frame(query).collect()) == 4
