"""Tests of MERGE INTO, UPDATE and DELETE on organized and bucketed tables: errors, checks of a merge, and special cases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from bucketed_tables import settled
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conftest import all_long_but
from spark_bucketing.session import setting

MERGE = "merge into changed as t using (select {hint} * from ({source})) as s on t.id = s.id "
UPSERT = "when matched then update set o = s.o when not matched then insert (id, o) values (s.id, s.o)"


LAYOUTS = {
    "organized": """using parquet tblproperties ('bucketing.range_by'='["o"]', 'bucketing.rows_per_file'='10')""",
    "bucketed": "clustered by (o) sorted by (id) into 4 buckets stored as orc tblproperties ('bucketing_version'='2')",
}
of_each_layout = pytest.mark.parametrize("table", LAYOUTS, indirect=True)


@pytest.fixture
def table(spark: SparkSession, extension: None, request: pytest.FixtureRequest) -> Iterator[None]:
    spark.catalog.setCurrentDatabase("default")  # that of new sessions
    layout = LAYOUTS[getattr(request, "param", "organized")]
    spark.sql(f"create table changed (id bigint, o int, v varchar(3), c char(2)) {layout}")
    filled = "select id, cast(id as int) as o, 'v' as v, 'c' as c from range(40)"
    spark.sql(f"merge into changed as t using ({filled}) as s on false when not matched then insert *")
    yield
    spark.sql("drop table changed")


def rows(spark: SparkSession) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql("select * from changed").collect()))


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_errors_have_the_classes_of_spark(spark: SparkSession) -> None:
    """The table is unchanged after each error."""
    before = rows(spark)
    several = "select 3 as id, 4 as o union all select 3, 5"
    for statement, error in {
        "update changed set o = 'x'": "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
        "update changed set o = v": "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
        "update changed set o = 99999999999": "CAST_OVERFLOW_IN_TABLE_INSERT",
        "update changed set o = cast(v as int)": "CAST_INVALID_INPUT",
        "update changed set v = 'long'": "EXCEED_LIMIT_LENGTH",
        "update changed set c = 'long' where id = 3": "EXCEED_LIMIT_LENGTH",
        "update changed set o = cast(10 * rand() as int)": "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
        "delete from changed where missing = 1": "UNRESOLVED_COLUMN",
        MERGE.format(hint="", source=several) + UPSERT: "MERGE_CARDINALITY_VIOLATION",
        MERGE.format(hint="", source="select 50 as id, 'x' as o") + UPSERT: "CANNOT_SAFELY_CAST",
    }.items():
        # Before version 4, casts have no errors by default, and PySpark does not convert the errors of tasks.
        with (
            setting(spark, "spark.sql.ansi.enabled", "true"),
            pytest.raises((PySparkException, Py4JJavaError), match=error.replace(".", r"\.")),
        ):
            spark.sql(statement).collect()
        assert rows(spark) == before, statement


# Statements, and the numbers of updated, deleted and inserted rows; None for an error.
MERGES = [
    ("(select id + 35 as id, 7 as o from range(8)) as s on t.id = s.id " + UPSERT, (5, 0, 3)),
    ("(select 3L as id, 7 as o) as s on t.id = s.id when matched then update set o = s.o", (1, 0, 0)),
    ("(select 3L as id, 7 as o where false) as s on t.id = s.id " + UPSERT, (0, 0, 0)),
    ("(select id + 35 as id, 7 as o from range(50) where id < 8) as s on t.id = s.id " + UPSERT, (5, 0, 3)),
    ("(select id % 3 as id from range(9)) as s on t.id = s.id when matched then delete", (0, 3, 0)),
    ("(select * from range(2)) as s on t.id < s.id + 2 when matched then delete", (0, 3, 0)),
    (
        "(select 38 + id % 4 as id from range(8)) as s on t.id = s.id when not matched then insert (id, o) values (s.id, 1)",
        (0, 0, 4),
    ),
    (
        "(select id, 7 as o from range(5)) as s on t.id = s.id when matched and t.id < 2 then delete "
        "when matched then update set o = s.o when not matched by source and t.id > 30 then delete",
        (3, 11, 0),
    ),
    # The condition of an INSERT is an error for a row that matches.
    (
        "(select 36 + id as id, id as o from range(6)) as s on t.id = s.id "
        "when not matched and 8 div s.o > 1 then insert (id, o) values (s.id, s.o)",
        (0, 0, 1),
    ),
    (
        "(select 30 + id as id, 10 - id as o from range(11)) as s on t.id = s.id when matched and 1 div (39 - t.id) > 9 then delete "
        "when not matched and 8 div s.o > 3 then insert (id, o) values (s.id, s.o)",
        None,
    ),
    ("(select id % 3 as id, 7 as o from range(9)) as s on t.id = s.id " + UPSERT, None),
    ("(select 39L as id, 7 as o from range(2)) as s on t.id = s.id when matched and t.id < 5 then delete", None),
]


# Each case runs a third of the statements. The quick cases run all statements and use each location of the source.
QUICK = (("organized", "4m", 0), ("bucketed", "300", 1), ("organized", "0", 2))
SOURCES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
    for case in product(LAYOUTS, ("4m", "300", "0"), range(3))
]


@pytest.mark.parametrize(("table", "driver_bytes", "part"), SOURCES, indirect=["table"])
@pytest.mark.usefixtures("table")
def test_merge_changes_the_same_rows_wherever_its_source_is_stored(
    spark: SparkSession, driver_bytes: str, part: int
) -> None:
    """Several source rows may match a row of the table only if the statement deletes it, and does so without a condition."""
    first = rows(spark)
    spark.createDataFrame(first, "id bigint, o int, v string, c string").createOrReplaceTempView("before_merge")
    with setting(spark, "spark.bucketing.write.driverBytes", driver_bytes):
        for statement, numbers in MERGES[part::3]:
            merge = f"merge into changed as t using {statement}"
            if numbers is None:
                error = "DIVIDE_BY_ZERO" if "div" in statement else "MERGE_CARDINALITY_VIOLATION"
                with (
                    setting(spark, "spark.sql.ansi.enabled", "true"),
                    pytest.raises((PySparkException, Py4JJavaError), match=error),
                ):
                    spark.sql(merge).collect()
                assert rows(spark) == first
                continue
            assert tuple(spark.sql(merge).collect()[0])[1:] == numbers, statement
            changes = spark.sql("select count(*) from (select * from changed except all select * from before_merge)")
            assert changes.collect()[0][0] == numbers[0] + numbers[2], statement
            assert len(rows(spark)) == 40 - numbers[1] + numbers[2], statement
            spark.sql("insert overwrite changed select * from before_merge")
    spark.catalog.dropTempView("before_merge")


@of_each_layout
@pytest.mark.usefixtures("table")
def test_merge_of_few_rows_runs_few_jobs(spark: SparkSession) -> None:
    """It stores the source, compares it with the table, distributes the inserted rows, and writes files."""
    store = spark._jsparkSession.sparkContext().statusStore()

    def jobs(statement: str) -> int:
        before = store.jobsList(None).size()
        spark.sql(f"merge into changed as t using {statement}").collect()
        return int(store.jobsList(None).size() - before)

    # Without broadcasts, as some tests leave the session, Spark would shuffle both sides of each join.
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "10m"):
        assert max(jobs(MERGES[i][0]) for i in (0, 1)) <= 4


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_conditions_on_padded_columns_find_all_rows(spark: SparkSession) -> None:
    """Spark pads CHAR values after it reads them."""
    merge = MERGE.format(hint="", source="select 7L as id, 'c ' as c") + "and t.c = s.c when matched then delete"
    assert spark.sql(merge).collect()[0][0] == 1
    assert spark.sql("update changed set c = 'd' where c = 'c'").collect()[0][0] == 39
    assert {row[3] for row in rows(spark)} == {"d "}


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_hint_checks_the_keys_of_one_merge(spark: SparkSession) -> None:
    several = "select 50L as id, 4 as o union all select 50L, 5"
    before = rows(spark)
    for kind in ("keys", "files"):
        with pytest.raises(PySparkException, match=r"several new rows with the key .*50.*table is unchanged"):
            spark.sql(MERGE.format(hint=f"/*+ MERGE_CHECKS('{kind}') */", source=several) + UPSERT).collect()
        assert rows(spark) == before
    with pytest.raises(
        PySparkException, match=r"(?s)`MERGE_CHECKS`.*found:    'all'\n  expected: 'keys', 'files' or 'once'"
    ):
        spark.sql(MERGE.format(hint="/*+ merge_checks('all') */", source=several) + UPSERT)
    assert spark.sql(MERGE.format(hint="", source=several) + UPSERT).collect()[0][0] == 2
    one = "select 50L as id, 4 as o"
    with pytest.raises(PySparkException, match=r"several rows of the table that match the new row with the key .*50"):
        spark.sql(MERGE.format(hint="/*+ merge_checks('keys') */", source=one) + UPSERT).collect()
    assert spark.sql(MERGE.format(hint="", source=one) + UPSERT).collect()[0][0] == 2


@pytest.mark.usefixtures("spark", "table")
def test_error_for_other_tables_states_the_requirements(spark: SparkSession) -> None:
    spark.sql("create table unchanged using parquet as select 1 as id")
    try:
        for statement in (
            "update unchanged set id = 2",
            "delete from unchanged",
            "merge into unchanged as t using changed as s on t.id = s.id when matched then delete",
        ):
            with pytest.raises(
                PySparkException, match=r"UNSUPPORTED_FEATURE\.TABLE_OPERATION.*file statistics.*enabled=true"
            ):
                spark.sql(statement).collect()
    finally:
        spark.sql("drop table unchanged")


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.long
def test_statement_that_runs_once_is_skipped_only_if_it_was_the_last_change(spark: SparkSession) -> None:
    """Another statement, other rows, and any other change of the table make the statement run again."""
    grows = "when matched then update set o = t.o + s.o when not matched then insert (id, o) values (s.id, s.o)"

    def changed(source: str, actions: str = grows, hint: str = "/*+ merge_checks('once') */") -> int:
        return int(spark.sql(MERGE.format(hint=hint, source=source) + actions).collect()[0][0])

    delta = "select id, 1 as o, cast(null as string) as a, 'x' as b from range(38, 42)"
    other = "select id, 1 as o, 'x' as a, cast(null as string) as b from range(38, 42)"
    assert changed(delta) == 4
    after = rows(spark)
    # The same rows arrive in another order, in another number of partitions.
    assert changed(f"{delta} order by id desc") == changed(f"select /*+ repartition(3) */ * from ({delta})") == 0
    assert rows(spark) == after
    assert changed(delta, hint="") == 4
    assert changed(delta) == 4
    assert changed(delta.replace("42", "41")) == 3
    assert changed(delta.replace("42", "41"), f"when matched and true {grows[len('when matched') :]}") == 3
    for name in ("a", "b"):
        assigns = f"when matched and s.{name} = 'x' then update set o = 0"
        assert changed(delta, assigns) + changed(other, assigns) == 4
    assigns = "when matched and (s.a = 'x' or s.b = 'x') then update set o = t.o + 1"
    assert changed(delta, assigns) == 4 and changed(other, assigns) == 4 and changed(other, assigns) == 0
    spark.sql("insert into changed values (90, 90, 'v', 'c')")
    assert changed(other, assigns) == 4 and changed(other, assigns) == 0
    spark.sql("delete from changed where id = 90")
    assert changed(other, assigns) == 4


TXN = "spark.bucketing.write.txn"
REPEATED = (
    "insert into changed values (90, 90, 'v', 'c')",
    "update changed set o = o + 1 where id < 3",
    "merge into changed as t using (select 1 as id) as s on t.id = s.id when matched then update set o = t.o + 1",
    "delete from changed where o = (select max(o) from changed)",
    "insert overwrite changed select cast(1e9 * rand() as bigint), 1, 'v', 'c'",
)


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("statement", REPEATED)
@pytest.mark.some(1)
def test_version_of_an_application_is_written_once(spark: SparkSession, statement: str) -> None:
    """A version stays known after other statements and other applications have deleted earlier records."""

    def has_changed(app: str, version: int) -> bool:
        with settled(spark, {f"{TXN}AppId": app, f"{TXN}Version": str(version)}):
            before, found = rows(spark), spark.sql(statement).collect()
            assert rows(spark) != before or not any(value for row in found for value in row)
            return rows(spark) != before

    assert has_changed("a", 5) and not has_changed("a", 5) and not has_changed("a", 4)
    assert has_changed("b", 4) and not has_changed("b", 4)
    for _ in range(3):
        spark.sql("insert into changed values (91, 91, 'v', 'c')")
        spark.sql("update changed set v = 'w' where id = 91")
    assert not has_changed("a", 5) and not has_changed("b", 4) and has_changed("a", 6)


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_version_without_an_application_is_an_error(spark: SparkSession) -> None:
    before = rows(spark)
    for name, other in (("AppId", "Version"), ("Version", "AppId")):
        with settled(spark, {f"{TXN}{name}": "1"}):
            for statement in REPEATED[:2]:
                with pytest.raises(PySparkException, match=f"(?s)txn{name} alone.*set {TXN}{other}"):
                    spark.sql(statement)
    assert rows(spark) == before


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_cached_table_shows_the_changes(spark: SparkSession) -> None:
    """A statement reads the files of a cached table, and the cache contains its changes."""
    spark.sql("cache table changed")
    assert spark.sql("update changed set o = o + 100 where id < 10").collect()[0][0] == 10
    assert spark.sql("select sum(o) from changed").collect()[0][0] == 780 + 1000
    merge = "merge into changed as t using changed as s on t.id = s.id when matched and s.o > 100 then delete"
    assert spark.sql(merge).collect()[0][0] == 9
    assert spark.sql("select count(*) from changed where o > 99").collect()[0][0] == 1
    # Spark 3.5 keeps a cached table with CHAR columns after DROP TABLE.
    spark.sql("uncache table changed")


@pytest.mark.usefixtures("table")
def test_statements_with_different_subqueries_are_not_repetitions(spark: SparkSession) -> None:
    statement = (
        "merge into changed as t using (select /*+ merge_checks('once') */ id from range(500, 510)) as s on t.id = s.id"
        " when not matched and s.id < (select 500 + {}(id) from range(3, 6)) then insert (id) values (s.id)"
    )
    for function, inserted in (("min", 3), ("max", 2)):
        assert spark.sql(statement.format(function)).collect()[0].num_inserted_rows == inserted


KEYS = "select /*+ merge_checks('keys') */ * from twice"


@pytest.mark.parametrize(
    ("source", "checked"),
    [
        (f"({KEYS}) as s", True),
        (f"({KEYS} order by id limit 5) as s", True),
        (f"({KEYS} union all select 7L) as s", True),
        (f"(select * from ({KEYS})) as s", True),
        (f"(with c as (select 1) {KEYS}) as s", True),
        (f"({KEYS.replace('/*+', '/*+ broadcast(twice),')}) as s", True),
        (f"(with c as ({KEYS}) select * from c) as s", False),
        (f"(select * from twice where id in ({KEYS})) as s", False),
    ],
)
@pytest.mark.usefixtures("table")
@pytest.mark.some(2)
def test_hint_of_the_source_is_applied_or_an_error(spark: SparkSession, source: str, checked: bool) -> None:
    spark.sql("create or replace temporary view twice as select 3L as id union all select 3L")
    before = rows(spark)
    merge = f"merge into changed as t using {source} on t.id = s.id when matched then delete"
    message = "several new rows with the key" if checked else "Cannot apply the hint `MERGE_CHECKS`"
    for statement in (merge, f"with x as (select 1) {merge}"):
        with pytest.raises((PySparkException, Py4JJavaError), match=message):
            spark.sql(statement).collect()
    with pytest.raises((PySparkException, Py4JJavaError), match="Cannot apply the hint `MERGE_CHECKS`"):
        spark.sql(f"delete from changed where id in ({KEYS})").collect()
    assert rows(spark) == before
    if checked:
        assert "reads 0 of" in str(spark.sql(f"explain {merge.replace('t.id = s.id', 'false')}").collect())


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_statement_has_one_current_time(spark: SparkSession) -> None:
    """A statement computes its assignments twice, and the range column determines the file of a row."""
    spark.sql("update changed set o = cast(unix_micros(current_timestamp()) % 1000000000 as int)").collect()
    assert spark.sql("select count(*), count(distinct o) from changed").collect()[0] == (40, 1)


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("column", ["binary", "double", "decimal(10,2)", "boolean", "date"])
@pytest.mark.some(1)
def test_statements_find_partitions_and_implicit_partitions_of_each_type(spark: SparkSession, column: str) -> None:
    """Values that Spark considers equal are in the same files, such as 0.0 and -0.0."""
    value = {
        "binary": "cast('k' || id % 2 as binary)",
        "double": "element_at(array(0.0D, -0.0D, double('nan')), cast(1 + id % 3 as int))",
    }.get(
        column, "cast(id % 2 as {0})" if column != "date" else "date_add(date'1969-12-31', cast(id % 2 as int))"
    ).format(column)
    spark.sql(
        f"create table typed (id bigint, k {column}, p {column if column != 'double' else 'int'}) using parquet partitioned by (p)"
        """ tblproperties ('bucketing.implicit_partition_by'='["k"]', 'bucketing.rows_per_file'='10')"""
    )
    try:
        part = value if column != "double" else "cast(id % 2 as int)"
        filled = f"select id, {value} as k, {part} as p from range(60)"
        insert = f"merge into typed as t using ({filled}) as s on t.id = s.id and t.k = s.k and t.p = s.p"
        assert spark.sql(f"{insert} when not matched then insert *").collect()[0][3] == 60
        assert spark.sql(
            f"{insert} when matched then update set id = s.id + 100 when not matched then insert *"
        ).collect()[0][:4] == (60, 60, 0, 0)
        assert (
            spark.sql(
                "update typed set k = (select k from typed where id = 101), p = (select p from typed where id = 101) where id < 130"
            ).collect()[0][0]
            == 30
        )
        known = spark.sql("select count(*), count(rows), sum(rows) from file_statistics('typed')").collect()[0]
        assert known[0] == known[1] and known[2] == 60
        assert spark.sql("select count(distinct p) from typed where id between 100 and 129").collect()[0][0] == 1
        assert spark.sql("select min(id), max(id), count(*) from typed").collect()[0] == (100, 159, 60)
    finally:
        spark.sql("drop table typed")


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_conditions_of_a_clause_apply_only_to_its_rows(spark: SparkSession) -> None:
    """A condition may raise an error for other rows. Spark must not evaluate it before the join."""

    def fails(side: str, ids: str) -> str:
        return f"if({side}.id in ({ids}), raise_error('wrong row') is null, {side}.id % 2 = 1)"

    source = "select id, 7 as o from range(30, 50)"
    merge = MERGE.format(hint="", source=source)
    clauses = {
        "matched": f"{fails('s', '41, 42')} then update set o = s.o",
        "not matched": f"{fails('s', '31, 32')} then insert (id, o) values (s.id, s.o)",
        "not matched by source": f"{fails('t', '33, 34')} then delete",
    }
    counts = {"matched": (5, 5, 0, 0), "not matched": (5, 0, 0, 5), "not matched by source": (15, 0, 15, 0)}
    for kind, clause in clauses.items():
        assert spark.sql(f"{merge} when {kind} and {clause}").collect()[0] == counts[kind]
    assert spark.sql("select count(*), count_if(o = 7) from changed").collect()[0] == (30, 10)


@pytest.mark.usefixtures("table")
def test_columns_of_file_metadata_are_rejected(spark: SparkSession) -> None:
    """The rows to write would contain the metadata."""
    before = rows(spark)
    with pytest.raises(
        PySparkException, match=r"Cannot change rows of .*`changed`\.\n  found:    a column of _metadata"
    ):
        spark.sql("update changed set o = 7 where _metadata.file_size > id").collect()
    assert rows(spark) == before


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.long
def test_conditions_and_values_may_call_python_functions(spark: SparkSession) -> None:
    """A function also works for a partition column, as a join key, and within another function."""
    spark.udf.register("same", lambda value: value, "bigint")
    spark.udf.register("text", lambda value: value, "string")
    assert (
        spark.sql("update changed set o = same(same(id) + 100) where same(id) % 2 = 1 and id < 10").collect()[0][0] == 5
    )
    assert spark.sql("delete from changed where same(o) > 106").collect()[0][0] == 2
    merge = MERGE.format(hint="", source="select same(id) as id, 7 as o from range(30, 45)").replace(
        "s.id", "same(s.id)"
    )
    assert spark.sql(
        f"{merge} when matched and same(t.id) + s.o = 38 then delete when matched then update set v = text(t.v)"
        " when not matched and same(s.id) < 43 then insert (id, o) values (s.id, same(s.o))"
        " when not matched by source and same(t.id) = 3 then delete"
    ).collect()[0] == (14, 9, 2, 3)
    assert {row[:2] for row in rows(spark)} == {
        *(
            (number, number + 100 if number in (1, 5) else number)
            for number in range(40)
            if number not in (3, 7, 9, 31)
        ),
        *((number, 7) for number in (40, 41, 42)),
    }
    with pytest.raises(PySparkException, match="PYTHON_UDF_IN_ON_CLAUSE"):
        spark.sql(f"{merge} and same(t.id + s.o) = 12 when matched then delete").collect()
    spark.sql(
        "create table parts (id bigint, p string) using parquet partitioned by (p)"
        """ tblproperties ('bucketing.implicit_partition_by'='["id"]')"""
    )
    try:
        spark.sql("insert into parts values (1, 'a'), (2, 'b')")
        assert spark.sql("delete from parts where text(p) = 'a'").collect()[0][0] == 1
        assert [tuple(row) for row in spark.sql("select * from parts").collect()] == [(2, "b")]
    finally:
        spark.sql("drop table parts")


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_columns_of_every_type_get_their_values(spark: SparkSession) -> None:
    assert spark.sql("update changed set v = 'new', c = 'z', o = 70 where id = 1").collect()[0][0] == 1
    source = "select 2L as id, 80 as o, 'abc' as v, 'y' as c union all select 500, 90, 'def', 'x'"
    spark.sql(
        f"merge into changed as t using ({source}) as s on t.id = s.id and t.v is not null"
        " when matched then update set * when not matched then insert *"
    ).collect()
    found = {row[0]: tuple(row) for row in spark.sql("select * from changed where id in (1, 2, 500)").collect()}
    assert found == {1: (1, 70, "new", "z "), 2: (2, 80, "abc", "y "), 500: (500, 90, "def", "x ")}


@pytest.mark.usefixtures("table")
def test_casts_by_name_are_not_casts_of_store_assignment(spark: SparkSession) -> None:
    with setting(spark, "spark.sql.ansi.enabled", "true"):
        spark.sql("update changed set v = '7' where id < 3").collect()
        assert spark.sql("update changed set o = int(v) + 0, c = string(o) where id < 1").collect()[0][0] == 1
        assert spark.sql("update changed set o = int(v) where id < 3").collect()[0][0] == 3
        assert [row[1] for row in rows(spark)[:4]] == [7, 7, 7, 3]
        with pytest.raises((PySparkException, Py4JJavaError), match="CAST_INVALID_INPUT"):
            spark.sql("update changed set o = int(v)").collect()
        for assignment in ("o = v", "o = string(id)", "v = array(1)"):
            with pytest.raises(PySparkException, match=r"INCOMPATIBLE_DATA_FOR_TABLE\.CANNOT_SAFELY_CAST"):
                spark.sql(f"update changed set {assignment}").collect()


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_statements_of_all_kinds_at_once_lose_no_row(spark: SparkSession) -> None:
    """Three sessions change rows of the same files. Each statement takes effect once, or fails with a clear error."""
    statements = [
        "update changed set v = concat(v, 'u') where id in (1, 12)",
        "delete from changed where id = (select max(id) from changed where id between 13 and 19)",
        MERGE.format(
            hint="", source="select explode(array(11L, 100L + count(*))) as id, 11 as o from changed where id >= 100"
        )
        + "when matched then update set o = t.o + 1 when not matched then insert (id, o) values (s.id, s.o)",
    ]
    counts = [0, 0, 0]

    def run(number: int) -> None:
        session = spark.newSession()
        session.conf.set("spark.bucketing.enabled", "true")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        for _ in range(2):
            session.sql(statements[number]).collect()
            counts[number] += 1

    with ThreadPoolExecutor(3) as pool:
        failures = [started.exception() for started in [pool.submit(run, number) for number in range(3)]]
    clear = re.compile("run it again|Run the query again")
    unclear = [str(failure) for failure in failures if failure and not clear.search(str(failure))]
    assert not unclear
    updated, deleted, merged = counts
    assert sum(counts) > 2
    spark.sql("refresh table changed")
    found = {row[0]: row[1:3] for row in rows(spark)}
    assert found.keys() == {*range(20 - deleted), *range(20, 40), *range(100, 100 + merged)}
    assert [found[key][1] for key in (1, 12)] == ["v" + "u" * updated] * 2
    assert found[11] == (11 + merged, "v")


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_views_and_schema_evolution_are_rejected(spark: SparkSession) -> None:
    before = rows(spark)
    spark.sql("create temporary view temporary as select * from changed where id < 9")
    spark.sql("create view permanent as select id, o from changed")
    merge = MERGE.format(hint="", source="select 50L as id, 4 as o, 'v' as v, 'c' as c, 'x' as extra")
    try:
        for view in ("temporary", "permanent"):
            for statement in (
                f"delete from {view} where id = 1",
                f"update {view} set o = 1",
                merge.replace("into changed", f"into {view}") + UPSERT,
            ):
                with pytest.raises(
                    PySparkException,
                    match=rf"Cannot change rows of .*`{view}`\.\n  found:    a view of .*`changed`\n  expected: ",
                ):
                    spark.sql(statement).collect()
        message = "PARSE_SYNTAX_ERROR" if spark.version < "4" else "(?s)found:    WITH SCHEMA EVOLUTION.*ADD COLUMNS"
        for clause in (
            "when not matched then insert *",
            "when matched then update set extra = s.extra",
            "when not matched by source and missing = 1 then delete",
        ):
            with pytest.raises(PySparkException, match=message):
                spark.sql(merge.replace("merge into", "merge with schema evolution into") + clause)
    finally:
        spark.sql("drop view temporary")
        spark.sql("drop view permanent")
    assert rows(spark) == before


@pytest.mark.usefixtures("table")
def test_statement_shows_which_files_it_reads_and_replaces(spark: SparkSession) -> None:
    """EXPLAIN shows the files before the statement runs; the metrics show the replaced files."""

    def explained(statement: str, mode: str = "") -> str:
        return str(spark.sql(f"explain {mode} {statement}").collect()[0][0])

    for mode in ("", "formatted"):
        found_files = "spark_catalog.default.changed, reads 1 of 4 listed files\n"
        assert found_files in explained("delete from changed where o = 15", mode)
    merge = MERGE.format(hint="", source="select 15L as id, 15 as o") + "and t.o = s.o when matched then delete"
    assert "reads 4 of 4 listed files, before the keys of the source are compared" in explained(merge)
    assert spark.sql(merge).collect()[0][0] == 1
    found = metrics(spark)
    sizes = [float(str(found.pop(f"size of files {kind}")).split()[0]) for kind in ("written", "replaced")]
    assert 0 < sizes[0] < sizes[1]
    assert found == {
        "files listed": 4,
        "files searched for rows": 1,
        "files replaced": 1,
        "files written": 1,
        "rows updated": 0,
        "rows deleted": 1,
        "rows inserted": 0,
    }


PARTITIONED = {
    "organized": "(id bigint, v int, p int, q string) using parquet partitioned by (p, q)"
    """ tblproperties ('bucketing.range_by'='["id"]', 'bucketing.rows_per_file'='10')""",
    "bucketed": "(id bigint, v int) partitioned by (p int, q string) clustered by (id) into 1 buckets stored as parquet",
}


@pytest.fixture(params=PARTITIONED)
def parts(spark: SparkSession, extension: None, request: pytest.FixtureRequest) -> Iterator[None]:
    spark.sql(f"create table parts {PARTITIONED[request.param]}")
    yield
    spark.sql("drop table parts")


@pytest.mark.usefixtures("parts")
@pytest.mark.some(1)
def test_explain_shows_how_many_partitions_a_statement_lists(spark: SparkSession) -> None:
    every = "select id, 0 as v, int(id % 3) as p, 'q' as q from range(9)"
    spark.sql(f"merge into parts as t using ({every}) as s on false when not matched then insert *").collect()
    for statement, reads in {
        "delete from parts where p = 1": "reads 1 of 1 listed files in 1 of 3 partitions",
        "update parts set v = 1 where p = 7": "reads 0 of 0 listed files in 0 of 3 partitions",
        "update parts set v = 1": "reads 3 of 3 listed files in 3 of 3 partitions",
    }.items():
        assert reads in str(spark.sql(f"explain {statement}").collect()), statement


@pytest.mark.usefixtures("parts")
@pytest.mark.some(1)
def test_merge_lists_only_partitions_with_rows_of_the_source(spark: SparkSession) -> None:
    """The keys and the inserted rows must be in the same partitions. Rows may also be in the partition of NULL."""
    every = "select id, 0 as v, int(id % 5) as p, if(id % 2 = 0, 'even', null) as q from range(40)"
    expected = {row.id: tuple(row) for row in spark.sql(every).collect()}

    def merged(source: str, on: str, actions: str) -> int:
        """Merge rows, check the table, and return the number of listed partitions, which have one file each."""
        spark.sql(f"merge into parts as t using ({source}) as s on t.id = s.id and {on} {actions}").collect()
        assert sorted(map(tuple, spark.sql("select * from parts").collect())) == sorted(expected.values())
        return int(metrics(spark)["files listed"])

    upsert = "when matched then update set * when not matched then insert *"
    on = "t.p = s.p and t.q <=> s.q"
    assert merged(every, on, upsert) == 0
    rows = "select id, 1 as v, int(id % 5) as p, if(id % 2 = 0, 'even', null) as q from range(2, 60, 5)"
    expected |= {row.id: tuple(row) for row in spark.sql(rows).collect()}
    assert merged(rows, on, upsert) == 2
    # The keys of these rows are in other partitions than the inserted rows.
    expected |= {70: (70, 7, 4, None), 71: (71, 7, 4, "even")}
    insert = "when not matched then insert (id, v, p, q) values (s.id, 7, 4, if(s.id = 71, 'even', s.q))"
    assert merged("select id, 1 as v, 2 as p, '' as q from range(70, 72)", on, insert) == 10
    expected |= {70: (70, 7, 3, None), 71: (71, 7, 3, "even")}
    move = "when matched then update set p = 3"
    assert merged("select id, 4 as p, '' as q from range(70, 72)", "t.p = s.p", move) == 10
    expected |= {80: (80, 7, 0, None), 81: (81, 7, None, "even")}
    source = "select 80L as id, 7 as v, 0 as p, '' as q union all select 81, 7, null, 'even'"
    assert merged(source, "t.p = s.p and t.q = s.q", upsert) == 2
    expected |= {82: (82, 7, 0, """it's "quoted\""""), 83: (83, 7, 0, "it's")}
    source = """select 82L as id, 7 as v, 0 as p, 'it\\'s "quoted"' as q union all select 83, 7, 0, "it's" """
    assert merged(source, "t.p = s.p and t.q = s.q", upsert) == 2
    assert merged(source, "t.q = s.q", upsert) == 13
    assert merged("""select 83L as id, 7 as v, 0 as p, "it's" as q""", "t.q = s.q", upsert) == 1
    assert merged(f"{rows} limit 0", on, upsert) == 13


METRICS = re.compile("^(size of )?files (listed|searched|replaced|written)|^rows (updated|deleted|inserted)")


def metrics(spark: SparkSession) -> dict[str, int | str]:
    """Return the metrics of the last command. Sizes have units."""
    jvm: Any = spark._jsparkSession
    store = jvm.sharedState().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    runs = store.executionsList()
    latest_first = (runs.apply(number) for number in reversed(range(runs.size())))
    run = next(run for run in latest_first if "Plan ==\nExecute ChangeRows" in (run.physicalPlanDescription() or ""))
    assert ", reads " not in run.physicalPlanDescription(), "the statement has listed the files of the table twice"
    names = {run.metrics().apply(i).accumulatorId(): run.metrics().apply(i).name() for i in range(run.metrics().size())}
    values = store.executionMetrics(run.executionId())
    shown = {name: str(values.apply(number)) for number, name in names.items() if METRICS.search(name)}
    return {name: int(value) if value.isdecimal() else value for name, value in shown.items()}


@pytest.mark.usefixtures("extension")
def test_columns_whose_names_differ_only_in_case_are_rejected(spark: SparkSession) -> None:
    with setting(spark, "spark.sql.caseSensitive", "true"):
        spark.sql(
            "create table cased (id bigint, o int, O int) using parquet"
            """ tblproperties ('bucketing.range_by'='["id"]', 'bucketing.rows_per_file'='10')"""
        )
        spark.sql("insert into cased values (0, 0, 100), (1, 1, 101)")
        with pytest.raises(PySparkException, match="found:    the columns o and O, whose names differ only in case"):
            spark.sql("update cased set id = 77 where id = 1").collect()
        assert sorted(map(tuple, spark.sql("select * from cased").collect())) == [(0, 0, 100), (1, 1, 101)]
        spark.sql("drop table cased")


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_conditions_must_be_boolean_as_in_queries(spark: SparkSession) -> None:
    before = rows(spark)

    def outcome(statement: str) -> str | None:
        """Return the class of an error, or whether the statement affects rows."""
        try:
            found = spark.sql(statement).collect()
        except PySparkException as error:
            return error.getErrorClass() if spark.version < "4" else error.getCondition()
        return str(found[0][0])

    merge = "merge into changed using (select int(90) as k, 'x' as w) as n on {} "
    for condition in ("null", "1", "'true'", "{}", "if({} > '', null, null)", "(select 1)", "cast(null as boolean)"):
        of_target, of_source = condition.format("v"), condition.format("w")
        expected = outcome(f"select count(*) from changed where {of_target}")
        assert expected in ("0", "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"), condition
        for statement in (
            f"delete from changed where {of_target}",
            f"update changed set o = 1 where {of_target}",
            f"{merge.format(of_target)} when matched then delete",
            f"{merge.format('k > id')} when matched and {of_target} then delete",
            f"{merge.format('k = id')} when not matched and {of_source} then insert (id) values (n.k)",
            f"{merge.format('k = id')} when not matched by source and {of_target} then update set o = 1",
        ):
            assert outcome(statement) == expected, statement
        for query in (f"select * from changed where {of_target}", f"delete from changed where {of_target}"):
            explained = str(spark.sql(f"explain {query}").collect())
            assert ("FILTER_NOT_BOOLEAN" in explained) == (expected != "0"), query
    assert rows(spark) == before


@pytest.mark.usefixtures("table")
def test_errors_of_expressions_name_only_the_expressions(spark: SparkSession) -> None:
    merge = MERGE.format(hint="", source="select 3 as id, 4 as o")
    for statement, found in {
        "update changed set o = int(rand(1) * 10)": "(rand(1) * 10)",
        "delete from changed where rand(1) > 0.5": "(rand(1) > 0.5)",
        f"{merge} and rand(1) > 0.5 when matched then delete": "(rand(1) > 0.5)",
        f"{merge} when matched and rand(1) > 0.5 then delete": "(rand(1) > 0.5)",
        f"{merge} when not matched then insert (id) values (int(rand(1)))": "rand(1)",
        "update changed set o = max(o)": "max(o)",
        "delete from changed where sum(o) over () > 1": "sum(o) OVER",
        f"{merge} when matched and max(t.o) > 1 then delete": "max(o)",
    }.items():
        with pytest.raises(PySparkException, match=r"NON_DETERMINISTIC|UNSUPPORTED_EXPR_FOR_OPERATOR") as caught:
            spark.sql(statement)
        message = str(caught.value)
        assert found in message, statement
        assert not re.search(r"(?i)ChangeRows|(update|delete|insert)action|num_affected_rows", message), message


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
@pytest.mark.parametrize("kind", all_long_but("update", ["delete", "update", "merge"]))
def test_recursive_queries_before_a_statement_read_the_table_before_it(spark: SparkSession, kind: str) -> None:
    if spark.version < "4.1":
        pytest.skip("This version has no recursive queries.")
    recursive = (
        "with recursive r(n) as (select min(id) from changed where id > 3 union all select n + 10 from r where n < 30) "
    )
    if kind == "delete":
        assert spark.sql(f"{recursive} delete from changed where id in (select n from r)").collect()[0][0] == 4
        assert {row[0] for row in rows(spark)} == {*range(40)} - {4, 14, 24, 34}
        return
    if kind == "update":
        update = "update changed set o = (select max(n) from r), id = id + (select min(n) from r) where id in (select n from r)"
        assert spark.sql(f"{recursive} {update}").collect()[0][0] == 4
        assert {row[0] for row in rows(spark) if row[1] == 34} == {8, 18, 28, 38}
        return
    merge = "merge into changed as t using r on t.id = r.n when matched then delete when not matched then insert (id) values (r.n)"
    assert spark.sql(f"{recursive.replace('30', '50')} {merge}").collect()[0] == (6, 0, 4, 2)
