"""Tests of MERGE INTO, UPDATE and DELETE on tables with nested columns and VARIANT columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_bucketing.session import setting

NESTED = {
    "organized": """using parquet tblproperties ('bucketing.range_by'='["id"]', 'bucketing.rows_per_file'='4')""",
    "bucketed": "clustered by (id) into 2 buckets stored as orc tblproperties ('bucketing_version'='2')",
}
of_nested_columns = pytest.mark.parametrize("nested", NESTED, indirect=True)


@pytest.fixture
def nested(spark: SparkSession, extension: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """Create a table with nested columns, and return the type of some fields. Tables in the Hive layout cannot have a VARIANT."""
    field = "variant" if request.param == "organized" and spark.version >= "4" else "string"
    columns = (
        f"v {field}, s struct<v: {field}, x: int, n: struct<v: {field}, y: int>>, a array<struct<v: {field}, x: int>>"
    )
    # The current database depends on the tests before, and may have a location of its own.
    spark.sql("use default")
    spark.sql(f"create table nested (id int, {columns}, m map<string, {field}>) {NESTED[request.param]}")
    spark.sql(f"insert into nested {nested_rows(field, 'range(10)')}")
    yield field
    spark.sql("drop table nested")


def nested_rows(field: str, source: str) -> str:
    v = """parse_json('{"k": ' || id || '}')""" if field == "variant" else "string(id)"
    struct = f"named_struct('v', {v}, 'x', int(id), 'n', named_struct('v', {v}, 'y', int(id)))"
    return f"select int(id) as id, {v} as v, {struct} as s, array(named_struct('v', {v}, 'x', 1)) as a, map('k', {v}) as m from {source}"


@of_nested_columns
@pytest.mark.some(1)
def test_kept_rows_keep_all_nested_columns(spark: SparkSession, nested: str) -> None:
    """The optimizer extracts fields of VARIANT columns, and prunes nested columns, in the scans of queries."""

    def shown(of: str) -> dict[int, tuple[object, ...]]:
        columns = "id, to_json(struct(v)), to_json(s), to_json(a), to_json(m)"
        return {row[0]: tuple(row) for row in spark.sql(f"select {columns} from {of}").collect()}

    def value(of: str) -> str:
        return f"variant_get({of}, '$.k', 'int')" if nested == "variant" else f"int({of})"

    source = nested_rows(nested, "range(6, 14)")
    expected = shown("nested")
    # Spark extracts fields of VARIANT columns in scans only with compiled code.
    with (
        setting(spark, "spark.sql.variant.pushVariantIntoScan", "true"),
        setting(spark, "spark.sql.codegen.factoryMode", "FALLBACK"),
        setting(spark, "spark.sql.codegen.wholeStage", "true"),
    ):
        spark.sql(f"delete from nested where {value('v')} = 1 or s.n.y = 2").collect()
        expected = {key: row for key, row in expected.items() if key not in (1, 2)}
        assert shown("nested") == expected
        spark.sql(f"update nested set v = s.n.v, s.x = {value('m.k')} where a[0].x = 1 and s.n.y = 3").collect()
        assert shown("nested") == expected
        spark.sql(
            f"merge into nested as t using ({source}) as n on t.id = n.id and {value('t.s.v')} = {value('n.v')}"
            " when matched and t.s.x = 6 then delete when matched and n.s.x = 7 then update set s.n.v = n.m.k"
            " when matched then update set * when not matched then insert *"
        ).collect()
        expected = expected | shown(f"({source})")
        del expected[6]
        assert shown("nested") == expected
        with (
            setting(spark, "spark.sql.adaptive.enabled", "false"),
            setting(spark, "spark.sql.codegen.wholeStage", "false"),
        ):
            spark.sql("update nested set a = array(), m = map() where id < 0 or s.x = 99").collect()
            spark.sql(f"delete from nested where {value('s.n.v')} = 9").collect()
    del expected[9]
    assert shown("nested") == expected


@of_nested_columns
@pytest.mark.usefixtures("nested")
@pytest.mark.some(1)
def test_rules_of_other_extensions_cannot_change_the_rows_to_write(spark: SparkSession) -> None:
    """A rule that changes the scan of these rows anyway makes the statement fail before it writes."""
    jvm: Any = spark._jvm
    rules, session = jvm.org.apache.spark.sql.bucketing.support.ScanRules, spark._jsparkSession
    shown = "select id, to_json(s) from nested"
    before = sorted(map(tuple, spark.sql(shown).collect()))
    update = "update nested set m = map() where id = 3"
    try:
        rules.dropColumn(session.experimental(), "s", True)
        for statement in (update, "delete from nested where id = 3"):
            with pytest.raises(
                (PySparkException, Py4JJavaError),
                match=r"(?s)Cannot change rows of .*found:    a scan with the columns STRUCT<id: INT, v.*, a: .*the table is unchanged",
            ):
                spark.sql(statement).collect()
        rules.dropColumn(session.experimental(), "s", False)
        assert spark.sql(shown).collect()[0][1] is None
        assert spark.sql(update).collect()[0][0] == 1
    finally:
        rules.clear(session.experimental())
    assert sorted(map(tuple, spark.sql(shown).collect())) == before


@of_nested_columns
@pytest.mark.some(1)
def test_structs_are_assigned_by_name(spark: SparkSession, nested: str) -> None:
    spark.sql("drop table nested")
    layout = NESTED["organized" if nested == "variant" else "bucketed"]
    columns = (
        "s struct<a: int, b: array<int>>, n struct<u: struct<a: int, b: int>, x: int>, l array<struct<a: int, b: int>>"
    )
    # The current database depends on the tests before, and may have a location of its own.
    spark.sql("use default")
    spark.sql(f"create table nested (id int, {columns}, m map<string, struct<a: int, b: int>>) {layout}")

    def values(a: int, b: int) -> dict[str, str]:
        """Return values whose fields are in another order."""
        pair = f"named_struct('b', {b}, 'a', {a})"
        return {
            "s": f"named_struct('b', array({b}), 'a', {a})",
            "n": f"named_struct('x', {a}, 'u', {pair})",
            "l": f"array({pair})",
            "m": f"map('k', {pair})",
        }

    def source(ids: str, a: int, b: int) -> str:
        return f"(select explode(array({ids})) as id, {', '.join(f'{value} as {name}' for name, value in values(a, b).items())}) as s"

    def row(key: int, a: int, b: int) -> tuple[object, ...]:
        return (key, (a, [b]), ((a, b), a), [(a, b)], {"k": (a, b)})

    merge = "merge into nested as t using {} on t.id = s.id "
    spark.sql(merge.format(source("1, 2", 3, 4)) + "when not matched then insert *").collect()
    assert rows_of_nested(spark) == [row(1, 3, 4), row(2, 3, 4)]
    spark.sql(f"update nested set {', '.join(f'{k} = {v}' for k, v in values(5, 6).items())} where id = 1").collect()
    assert rows_of_nested(spark) == [row(1, 5, 6), row(2, 3, 4)]
    explicit = (
        "when matched and s.id = 1 then update set s = s.s, n = s.n, l = s.l, m = s.m when matched then update set *"
    )
    insert = "when not matched then insert (id, s, n, l, m) values (s.id, s.s, s.n, s.l, s.m)"
    spark.sql(f"{merge.format(source('1, 2, 3', 7, 8))} {explicit} {insert}").collect()
    expected = [row(key, 7, 8) for key in (1, 2, 3)]
    assert rows_of_nested(spark) == expected
    for value, error in {
        "named_struct('a', 1)": "CANNOT_FIND_DATA",
        "named_struct('a', 1, 'c', array(2))": "CANNOT_FIND_DATA",
        "named_struct('b', array(1), 'c', 2, 'a', 3)": "EXTRA_STRUCT_FIELDS",
        "named_struct('b', 1, 'a', 2)": "CANNOT_SAFELY_CAST",
        "1": "CANNOT_SAFELY_CAST",
    }.items():
        for statement in (
            f"update nested set s = {value}",
            f"merge into nested using (select 1 as one) on false when not matched then insert (s) values ({value})",
        ):
            with pytest.raises(PySparkException, match=rf"INCOMPATIBLE_DATA_FOR_TABLE\.{error}"):
                spark.sql(statement).collect()
    assert rows_of_nested(spark) == expected


def rows_of_nested(spark: SparkSession) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql("select * from nested order by id").collect()]
