"""Tests that every strategy of bucketed_incremental gives the same rows as dbt, and one sorted file per bucket."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from bucketed_tables import no_extension
from session_settings import setting
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted

from conftest import Project, parameters

pytestmark = pytest.mark.usefixtures("extension_for_module")
INCREMENTAL: dict[str, Any] = {"materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 4}
STRATEGIES = ("append", "insert_overwrite", "merge")
# Every combination of strategy, hash and partitioning.
EVERY: dict[str, dict[str, Any]] = {
    f"{strategy}_{bucket_hash}_{len(partition_by)}": {
        "incremental_strategy": strategy, "bucket_hash": bucket_hash, "partition_by": partition_by, "unique_key": "k",
    }
    for strategy, bucket_hash, partition_by in product(STRATEGIES, ("hive", "spark"), ([], ["p"]))
}  # fmt: skip
FIRST = "select id as k, concat('old', id) as v, id % 3 as p from range(30)"
SECOND = "select id as k, concat('new', id) as v, 1 as p from range(25, 35)"


def versions(first: str, later: str) -> str:
    return f"{{% if is_incremental() %}}{later}{{% else %}}{first}{{% endif %}}"


def run_twice(project: Project, **models: tuple[str, dict[str, Any]]) -> None:
    """Run models twice, given by name as (SQL, config in addition to the common config)."""
    for name, (sql, config) in models.items():
        project.model(name, sql, **INCREMENTAL | config)
    for _ in range(2):
        project.dbt("run")


def test_only_partitions_with_new_rows_are_rewritten(project: Project) -> None:
    for strategy in STRATEGIES:
        config = {"incremental_strategy": strategy, "partition_by": ["p"], "unique_key": ["k", "p"]}
        project.model(strategy, versions(FIRST, SECOND), **INCREMENTAL | config)
    project.dbt("run")
    before = {strategy: set(project.files(strategy)) for strategy in STRATEGIES}
    project.dbt("run")
    for strategy, files in before.items():
        kept = files & set(project.files(strategy))
        assert {path.parent.name for path in files - kept} == {"p=1"}, strategy
        assert {path.parent.name for path in kept} == {"p=0", "p=2"}, strategy


@pytest.mark.long
@pytest.mark.parametrize("partitions", [120, 1500])
def test_increment_may_have_rows_for_many_partitions(project: Project, partitions: int) -> None:
    query = f"select id as k, '{{}}' as v, id as p, concat('p', id) as q from range({partitions})"
    sql, merge = versions(query.format("old"), query.format("new")), EVERY["merge_hive_1"]
    run_twice(project, one=(sql, merge | {"partition_by": ["p"]}), two=(sql, merge | {"partition_by": ["p", "q"]}))
    for name in ("one", "two"):
        counted = f"select count(*), count_if(v = 'new') from {project.table(name)}"
        assert project.rows(counted) == [(partitions, partitions)]


NO_TEXT = "select cast(unhex(hex(id + 240)) as string) as k, 1 as p from range(12) union all select 'b', 1"
A_DATE = versions("select 1 as k, date'2024-01-01' as v", "select 2 as k, null as v")
WIDER = f"select id as k, 0 as p, {versions('cast(id as int)', 'id')} as n from range(3)"
# In a table in the Spark layout, an int that becomes a bigint gets a different hash.
NARROWER = f"select {versions('id', 'cast(id as int)')} as k, 0 as p from range(50)"
READS_ITSELF = (
    "select id as k, 'v' as v, 0 as p from range(10)"
    "{% if is_incremental() %} where id <= (select max(k) from {{ this }}) - 1{% endif %}"
)
SPELLED = versions("select id as Key, 1 as Part from range(4)", "select id as KEY, 1 as pART from range(2, 6)")
ODD = {"clustered_by": ["key"], "partition_by": ["part"], "unique_key": "kEY", "on_schema_change": "fail"}
# SQL and config of a model, a query of its table after two runs, and the expected rows.
TWICE: dict[str, tuple[str, dict[str, Any], str, list[tuple[Any, ...]]]] = {
    **{
        f"bytes_that_are_no_text_{strategy}": (versions("select 'a' as k, 1 as p", NO_TEXT), EVERY[f"{strategy}_hive_1"], "select count(*) from {t}", [(count,)])
        for strategy, count in (("append", 14), ("insert_overwrite", 13), ("merge", 14))
    },
    "the_name_of_nulls_directory": (
        versions("select 1 as k, cast(null as string) as p", "select 2 as k, '__HIVE_DEFAULT_PARTITION__' as p"),
        EVERY["append_hive_1"], "select k, p from {t} order by k", [(1, None), (2, None)],
    ),
    "an_ephemeral_input": ("select * from {{ ref('e') }}", {}, "select count(*) from {t}", [(2,)]),
    "a_key_that_names_a_column_twice": (
        versions("select 1 as k, 'a' as v", "select 1 as k, 'b' as v"), EVERY["merge_hive_0"] | {"unique_key": ["k", "K", "k"]},
        "select * from {t}", [(1, "b")],
    ),
    **{
        f"a_bare_null_for_a_date_{mode}": (A_DATE, {"on_schema_change": mode}, "select v is null, typeof(v) from {t} order by k", [(False, "date"), (True, "date")])
        for mode in ("fail", "sync_all_columns")
    },
    **{
        f"a_type_that_is_synced_{len(by)}": (
            WIDER, {"on_schema_change": "sync_all_columns", "partition_by": by}, "select n, typeof(n) from {t} order by n",
            [(n, "bigint") for n in (0, 0, 1, 1, 2, 2)],
        )
        for by in ([], ["p"])
    },
    **{
        f"a_narrower_key_{strategy}": (NARROWER, EVERY[f"{strategy}_spark_1"], "select count(distinct k) from {t}", [(50,)])
        for strategy in ("append", "insert_overwrite")
    },
    "a_column_that_is_gone": (
        versions("select 1 as k, 'v' as v", "select 1 as k, 'w' as w"), {"on_schema_change": "append_new_columns"},
        "select v, w from {t} order by v", [(None, "w"), ("v", None)],
    ),
    **{
        f"names_in_another_case_{name}": (
            SPELLED, config | ODD, "select count(*) from {t}",
            [({"append": 8, "insert_overwrite": 4, "merge": 6}[config["incremental_strategy"]],)],
        )
        for name, config in EVERY.items() if config["partition_by"]
    },
    **{
        f"a_model_that_reads_itself_{name}": (
            READS_ITSELF, config, "select count(*) from {t}",
            [({"append": 19, "insert_overwrite": 9, "merge": 10}[config["incremental_strategy"]],)],
        )
        for name, config in EVERY.items()
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def after_two_runs(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Project:
    project = new_project()
    project.model("e", "select 1 as k, 'v' as v", materialized="ephemeral")
    run_twice(project, **{name: TWICE[name][:2] for name in parameters(request, "name") & TWICE.keys()})
    return project


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.some(4)
def test_second_run_gives_the_expected_rows(after_two_runs: Project, name: str) -> None:
    _, config, query, rows = TWICE[name]
    assert after_two_runs.rows(query.replace("{t}", after_two_runs.table(name))) == rows
    assert_one_file_per_bucket(after_two_runs, name, str(config.get("bucket_hash", "hive")), 4)


VERSION_2 = {
    f"{strategy}_{len(by)}": INCREMENTAL
    | {"incremental_strategy": strategy, "bucket_hash": "hive2", "partition_by": by, "unique_key": "k"}
    for strategy, by in product(STRATEGIES, ([], ["p"]))
}
# Rows after two runs. The increment replaces 5 keys; partition 1 already contains two of its keys.
AFTER = {"append": 40, "merge": 35, "insert_overwrite_0": 10, "insert_overwrite_1": 30}


@pytest.mark.long
def test_increments_in_bucketing_version_2_are_in_their_buckets(project: Project) -> None:
    for name, config in VERSION_2.items():
        project.model(name, versions(FIRST, SECOND), **config)
    tests = [f"spark_bucketing.{test}" for test in ("one_file_per_bucket", "rows_in_their_buckets")]
    project.describe(*({"name": name, "data_tests": tests} for name in VERSION_2))
    for _ in range(2):
        project.dbt("run")
        project.dbt("test")
    bucket = r"cast(regexp_extract(input_file_name(), '/([0-9]+)_[0-9]+[^/]*$', 1) as int)"
    for name, config in VERSION_2.items():
        table, rows = project.table(name), AFTER.get(name) or AFTER[config["incremental_strategy"]]
        found = f"select hive2_bucket(4, k) = {bucket} as placed, count(*) from {table} group by placed"
        assert project.rows(found) == [(True, rows)], name
        assert ("bucketing_version", "2") in project.rows(f"show tblproperties {table}")
        assert {row[0] for row in project.rows(f"select hash from bucket_specs('{table}')")} == {"hive2"}
        assert_one_file_per_bucket(project, name, "hive", 4)
        assert_sorted(project, name, ["k"])


BUCKETED = {"clustered_by": ["k"], "buckets": 4}
ORGANIZED = {"num_files": 2}
INSERT_OVERWRITE = "or use incremental_strategy='insert_overwrite', which replaces whole partitions"
# Configs that stock Spark cannot write, and parts of the message.
NEED_THE_EXTENSION: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    **{
        f"hash_{kind}": (BUCKETED | {"materialized": kind, "bucket_hash": "hive2", "incremental_strategy": "insert_overwrite"}, ("`bucket_hash`", "hive2, in a session"))
        for kind in ("bucketed_table", "bucketed_incremental")
    },
    **{
        strategy: (INCREMENTAL | {"incremental_strategy": strategy, "unique_key": "k"}, ("`incremental_strategy`", f"{strategy}, in a session", INSERT_OVERWRITE))
        for strategy in ("append", "merge")
    },
    **{kind: (ORGANIZED | {"materialized": kind}, ("`materialized`", f"{kind}, in a session")) for kind in ("organized_table", "organized_incremental")},
}  # fmt: skip


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.some(1)
def test_models_that_need_the_extension_fail_before_a_write_without_it(project: Project, enabled: bool) -> None:
    for name, (config, _) in NEED_THE_EXTENSION.items():
        project.model(name, FIRST, **config)
    with no_extension(project.spark) if enabled else setting(project.spark, "spark.bucketing.enabled", "false"):
        results, _ = project.attempt("run")
    found = "without the session extension" if enabled else "with spark.bucketing.enabled=false"
    instead = (
        "spark.sql.extensions=org.apache.spark.sql.bucketing.BucketingExtension"
        if enabled
        else "set spark.bucketing.enabled=true"
    )
    for name, (_, parts) in NEED_THE_EXTENSION.items():
        for part in (f"Model `{name}` has an invalid", *parts, found, "the session extension, enabled", instead):
            assert part in str(results[name].message), (part, results[name].message)
    assert project.tables() == set()


def test_run_without_the_extension_warns_once_about_unsealed_tables(project: Project) -> None:
    for name in ("a", "b"):
        project.model(name, FIRST, **BUCKETED, materialized="bucketed_table")
    project.model("in_the_spark_layout", FIRST, **BUCKETED, materialized="bucketed_table", bucket_hash="spark")
    project.dbt("run", "--warn-error")
    with setting(project.spark, "spark.bucketing.enabled", "false"):
        results, failure = project.attempt("run", "--warn-error")
    assert failure.count("are not sealed") == 1 and "set spark.bucketing.enabled=true" in failure, failure
    assert results["in_the_spark_layout"].status == "success"


@pytest.mark.parametrize("partition_by", [["p"], []], ids=["partitioned", "whole"])
@pytest.mark.some(1)
def test_predicates_determine_which_new_rows_match(project: Project, partition_by: list[str]) -> None:
    old = "select 1 as k, 'a' as v, 1 as p union all select 1, 'b', 2"
    matched = {"incremental_strategy": "merge", "unique_key": "k", "partition_by": partition_by}
    matched["incremental_predicates"] = ["DBT_INTERNAL_SOURCE.p = DBT_INTERNAL_DEST.p"]
    run_twice(project, m=(versions(old, "select 1 as k, 'A' as v, 1 as p union all select 1, 'B', 2"), matched))
    assert project.rows("select k, v, p from {schema}.m order by p") == [(1, "A", 1), (1, "B", 2)]
    project.model("m", "select 1 as k, 'x' as v, 1 as p union all select 1, 'y', 1", **INCREMENTAL | matched)
    _, failure = project.attempt("run")
    assert "MERGE_CARDINALITY_VIOLATION" in failure
    assert project.rows("select k, v, p from {schema}.m order by p") == [(1, "A", 1), (1, "B", 2)]


def test_unresolvable_predicate_is_named_and_leaves_no_table_behind(project: Project) -> None:
    merging = {
        "incremental_strategy": "merge",
        "unique_key": "k",
        "incremental_predicates": ["DBT_INTERNAL_DEST.no_such = 1"],
    }
    project.model("m", "select 1 as k, '{{ var('v') }}' as v", **INCREMENTAL | merging)
    project.dbt("run", v="first")
    _, failure = project.attempt("run", v="second")
    assert "Model `m` has an invalid `incremental_predicates`" in failure, failure
    assert "[UNRESOLVED_COLUMN" in failure and "DBT_INTERNAL_SOURCE (the new rows)" in failure, failure
    assert project.tables() == {"m"} and [row.v for row in project.rows("select v from {schema}.m")] == ["first"]


def test_is_incremental_is_true_only_if_the_table_exists(project: Project) -> None:
    """A hook may drop the table, which only the package's macro notices."""
    project.write("macros/m.sql", "{% macro nested() %}{{ return(is_incremental()) }}{% endmacro %}")
    sql = "select 1 as k, '{{ is_incremental() }} {{ nested() }} {{ spark_bucketing.is_incremental() }}' as v"
    hook = "{{ 'drop table ' ~ this if var('drop', false) else 'select 1' }}"
    project.model("m", sql, **INCREMENTAL | {"incremental_strategy": "insert_overwrite"}, pre_hook=hook)

    for options, answer in (((), "False"), ((), "True"), (("--full-refresh",), "False")):
        project.dbt("run", *options)
        assert [row.v for row in project.rows("select v from {schema}.m")] == [" ".join([answer] * 3)]
    project.dbt("run", drop=True)
    assert [row.v.split()[-1] for row in project.rows("select v from {schema}.m")] == ["False"]
