"""Whatever the config asks that cannot be had is an error that names the model, the value and what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dying import READS, statements

from conftest import Failed, Project
from spark_bucketing.session import setting

TABLE = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 4}
INCREMENTAL = TABLE | {"materialized": "bucketed_incremental"}
SQL = (
    "select 1 as k, 'a' as v, 2 as ds, timestamp'2024-01-01 00:00:00' as ts, map('a', 1) as m, cast('x' as binary) as b"
)

# name: (config, parts of the message)
CASES: dict[str, tuple[dict[str, object], list[str]]] = {
    "clustered_by_without_buckets": (TABLE | {"buckets": None}, ["`buckets`", "together with `clustered_by`"]),
    "buckets_without_clustered_by": (TABLE | {"clustered_by": None}, ["`clustered_by`", "together with `buckets`"]),
    "no_bucket_columns": (TABLE | {"clustered_by": []}, ["`clustered_by`"]),
    "zero_buckets": (TABLE | {"buckets": 0}, ["found:    0", "an integer from 1 to 100,000"]),
    "negative_buckets": (TABLE | {"buckets": -3}, ["found:    -3"]),
    "too_many_buckets": (TABLE | {"buckets": 100001}, ["found:    100001"]),
    "buckets_as_text": (TABLE | {"buckets": "8"}, ["'8' (a string)", "instead:  buckets=8"]),
    "buckets_as_bool": (TABLE | {"buckets": True}, ["found:    True"]),
    "buckets_as_float": (TABLE | {"buckets": 2.5}, ["found:    2.5"]),
    "repeated_bucket_column": (TABLE | {"clustered_by": ["k", "K"]}, ["each column once", "second 'K'"]),
    "empty_bucket_column": (TABLE | {"clustered_by": ["k", ""]}, ["non-empty string"]),
    "number_as_column": (TABLE | {"clustered_by": [1]}, ["non-empty string"]),
    "mapping_as_columns": (TABLE | {"clustered_by": {"k": 1}}, ["a list of column names"]),
    "repeated_sort_column": (TABLE | {"sorted_by": ["v", "v"]}, ["`sorted_by`", "each column once"]),
    "unknown_bucket_column": (TABLE | {"clustered_by": ["nope"]}, ["found:    nope", "k, v, ds"]),
    "unknown_sort_column": (TABLE | {"sorted_by": ["k desc"]}, ["found:    k desc", "sorting is ascending"]),
    "unknown_partition_column": (TABLE | {"partition_by": ["nope"]}, ["`partition_by`", "found:    nope"]),
    "sql_in_a_column": (TABLE | {"clustered_by": ["k`) into 1 buckets --"]}, ["a column that the query returns"]),
    "bucket_column_is_partition": (TABLE | {"partition_by": ["K"]}, ["not in `partition_by`", "'k'"]),
    "sort_column_is_partition": (TABLE | {"sorted_by": ["ds"], "partition_by": "ds"}, ["`sorted_by`", "'ds'"]),
    "delta": (TABLE | {"file_format": "delta"}, ["found:    delta", "parquet, orc"]),
    "iceberg": (TABLE | {"file_format": "iceberg"}, ["found:    iceberg"]),
    "hudi": (TABLE | {"file_format": "hudi"}, ["found:    hudi"]),
    "csv": (TABLE | {"file_format": "csv"}, ["found:    csv"]),
    "unknown_hash": (TABLE | {"bucket_hash": "md5"}, ["`bucket_hash`", "found:    md5", "hive, spark"]),
    "unknown_change": (INCREMENTAL | {"on_bucket_change": "ask"}, ["`on_bucket_change`", "fail, rebuild, evolve"]),
    "evolve_without_partitions": (INCREMENTAL | {"on_bucket_change": "evolve"}, ["found:    evolve, without `partition_by`", "partition_by=["]),
    "evolve_the_spark_layout": (
        INCREMENTAL | {"on_bucket_change": "evolve", "partition_by": ["ds"], "bucket_hash": "spark"},
        ["found:    evolve, with bucket_hash='spark'", "drops rows", "on_bucket_change='rebuild'"],
    ),
    "evolve_what_is_always_rewritten": (
        TABLE | {"on_bucket_change": "evolve", "partition_by": ["ds"]}, ["with materialized='bucketed_table'", "materialized='bucketed_incremental'"],
    ),
    "unknown_strategy": (INCREMENTAL | {"incremental_strategy": "upsert"}, ["append, insert_overwrite, merge", "incremental_strategy='merge'"]),
    "delete_and_insert": (INCREMENTAL | {"incremental_strategy": "delete+insert"}, ["instead:  incremental_strategy='merge'"]),
    "misspelt_choice": (INCREMENTAL | {"on_bucket_change": "evolv"}, ["instead:  on_bucket_change='evolve'"]),
    "misspelt_strategy": (INCREMENTAL | {"incremental_strategy": "insert-overwrite"}, ["instead:  incremental_strategy='insert_overwrite'"]),
    **{
        f"near_{key}": (TABLE | {key: value}, [f"`{key}`", f"found:    {key}={value}", f"instead:  {right}={value}"])
        for key, right, value in [
            ("sort_by", "sorted_by", ["v"]), ("cluster_by", "clustered_by", ["k"]), ("bucket", "buckets", 4), ("num_buckets", "buckets", 4),
            ("sorted_byy", "sorted_by", ["v"]), ("Clustered_By", "clustered_by", ["k"]), ("partitioned_by", "partition_by", ["ds"]),
            ("on_bucket_chang", "on_bucket_change", 1), ("bucket_hahs", "bucket_hash", 1), ("sroted_by", "sorted_by", ["v"]),
            ("partition_cols", "partition_by", ["ds"]), ("tbl_properties", "tblproperties", {}),
        ]
    },
    "only_a_near_key": ({"materialized": "bucketed_table", "clustered_by": ["k"], "bucket": 4}, ["found:    bucket=4", "instead:  buckets=4"]),
    "no_such_key_column": (INCREMENTAL | {"incremental_strategy": "merge", "unique_key": ["k", "nope"]}, ["`unique_key`", "found:    nope", "k, v, ds"]),
    "no_such_update_column": (
        INCREMENTAL | {"incremental_strategy": "merge", "unique_key": "k", "merge_update_columns": ["nope"]}, ["`merge_update_columns`", "found:    nope"],
    ),
    "unknown_schema_change": (INCREMENTAL | {"on_schema_change": "append"}, ["`on_schema_change`"]),
    "microbatch_without_partition": (INCREMENTAL | {"incremental_strategy": "microbatch"}, ["`partition_by`"]),
    "both_merge_lists": (
        INCREMENTAL
        | {"incremental_strategy": "merge", "unique_key": "k", "merge_update_columns": ["v"], "merge_exclude_columns": ["ds"]},
        ["one of merge_update_columns and merge_exclude_columns"],
    ),
    "timestamp_key": (TABLE | {"clustered_by": ["ts"]}, ["ts timestamp", "cast(ts as string)", "bucket_hash='spark'"]),
    "double_key": (TABLE | {"sql": "select 1.5D as k"}, ["found:    k double", "never reads buckets", "cast(k as decimal(38, 9))"]),
    "float_key": (TABLE | {"sql": "select cast(1 as float) as k", "bucket_hash": "spark"}, ["found:    k float", "as bigint"]),
    "null_key": (TABLE | {"sql": "select null as k"}, ["found:    k void", "cast(k as bigint)"]),
    "null_partition": (TABLE | {"sql": "select 1 as k, null as ds", "partition_by": ["ds"]}, ["found:    ds void", "partition column"]),
    "binary_key": (TABLE | {"clustered_by": ["b"]}, ["b binary"]),
    "map_key": (TABLE | {"clustered_by": ["m"], "bucket_hash": "spark"}, ["m map<string,int>", "another column"]),
    "version_2": (TABLE | {"tblproperties": {"bucketing_version": "2"}}, ["bucketing_version = 2"]),
    "rows_per_file": (TABLE | {"options": {"maxRecordsPerFile": "9"}}, ["maxRecordsPerFile = 9"]),
    "properties_as_list": (TABLE | {"tblproperties": ["a"]}, ["a mapping of keys to values"]),
    "write_tasks_zero": (TABLE | {"write_tasks": 0}, ["`write_tasks`"]),
    "location_is_no_text": (TABLE | {"location_root": 5}, ["`location_root`"]),
    "location_is_a_pattern": (TABLE | {"location_root": "/tmp/a[b]"}, ["/tmp/a[b]", "patterns"]),
    "property_is_a_list": (TABLE | {"tblproperties": {"a": ["b"]}}, ["found:    a: ['b']"]),
    "reserved_property": (TABLE | {"tblproperties": {"bucketing.build": "b"}}, ["found:    bucketing.build = b"]),
    "map_sorts": (TABLE | {"sorted_by": ["m"]}, ["found:    m map<string,int>", "a sort column of a type that has an order"]),
    "map_partitions": (TABLE | {"partition_by": ["m"]}, ["found:    m map<string,int>", "a partition column of a simple type"]),
    **{
        f"{name}_column": (TABLE | {"sql": f"select 1 as k, {expression} as c", **config}, [f"found:    c {found}", "cast(c as"])
        for name, expression, found, config in [
            ("null", "null", "void", {"file_format": "orc", "bucket_hash": "spark"}),
            ("interval", "interval '1' day", "interval day", {}),
            ("local_time", "timestamp_ntz'2024-01-01 00:00:00'", "timestamp_ntz", {"file_format": "orc"}),
            ("nested_local_time", "array(timestamp_ntz'2024-01-01 00:00:00')", "array<timestamp_ntz>", {}),
            ("nothing_in_a_list", "array()", "array<void>", {"file_format": "orc", "bucket_hash": "spark"}),
            ("variant_in_hive", "parse_json('1')", "variant", {}),
            ("variant", "parse_json('1')", "variant", {"file_format": "orc", "bucket_hash": "spark"}),
        ]
    },
    "odd_name_in_a_struct": (TABLE | {"sql": "select 1 as k, named_struct('a-b', 1) as c"}, ["found:    c struct<a-b:int>", "'a-b'", "cast(c as struct<a_b:int>)"]),
    "colon_in_a_struct": (TABLE | {"sql": "select 1 as k, named_struct('xsi:type', 1) as c"}, ["found:    c struct<xsi:type:int>", "cast(c as struct<...>)"]),
    "comma_in_a_struct": (TABLE | {"sql": "select 1 as k, named_struct('x,y', 1) as c", "bucket_hash": "spark"}, ["found:    c struct<x,y:int>"]),
    "local_time_in_a_struct": (TABLE | {"sql": "select 1 as k, array(named_struct('a', timestamp_ntz'2024-01-01 00:00:00')) as c"}, ["cast(c as array<struct<a:timestamp>>)"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def messages(new_project: Callable[..., Project]) -> dict[str, str]:
    """What dbt says of each faulty model, and under the empty name the statements that it sent all the same."""
    project = new_project()
    for name, (config, _) in CASES.items():
        given = {key: value for key, value in config.items() if value is not None}
        project.model(name, str(given.pop("sql", SQL)), **given)
    with statements() as sent:
        results, _ = project.attempt("run")
    assert project.tables() == set()
    return {name: str(result.message) for name, result in results.items()} | {"": "\n".join(sent)}


@pytest.mark.parametrize("name", CASES)
def test_a_config_error_names_model_value_and_remedy(messages: dict[str, str], name: str) -> None:
    message = messages[name]
    assert f"of model '{name}'" in message
    for part in ["found:", "expected:", "instead:", *CASES[name][1]]:
        assert part in message, message


def test_nothing_is_written_for_a_faulty_config(messages: dict[str, str]) -> None:
    assert [sent for sent in messages[""].splitlines() if not sent.lower().startswith("create schema")] == []


def test_reads_are_told_from_changes() -> None:
    assert READS.match("/* {} */ describe table x") and not READS.match("/* {} */ drop table x")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.runSQLOnFiles", "false"),
        ("spark.sql.optimizer.disableHints", "true"),
        ("spark.sql.hive.convertMetastoreParquet", "false"),
        ("spark.sql.hive.convertInsertingPartitionedTable", "false"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
    ],
)
def test_a_session_that_cannot_write_buckets_is_an_error(project: Project, key: str, value: str) -> None:
    project.model("m", SQL, **TABLE)
    message = rf"'m' cannot be written in this session.\s+found: +{key} = {value}"
    with setting(project.spark, key, value), pytest.raises(Failed, match=message):
        project.dbt("run")
