"""Tests of MERGE INTO, UPDATE and DELETE on tables with nested columns and VARIANT columns."""

from __future__ import annotations

from typing import Any

import pytest
from bucketed_tables import ERRORS, Tables
from statement_cases import run_steps

NESTED = {
    "organized": """using parquet tblproperties ('bucketing.range_by'='["id"]', 'bucketing.rows_per_file'='4')""",
    "bucketed": "clustered by (id) into 2 buckets stored as orc tblproperties ('bucketing_version'='2')",
}
pytestmark = [
    pytest.mark.usefixtures("extension"),
    pytest.mark.parametrize("layout", NESTED),
    pytest.mark.some(1),
]


def create(tables: Tables, layout: str) -> str:
    """Create a table with nested columns, and return the type of some fields. Tables in the Hive layout cannot have a VARIANT."""
    field = "variant" if layout == "organized" and tables.spark.version >= "4" else "string"
    columns = (
        f"v {field}, s struct<v: {field}, x: int, n: struct<v: {field}, y: int>>, a array<struct<v: {field}, x: int>>"
    )
    tables.create(f"nested (id int, {columns}, m map<string, {field}>) {NESTED[layout]}")
    tables.sql(f"insert into nested {nested_rows(field, 'range(10)')}")
    return field


def nested_rows(field: str, source: str) -> str:
    v = """parse_json('{"k": ' || id || '}')""" if field == "variant" else "string(id)"
    struct = f"named_struct('v', {v}, 'x', int(id), 'n', named_struct('v', {v}, 'y', int(id)))"
    return f"select int(id) as id, {v} as v, {struct} as s, array(named_struct('v', {v}, 'x', 1)) as a, map('k', {v}) as m from {source}"


def test_kept_rows_keep_all_nested_columns(tables: Tables, layout: str) -> None:
    """The optimizer extracts fields of VARIANT columns, and prunes nested columns, in the scans of queries."""
    field = create(tables, layout)

    def shown(of: str) -> dict[object, tuple[object, ...]]:
        columns = "id, to_json(struct(v)), to_json(s), to_json(a), to_json(m)"
        return {row[0]: row for row in tables.sql(f"select {columns} from {of}")}

    def value(of: str) -> str:
        return f"variant_get({of}, '$.k', 'int')" if field == "variant" else f"int({of})"

    def without(*keys: int) -> dict[object, tuple[object, ...]]:
        return {key: row for key, row in expected.items() if key not in keys}

    source = nested_rows(field, "range(6, 14)")
    expected = shown("nested")
    # Spark extracts fields of VARIANT columns in scans only with compiled code.
    extracts = {
        "spark.sql.variant.pushVariantIntoScan": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.codegen.wholeStage": "true",
    }
    with tables.settings(extracts):
        tables.sql(f"delete from nested where {value('v')} = 1 or s.n.y = 2")
        expected = without(1, 2)
        assert shown("nested") == expected
        tables.sql(f"update nested set v = s.n.v, s.x = {value('m.k')} where a[0].x = 1 and s.n.y = 3")
        assert shown("nested") == expected
        tables.sql(
            f"merge into nested as t using ({source}) as n on t.id = n.id and {value('t.s.v')} = {value('n.v')}"
            " when matched and t.s.x = 6 then delete when matched and n.s.x = 7 then update set s.n.v = n.m.k"
            " when matched then update set * when not matched then insert *"
        )
        expected |= shown(f"({source})")
        expected = without(6)
        assert shown("nested") == expected
        with tables.settings({"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}):
            tables.sql("update nested set a = array(), m = map() where id < 0 or s.x = 99")
            tables.sql(f"delete from nested where {value('s.n.v')} = 9")
    assert shown("nested") == without(9)


def test_rules_of_other_extensions_cannot_change_the_rows_to_write(tables: Tables, layout: str) -> None:
    """A rule that changes the scan of these rows anyway makes the statement fail before it writes."""
    create(tables, layout)
    jvm: Any = tables.spark._jvm
    rules, session = jvm.org.apache.spark.sql.bucketing.support.ScanRules, tables.spark._jsparkSession.experimental()
    shown = "select id, to_json(s) from nested"
    before = tables.rows(shown)
    update = "update nested set m = map() where id = 3"
    columns = r"found:    a scan with the columns STRUCT<id: INT, v.*, a: .*the table is unchanged"
    try:
        rules.dropColumn(session, "s", True)
        for statement in (update, "delete from nested where id = 3"):
            with pytest.raises(ERRORS, match=f"(?s)Cannot change rows of .*{columns}"):
                tables.sql(statement)
        rules.dropColumn(session, "s", False)
        assert tables.sql(shown)[0][1] is None
        assert tables.sql(update) == [(1,)]
    finally:
        rules.clear(session)
    assert tables.rows(shown) == before


def test_structs_are_assigned_by_name(tables: Tables, layout: str) -> None:
    structs = (
        "s struct<a: int, b: array<int>>, n struct<u: struct<a: int, b: int>, x: int>, l array<struct<a: int, b: int>>"
    )
    tables.create(f"nested (id int, {structs}, m map<string, struct<a: int, b: int>>) {NESTED[layout]}")

    def values(a: int, b: int) -> dict[str, str]:
        """Return values whose fields are in another order."""
        pair = f"named_struct('b', {b}, 'a', {a})"
        return {
            "s": f"named_struct('b', array({b}), 'a', {a})",
            "n": f"named_struct('x', {a}, 'u', {pair})",
            "l": f"array({pair})",
            "m": f"map('k', {pair})",
        }

    def merge(ids: str, a: int, b: int) -> str:
        columns = ", ".join(f"{value} as {name}" for name, value in values(a, b).items())
        return f"merge into nested as t using (select explode(array({ids})) as id, {columns}) as s on t.id = s.id"

    def row(key: int, a: int, b: int) -> tuple[object, ...]:
        return (key, (a, [b]), ((a, b), a), [(a, b)], {"k": (a, b)})

    every = "select * from nested"
    explicit = (
        "when matched and s.id = 1 then update set s = s.s, n = s.n, l = s.l, m = s.m when matched then update set *"
        " when not matched then insert (id, s, n, l, m) values (s.id, s.s, s.n, s.l, s.m)"
    )
    for statement, rows in {
        f"{merge('1, 2', 3, 4)} when not matched then insert *": [row(1, 3, 4), row(2, 3, 4)],
        f"update nested set {', '.join(f'{k} = {v}' for k, v in values(5, 6).items())} where id = 1": [
            row(1, 5, 6),
            row(2, 3, 4),
        ],
        f"{merge('1, 2, 3', 7, 8)} {explicit}": [row(key, 7, 8) for key in (1, 2, 3)],
    }.items():
        run_steps(tables, {statement: None, every: rows}, "nested")
    insert = "merge into nested using (select 1 as one) on false when not matched then insert (s) values"
    for value, error in {
        "named_struct('a', 1)": "CANNOT_FIND_DATA",
        "named_struct('a', 1, 'c', array(2))": "CANNOT_FIND_DATA",
        "named_struct('b', array(1), 'c', 2, 'a', 3)": "EXTRA_STRUCT_FIELDS",
        "named_struct('b', 1, 'a', 2)": "CANNOT_SAFELY_CAST",
        "1": "CANNOT_SAFELY_CAST",
    }.items():
        message = rf"INCOMPATIBLE_DATA_FOR_TABLE\.{error}"
        run_steps(tables, dict.fromkeys([f"update nested set s = {value}", f"{insert} ({value})"], message), "nested")
