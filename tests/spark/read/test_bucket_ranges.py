"""Tests that several tasks read a sorted bucket, each a range of its first sort column, if there are too few buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyspark
import pytest
from bucketed_tables import Shape, Tables, cores, small_pages

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

RANGES, MAX = "spark.bucketing.read.rangeBytes", "spark.bucketing.read.maxBucketBytes"
COLUMNS = "k bigint, v bigint, x bigint"
TYPES = {
    "tinyint": "cast(pmod(id, 100) as tinyint)",
    "smallint": "cast(id as smallint)",
    "int": "cast(id - 300 as int)",
    "bigint": "id * 3000000000 - 1000000000000",
    "string": "concat(if(id % 3 = 0, 'é', 'A'), id)",
    "date": "date_add(date'1960-01-01', cast(id as int))",
    "decimal(9,2)": "cast(id / 4 - 100 as decimal(9,2))",
    "decimal(18,2)": "cast(id / 4 - 100 as decimal(18,2))",
    "decimal(25,3)": "cast(id / 4 - 100 as decimal(25,3))",
}
# Some keys are NULL, and one of them has a third of the rows.
ROWS = "select if(id % 41 = 0, null, if(id % 3 = 1, {key0}, {key})) as k, id as v, id % 7 as x from range({n})"


def rows(of: str, number: int = 2000) -> str:
    return ROWS.format(key=TYPES[of], key0=TYPES[of].replace("id", "777L"), n=number)


@pytest.fixture(scope="module", autouse=True)
def pages(tables: Tables) -> Iterator[None]:
    with small_pages(tables.spark):
        yield


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    return tables


@pytest.fixture(scope="module")
def made(tables: Tables, pages: None) -> Tables:
    for name, buckets in (("two", 2), ("other", 2), ("four", 4)):
        tables.make(name, COLUMNS, "k", buckets, rows("bigint"))
    tables.make("by_x", COLUMNS, "k", 2, rows("bigint"), sorted_by="x")
    tables.make("pair", COLUMNS, "k, x", 2, rows("bigint"))
    tables.make("files", COLUMNS, "k", 2)
    for _ in range(3):
        tables.fill("files", rows("bigint", 500), files=1)
    tables.make("sparks", COLUMNS, "k", 2, stored="using parquet")
    with tables.settings({"spark.bucketing.enabled": "true"}):
        tables.sql(f"insert into sparks {rows('bigint')}")
        tables.make("evolved", COLUMNS, "k", 2, rest="partitioned by (p int)")
        tables.sql(f"insert into evolved partition (p = 1) {rows('bigint')}")
        tables.sql("alter table evolved clustered by (k) sorted by (k) into 4 buckets")
        tables.sql(f"insert into evolved partition (p = 2) {rows('bigint', 500)}")
    tables.create(f"plain stored as parquet as {rows('bigint')}")
    return tables


def join(left: str, right: str, kind: str = "join", on: str = "a.k = b.k") -> str:
    columns = "a.k, a.v" if kind in ("left semi join", "left anti join") else "a.k, a.v, b.k, b.v"
    return f"select {columns} from {left} a {kind} {right} b on {on} and abs(a.v - b.v) < 30"


RANGED = "read as 8 by range"
# (query, plan, part of the plan). There are 8 cores.
PLANS = [
    *[(join("two", "other", kind), Shape(0, 0, 2), RANGED)
      for kind in ("join", "left join", "right join", "full join", "left semi join", "left anti join")],
    (join("two", "two"), Shape(0, 0, 2), RANGED),
    (join("two", "plain"), Shape(1, 1, 1), RANGED),
    (join("plain", "two", "full join"), Shape(1, 1, 1), RANGED),
    # Since Spark 4.3, the aggregate keeps the order of its input.
    (join("two", "(select k, max(v) as v from other group by k)"), Shape(0, int(pyspark.__version__ < "4.3"), 2), RANGED),
    ("select q.k, q.w, c.v from (select a.k, a.v, b.v as w from two a join other b on a.k = b.k and abs(a.v - b.v) < 9) q join two c on q.k = c.k and abs(q.v - c.v) < 9", Shape(0, 0, 3), RANGED),
    (join("sparks", "sparks"), Shape(0, 0, 2), RANGED),
    (join("sparks", "plain"), Shape(1, 1, 1), RANGED),
    (join("pair", "pair", on="a.k = b.k and a.x = b.x"), Shape(0, 0, 2), RANGED),
    # 4 buckets are read as 2 first.
    (join("two", "four"), Shape(0, 0, 2), RANGED),
    ("select k, count(*), sum(v) from two group by k", Shape(0, 0, 1), RANGED),
    ("select k, x, count(*) from two group by k, x", Shape(0, 0, 1), RANGED),
    ("select distinct k from two", Shape(0, 0, 1), RANGED),
    ("select count(*), sum(n) from (select k, count(*) as n from two group by k)", Shape(1, 0, 1), RANGED),
    ("select k, v, row_number() over (partition by k order by v) as n from two", Shape(0, 1, 1), RANGED),
    ("select k, count(*) from (select k from two union all select k from other) group by k", Shape(0, 0, 2), RANGED),
    ("select k, count(*) from two where k > 5000000000 and v % 2 = 0 group by k", Shape(0, 0, 1), RANGED),
    ("select k as z, n + 1 from (select k, count(*) as n from two group by k)", Shape(0, 0, 1), RANGED),
    # Partitions with 2 and with 4 buckets are read as 2 first.
    (join("evolved", "two"), Shape(0, 0, 2), RANGED),
    ("select k, count(*) from evolved group by k", Shape(0, 0, 1), RANGED),
    # The files of a bucket are merged in each range.
    (join("files", "two"), Shape(0, 0, 2), RANGED),
    ("select k, count(*) from files group by k", Shape(0, 0, 1), RANGED),
    # Rows with equal keys could be in several ranges.
    ("select k, count(*) from by_x group by k", Shape(0, 0, 1), "2 Hive buckets)"),
    ("select k, x, count(*) from by_x group by k, x", Shape(0, 0, 1), RANGED),
    ("select k, x, count(*) from pair group by k, x", Shape(0, 0, 1), RANGED),
    (join("by_x", "by_x"), Shape(0, 2, 2), "2 Hive buckets)"),
]  # fmt: skip


@pytest.mark.parametrize("adaptive", all_long_but("true", ["true", "false"]))
@pytest.mark.parametrize(("query", "expected", "text"), PLANS)
@pytest.mark.some(12)
def test_plans(made: Tables, query: str, expected: Shape, text: str, adaptive: str) -> None:
    settings = {
        RANGES: "1",
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    }
    with cores(made.spark, 8), made.settings(settings):
        found, plan = made.run(query)
        assert plan.shape == expected, plan
        assert text in plan, plan
    assert found == made.stock_rows(query) != []


@pytest.mark.parametrize("stored", ["stored as parquet", "stored as orc"])
@pytest.mark.parametrize("of", TYPES)
@pytest.mark.some(2)
def test_types(tables: Tables, of: str, stored: str) -> None:
    tables.make("t", f"k {of}, v bigint, x bigint", "k", 2, rows(of), stored=stored)
    with cores(tables.spark, 8), tables.settings({RANGES: "1"}):
        groups = "select spark_partition_id() as p, n from (select k, count(*) as n from t group by k)"
        tasks = [int(str(n)) for (n,) in tables.sql(f"select sum(n) as n from ({groups}) group by p order by n")]
        plan = tables.read("select k, count(*), sum(v) from t group by k")
        tables.read("select a.k, a.v, b.v from t a full join t b on a.k = b.k and a.v = b.v")
    if (of, stored) == ("string", "stored as orc"):
        assert "by range" not in plan, plan
        return
    assert re.search(r"2 Hive2? buckets read as \d+ by range, sorted", plan), plan
    # One key has a third of the rows, so its task has more.
    assert len(tasks) >= 5 and sum(tasks) == 2000 and tasks[-2] < 700, tasks


def test_each_task_reads_only_the_pages_of_its_range(made: Tables) -> None:
    query = "select k, count(*) from two group by k"
    with cores(made.spark, 8), made.settings({RANGES: "1", "spark.sql.adaptive.enabled": "false"}):
        frame = made.frame(query)
        frame.collect()
        plan = frame._jdf.queryExecution().executedPlan()
        scan = plan.collectLeaves().head()
        read = scan.metrics().apply("numOutputRows").value()
    assert 2000 <= read < 2000 * 1.3, read


KINDS = ["join", "left join", "right join", "full join", "left semi join", "left anti join"]


@pytest.fixture(scope="module")
def skewed(tables: Tables, pages: None) -> Tables:
    """Create tables in which one key has most of the rows."""
    key = "if(id % 5 < 3, 40, if(id % 41 = 0, null, id % 1000))"
    for stored in ("parquet", "orc"):
        for buckets in (2, 16):
            tables.make(f"{stored}{buckets}", COLUMNS, "k", buckets, f"select {key}, id, id % 7 from range(6000)", stored=f"stored as {stored}")  # fmt: skip
            tables.make(f"few_{stored}{buckets}", COLUMNS, "k", buckets, "select id * 2, id, id % 7 from range(400)", stored=f"stored as {stored}")  # fmt: skip
    tables.make("parts2", COLUMNS, "k", 2)
    for part in range(3):
        tables.fill("parts2", f"select {key}, id, id % 7 from range({part * 2000}, {part * 2000 + 2000})", files=1)
    return tables


@pytest.mark.parametrize("hash_join", all_long_but("false", ["true", "false"]))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("large", "small"), [
    ("parquet2", "few_parquet2"), ("parquet16", "few_parquet16"), ("orc2", "few_orc2"), ("orc16", "few_orc16"), ("parts2", "few_parquet2"),
])  # fmt: skip
@pytest.mark.some(3)
def test_tasks_divide_the_rows_of_a_frequent_key(
    skewed: Tables, large: str, small: str, kind: str, hash_join: str
) -> None:
    settings = {RANGES: "1", "spark.sql.join.preferSortMergeJoin": str(hash_join == "false").lower(), "spark.sql.shuffle.partitions": "2"}  # fmt: skip
    with cores(skewed.spark, 8), skewed.settings(settings):
        for left, right in ((large, small), (small, large)):
            query = join(left, right, kind).replace("< 30", "< 90")
            plan = skewed.read(query)
            keeps = {"join": "", "full join": "both", "right join": "right"}.get(kind, "left")
            is_divisible = not keeps or keeps == ("left" if left == large else "right")
            assert ("skew=true" in plan) == is_divisible, plan
            assert plan.shape == Shape(0, 0, 2), plan


@pytest.mark.parametrize(("query", "is_divided"), [
    ("select count(*), sum(v) from (select a.v from parquet16 a join few_parquet16 b on a.k = b.k)", True),
    ("select q.k, q.v, c.v from (select a.k, a.v from parquet16 a join few_parquet16 b on a.k = b.k) q left join few_parquet16 c on q.k = c.k", True),
    ("select a.k, b.v from few_parquet16 a join (select a.k, a.v from parquet16 a join few_parquet16 b on a.k = b.k) b on a.k = b.k", True),
    ("select a.k, count(*) from parquet16 a join few_parquet16 b on a.k = b.k group by a.k", False),
    ("select a.k, b.n from parquet16 a join (select k, count(*) as n from few_parquet16 group by k) b on a.k = b.k", False),
    ("select count(*), count(distinct id) from parquet16 a join (select k, monotonically_increasing_id() as id from few_parquet16) b on a.k = b.k", False),
    ("select k, rank() over (partition by k order by v) from parquet16", False),
])  # fmt: skip
@pytest.mark.some(4)
def test_rows_of_a_key_stay_together_if_the_query_requires_it(skewed: Tables, query: str, is_divided: bool) -> None:
    with cores(skewed.spark, 8), skewed.settings({RANGES: "1"}):
        plan = skewed.read(query)
    assert ("skew=true" in plan) == is_divided, plan


SLICED = "select a.v, a.x from parquet16 a join few_parquet16 b on a.k = b.k"


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(
    "query",
    [
        f"select q.x, c.id from ({SLICED}) q left join range(0, 6000, 1, 20) c on q.v = c.id",
        f"select q.x, c.v from ({SLICED}) q left join (select x, max(v) as v from parquet2 group by x) c on q.x = c.x",
        f"select q.x, c.k from ({SLICED}) q join few_parquet16 c on q.x = c.x and q.v = c.v",
        f"select q.v, count(*) from ({SLICED}) q join ({SLICED}) r on q.v = r.v group by q.v",
    ],
)
@pytest.mark.some(2)
def test_joins_above_divided_rows_shuffle_them(skewed: Tables, query: str, adaptive: str) -> None:
    settings = {RANGES: "1", "spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": "20", "spark.sql.adaptive.coalescePartitions.enabled": "false"}  # fmt: skip
    with cores(skewed.spark, 8), skewed.settings(settings):
        assert "skew=true" in skewed.read(query)


STRINGS = {
    "outside of the basic plane": r"concat(if(id % 2 = 0, '\uff01', '\U0001f600'), id)",
    "not valid": "if(id % 3 > 0, concat('é', id), concat(cast(unhex(hex(128 + id % 127)) as string), id % 500))",
}


@pytest.mark.parametrize("stored", ["stored as parquet", "stored as orc"])
@pytest.mark.parametrize("of", STRINGS)
@pytest.mark.some(2)
def test_strings_with_unusual_characters(tables: Tables, of: str, stored: str) -> None:
    tables.make("t", "k string, v bigint, x bigint", "k", 2, f"select {STRINGS[of]}, id, id from range(8000)", stored=stored)  # fmt: skip
    with cores(tables.spark, 16), tables.settings({RANGES: "1"}):
        plan = tables.read("select k, count(*), sum(v) from t group by k")
    assert ("by range" in plan) == ("parquet" in stored)


def test_filters_by_the_partition_of_a_row_do_not_replace_the_ranges(made: Tables) -> None:
    query = "select k, count(*) from (select * from two where spark_partition_id() >= 0) group by k"
    with cores(made.spark, 8), made.settings({RANGES: "1"}):
        assert "by range" in made.read(query)


def test_lookups_of_a_key_and_keys_with_few_values_are_not_divided(made: Tables) -> None:
    made.make("low", COLUMNS, "k, v", 1, "select id % 3, id, id from range(2000)")
    with cores(made.spark, 64), made.settings({RANGES: "1"}):
        assert "by range" not in made.read("select k, count(*) from two where k = 503000000000 group by k")
        with made.settings({MAX: "1000"}):
            assert "[too-few-buckets]" in made.read("select k, v, count(*) from low group by k, v")


def test_tasks_of_a_frequent_key_have_similar_numbers_of_rows(skewed: Tables) -> None:
    query = "select spark_partition_id() as task, count(*) as n from parquet16 a join few_parquet16 b on a.k = b.k group by 1 order by n"  # fmt: skip
    with cores(skewed.spark, 8), skewed.settings({RANGES: "1"}):
        divided = [n for _, n in skewed.sql(query)]
    with cores(skewed.spark, 8), skewed.settings({RANGES: "0"}):
        whole = [n for _, n in skewed.sql(query)]
    assert sum(divided) == sum(whole)  # type: ignore[arg-type]
    assert divided[-1] < whole[-1] / 3, (divided, whole)  # type: ignore[operator]


# (cores, rangeBytes and maxBucketBytes as a share of the bytes of a bucket, partitions)
SIZES = [
    (8, 0.25, 9, 8), (8, 0.3, 9, 6), (8, 2, 9, 2), (8, 0, 9, 2), (3, 0.01, 9, 6), (2, 0.01, 9, 2), (2, 0.01, 0.4, 6), (2, 0.6, 0.1, 2), (6, 0.01, 9, 6),
]  # fmt: skip


@pytest.mark.parametrize(("number", "least", "most", "partitions"), SIZES)
@pytest.mark.some(4)
def test_number_of_ranges(made: Tables, number: int, least: float, most: float, partitions: int) -> None:
    size = max(path.stat().st_size for path in made.files("other"))
    with cores(made.spark, number), made.settings({RANGES: str(int(size * least)), MAX: str(int(size * most))}):
        plan = made.read("select k, count(*) from other group by k")
    assert ("by range" in plan) == (partitions > 2), plan
    assert partitions == 2 or f"read as {partitions} by range" in plan, plan


def test_writes_into_buckets_read_whole_buckets(made: Tables) -> None:
    made.make("copy", COLUMNS, "k", 2)
    with cores(made.spark, 8), made.settings({RANGES: "1"}):
        plan = str(made.sql("explain insert overwrite copy select * from two"))
        made.sql("insert overwrite copy select * from two")
        assert "by range" not in plan, plan
        assert len(made.files("copy")) == 2
        made.sql("update copy set v = v + 1 where k is not null")
        assert len(made.files("copy")) == 2
        made.read("select k, count(*), sum(v) from copy group by k")


def test_files_without_statistics_are_read_whole(tables: Tables) -> None:
    tables.make("t", COLUMNS, "k", 2, "select null as k, id as v, id as x from range(100)")
    with cores(tables.spark, 8), tables.settings({RANGES: "1"}):
        assert "by range" not in tables.read("select k, count(*) from t group by k")
