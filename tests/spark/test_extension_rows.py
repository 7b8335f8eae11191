"""Never a wrong row: whatever lies on disk, a query returns the same rows with the extension and without, or it fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from bucketed import Tables
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension")

ERRORS = (PySparkException, Py4JJavaError)
NUMBERS = "select cast(pmod(id * 37, 600) - 100 as int) as k, id as v from range(1500)"
SCHEMA = "k int, v bigint"
CODEGEN = ["true", pytest.param("false", marks=pytest.mark.long)]
QUERIES = (
    "select * from t join good on t.k = good.k",
    "select * from t full join good on t.k = good.k",
    "select k, count(*), sum(v) from t group by k",
    "select k, v, row_number() over (partition by k order by v) from t",
    "select * from good where not exists (select 1 from t where t.k = good.k)",
)


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[Tables]:
    made = Tables(spark, "extension_rows")
    if not made.sql("show tables like 'good'"):
        made.make("good", "k int, w bigint", "k", 8, NUMBERS.replace("as v", "as w"))
        made.sql(f"create table loose using parquet as {NUMBERS}")
        made.sql(f"create table good_again using parquet as {NUMBERS}")
    forget(spark)
    # dbt-spark, whose tests share this session, switches ANSI mode off.
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.ansi.enabled": "true"}):
        yield made


def forget(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.bucketing.BucketTrust.clear()


def give(tables: Tables, source: str, target: str, rename: Callable[[str], str] = str) -> None:
    """Copy the files of one table to the folder of another one, behind Spark's back."""
    folder = tables.folder(target)
    folder.mkdir(parents=True, exist_ok=True)
    for path in tables.files(source):
        shutil.copy(path, folder / rename(path.name))
    tables.sql(f"refresh table {target}")


def good_files(tables: Tables) -> None:
    tables.make("t", SCHEMA, "k", 8, NUMBERS)


def several_files(tables: Tables) -> None:
    tables.make("t", SCHEMA, "k", 8)
    tables.fill("t", "k", 8, NUMBERS, files=3)


def loose_file(tables: Tables) -> None:
    good_files(tables)
    give(tables, "loose", "t")


def high_ids(tables: Tables) -> None:
    good_files(tables)
    tables.rename("t", r"00009_0_x", r"^00003_0_.*$")


def spark_names(tables: Tables) -> None:
    good_files(tables)
    tables.rename("t", r"part-\1-11111111-1111-1111-1111-111111111111_\1.c000.snappy.parquet")


def hive_names(tables: Tables) -> None:
    good_files(tables)
    tables.rename("t", r"0\1_0")


def hive_copies(tables: Tables) -> None:
    hive_names(tables)
    give(tables, "t", "t", lambda name: f"{name}_copy_1")


def few_rows(tables: Tables) -> None:
    tables.make("t", SCHEMA, "k", 8, "select 3 as k, 1L as v union all select 4, 2L union all select null, 3L")


def no_rows(tables: Tables) -> None:
    tables.make("t", SCHEMA, "k", 8)


def empty_file(tables: Tables) -> None:
    few_rows(tables)
    (tables.folder("t") / "00006_0").touch()
    tables.sql("refresh table t")


def fewer_buckets(tables: Tables) -> None:
    tables.make("other", SCHEMA, "k", 8, NUMBERS)
    tables.make("t", SCHEMA, "k", 16)
    give(tables, "other", "t")


def more_buckets(tables: Tables) -> None:
    tables.make("other", SCHEMA, "k", 16, NUMBERS)
    tables.make("t", SCHEMA, "k", 8)
    give(tables, "other", "t")


def more_buckets_with_low_ids(tables: Tables) -> None:
    tables.make("other", SCHEMA, "k", 16, NUMBERS)
    tables.make("t", SCHEMA, "k", 12)
    for path in tables.files("other"):
        if int(path.name[:5]) < 12:
            shutil.copy(path, tables.folder("t") / path.name)
    tables.sql("refresh table t")


def version_two(tables: Tables) -> None:
    good_files(tables)
    tables.sql("alter table t set tblproperties ('bucketing_version' = '2')")


def spark_hashes(tables: Tables) -> None:
    tables.make("other", SCHEMA, "k", 8, NUMBERS, stored="using parquet")
    tables.make("t", SCHEMA, "k", 8)
    give(tables, "other", "t", lambda name: re.sub(r"^part-.*_(\d+)\.c000.*$", r"\1_0_copy", name))


def another_column(tables: Tables) -> None:
    tables.make("other", SCHEMA, "v", 8, NUMBERS)
    tables.make("t", SCHEMA, "k", 8)
    give(tables, "other", "t")


def another_order(tables: Tables) -> None:
    tables.make("other", SCHEMA, "k", 8, NUMBERS, sorted_by="v")
    tables.make("t", SCHEMA, "k", 8)
    give(tables, "other", "t")


def wider_type(tables: Tables) -> None:
    tables.make("other", SCHEMA, "k", 8, NUMBERS)
    tables.make("t", "k bigint, v bigint", "k", 8)
    give(tables, "other", "t")


def column_of_another_name(tables: Tables) -> None:
    tables.make("other", "was bigint, v bigint", "was", 8, NUMBERS.replace("as k", "as was"))
    tables.make("t", SCHEMA, "k", 8)
    give(tables, "other", "t")


def mixed_partitions(tables: Tables) -> None:
    partitioned = "partitioned by (ds string)"
    tables.make("t", SCHEMA, "k", 8, f"select *, 'a' as ds from ({NUMBERS})", rest=partitioned)
    tables.make("other", SCHEMA, "k", 4, f"select *, 'b' as ds from ({NUMBERS})", rest=partitioned)
    (tables.folder("t") / "ds=b").mkdir()
    for path in tables.files("other"):
        shutil.copy(path, tables.folder("t") / "ds=b" / path.name)
    tables.sql("msck repair table t")
    tables.sql("refresh table t")


def partition_without_metadata(tables: Tables) -> None:
    tables.make("t", SCHEMA, "k", 8, f"select *, 'a' as ds from ({NUMBERS})", rest="partitioned by (ds string)")
    shutil.copytree(tables.folder("t") / "ds=a", tables.folder("t") / "ds=b")
    tables.sql("refresh table t")


def key_of(sql_type: str, value: str) -> Callable[[Tables], None]:
    def make(tables: Tables) -> None:
        rows = f"select {value} as k, id as v from range(900)"
        tables.make("t", f"k {sql_type}, v bigint", "k", 8)
        tables.fill("t", "k", 8, f"select cast(k as {sql_type}) as k, v from ({rows})", files=1)

    return make


# What lies on disk, how many scans of a join with it are read as bucketed, and the reason why not.
LAYOUTS: dict[str, tuple[Callable[[Tables], None], int, str]] = {
    "as promised": (good_files, 2, ""),
    "several files per bucket": (several_files, 2, ""),
    "an unbucketed file among them": (loose_file, 1, "an unbucketed file"),
    "ids above the number": (high_ids, 1, "a file of bucket 9, where there are 8"),
    "named as the Spark layout": (spark_names, 1, "a file of the Spark layout"),
    "named by Hive": (hive_names, 2, ""),
    "copies named by Hive": (hive_copies, 2, ""),
    "missing buckets": (few_rows, 2, ""),
    "no file at all": (no_rows, 2, ""),
    "a file without a byte": (empty_file, 2, ""),
    "files of fewer buckets": (fewer_buckets, 1, "a row of bucket"),
    "files of more buckets": (more_buckets, 1, "where there are 8"),
    "files of more buckets with low ids": (more_buckets_with_low_ids, 1, "a row of bucket"),
    "version 2 by its properties": (version_two, 1, "bucketing_version is 2"),
    "Spark's hash": (spark_hashes, 1, "a row of bucket"),
    "bucketed by another column": (another_column, 1, "a row of bucket"),
    "sorted by another column": (another_order, 1, "an unsorted file"),
    "a key of another type in the files": (wider_type, 0, ""),
    "a key of another name in the files": (column_of_another_name, 1, "a row of bucket"),
    "partitions of another number": (mixed_partitions, 1, "a row of bucket"),
    "a folder that is no partition": (partition_without_metadata, 2, ""),
    "double keys": (key_of("double", "if(id % 3 = 0, -0.0D, if(id % 3 = 1, 0.0D, double('NaN')))"), 0, "double"),
    "varchar keys": (key_of("varchar(9)", "cast(id as string)"), 0, "varchar(9)"),
    "char keys": (key_of("char(9)", "cast(id as string)"), 0, "char(9)"),
}


SIMILAR = (
    "no file at all",
    "files of more buckets",
    "bucketed by another column",
    "a key of another name in the files",
    "named as the Spark layout",
    "missing buckets",
    "char keys",
    "version 2 by its properties",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in SIMILAR else ()) for name in LAYOUTS]
)
def test_rows_are_the_same_whatever_lies_on_disk(tables: Tables, name: str) -> None:
    lay, bucketed, reason = LAYOUTS[name]
    lay(tables)
    for query in QUERIES:
        assert tables.rows(query) == tables.stock_rows(query), query
    plan = tables.plan(QUERIES[1])
    assert plan.count("Bucketed: true") == bucketed, plan
    if reason:
        assert re.search(rf"Bucketed: false \([^)]*{re.escape(reason)}", tables.plan(QUERIES[2])), plan


@pytest.mark.parametrize("sql_type", ["timestamp", "binary", "float"])
def test_a_key_of_a_type_that_engines_hash_differently_is_read_plainly(tables: Tables, sql_type: str) -> None:
    tables.make("t", f"k {sql_type}, v bigint", "k", 8)
    values = {"timestamp": "timestamp_seconds(id - 4.5)", "float": "id / 2"}
    value = values.get(sql_type, "cast(id as string)")
    tables.sql(f"insert into t select cast({value} as {sql_type}), id from range(300)")
    query = "select k, count(*) from t group by k"
    assert tables.rows(query) == tables.stock_rows(query)
    assert f"Bucketed: false (bucket column k is of type {sql_type})" in tables.plan(query)


KEYS = {
    "boolean": "id % 3 = 0",
    "tinyint": "if(id % 7 = 0, null, id % 100 - 50)",
    "smallint": "id % 900 - 400",
    "bigint": "(id % 500 - 250) * 10000000000",
    "date": "date_add(date'1969-11-01', cast(id % 400 as int))",
    "decimal(12,3)": "if(id % 5 = 0, null, (id % 300 - 100) / 8)",
    "decimal(30,9)": "(id % 300 - 100) * 12345678.875",
    "string": "case id % 9 when 0 then null when 1 then '' when 2 then 'é' when 3 then '漢字' when 4 then 'z\\u0301' "
    "else concat('key', id % 77) end",
}


@pytest.mark.long
@pytest.mark.parametrize("sql_type", KEYS)
def test_every_type_of_key_is_read_right(tables: Tables, sql_type: str) -> None:
    rows = f"select cast({KEYS[sql_type]} as {sql_type}) as k, id as v from range(900)"
    tables.make("t", f"k {sql_type}, v bigint", "k", 8)
    tables.make("u", f"k {sql_type}, w bigint", "k", 8)
    tables.fill("t", "k", 8, rows)
    tables.fill("u", "k", 8, rows.replace("as v", "as w"), files=1)
    query = "select * from t full join u on t.k = u.k"
    assert tables.shape(query)[::2] == (0, 2)
    assert tables.rows(query) == tables.stock_rows(query)
    assert tables.shape("select k, count(*) from t group by k") == (0, 0, 1)


def test_decimals_of_different_scale_are_different_keys(tables: Tables) -> None:
    tables.make(
        "t", "k decimal(10,2), v bigint", "k", 8, "select cast(id / 4 as decimal(10,2)) as k, id as v from range(500)"
    )
    tables.make(
        "u", "k decimal(12,4), w bigint", "k", 8, "select cast(id / 4 as decimal(12,4)) as k, id as w from range(500)"
    )
    query = "select * from t full join u on t.k = u.k"
    assert tables.rows(query) == tables.stock_rows(query)


@pytest.mark.long
@pytest.mark.parametrize(
    "query",
    [
        "select s.k, count(*) from (select named_struct('k', k) as s from t) group by s.k",
        "select s, count(*) from (select named_struct('k', k) as s from t) group by s",
        "select * from (select named_struct('k', k) as s, v from t) x join good on x.s.k = good.k",
        "select * from t join good on cast(t.k as bigint) = cast(good.k as bigint)",
        "select * from t join good on cast(t.k as string) = cast(good.k as string)",
        "select * from t x join t y on x.k = y.v",
        "select k, count(*) from (select * from t union all select * from good) group by k",
        "select * from t join (select distinct k as j from good) on t.k = j join good g on g.k = j",
        "select k, sum(v) from t group by grouping sets ((k), ())",
        "select k, sum(v) from (select explode(array(k, k + 1)) as k, v from t) group by k",
        "select * from t join good on t.k <=> good.k",
        "select count(*), count(distinct k) from t",
        "select k from t intersect select k from good",
        "select k from t except all select k from good where w > 3",
        "select * from good where k not in (select k from t where k is not null)",
        "select input_file_name() like '%parquet%', k, count(*) from t group by 1, 2",
        "select spark_partition_id() >= 0, k, v from t join good using (k)",
    ],
)
def test_queries_of_all_kinds(tables: Tables, query: str) -> None:
    good_files(tables)
    assert tables.rows(query) == tables.stock_rows(query)


def hide_behind_the_probe(tables: Tables, tail: str, bucket: int = 0) -> None:
    """A bucket whose first rows are right; what follows them is not."""
    tables.make("t", SCHEMA, "k", 8, NUMBERS)
    name = tables.files("t")[bucket].name
    (tables.folder("t") / name).unlink()
    (tables.folder("t") / f".{name}.crc").unlink(missing_ok=True)
    tables.sql("drop table if exists crafted")
    tables.sql(
        f"create table crafted using parquet as select /*+ coalesce(1) */ k, v from "
        f"(select cast(id * 8 + {bucket} as int) as k, id as v, id as n from range(90) union all {tail}) order by n"
    )
    (path,) = tables.files("crafted")
    shutil.copy(path, tables.folder("t") / name)
    tables.sql("refresh table t")


@pytest.mark.parametrize("codegen", CODEGEN)
@pytest.mark.parametrize(
    ("tail", "complaint"),
    [
        ("select 401, 9000L, 9000L", "a row of bucket 1 among those of bucket 0"),
        ("select 16, 9000L, 9000L", "a row that is not in the order of the sort columns"),
        ("select null, 9000L, 9000L", "a row that is not in the order of the sort columns"),
    ],
)
def test_what_the_probe_cannot_see_fails_the_query_and_then_is_read_plainly(
    tables: Tables, tail: str, complaint: str, codegen: str
) -> None:
    hide_behind_the_probe(tables, tail)
    query = "select * from t full join good on t.k = good.k"
    with tables.settings({"spark.sql.codegen.wholeStage": codegen}):
        with pytest.raises(ERRORS, match=f"not bucketed as its metadata says: found {complaint}"):
            tables.rows(query)
        assert tables.rows(query) == tables.stock_rows(query)
    later = tables.plan("select k, count(*) from t group by k")
    only_the_order = "in the order" in complaint
    assert ("rows were found out of place before" in later) != only_the_order
    assert ("Bucketed: true (8 Hive buckets)," in later) == only_the_order


@pytest.mark.parametrize("codegen", CODEGEN)
@pytest.mark.parametrize(
    "join",
    ["join", *[pytest.param(join, marks=pytest.mark.long) for join in ("left semi join", "left join", "right join")]],
)
@pytest.mark.parametrize("tail", ["select 16, 9000L, 9000L", "select 401, 9000L, 9000L"])
def test_rows_that_a_join_does_not_get_to_are_checked_as_well(
    tables: Tables, join: str, tail: str, codegen: str
) -> None:
    hide_behind_the_probe(tables, tail)
    tables.make("few", SCHEMA.replace("v ", "w "), "k", 8, "select cast(id as int) as k, id as w from range(300)")
    query = f"select count(*) from t {join} few on t.k = few.k join good on t.k = good.k"
    with tables.settings({"spark.sql.codegen.wholeStage": codegen}):
        with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
            tables.rows(query)
        assert tables.rows(query) == tables.stock_rows(query)


@pytest.mark.parametrize("codegen", CODEGEN)
def test_hash_joins_read_all_of_their_inputs_as_well(tables: Tables, codegen: str) -> None:
    hide_behind_the_probe(tables, "select 401, 9000L, 9000L")
    tables.make("few", SCHEMA.replace("v ", "w "), "k", 8, "select 401 as k, 1L as w")
    query = "select /*+ shuffle_hash(few) */ count(*) from t join few on t.k = few.k"
    with tables.settings({"spark.sql.codegen.wholeStage": codegen}), pytest.raises(ERRORS, match="not bucketed"):
        tables.rows(query)


@pytest.mark.parametrize("tail", ["select 401, 9000L, 9000L", "select 16, 9000L, 9000L"])
def test_it_is_the_check_that_stands_between_such_files_and_wrong_rows(tables: Tables, tail: str) -> None:
    hide_behind_the_probe(tables, tail)
    query = "select * from t full join good on t.k = good.k"
    with tables.settings({"spark.bucketing.read.check": "false"}):
        assert tables.rows(query) != tables.stock_rows(query)


def test_a_misplaced_row_is_not_lost_by_pruning(tables: Tables) -> None:
    hide_behind_the_probe(tables, "select 401, 9000L, 9000L")
    query = "select * from t where k = 401"
    assert tables.rows(query) == tables.stock_rows(query) != []
    with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
        tables.rows("select k, count(*) from t group by k")
    assert tables.rows(query) == tables.stock_rows(query)


@pytest.mark.parametrize(
    ("key", "bucket"),
    [pytest.param(-8, 0, id="behind the rows that are read"), pytest.param(801, 5, id="in a bucket that is not read")],
)
def test_a_limit_does_not_hide_a_row_out_of_place(tables: Tables, key: int, bucket: int) -> None:
    hide_behind_the_probe(tables, f"select {key}, 9000L, 9000L", bucket)
    tables.make("few", SCHEMA, "k", 8, f"select {key} as k, 1L as v")
    query = "select * from few where not exists (select 1 from t where t.k = few.k) limit 1"
    assert tables.rows(query) == tables.stock_rows(query) == []
    with tables.settings({"spark.bucketing.read.check": "false"}):
        assert tables.rows(query) != []


MISSING = "select few.k from few where not exists (select 1 from t where t.k = few.k)"


@pytest.mark.parametrize(
    ("query", "reads_on"),
    [
        pytest.param(f"{MISSING} order by few.k limit 1", False, id="limit"),
        pytest.param(
            f"select * from (select k, rank() over (order by k) as r from ({MISSING})) where r <= 1", True, id="rank"
        ),
    ],
)
def test_the_first_rows_in_the_order_of_the_files_are_a_limit_as_well(
    tables: Tables, query: str, reads_on: bool
) -> None:
    hide_behind_the_probe(tables, "select -8, 9000L, 9000L")
    tables.make("few", SCHEMA, "k", 8, "select -8 as k, 1L as v")
    assert tables.rows(query) == tables.stock_rows(query) == []
    with tables.settings({"spark.bucketing.read.early": "probed"}):
        if reads_on:
            with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
                tables.rows(query)
        else:
            assert tables.rows(query) != []


def test_a_limit_above_tables_that_are_yet_to_be_aligned_is_a_limit(tables: Tables) -> None:
    good_files(tables)
    tables.make("finer", SCHEMA, "k", 16, NUMBERS)
    query = "select t.k, count(*) from t join finer on t.k = finer.k group by t.k"
    assert "Bucketed: false (a limit may end" in tables.plan(query + " limit 3")
    assert tables.shape(query + " order by count(*) limit 3") == (0, 0, 2)


def test_below_a_limit_buckets_are_used_once_they_were_read_and_checked(tables: Tables) -> None:
    good_files(tables)
    query = "select * from t join good on t.k = good.k"
    assert "Bucketed: false (a limit may end the query" in tables.plan(query + " limit 5")
    assert tables.shape(query + " order by v limit 5") == (0, 0, 2)
    assert tables.shape(query + " limit 5") == (0, 0, 2)
    assert tables.shape(f"select v, count(*) from ({query}) group by v limit 5").bucketed == 2


def test_an_overwrite_deletes_nothing_before_its_input_was_checked(tables: Tables) -> None:
    hide_behind_the_probe(tables, "select 801, 9000L, 9000L")
    tables.sql("drop table if exists kept")
    tables.sql("create table kept using parquet as select 1 as k, 1L as n")
    count = "select t.k, count(*) as n from t join good on t.k = good.k group by t.k"
    into_new_rows = tables.sql(f"explain insert into kept {count}")
    assert str(into_new_rows).count("Bucketed: true") == 2
    with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
        tables.sql(f"insert into kept {count}")
    assert tables.rows("select * from kept") == ["(1, 1)"]
    forget(tables.spark)
    assert "Bucketed: false (the overwrite deletes" in str(tables.sql(f"explain insert overwrite kept {count}"))
    tables.sql(f"insert overwrite kept {count}")
    assert tables.rows("select * from kept") == tables.stock_rows(count)


def test_subqueries_of_an_overwrite_and_a_table_that_is_replaced_wait_for_the_check_too(tables: Tables) -> None:
    hide_behind_the_probe(tables, "select 801, 9000L, 9000L")
    tables.sql("drop table if exists kept")
    tables.sql("create table kept using parquet as select 1 as k, 1L as n")
    most = "(select max(n) from (select k, count(*) as n from t group by k))"
    tables.sql(f"insert overwrite kept select k, v as n from good_again where v < {most}")
    assert tables.rows("select * from kept") == tables.stock_rows(f"select k, v as n from good_again where v < {most}")
    forget(tables.spark)
    count = "select t.k, count(*) as n from t join good on t.k = good.k group by t.k"
    tables.spark.sql(count).write.mode("overwrite").saveAsTable("extension_rows.kept")
    assert tables.rows("select * from kept") == tables.stock_rows(count)


def test_an_overwrite_uses_buckets_that_were_checked_or_where_nothing_is_deleted(tables: Tables) -> None:
    good_files(tables)
    tables.sql("drop table if exists days")
    tables.sql("create table days (k int, n bigint, ds string) using parquet partitioned by (ds)")
    insert = "insert overwrite days partition (ds = 'a') select k, count(*) as n from t group by k"
    assert "Bucketed: true" in str(tables.sql(f"explain {insert}"))
    tables.sql(insert)
    forget(tables.spark)
    assert "Bucketed: false (the overwrite" in str(tables.sql(f"explain {insert}"))
    with tables.settings({"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        whole = "insert overwrite days select k, count(*) as n, 'a' as ds from t group by k"
        assert "Bucketed: true" in str(tables.sql(f"explain {whole}"))
    with tables.settings({"spark.bucketing.read.early": "probed"}):
        assert "Bucketed: true" in str(tables.sql(f"explain {insert}"))
    tables.rows("select k, count(*) from t group by k")
    assert "Bucketed: true (8 Hive buckets, sorted)" in str(tables.sql(f"explain {insert}"))


ADAPTIVE = [
    pytest.param({"spark.sql.adaptive.enabled": "true"}, id="adaptive"),
    pytest.param({"spark.sql.adaptive.enabled": "false"}, id="not adaptive", marks=pytest.mark.long),
    pytest.param({"spark.sql.optimizer.plannedWrite.enabled": "false"}, id="write not planned", marks=pytest.mark.long),
]
MISSING_ROWS = MISSING.replace("few.k from", "few.* from")


@pytest.fixture
def misplaced(tables: Tables) -> Tables:
    """A row of `t` is in bucket 5 and should be in bucket 1, where `few` and `plain` have its match."""
    hide_behind_the_probe(tables, "select 801, 9000L, 9000L", bucket=5)
    tables.make("few", SCHEMA, "k", 8, "select 801 as k, 1L as v")
    for name, row in (("plain", "801 as k, 1L as v"), ("kept", "1 as k, 1L as v"), ("kept_too", "1 as k, 1L as v")):
        tables.sql(f"drop table if exists {name}")
        tables.sql(f"create table {name} using parquet as select {row}")
    return tables


@contextmanager
def cached(tables: Tables, query: str, name: str) -> Iterator[None]:
    """A query that is cached, but not read yet."""
    tables.sql(f"cache lazy table {name} as {query}")
    try:
        yield
    finally:
        tables.sql(f"drop view {name}")


@pytest.mark.parametrize(
    "query",
    [
        "select plain.k, count(t.v) from t right join plain on t.k = plain.k group by plain.k limit 1",
        "select k, count(*) from plain where not exists (select 1 from t where t.k = plain.k) group by k limit 1",
        "select distinct k from (select * from plain where not exists (select 1 from t where t.k = plain.k)) limit 1",
        "select k, sum(v) over (partition by k) from plain where not exists (select 1 from t where t.k = plain.k) limit 1",
    ],
)
def test_a_limit_above_a_join_of_which_one_side_moves(misplaced: Tables, aqe: str, query: str) -> None:
    assert misplaced.rows(query) == misplaced.stock_rows(query)
    with misplaced.settings({"spark.bucketing.read.early": "probed"}):
        assert "Bucketed: true" in str(misplaced.sql(f"explain {query}"))


@pytest.mark.parametrize("reader", ADAPTIVE[:2])
@pytest.mark.parametrize("cache", ADAPTIVE[:2])
@pytest.mark.parametrize("nested", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_cached_query_is_checked_before_a_limit_takes_a_part_of_it(
    misplaced: Tables, cache: dict[str, str], reader: dict[str, str], nested: bool
) -> None:
    with (
        misplaced.settings(cache),
        cached(misplaced, MISSING, "missing"),
        cached(misplaced, "select * from missing", "again") if nested else nullcontext(),
        misplaced.settings(reader),
        pytest.raises(ERRORS, match="not bucketed as its metadata says"),
    ):
        misplaced.rows(f"select * from {'again' if nested else 'missing'} limit 1")
    good = "select few.k, v, w from few join good on few.k = good.k"
    with misplaced.settings(cache), cached(misplaced, good, "matching"), misplaced.settings(reader):
        assert misplaced.rows("select * from matching limit 1") == misplaced.stock_rows(good)
        assert misplaced.rows("select * from matching limit 1") == misplaced.stock_rows(good)


OVERWRITES = [
    "insert overwrite kept select * from missing",
    "insert overwrite kept select k, sum(v) as v from missing group by k",
    "insert overwrite kept select k, v from good_again where v < (select coalesce(max(v), 3) from missing)",
    "from missing insert overwrite table kept_too select k, v insert overwrite table kept select k, v",
]


@pytest.mark.parametrize("writer", ADAPTIVE)
@pytest.mark.parametrize("cache", ADAPTIVE[:2])
def test_a_cached_query_is_checked_before_anything_is_deleted(
    misplaced: Tables, cache: dict[str, str], writer: dict[str, str]
) -> None:
    for overwrite in OVERWRITES:
        forget(misplaced.spark)
        with misplaced.settings(cache), cached(misplaced, MISSING_ROWS, "missing"), misplaced.settings(writer):
            with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
                misplaced.sql(overwrite)
            assert misplaced.rows("select * from kept") == ["(1, 1)"]
    with cached(misplaced, "select few.* from few join good on few.k = good.k", "missing"):
        misplaced.sql(OVERWRITES[0])
        assert misplaced.rows("select * from kept") == []


def test_a_cached_frame_is_checked_before_a_table_is_replaced(misplaced: Tables, aqe: str, tmp_path: Path) -> None:
    misplaced.sql("use extension_rows")
    url = f"jdbc:derby:{tmp_path}/other;create=true"
    misplaced.spark.sql("select 1 as k, 1L as v").write.format("jdbc").options(url=url, dbtable="APP.KEPT").save()
    frame = misplaced.spark.sql(MISSING_ROWS).cache()
    try:
        with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
            frame.write.mode("overwrite").saveAsTable("extension_rows.kept")
        with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
            frame.write.format("jdbc").options(url=url, dbtable="APP.KEPT").mode("overwrite").save()
    finally:
        frame.unpersist()
    assert misplaced.rows("select * from kept") == ["(1, 1)"]
    assert misplaced.spark.read.format("jdbc").options(url=url, dbtable="APP.KEPT").load().count() == 1


def test_several_overwrites_of_one_statement_wait_for_the_check(misplaced: Tables) -> None:
    most = "(select max(n) from (select k, count(*) as n from t group by k))"
    select = f"select k, v where v < {most}"
    misplaced.sql(f"from good_again insert overwrite table kept {select} insert overwrite table kept_too {select}")
    rows = misplaced.stock_rows(f"select k, v from good_again where v < {most}")
    assert misplaced.rows("select * from kept") == misplaced.rows("select * from kept_too") == rows != []


def test_overwrites_of_other_sources_wait_for_the_check_too(tables: Tables, tmp_path: Path) -> None:
    """They drop or empty what they replace, and then run the query; or put rows there task by task."""
    hide_behind_the_probe(tables, "select 801, 9000L, 9000L")
    count = "select t.k, count(*) as n from t join good on t.k = good.k group by t.k"
    url = f"jdbc:derby:{tmp_path}/other;create=true"
    catalog = "spark.sql.catalog.other"
    settings = {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": url,
        f"{catalog}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    target = "other.APP.KEPT"

    def by_jdbc(mode: str) -> None:
        tables.sql("use extension_rows")
        frame = tables.spark.sql(count)
        frame.write.format("jdbc").options(url=url, dbtable="APP.KEPT").mode(mode).save()

    with tables.settings(settings):
        tables.sql(f"create table {target} as select 1 as k, 1L as n")
        for overwrite in (
            lambda: by_jdbc("overwrite"),
            lambda: tables.sql(f"insert overwrite {target} {count}"),
            lambda: tables.sql(f"replace table {target} as {count}"),
        ):
            forget(tables.spark)
            overwrite()
            assert tables.rows(f"select * from {target}") == tables.stock_rows(count)
        for append in (lambda: by_jdbc("append"), lambda: tables.sql(f"insert into {target} {count}")):
            forget(tables.spark)
            before = len(tables.rows(f"select * from {target}"))
            append()
            assert len(tables.rows(f"select * from {target}")) == before + len(tables.stock_rows(count))


def test_a_write_whose_tasks_publish_their_files_waits_for_the_check(misplaced: Tables) -> None:
    settings = {"spark.sql.adaptive.enabled": "false", "mapreduce.fileoutputcommitter.algorithm.version": "2"}
    with misplaced.settings(settings):
        assert "Bucketed: false (the write publishes rows" in str(
            misplaced.sql(f"explain insert into kept {MISSING_ROWS}")
        )
        misplaced.sql(f"insert into kept {MISSING_ROWS}")
    assert misplaced.rows("select * from kept") == ["(1, 1)"]
    forget(misplaced.spark)
    assert "Bucketed: true" in str(misplaced.sql(f"explain insert into kept {MISSING_ROWS}"))


def test_a_program_may_stop_reading_as_a_limit_does(misplaced: Tables) -> None:
    script = f"select transform (k, v) using 'head -n 1' as (k int, v bigint) from ({MISSING_ROWS})"
    assert misplaced.rows(script) == misplaced.stock_rows(script) == []


def test_what_is_known_of_files_holds_for_their_types_only(tables: Tables) -> None:
    """The same files under a wider type of the key: they are in buckets of another hash now."""
    good_files(tables)
    tables.rows("select k, count(*) from t group by k")
    assert "SelectedBucketsCount: 1 out of 8" in tables.plan("select * from t where k = -5")
    files = tables.folder("t")
    external = f"clustered by (k) sorted by (k) into 8 buckets stored as parquet location '{files}'"
    keep = files.with_name("t_kept")
    shutil.copytree(files, keep)
    tables.sql("drop table t")
    shutil.copytree(keep, files, copy_function=shutil.copy2)
    for path in keep.iterdir():
        shutil.copystat(path, files / path.name)
    tables.sql(f"create external table t (k bigint, v bigint) {external}")
    query = "select * from t where k = -5"
    assert tables.rows(query) == tables.stock_rows(query) != []
    tables.sql("drop table t")
    shutil.rmtree(files)
    shutil.rmtree(keep)


def test_an_order_that_a_rank_relies_on_is_not_taken_away(tables: Tables) -> None:
    query = "select k, count(*) from (select k, rank() over (order by k) as r from good) where r <= 40 group by k"
    assert tables.rows(query) == tables.stock_rows(query)
    for query in (
        "select k, count(*) from (select k, v, rank() over (partition by v order by k) as r from t) where r < 2 group by k",
        "select * from (select w, k, row_number() over (order by w) as r from good) g join t on g.k = t.k where r < 9",
    ):
        good_files(tables)
        assert tables.rows(query) == tables.stock_rows(query), query


@pytest.mark.parametrize("codegen", CODEGEN)
def test_a_join_that_a_task_reads_twice_has_all_of_its_rows_both_times(tables: Tables, codegen: str) -> None:
    good_files(tables)
    with tables.settings({"spark.sql.codegen.wholeStage": codegen}):
        rows = tables.spark.sql("select t.k from t join good on t.k = good.k").rdd
        count = rows.count()
        assert rows.cartesian(rows).count() == count * count


def test_files_that_are_written_again_are_trusted_again(tables: Tables) -> None:
    hide_behind_the_probe(tables, "select 801, 9000L, 9000L")
    query = "select k, count(*) from t group by k"
    with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
        tables.rows(query)
    assert "rows were found out of place before" in tables.plan(query)
    good_files(tables)
    assert "Bucketed: true" in tables.plan(query)


def test_a_file_changed_between_planning_and_running_fails(tables: Tables) -> None:
    good_files(tables)
    tables.spark.sql("use extension_rows")
    frame = tables.spark.sql("select * from t join good on t.k = good.k")
    assert "Bucketed: true" in str(frame._jdf.queryExecution().executedPlan().toString())
    first, second, *_ = tables.files("t")
    second.with_name(f".{second.name}.crc").unlink(missing_ok=True)
    shutil.copy(first, second)
    with pytest.raises(ERRORS, match="not bucketed as its metadata says"):
        frame.collect()


def test_a_file_that_cannot_be_read_is_left_to_the_query(tables: Tables) -> None:
    good_files(tables)
    tables.files("t")[0].write_bytes(b"nothing like a file of columns")
    tables.files("t")[0].with_name(f".{tables.files('t')[0].name}.crc").unlink(missing_ok=True)
    tables.sql("refresh table t")
    query = "select k, count(*) from t group by k"
    with tables.settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
        assert tables.rows(query) == tables.stock_rows(query)


def test_a_stream_reads_the_table_as_stock_spark_does(tables: Tables) -> None:
    tables.make("t", SCHEMA, "k", 8, NUMBERS, stored="using parquet")
    stream = tables.spark.readStream.table("extension_rows.t").groupBy("k").count()
    query = stream.writeStream.format("memory").queryName("counted").outputMode("complete").start()
    try:
        query.processAllAvailable()
        assert tables.rows("select * from counted") == tables.stock_rows("select k, count(*) from t group by k")
    finally:
        query.stop()


def test_the_check_can_be_switched_off(tables: Tables) -> None:
    good_files(tables)
    with tables.settings({"spark.bucketing.read.check": "false"}):
        assert "BucketCheck" not in tables.plan("select k, count(*) from t group by k")
