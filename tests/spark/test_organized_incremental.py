"""Tests that organized_incremental writes the planned number of files, and keeps all files that it does not replace."""

from __future__ import annotations

from typing import Any

import pytest
from bucketed_tables import settled
from test_organized_table import rows_of_files

from conftest import Failed, Project

pytestmark = pytest.mark.usefixtures("extension_for_module")
MODEL: dict[str, Any] = {"materialized": "organized_incremental", "rows_per_file": 50, "partition_by": ["p"]}
# The first run writes days 0 to 2, and the second run days 2 to 4. The days have 10, 110, 210 and more rows.
FIRST = "select id as k, cast(d as string) as p from (select explode(sequence(0, 2)) as d), range(300) where id < 10 + 100 * d"
QUERY = """
    {{% if is_incremental() %}}
    select id as k, nullif(cast(d as string), '4') as p{more}
    from (select explode(sequence(2, 4)) as d), range(300) where id < 10 + 50 * d
    {{% else %}}
    {first}
    {{% endif %}}
"""


def model(project: Project, more: str = "", **config: object) -> None:
    project.model("m", QUERY.format(first=FIRST, more=more), **MODEL | config)


@pytest.mark.parametrize(
    ("strategy", "file_format"),
    [
        ("append", "parquet"),
        pytest.param("append", "orc", marks=pytest.mark.long),
        pytest.param("insert_overwrite", "parquet", marks=pytest.mark.long),
        ("insert_overwrite", "orc"),
    ],
)
@pytest.mark.some(1)
def test_run_adds_files_or_replaces_partitions(project: Project, strategy: str, file_format: str) -> None:
    model(project, incremental_strategy=strategy, file_format=file_format)
    project.dbt("run")
    before = set(project.files("m"))
    assert len(before) == 1 + 3 + 5
    with settled(project.spark, {"spark.sql.sources.partitionOverwriteMode": "STATIC"}):
        project.dbt("run")
    after = set(project.files("m"))
    kept = before & after
    assert len(kept) == (9 if strategy == "append" else 4)
    rows = {key: sum(numbers) for key, numbers in rows_of_files(project, "m", "p").items()}
    assert rows == {"0": 10, "1": 110, "2": 320 if strategy == "append" else 110, "3": 160, None: 210}
    assert len(after - kept) == 3 + 4 + 5
    assert project.tables() == {"m"}


@pytest.mark.long
def test_table_without_partitions_grows_or_is_replaced(project: Project) -> None:
    for strategy in ("append", "insert_overwrite"):
        sql = "select id as k from range({% if is_incremental() %}20{% else %}30{% endif %})"
        project.model(
            strategy, sql, **MODEL | {"partition_by": [], "rows_per_file": 10, "incremental_strategy": strategy}
        )
    for _ in range(2):
        project.dbt("run")
    for strategy, rows in (("append", 50), ("insert_overwrite", 20)):
        assert rows_of_files(project, strategy) == {None: [10] * (rows // 10)}


@pytest.mark.long
def test_run_without_new_rows_keeps_the_table(project: Project) -> None:
    strategies = ("append", "insert_overwrite")
    for strategy in strategies:
        sql = f"{FIRST} {{% if is_incremental() %}} and false {{% endif %}}"
        project.model(strategy, sql, **MODEL, incremental_strategy=strategy)
    project.dbt("run")
    before = {strategy: project.files(strategy) for strategy in strategies}
    project.dbt("run")
    assert {strategy: project.files(strategy) for strategy in strategies} == before


def test_new_columns_are_added(project: Project) -> None:
    model(project)
    project.dbt("run")
    model(project, more=", 7 as n", on_schema_change="append_new_columns")
    project.dbt("run")
    assert project.rows("select count(*), count(n), sum(n) from {schema}.m")[0] == (330 + 480, 480, 7 * 480)


@pytest.mark.long
def test_new_columns_and_other_layouts_are_refused(project: Project) -> None:
    model(project)
    project.dbt("run")
    model(project, more=", 7 as n", on_schema_change="fail")
    with pytest.raises(Failed, match=r"(?s)`on_schema_change`.*new in the query: n.*append_new_columns', or `dbt run"):
        project.dbt("run")
    model(project, file_format="orc")
    with pytest.raises(Failed, match=r"(?s)Model `m` has an invalid `file_format`.*full-refresh"):
        project.dbt("run")
    project.dbt("run", "--full-refresh")
    assert {path.suffix for path in project.files("m")} == {".orc"} and project.tables() == {"m"}
