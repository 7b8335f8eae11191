"""Tests that the bucketed materializations support dbt's features as dbt-spark's materializations do."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from crashes import statements
from test_bucketed_table import assert_one_file_per_bucket

from conftest import Failed, Project, parameters

pytestmark = pytest.mark.usefixtures("extension_for_module")
TABLE: dict[str, Any] = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 2}
INCREMENTAL = TABLE | {"materialized": "bucketed_incremental"}


def comments(project: Project, table: str) -> dict[str, str]:
    fields = project.spark.table(f"{project.schema}.{table}").schema.fields
    return {field.name: field.metadata["comment"] for field in fields if "comment" in field.metadata}


def test_persisted_docs_follow_changes(project: Project) -> None:
    def document(text: str) -> None:
        of_m = [{"name": "K", "description": f"key's {text}"}, {"name": "p", "description": "part"}]
        of_i = [{"name": "k", "description": f"key {text}"}]
        m = {"name": "m", "description": f"Table's ${{env:HOME}} \\ {text}", "columns": of_m}
        project.describe(m, {"name": "i", "description": text, "columns": of_i})

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


def test_model_keeps_properties_options_tags_and_hooks(project: Project) -> None:
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


def test_files_of_a_replaced_external_table_are_kept(project: Project) -> None:
    foreign = project.folder / "foreign" / "m"
    project.spark.sql(f"create table {project.table('m')} using parquet location '{foreign}' as select 1 as precious")
    project.build("select 1 as k", **TABLE, location_root=str(foreign.parent))
    assert project.spark.read.parquet(str(foreign)).columns == ["precious"]
    assert project.spark.table(f"{project.schema}.m").columns == ["k"]


def test_existing_view_or_unbucketed_table_is_replaced(project: Project) -> None:
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
    columns = [{"name": "v", "data_type": "string"}, {"name": "k", "data_type": "bigint"}]
    project.describe({"name": "m", "config": {"contract": {"enforced": True}}, "columns": columns})
    project.build("select id as k, 'x' as v from range(3)", **TABLE)
    assert project.spark.table(f"{project.schema}.m").columns == ["v", "k"]
    project.model("m", "select cast(id as int) as k, 'x' as v from range(3)", **TABLE)
    with pytest.raises(Failed, match="contract"):
        project.dbt("run")


def test_model_with_hooks_reads_session_settings_once(project: Project) -> None:
    incremental = INCREMENTAL | {"incremental_strategy": "merge", "unique_key": "k"}
    project.model(
        "m", "select 1 as k, 2 as ds", **incremental, partition_by=["ds"], pre_hook="select 1", post_hook="select 2"
    )
    project.dbt("run")
    with statements(ignored=re.compile("(?!)")) as sent:
        project.dbt("run")
    assert sent.count("set") == 1


def test_grants_are_the_same_as_with_dbt_spark(project: Project) -> None:
    # Stock Spark has no GRANT statement; the test checks that dbt sends it for the finished table.
    project.model("m", "select 1 as k", **TABLE, grants={"select": ["reporter"]})
    with statements() as sent:
        _, failure = project.attempt("run")
    assert any(s.startswith("grant select on") or "grant" in s for s in sent) or "grant" in failure.lower()
    assert project.rows("select * from {schema}.m")[0].k == 1


HASHES = ("hive", "spark")
LAYOUTS = [*product(HASHES, ("parquet", "orc"))]
NULLS = "select 1 as k, null as v, array() as a, named_struct('void', null) as s"
WIDE = f"select 1 as k, struct({', '.join(f'{i} as f{i}' for i in range(60))}) as s, array(named_struct('a', 'b')) as t"
AWKWARD = """
    select id as `UserId`, 'x' as `select`, 2 as `salt`, 3 as `a b`, 4 as `a.b`, 5 as `back``tick`, 'ü' as `Ünï`, 6 as `task`,
      7 as `key`, 8 as `path`, id as `bucket` from range(20)
"""
ODD: dict[str, Any] = INCREMENTAL | {
    "clustered_by": ["userid", "a.b", "back`tick"], "sorted_by": ["a b", "USERID"], "partition_by": ["Bucket"],
    "incremental_strategy": "merge", "unique_key": "userid", "buckets": 3,
}  # fmt: skip
# SQL and config of a model, a query of its table, and the expected rows.
BUILT: dict[str, tuple[str, dict[str, Any], str, list[tuple[Any, ...]]]] = {
    "wide_structs": (WIDE, TABLE, "select s.f59, t[0].a from {t}", [(59, "b")]),
    "names_like_headings": (
        "select 1 as k, 2 as `# orders`, 3 as `# Partition Information`, 4 as v", TABLE,
        "select v, `# Partition Information`, `# orders`, * from {t}", [(4, 3, 2, 1, 2, 3, 4)],
    ),
    "odd_names_inside_of_structs": (
        "select 1 as k, named_struct('a-b', named_struct('1st c', 2)) as s", TABLE | {"bucket_hash": "spark"},
        "select s.`a-b`.`1st c` from {t}", [(2,)],
    ),
    **{
        f"fields_named_like_types_{bucket_hash}_{file_format}": (
            "select 1 as k, array(named_struct('variant_id', 2L, 'price', 1D)) as i, "
            "named_struct('interval', 3, 'void_at', 4, 'timestamp_ntz', 5, 'geometry', 6) as s",
            TABLE | {"bucket_hash": bucket_hash, "file_format": file_format},
            "select i[0].variant_id, s.interval, s.void_at, s.timestamp_ntz, s.geometry from {t}", [(2, 3, 4, 5, 6)],
        )
        for bucket_hash, file_format in LAYOUTS
    },
    **{
        f"bare_nulls_are_text_in_{file_format}": (
            NULLS, TABLE | {"file_format": file_format}, "select k, v, s.void, typeof(v), typeof(a), typeof(s) from {t}",
            [(1, None, None, "string", "array<string>", "struct<void:string>")],
        )
        for file_format in ("parquet", "orc")
    },
    "a_bare_null_stays_void": (
        "select 1 as k, null as v", TABLE | {"bucket_hash": "spark"}, "select k, v, typeof(v) from {t}", [(1, None, "void")],
    ),
    **{
        f"Select_{bucket_hash}_{file_format}": (
            AWKWARD, ODD | {"bucket_hash": bucket_hash, "file_format": file_format},
            "select count(*), count(distinct `UserId`) from {t}", [(20, 20)],
        )
        for bucket_hash, file_format in LAYOUTS
    },
    "order": (
        "select 1 as `from`", TABLE | {"clustered_by": "from", "alias": "table", "schema": "Other_Place"},
        "select `from` from `{schema}_Other_Place`.`table`", [(1,)],
    ),
    "keys_of_the_users_own": (
        "select 1 as k", TABLE | dict.fromkeys(["event_type", "actions", "budgets", "hash", "properties", "strategy", "tasks"], "x"),
        "select k from {t}", [(1,)],
    ),
    # The concatenations of these names are equal.
    "x_m": ("select 'x_m' as k", TABLE, "select k from {t}", [("x_m",)]),
    "m": ("select 'm' as k", TABLE | {"schema": "x"}, "select k from {schema}_x.m", [("m",)]),
    **{
        f"{bucket_hash}_{buckets}": (
            f"select id as k, {buckets} as v from range(50)", TABLE | {"buckets": buckets, "bucket_hash": bucket_hash},
            "select v, count(*) from {t} group by v", [(buckets, 50)],
        )
        for buckets, bucket_hash in enumerate(HASHES * 3, 1)
    },
    **{
        f"below_{above}": (f"select k, count(*) as n from {{{{ ref('{above}') }}}} group by k", TABLE, "select sum(n) from {t}", [(50,)])
        for above in ("hive_1", "spark_2")
    },
    **{
        f"an_end_{number}": (f"select 1 as k, '; -- text' as v -- it's;\n{end}", TABLE, "select v from {t}", [("; -- text",)])
        for number, end in enumerate((";", "; -- done", ";\n/* all; of * it */\n", " -- done", ";;"))
    },
}  # fmt: skip


# A model that a test needs in addition to the tested model.
NEEDED = {"below_hive_1": "hive_1", "below_spark_2": "spark_2", "x_m": "m", "m": "x_m"}


def of_layouts(request: pytest.FixtureRequest) -> list[pytest.Function]:
    """Return the cases of this test run that have a layout."""
    return [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == "test_names_keep_their_case_if_the_metastore_allows_it"
    ]


@pytest.fixture(scope="module")
def built(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Project:
    """Build the models of this test run in parallel, and run those again that a second run may treat differently."""
    project = new_project()
    layouts = [
        f"{item.callspec.params['bucket_hash']}_{item.callspec.params['file_format']}" for item in of_layouts(request)
    ]
    tested = parameters(request, "name") & BUILT.keys() | {f"Select_{layout}" for layout in layouts}
    chosen = tested | {NEEDED[name] for name in tested & NEEDED.keys()}
    for name in chosen:
        project.model(name, BUILT[name][0], **BUILT[name][1])
    again = [name for name in chosen if name.startswith(("Select", "bare", "a_bare", "hive", "spark"))]
    for selected in ([], ["--select", *again]):
        project.dbt("run", "--threads", "6", *selected)
    return project


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.some(6)
def test_models_are_built_as_written(built: Project, name: str) -> None:
    _, config, query, rows = BUILT[name]
    assert built.rows(query.replace("{t}", built.table(name))) == rows
    if "schema" not in config:
        assert_one_file_per_bucket(built, name, config.get("bucket_hash", "hive"), config["buckets"])


@pytest.mark.parametrize(("bucket_hash", "file_format"), LAYOUTS, ids="_".join)
@pytest.mark.some(2)
def test_names_keep_their_case_if_the_metastore_allows_it(built: Project, bucket_hash: str, file_format: str) -> None:
    found = built.spark.table(built.table(f"Select_{bucket_hash}_{file_format}")).columns
    # Hive's metastore stores names in lower case. Spark preserves case only outside the bucket spec.
    assert found[0] == ("userid" if bucket_hash == "hive" else "UserId")
    assert found[-1].lower() == "bucket"


def test_run_leaves_neither_settings_nor_views_behind(project: Project) -> None:
    project.model("good", "select 1 as k", **TABLE)
    project.model("bad", "select assert_true(false) as a, 1 as k", **TABLE)
    before = {row.key: row.value for row in project.spark.sql("set").collect()}
    _, failure = project.attempt("run")
    assert "bad" in failure
    assert {row.key: row.value for row in project.spark.sql("set").collect()} == before
    assert not [row for row in project.spark.sql("show views").collect() if "good" in row.viewName]


@pytest.mark.long
def test_failing_query_keeps_the_old_table(project: Project) -> None:
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


def test_full_refresh_is_refused_if_the_model_disables_it(project: Project) -> None:
    project.build("select {{ 2 if is_incremental() else 1 }} as k", **INCREMENTAL, full_refresh=False)
    project.dbt("run", "--full-refresh")
    assert sorted(row.k for row in project.rows("select * from {schema}.m")) == [1, 2]
