"""What dbt-spark's own materializations honour, these honour, too."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from dying import statements
from test_bucketed_table import assert_one_file_per_bucket

from conftest import Failed, Project

TABLE: dict[str, Any] = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 2}
INCREMENTAL = TABLE | {"materialized": "bucketed_incremental"}


def comments(project: Project, table: str) -> dict[str, str]:
    fields = project.spark.table(f"{project.schema}.{table}").schema.fields
    return {field.name: field.metadata["comment"] for field in fields if "comment" in field.metadata}


def test_docs_are_persisted_and_follow_changes(project: Project) -> None:
    def document(text: str) -> None:
        project.write(
            "models/m.yml",
            f"""
            models:
              - name: m
                description: "Table's ${{env:HOME}} \\\\ {text}"
                columns: [{{name: K, description: "key's {text}"}}, {{name: p, description: part}}]
              - name: i
                description: "{text}"
                columns: [{{name: k, description: "key {text}"}}]
            """,
        )

    docs = {"persist_docs": {"relation": True, "columns": True}, "partition_by": ["p"]}
    project.model("m", "select 1 as k, 2 as v, 3 as p", **TABLE, **docs)
    project.model("i", "select 1 as k, 2 as v, 3 as p", **INCREMENTAL, **docs)
    document("first")
    project.dbt("run")
    assert project.detail("m", "Comment") == "Table's ${env:HOME} \\ first"
    assert comments(project, "m") == {"k": "key's first", "p": "part"}
    document("second")
    project.dbt("run")
    assert (project.detail("i", "Comment"), comments(project, "i")) == ("second", {"k": "key second"})
    assert project.detail("i", "Num Buckets") == "2"


def test_properties_options_tags_and_hooks(project: Project) -> None:
    for bucket_hash in ("hive", "spark"):
        project.model(
            bucket_hash,
            "select id as k from range(10)",
            **TABLE,
            bucket_hash=bucket_hash,
            tags=["nightly"],
            tblproperties={"owner.team": "it's us", "answer": 42, "flag": True},
            options={"compression": "gzip"},
            pre_hook="create table if not exists {{ this.schema }}.pre_{{ this.name }} (a int) using parquet",
            post_hook=["create view {{ this.schema }}.post_{{ this.name }} as select count(*) as n from {{ this }}"],
        )
    project.dbt("run", "--select", "tag:nightly")
    for name in ("hive", "spark"):
        properties = str(project.detail(name, "Table Properties"))
        assert "owner.team=it's us" in properties and "answer=42" in properties and "flag=true" in properties
        assert project.rows(f"select n from {{schema}}.post_{name}")[0].n == 10
        assert f"pre_{name}" in project.tables()
        assert all(path.name.endswith(".gz.parquet") for path in project.files(name))


def test_external_tables_keep_their_files_below_location_root(project: Project) -> None:
    root = project.folder / "it's external"
    query = "select id as k, '{{ var('v') }}' as v, id % 2 as p from range(10)"
    for bucket_hash in ("hive", "spark"):
        config = TABLE | {"bucket_hash": bucket_hash, "location_root": str(root), "partition_by": ["p"]}
        project.model(f"m_{bucket_hash}", query, **config)
    for version in ("one", "two", "three"):
        project.dbt("run", v=version)
        for name in ("m_hive", "m_spark"):
            assert project.detail(name, "Type") == "EXTERNAL"
            assert project.location(name).parent == root / name
            assert [path.name for path in (root / name).iterdir()] == [project.location(name).name]
            assert [r.v for r in project.rows(f"select distinct v from {project.table(name)}")] == [version]


def test_files_of_a_foreign_external_table_are_left_alone(project: Project) -> None:
    project.dbt("run")
    foreign = project.folder / "foreign" / "m"
    project.spark.sql(f"create schema if not exists {project.schema}")
    project.spark.sql(f"create table {project.table('m')} using parquet location '{foreign}' as select 1 as precious")
    project.build("select 1 as k", **TABLE, location_root=str(foreign.parent))
    assert project.spark.read.parquet(str(foreign)).columns == ["precious"]
    assert project.spark.table(f"{project.schema}.m").columns == ["k"]


def test_a_view_or_a_plain_table_in_the_way_is_replaced(project: Project) -> None:
    for name, materialized in (("was_view", "view"), ("was_table", "table")):
        project.model(name, "select 1 as old", materialized=materialized)
    project.dbt("run")
    project.model("was_view", "select 1 as k", **TABLE)
    project.model("was_table", "select 1 as k", **TABLE)
    project.dbt("run")
    assert project.tables() == {"was_view", "was_table"}
    for name in ("was_view", "was_table"):
        assert project.detail(name, "Num Buckets") == "2"
    project.model("was_view", "select 1 as k", materialized="view")
    project.model("was_table", "select 1 as k", materialized="table")
    project.dbt("run")


def test_contracts_are_enforced(project: Project) -> None:
    project.write(
        "models/m.yml",
        """
        models:
          - name: m
            config: {contract: {enforced: true}}
            columns: [{name: v, data_type: string}, {name: k, data_type: bigint}]
        """,
    )
    project.build("select id as k, 'x' as v from range(3)", **TABLE)
    assert project.spark.table(f"{project.schema}.m").columns == ["v", "k"]
    project.model("m", "select cast(id as int) as k, 'x' as v from range(3)", **TABLE)
    with pytest.raises(Failed, match="contract"):
        project.dbt("run")


def test_grants_are_sent_as_dbt_spark_sends_them(project: Project) -> None:
    # Stock Spark has no GRANT; what matters is that it is asked, for the finished table.
    project.model("m", "select 1 as k", **TABLE, grants={"select": ["reporter"]})
    with statements() as sent:
        _, failure = project.attempt("run")
    assert any(s.startswith("grant select on") or "grant" in s for s in sent) or "grant" in failure.lower()
    assert project.rows("select * from {schema}.m")[0].k == 1


def test_awkward_names(project: Project) -> None:
    columns = "`UserId`, `select`, `bucket`, `salt`, `a b`, `a.b`, `back``tick`, `Ünï`, `task`, `key`, `path`"
    values = "id, 'x', id, 2, 3, 4, 5, 'ü', 6, 7, 8"
    named = [f"{v} as {c}" for v, c in zip(values.split(", "), columns.split(", "), strict=True)]
    odd: dict[str, Any] = {
        "clustered_by": ["userid", "a.b", "back`tick"],
        "sorted_by": ["a b", "USERID"],
        "partition_by": ["Bucket"],
    }
    odd |= {"incremental_strategy": "merge", "unique_key": "userid", "buckets": 3}
    for bucket_hash, file_format in product(("hive", "spark"), ("parquet", "orc")):
        config = INCREMENTAL | odd | {"bucket_hash": bucket_hash, "file_format": file_format}
        project.model(f"Select_{bucket_hash}_{file_format}", f"select {', '.join(named)} from range(20)", **config)
    order = {"clustered_by": "from", "alias": "table", "schema": "Other_Place"}
    project.model("order", "select 1 as `from`", **TABLE | order)
    project.dbt("run")
    project.dbt("run")
    for name in sorted(project.tables()):
        assert_one_file_per_bucket(project, name, name.split("_")[1], 3)
        assert project.rows(f"select count(*), count(distinct `UserId`) from {project.table(name)}")[0][:] == (20, 20)
        found = project.spark.table(f"{project.schema}.{name}").columns
        # Hive's metastore knows lower case only; Spark keeps what is not part of the bucket spec.
        assert found[0] == ("userid" if name.split("_")[1] == "hive" else "UserId")
        assert found[-1].lower() == "bucket"
    assert project.spark.sql(f"select * from `{project.schema}_Other_Place`.`table`").columns == ["from"]


def test_models_build_side_by_side(project: Project) -> None:
    for number in range(6):
        config = TABLE | {"buckets": number + 1, "bucket_hash": "hive" if number % 2 else "spark"}
        project.model(f"m{number}", f"select id as k, {number} as v from range(50)", **config)
    project.dbt("run", "--threads", "6")
    project.dbt("run", "--threads", "6")
    for number in range(6):
        assert_one_file_per_bucket(project, f"m{number}", "hive" if number % 2 else "spark", number + 1)
        assert project.rows(f"select distinct v from {{schema}}.m{number}")[0].v == number


def test_models_whose_names_join_to_the_same_text_are_told_apart(project: Project) -> None:
    # dbt builds `s`.`x_m` and `s_x`.`m` in two threads of one session.
    for name, config in {"x_m": {}, "m": {"schema": "x"}}.items():
        project.model(name, f"select '{name}' as k", **TABLE | config)
    project.dbt("run")
    found = project.rows("select k from {schema}.x_m union all select k from {schema}_x.m")
    assert [row.k for row in found] == ["x_m", "m"]


def test_a_run_leaves_no_setting_and_no_view_behind(project: Project) -> None:
    project.model("good", "select 1 as k", **TABLE)
    project.model("bad", "select assert_true(false) as a, 1 as k", **TABLE)
    before = {row.key: row.value for row in project.spark.sql("set").collect()}
    _, failure = project.attempt("run")
    assert "bad" in failure
    assert {row.key: row.value for row in project.spark.sql("set").collect()} == before
    assert not [row for row in project.spark.sql("show views").collect() if "good" in row.viewName]


def test_a_failing_query_leaves_the_old_table(project: Project) -> None:
    sql = "select cast({{ 'raise_error(\"boom\")' if var('fail') else 1 }} as int) as k"
    for name, config in (("t", TABLE), ("i", INCREMENTAL)):
        project.model(name, sql, **config)
    project.dbt("run", fail=False)
    _, failure = project.attempt("run", fail=True)
    assert failure.count("boom") >= 2
    for name in ("t", "i"):
        assert [tuple(row) for row in project.rows(f"select * from {{schema}}.{name}")] == [(1,)]
    project.dbt("run", fail=False)
    assert project.tables() == {"t", "i"}


def test_full_refresh_is_refused_where_the_model_says_so(project: Project) -> None:
    project.build("select {{ 2 if is_incremental() else 1 }} as k", **INCREMENTAL, full_refresh=False)
    project.dbt("run", "--full-refresh")
    assert sorted(row.k for row in project.rows("select * from {schema}.m")) == [1, 2]


def test_the_names_of_installed_packages_resolve(project: Project) -> None:
    """A package that itself uses the materializations works from inside another project."""
    for layout in ("hive", "spark"):
        project.model(layout, "select id as k from range(10)", **TABLE, bucket_hash=layout)
        project.model(f"below_{layout}", f"select k, count(*) as n from {{{{ ref('{layout}') }}}} group by k", **TABLE)
    project.dbt("build")
    for layout in ("hive", "spark"):
        assert project.rows(f"select sum(n) from {{schema}}.below_{layout}")[0][0] == 10


# A query, and one of its table with a row of what it finds.
ODD = {
    "wide_structs": (
        f"select 1 as k, struct({', '.join(f'{i} as f{i}' for i in range(60))}) as s, array(named_struct('a', 'b')) as t",
        "select s.f59, t[0].a from {t}", (59, "b"),
    ),
    "names_like_headings": (
        "select 1 as k, 2 as `# orders`, 3 as `# Partition Information`, 4 as v", "select * from {t}", (1, 2, 3, 4),
    ),
}  # fmt: skip


def test_odd_columns_are_kept(project: Project) -> None:
    for name, (query, _, _) in ODD.items():
        project.model(name, query, **TABLE)
    project.dbt("run")
    for name, (_, query, row) in ODD.items():
        assert [tuple(found) for found in project.rows(query.format(t=project.table(name)))] == [row]
    columns = project.spark.table(project.table("names_like_headings")).columns
    assert columns == ["k", "# orders", "# Partition Information", "v"]
