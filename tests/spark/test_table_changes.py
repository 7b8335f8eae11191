"""Tests of incremental tables whose configured layout or whose query's columns change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from session_settings import setting
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted
from test_incremental import versions

from conftest import Failed, Project, all_long_but, parameters

pytestmark = pytest.mark.usefixtures("extension_for_module")
BASE: dict[str, Any] = {"materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 4}
OLD = "select id as k, id % 2 as p, concat('v', id) as v from range(20)"
NEW = "select id as k, id % 2 as p, concat('v', id) as v from range(20, 24)"


SQL = versions(OLD, NEW)
PLAIN = {"materialized": "incremental", "file_format": "parquet"}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "buckets": ({}, {"buckets": 8}),
    "columns": ({}, {"clustered_by": ["v"]}),
    "sorting": ({}, {"sorted_by": ["v", "k"]}),
    "hash": ({}, {"bucket_hash": "spark"}),
    "format": ({}, {"file_format": "orc"}),
    "partitioned": ({}, {"partition_by": ["p"]}),
    "unpartitioned": ({"partition_by": ["p"]}, {}),
    "plain_table": (PLAIN, {}),
}


@pytest.fixture(scope="module")
def changed(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> tuple[Project, str]:
    """Change the layout of tables before the second run; return the message for on_bucket_change='fail'."""
    project, changes = new_project(), {name: CHANGES[name] for name in parameters(request, "name") & CHANGES.keys()}
    for name, (before, _) in changes.items():
        project.model(name, SQL, **(PLAIN if before is PLAIN else BASE | before))
    project.dbt("run")
    for name, (_, after) in changes.items():
        project.model(name, SQL, **BASE | after)
    _, failure = project.attempt("run")
    for name, (_, after) in changes.items():
        assert project.rows(f"select count(*) from {project.table(name)}")[0][0] == 20, name
        project.model(name, SQL, **BASE | after, on_bucket_change="rebuild")
    project.dbt("run")
    return project, failure


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.some(2)
def test_layout_change_fails_by_default_and_shows_both_layouts(changed: tuple[Project, str], name: str) -> None:
    message = changed[1].split(f"{name}: Comp")[1]
    assert "on_bucket_change" in message and "the layout of the table:" in message
    if name == "buckets":
        assert "clustered by (k), sorted by (k), 8 buckets" in message
        assert "clustered by (k), sorted by (k), 4 buckets" in message
    if name == "plain_table":
        assert "no buckets, parquet" in message


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.some(2)
def test_rebuild_writes_all_rows_in_the_new_layout(changed: tuple[Project, str], name: str) -> None:
    project = changed[0]
    config = BASE | CHANGES[name][1]
    assert project.rows(f"select count(*), count(distinct k) from {project.table(name)}")[0][:] == (24, 24)
    assert_one_file_per_bucket(project, name, config.get("bucket_hash", "hive"), config["buckets"])
    assert_sorted(project, name, config.get("sorted_by", config["clustered_by"]))
    assert project.detail(name, "Num Buckets") == str(config["buckets"])


STRATEGIES: dict[str, dict[str, Any]] = {
    "append": {},
    "insert_overwrite": {"partition_by": ["p"]},
    "merge": {"unique_key": "k", "partition_by": ["p"]},
}
# The columns and the number of rows after an append of one row.
MODES = {
    "append_new_columns": (["added", "k", "p", "v"], 21),
    "sync_all_columns": (["added", "k", "p", "v2"], 21),
    "ignore": (["k", "p", "v"], 21),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.long
def test_schema_change_mode_gives_the_expected_columns(project: Project, strategy: str) -> None:
    new = "select cast(1 as bigint) as k, cast(1 as bigint) as p, {}, 1.5 as added"
    for mode in MODES:
        column = "cast(2 as bigint) as v2" if mode == "sync_all_columns" else "'x' as v"
        config = STRATEGIES[strategy] | {"incremental_strategy": strategy, "on_schema_change": mode}
        project.model(mode, versions(OLD, new.format(column)), **BASE | config)
    project.dbt("run")
    project.dbt("run")
    for mode, (columns, count) in MODES.items():
        assert sorted(project.spark.table(f"{project.schema}.{mode}").columns) == columns
        assert_one_file_per_bucket(project, mode, "hive", 4)
        rows = project.rows(f"select * from {project.table(mode)}")
        assert len(rows) == count or strategy != "append"
        if mode != "ignore":
            assert [(row.k, float(row.added)) for row in rows if row.added is not None] == [(1, 1.5)], mode
        assert project.detail(mode, "Num Buckets") == "4"


@pytest.mark.parametrize("ansi", all_long_but("true", ["true", "false"]))
def test_value_that_does_not_fit_the_new_type_fails_the_run_and_keeps_the_rows(project: Project, ansi: str) -> None:
    sql = "select id as k, " + versions("'x'", "1") + " as n from range(3)"
    project.build(sql, **BASE, on_schema_change="sync_all_columns")
    with (
        setting(project.spark, "spark.sql.ansi.enabled", ansi),
        pytest.raises(
            Failed,
            match=r"Column `n` of model `m` has a value that Spark cannot convert\.\n *found: +x\n *expected: values of type int",
        ),
    ):
        project.dbt("run")
    assert {row.n for row in project.rows("select n from {schema}.m")} == {"x"}


STRUCT = "select id as k, id % 2 as p, named_struct('void_reason', 'x', 'n', id) as v from range(20)"
# on_schema_change, the query of the second run, part of the message, and optionally the query of the first run.
REFUSED = {
    "added": ("fail", "select id as k, id % 2 as p, 'x' as v, 1 as added from range(1)", "new in the query: added"),
    "gone": ("fail", "select id as k, id % 2 as p from range(1)", "missing in the query: v"),
    "retyped": ("fail", "select id as k, id % 2 as p, 1 as v from range(1)", "changed type: v string -> int"),
    "ignored": ("ignore", "select id as k, id % 2 as p from range(1)", "every column of the table in the query"),
    "cast": ("ignore", "select cast(id as decimal(9)) as k, id % 2 as p, 'x' as v from range(1)", "cast(k as bigint)"),
    "inside": ("fail", STRUCT.replace("'n', id", "'n', 1"), "struct<void_reason:string,n:bigint> -> ", STRUCT),
    "null_inside": (
        "fail",
        STRUCT.replace("'x', 'n', id", "null, 'm', id"),
        "struct<void_reason:string,n:bigint> -> ",
        STRUCT,
    ),
}


@pytest.mark.long
def test_unsupported_schema_changes_are_errors(project: Project) -> None:
    for name, (mode, new, _, *first) in REFUSED.items():
        project.model(name, versions(first[0] if first else OLD, new), **BASE, on_schema_change=mode)
    project.dbt("run")
    results, _ = project.attempt("run")
    for name, (_, _, message, *_) in REFUSED.items():
        assert results[name].status == "error" and message in str(results[name].message), name
        assert project.rows(f"select count(*) from {project.table(name)}")[0][0] == 20


@pytest.mark.parametrize(
    "partition_by", [pytest.param([], marks=pytest.mark.long), ["p"]], ids=["whole", "partitioned"]
)
@pytest.mark.parametrize("change", all_long_but("added", ("columns", "added", "layout")))
def test_failed_merge_changes_nothing(project: Project, partition_by: list[str], change: str) -> None:
    config = BASE | {"incremental_strategy": "merge", "unique_key": "k", "partition_by": partition_by}
    first = "select 1 as k, 0 as p, 'precious' as v"
    project.build(first, **config)
    changes: dict[str, tuple[str, dict[str, Any]]] = {
        "columns": ("id as w", {"on_schema_change": "sync_all_columns"}),
        "added": ("'new' as v, id as w", {"on_schema_change": "append_new_columns"}),
        "layout": ("cast(id as string) as v", {"on_bucket_change": "rebuild", "buckets": 8}),
    }
    second, changed = changes[change]
    project.model("m", f"select 1 as k, 0 as p, {second} from range(2)", **config | changed)
    with pytest.raises(Failed, match="MERGE_CARDINALITY_VIOLATION"):
        project.dbt("run")
    # As in dbt-spark, the new column of append_new_columns exists before the merge. Nothing else may change.
    expected = {"k": 1, "p": 0, "v": "precious"} | ({"w": None} if change == "added" else {})
    assert [row.asDict() for row in project.rows("select * from {schema}.m")] == [expected]
    assert project.detail("m", "Num Buckets") == "4"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.long
def test_one_run_can_change_rows_and_layout(project: Project, strategy: str) -> None:
    config = BASE | {"incremental_strategy": strategy, "partition_by": ["p"], "unique_key": "k"}
    table = "select id as k, if(id < 4, null, id % 3) as p, concat('v', id) as v from range(10)"
    new = "select id as k, cast(null as bigint) as p, 'new' as v from range(3, 6)"
    project.build(versions(table, new), **config)
    old = {(r.k, r.p, r.v) for r in project.rows(table)}
    added = {(r.k, r.p, r.v) for r in project.rows(new)}
    project.build(new, **config | {"buckets": 2, "on_bucket_change": "rebuild"})
    expected = {
        "append": old | added,
        "merge": {row for row in old if row[0] not in (3, 4, 5)} | added,
        "insert_overwrite": {row for row in old if row[1] is not None} | added,
    }[strategy]
    rows = [(r.k, r.p, r.v) for r in project.rows("select * from {schema}.m")]
    assert sorted(rows, key=str) == sorted(expected, key=str)
    assert_one_file_per_bucket(project, "m", "hive", 2)
