"""on_bucket_change='evolve' together with the other configs of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_bucketed_table import assert_one_file_per_bucket
from test_evolution_runs import EVOLVING, PLAIN, ROWS, assert_files_match_seals, days, records, source, spec

from conftest import Project
from spark_bucketing.session import setting


@pytest.fixture(autouse=True)
def extended(spark: Any) -> Iterator[None]:
    with setting(spark, "spark.bucketing.enabled", "true"):
        yield


SECOND_COLUMNS = {
    "append_new_columns": "select 7L as k, 'x' as v, 5L as w, date'2024-01-02' as ds",
    "sync_all_columns": "select 7L as k, 5L as w, date'2024-01-02' as ds",
}


@pytest.mark.long
def test_columns_and_buckets_may_change_together(new_project: Callable[..., Project]) -> None:
    project = source(new_project())
    names = [f"{before}_{mode}" for before in ("bucketed", "plain") for mode in SECOND_COLUMNS]
    for name in names:
        config = EVOLVING | {"buckets": 4, "on_schema_change": name.split("_", 1)[1]}
        if name.startswith("plain"):
            config = {"materialized": "incremental", "file_format": "parquet", "partition_by": ["ds"]}
        project.model(name, ROWS, **config)
    project.dbt("run", run=0, days=days())
    for name in names:
        mode = name.split("_", 1)[1]
        sql = f"{{% if is_incremental() %}}{SECOND_COLUMNS[mode]}{{% else %}}select 1{{% endif %}}"
        # The new column is the new key.
        project.model(name, sql, **EVOLVING | {"buckets": 8, "clustered_by": ["w"], "on_schema_change": mode})
    project.dbt("run", run=1, days=days())
    for name in names:
        assert project.rows(f"select count(*), count(w) from {project.table(name)}")[0][:] == (61, 1)
        old = spec(4) if name.startswith("bucketed") else PLAIN
        # Columns that go are gone from every file, so that all of the table is written anew.
        kept = name.endswith("append_new_columns")
        assert records(project, name) == {
            "1": old if kept else spec(8, "w"),
            "2": spec(8, "w"),
            "3": old if kept else spec(8, "w"),
        }
        assert_files_match_seals(project, name)


@pytest.mark.long
def test_everything_else_of_a_run_is_as_before(project: Project) -> None:
    """Capital letters, odd partition values, comments, a contract, --empty, a full refresh and going back."""
    sql = """
        select cast(id as bigint) as Key, cast(id as string) as v, array('a b', 'c%d', 'e+f', null, "x'/y")[id % 5] as `Day`
        from {{ ref('numbers') }} {% if is_incremental() %}where id % 5 <> 1{% endif %}"""
    project.model("numbers", "select id from range(40)", materialized="view")
    columns = [{"name": "Key", "data_type": "bigint", "description": "the key"}, {"name": "v", "data_type": "string"}]
    columns.append({"name": "Day", "data_type": "string"})
    project.write(
        "models/m.yml", f"models: [{{name: m, columns: {columns}, config: {{contract: {{enforced: true}}}}}}]"
    )
    base = EVOLVING | {
        "clustered_by": ["key"],
        "partition_by": ["day"],
        "persist_docs": {"relation": True, "columns": True},
        "on_schema_change": "fail",
    }
    project.model("m", sql, **base | {"materialized": "incremental", "file_format": "parquet"})
    project.dbt("run")
    for buckets in (4, 8, 4):
        project.model("m", sql, **base, buckets=buckets)
        project.dbt("run")
        found = {row.partition: row.num_buckets for row in project.rows("select * from bucket_specs('{schema}.m')")}
        assert sorted(found.values()) == [0, *[buckets] * 4], found
        assert found["day=c%25d"] == 0
        assert project.detail("m", "Num Buckets") == str(buckets)
    project.model("m", sql, **base, buckets=16)
    project.dbt("run", "--empty")
    assert project.detail("m", "Num Buckets") == "16"
    assert {row.num_buckets for row in project.rows("select * from bucket_specs('{schema}.m')")} == {0, 4}
    comments = {row.col_name.lower(): row.comment for row in project.rows("describe {schema}.m")}
    assert comments["key"] == "the key"
    project.dbt("run", "--full-refresh")
    assert {row.num_buckets for row in project.rows("select * from bucket_specs('{schema}.m')")} == {16}
    assert_one_file_per_bucket(project, "m", "hive", 16)
    assert project.tables() == {"m", "numbers"}
