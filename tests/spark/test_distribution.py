"""Tests that every bucket is written by its own task, for any session settings and any input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from bucketed_tables import settled, writing_tasks
from crashes import executing
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted, buckets_of

from conftest import Project, all_long_but

TABLE = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 8}
EVERY: dict[str, dict[str, object]] = {
    f"{bucket_hash}{len(partition_by)}": {"bucket_hash": bucket_hash, "partition_by": partition_by}
    for bucket_hash, partition_by in product(("hive", "spark"), ([], ["p"]))
}
# The quick cases write a table of each layout, partitioned or not.
PAIRS = [("hive1", "spark0"), ("hive0", "spark1")]
names = pytest.mark.parametrize("names", all_long_but((PAIRS[0],), PAIRS), ids="_".join)


@pytest.mark.parametrize(
    "conf",
    [
        pytest.param({"spark.sql.adaptive.enabled": "false"}, marks=pytest.mark.long),
        {"spark.sql.adaptive.coalescePartitions.minPartitionSize": "1g", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1g"},
        pytest.param({"spark.sql.files.maxRecordsPerFile": "3"}, marks=pytest.mark.long),
        pytest.param({"spark.sql.sources.partitionOverwriteMode": "STATIC", "spark.sql.shuffle.partitions": "23", "spark.sql.ansi.enabled": "false"}, marks=pytest.mark.long),
        pytest.param({"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "1"}, marks=pytest.mark.long),
        pytest.param({"spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k"}, marks=pytest.mark.long),
    ],
    ids=lambda conf: "_".join(key.removeprefix("spark.sql.") for key in conf),
)  # fmt: skip
@names
def test_session_settings_do_not_affect_the_files(
    project: Project, conf: dict[str, str], names: tuple[str, str]
) -> None:
    rows = "select id % 40 as k, id % 3 as p from range(0, 400, 1, 5) union all select 7, 1 from range(100)"
    for name in names:
        project.model(name, rows, **TABLE | EVERY[name])
    with settled(project.spark, conf):
        project.dbt("run")
        assert {key: project.spark.conf.get(key) for key in conf} == conf, "the run must not change a setting"
    for name in names:
        assert_one_file_per_bucket(project, name, str(EVERY[name]["bucket_hash"]), 8)
        assert project.rows(f"select count(*) from {project.table(name)}")[0][0] == 500


@pytest.mark.parametrize("bucket_hash", all_long_but("hive", ["hive", "spark"]))
@pytest.mark.long
def test_every_bucket_is_written_by_its_own_task(project: Project, bucket_hash: str) -> None:
    for name, partition_by in (("whole", []), ("one_partition", ["p"])):
        config = TABLE | {"buckets": 20, "bucket_hash": bucket_hash, "partition_by": partition_by}
        project.model(name, "select id as k, 'x' as p from range(3000)", **config)
    project.dbt("run")
    for table in ("whole", "one_partition"):
        tasks = writing_tasks(project.files(table))
        assert len(tasks) == 20, f"{table}: 20 buckets on {len(tasks)} tasks"
        assert set(tasks.values()) == {1}


@pytest.mark.long
def test_write_of_many_partitions_uses_more_tasks_than_buckets(project: Project) -> None:
    query = "select id as k, id % 30 as p from range(3000)"
    project.model("by_session", query, **TABLE | {"buckets": 2, "partition_by": ["p"]})
    project.model("by_config", query, **TABLE | {"buckets": 2, "partition_by": ["p"], "write_tasks": 9})
    project.model("fewer", query.replace("% 30", "% 1"), **TABLE | {"write_tasks": 3})
    with settled(project.spark, {"spark.sql.shuffle.partitions": "20"}):
        project.dbt("run")
    assert len(writing_tasks(project.files("by_session"))) > 12
    assert len(writing_tasks(project.files("by_config"))) == 9
    assert len(writing_tasks(project.files("fewer"))) == 3
    for table, buckets in (("by_session", 2), ("by_config", 2), ("fewer", 8)):
        assert_one_file_per_bucket(project, table, "hive", buckets)


@pytest.mark.long
def test_partitions_share_tasks_evenly(project: Project) -> None:
    rows = "select id div 24 as k, id % 24 as p from range(6000)"
    project.build(rows, **TABLE | {"partition_by": ["p"], "write_tasks": 8})
    assert set(writing_tasks(project.files("m")).values()) == {24}


@pytest.mark.long
@pytest.mark.parametrize("numbers", [(1, 2, 100), (1024,), (4096,)])
def test_one_to_thousands_of_buckets_are_written(project: Project, numbers: tuple[int, ...]) -> None:
    cases = [
        (n, bucket_hash) for n, bucket_hash in product(numbers, ("hive", "spark")) if n < 100 or bucket_hash == "hive"
    ]
    for buckets, bucket_hash in cases:
        config = TABLE | {"buckets": buckets, "bucket_hash": bucket_hash}
        project.model(f"{bucket_hash}{buckets}", "select id as k from range(1000)", **config)
    project.dbt("run")
    for buckets, bucket_hash in cases:
        assert_one_file_per_bucket(project, f"{bucket_hash}{buckets}", bucket_hash, buckets)
        assert project.rows(f"select count(distinct k) from {{schema}}.{bucket_hash}{buckets}")[0][0] == 1000


@names
def test_empty_input_gives_an_empty_table(project: Project, names: tuple[str, str]) -> None:
    for name in names:
        project.model(name, "select id as k, 1 as p from range(0)", **TABLE | EVERY[name])
    project.dbt("run")
    for table in names:
        assert project.files(table) == []
        assert project.rows(f"select * from {project.table(table)}") == []
        assert project.detail(table, "Num Buckets") == "8"


@pytest.mark.long
def test_rows_with_a_single_key_or_null_keys_are_in_one_file(project: Project) -> None:
    project.model("skewed", "select 5 as k, id from range(1000)", **TABLE)
    project.model("nulls", "select cast(null as string) as k, id from range(1000)", **TABLE)
    project.dbt("run")
    for table, bucket in (("skewed", 5), ("nulls", 0)):
        assert list(buckets_of(project, table, "hive").values()) == [[bucket]]


def test_table_written_without_buckets_never_replaces_the_old_one(project: Project) -> None:
    project.model("m", "select id as k, '{{ var('v') }}' as v from range(100)", **TABLE)
    project.dbt("run", v="old")

    def read_when_created(execute: Callable[[str], None], sql: str) -> None:
        execute(sql)
        if "create table" in sql and "m__dbt_tmp" in sql:
            project.rows("select * from {schema}.m__dbt_tmp")

    with executing(read_when_created):
        _, failure = project.attempt("run", v="new")
    assert "was not written as one file per bucket" in failure and "no bucket id in the name" in failure
    assert {row.v for row in project.rows("select distinct v from {schema}.m")} == {"old"}


@pytest.mark.long
def test_upstream_partitioning_and_order_do_not_matter(project: Project) -> None:
    queries = {
        "distributed": "select * from (select id as k from range(0, 500, 1, 7)) distribute by k % 3",
        "ordered": "select id as k from range(500) order by id desc",
        "repartitioned": "select /*+ repartition(13) */ id as k from range(500)",
        "union_of_all": "select id as k from range(250) union all select /*+ coalesce(1) */ id from range(250, 500)",
        "with_cte": "with a as (select id as k from range(500)) select * from a -- the end",
        "nested_cte": "with a as (with b as (select id as k from range(500)) select * from b) select * from a;",
    }
    for name, query in queries.items():
        project.model(name, query, **TABLE)
    project.dbt("run")
    for name in queries:
        assert_one_file_per_bucket(project, name, "hive", 8)
        assert_sorted(project, name, ["k"])
        assert project.rows(f"select count(distinct k) from {project.table(name)}")[0][0] == 500
