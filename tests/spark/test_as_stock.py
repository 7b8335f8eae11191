"""What dbt-spark's own materializations do with types, docs, constraints and keys, or a reason why not, before anything is written."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from conftest import Failed, Project

TABLE = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 2}
INCREMENTAL = TABLE | {"materialized": "bucketed_incremental"}
MERGE = INCREMENTAL | {"incremental_strategy": "merge"}


def warnings(project: Project, *arguments: str) -> str:
    """What a run would only warn of, as the failure that --warn-error makes of it."""
    return project.attempt("run", "--warn-error", *arguments)[1]


def describe(project: Project, *names: str, **properties: object) -> None:
    """What a file of properties says of these models, or of m."""
    models = [{"name": name, **properties} for name in names or ("m",)]
    project.write("models/models.yml", yaml.safe_dump({"models": models}, allow_unicode=True))


def types(project: Project, name: str) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in project.spark.table(project.table(name)).schema}


NULLS = "select 1 as k, null as v, array() as a, named_struct('void', null) as s"
HIVE_TYPES = {"k": "int", "v": "string", "a": "array<string>", "s": "struct<void:string>"}


def test_a_bare_null_is_text_in_the_hive_layout_and_stays_void_in_the_other(project: Project) -> None:
    for file_format in ("parquet", "orc"):
        project.model(file_format, NULLS, **TABLE, file_format=file_format)
    project.model("spark", "select 1 as k, null as v", **TABLE, bucket_hash="spark")
    for _ in range(2):
        project.dbt("run")
        assert types(project, "spark") == {"k": "int", "v": "void"}
        for name in ("parquet", "orc"):
            assert types(project, name) == HIVE_TYPES
            assert tuple(project.rows(f"select k, v, s.void from {project.table(name)}")[0]) == (1, None, None)


def test_a_bare_null_fits_a_column_of_any_type(project: Project) -> None:
    sql = "select {{ 2 if is_incremental() else 1 }} as k, {{ 'null' if is_incremental() else 'date\"2024-01-01\"' }} as v"
    modes = ("fail", "sync_all_columns")
    for mode in modes:
        project.model(mode, sql, **INCREMENTAL, on_schema_change=mode)
    project.dbt("run")
    project.dbt("run")
    for mode in modes:
        assert types(project, mode)["v"] == "date"
        assert [row.v is None for row in project.rows(f"select v from {{schema}}.{mode} order by k")] == [False, True]


def test_odd_names_inside_of_structs_are_kept_in_the_spark_layout(project: Project) -> None:
    query = "select 1 as k, named_struct('a-b', named_struct('1st c', 2)) as s"
    project.build(query, **TABLE, bucket_hash="spark")
    assert project.rows("select s.`a-b`.`1st c` from {schema}.m")[0][0] == 2


LONG = "word " * 60
DOCUMENTED = {
    "t": TABLE,
    "spark": TABLE | {"bucket_hash": "spark"},
    "overwrite": INCREMENTAL | {"partition_by": "p", "incremental_strategy": "insert_overwrite"},
    "merge": MERGE | {"unique_key": "k", "partition_by": "p"},
}


def test_a_comment_that_the_metastore_cannot_hold_is_cut_with_a_warning(project: Project) -> None:
    def document(text: str) -> None:
        columns = [{"name": "k", "description": text}, {"name": "p", "description": "p"}]
        describe(project, *DOCUMENTED, description=text * 20, columns=columns)

    for name, config in DOCUMENTED.items():
        project.model(name, "select 1 as k, 2 as p", **config, persist_docs={"relation": True, "columns": True})
    document(LONG)
    found = warnings(project)
    assert all(f"'{name}'" in found for name in DOCUMENTED) and found.count("cut to 256 characters") == len(DOCUMENTED)
    assert project.tables() == set()
    project.dbt("run")
    document("\U0001f600" + LONG)
    project.dbt("run")
    for name in DOCUMENTED:
        comment = project.spark.table(project.table(name)).schema["k"].metadata["comment"]
        assert comment == "\U0001f600" + LONG[:253] + "…"
        assert project.detail(name, "Comment") == ("\U0001f600" + LONG) * 20


def test_columns_that_are_documented_and_not_there_are_named(project: Project) -> None:
    describe(project, columns=[{"name": "K"}, {"name": "gone", "description": "no more"}])
    for config in (TABLE, INCREMENTAL):
        project.model("m", "select 1 as k", **config, persist_docs={"columns": True})
        assert re.search("'m': these columns are documented, .* not have them: gone", warnings(project))
        project.dbt("run")


def test_constraints_of_a_contract_hold_for_each_row_that_is_written(project: Project) -> None:
    positive = {"type": "check", "expression": "v > 0", "name": "positive"}
    constraints = {"k": [{"type": "not_null"}], "v": [positive]}
    columns = [{"name": name, "data_type": "int", "constraints": of} for name, of in constraints.items()]
    describe(project, config={"contract": {"enforced": True}}, columns=columns)
    for config in (TABLE, INCREMENTAL | {"full_refresh": False}):
        project.model("m", "select cast({{ var('k') }} as int) as k, cast({{ var('v') }} as int) as v", **config)
        project.dbt("run", k=1, v=1)
        project.dbt("run", k=1, v="null")
        with pytest.raises(Failed, match="a row breaks the constraint 'not_null' of k"):
            project.dbt("run", k="null", v=1)
        with pytest.raises(Failed, match="a row breaks the constraint 'positive' of v"):
            project.dbt("run", k=1, v=-1)
        assert {row.k for row in project.rows("select k from {schema}.m")} == {1}


def test_constraints_that_no_single_row_can_break_are_warned_of(project: Project) -> None:
    constraint = {"type": "unique", "columns": ["k"]}
    contract = {"config": {"contract": {"enforced": True}}, "columns": [{"name": "k", "data_type": "int"}]}
    describe(project, **contract, constraints=[constraint])
    project.model("m", "select 1 as k", **TABLE)
    assert "'unique' of k is not enforced" in warnings(project)
    describe(project, **contract, constraints=[constraint | {"warn_unenforced": False}])
    assert not warnings(project)


def test_a_merge_without_a_key_appends_with_a_warning(project: Project) -> None:
    project.model("m", "select 1 as k", **MERGE)
    assert "without `unique_key` appends" in warnings(project)
    project.dbt("run")
    project.dbt("run")
    assert [row.k for row in project.rows("select k from {schema}.m")] == [1, 1]


def test_a_key_may_name_a_column_twice(project: Project) -> None:
    project.model("m", "select 1 as k, '{{ var('v') }}' as v", **MERGE, unique_key=["k", "K", "k"])
    for version in ("a", "b"):
        project.dbt("run", v=version)
    assert [tuple(row) for row in project.rows("select * from {schema}.m")] == [(1, "b")]


def test_a_key_that_the_table_does_not_have_leaves_nothing_behind(project: Project) -> None:
    project.build("select 1 as k", **MERGE, unique_key="k")
    # The query has it, and the table ignores new columns.
    project.model("m", "select 1 as k, 2 as nk", **MERGE, unique_key="nk")
    with pytest.raises(Failed, match=r"Invalid `unique_key` of model 'm'[^$]*found: +nk"):
        project.dbt("run")
    assert project.tables() == {"m"}


def test_sizes_are_in_dbts_catalog_where_stock_has_them(project: Project) -> None:
    project.model("stock", "select id as k from range(100)", materialized="table", file_format="parquet")
    for bucket_hash in ("hive", "spark"):
        project.model(bucket_hash, "select id as k from range(100)", **TABLE, bucket_hash=bucket_hash)
    project.dbt("run")
    project.dbt("docs", "generate")
    catalog = json.loads((project.folder / "target" / "catalog.json").read_text())["nodes"]
    sizes = {node["metadata"]["name"]: node["stats"].get("bytes", {}).get("value", 0) for node in catalog.values()}
    assert sizes.keys() == {"stock", "hive", "spark"} and all(sizes.values()), sizes


def test_an_error_of_the_metastore_is_said_as_it_is(project: Project) -> None:
    project.model("m", "select '{{ var('v') }}' as k", **TABLE)
    project.dbt("run", v="old")
    # The metastore's database holds keys of 256 characters, and Spark gives the error that says so no SQLSTATE.
    project.model("m", "select '{{ var('v') }}' as k", **TABLE, tblproperties={"long" * 70: "v"})
    _, failure = project.attempt("run", v="new")
    assert "TABLE_PARAMS" in failure and "NullPointerException" not in failure
    assert [row.k for row in project.rows("select * from {schema}.m")] == ["old"]
    project.model("m", "select '{{ var('v') }}' as k", **TABLE)
    project.dbt("run", v="new")
    assert project.tables() == {"m"}


def test_buckets_for_hardly_any_rows_are_warned_of(project: Project) -> None:
    project.model("m", "select id as k from range(1000)", **TABLE | {"buckets": 1000})
    found = warnings(project)
    assert "buckets=1000" in found and "tiny files" in found and "try buckets=1" in found
    assert project.tables() == set()


def test_a_query_may_end_as_a_statement_does(project: Project) -> None:
    ends = [";", "; -- done", ";\n/* all; of * it */\n", " -- done", ";;"]
    for number, end in enumerate(ends):
        project.model(f"m{number}", f"select 1 as k, '; -- text' as v -- it's;\n{end}", **TABLE)
    project.dbt("run")
    for number, end in enumerate(ends):
        assert project.rows(f"select v from {{schema}}.m{number}")[0].v == "; -- text", end
