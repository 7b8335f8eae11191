"""Tests that organized_table writes exactly the planned files, for any distribution of rows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from bucketed_tables import settled

from conftest import Project, all_long_but

pytestmark = pytest.mark.usefixtures("extension_for_module")
TABLE = {"materialized": "organized_table"}
STRATEGIES = ("exact", "coalesce", "repartition", "by_column", "by_column_salted", "by_range")
# 900 rows: 700 in one partition, 180 in another, 20 in NULL; half of them are duplicates.
SKEWED = """
    select cast(id % 350 as string) as v, if(id % 7 = 0, null, id % 5) as n, array(id % 2) as a, ds, region
    from (
        select id, case when id < 700 then 'a b' when id < 880 then '' when id < 897 then 'c%d' else null end as ds,
            if(id % 100 = 99, null, 'r') as region
        from range(0, 900, 1, 7)
    )
"""
ROWS_OF = {"a b": 700, None: 183, "c%d": 17}


def rows_of_files(project: Project, table: str = "m", partition: str = "null") -> dict[Any, list[int]]:
    """Return the number of rows in each nonempty file by partition, largest first."""
    found = defaultdict(list)
    query = (
        f"select {partition} as p, count(*) as n from {project.table(table)} group by {partition}, input_file_name()"
    )
    for row in project.rows(query):
        found[row.p].append(row.n)
    return {key: sorted(numbers, reverse=True) for key, numbers in found.items()}


def even(rows: int, files: int) -> list[int]:
    """Return the sizes of evenly filled files, largest first."""
    return sorted(((i + 1) * rows // files - i * rows // files for i in range(files)), reverse=True)


def assert_exact(
    project: Project, planned: dict[Any, int], rows: dict[Any, int], table: str = "m", partition: str = "ds"
) -> None:
    """Check the number and the sizes of files."""
    assert rows_of_files(project, table, partition) == {key: even(rows[key], files) for key, files in planned.items()}
    assert len(project.files(table)) == sum(planned.values())


def assert_same_rows(project: Project, sql: str, table: str = "m") -> None:
    columns = ", ".join(project.spark.table(project.table(table)).columns)
    # Spark stores an empty string in a partition column as NULL.
    found, expected = (
        sorted(map(repr, project.rows(f"select {columns} from {source}")))
        for source in (project.table(table), f"({sql.replace(chr(39) * 2, 'null')})")
    )
    assert found == expected


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.some(1)
def test_partitions_of_different_sizes_get_different_numbers_of_files(
    project: Project, file_format: str, aqe: None
) -> None:
    project.build(SKEWED, **TABLE, partition_by=["ds"], rows_per_file=60, file_format=file_format)
    assert_exact(project, {"a b": 12, None: 4, "c%d": 1}, ROWS_OF)
    assert_same_rows(project, SKEWED)
    assert {path.suffix for path in project.files("m")} == {f".{file_format}"}
    assert project.detail("m", "Provider") == file_format
    assert project.tables() == {"m"}


@pytest.mark.long
def test_every_setting_for_the_number_of_files_is_exact(project: Project) -> None:
    ways: dict[str, tuple[dict[str, Any], dict[Any, int]]] = {
        "total": ({"num_files": 9}, {None: 9}),
        "one": ({"num_files": 1}, {None: 1}),
        "rows": ({"rows_per_file": 300}, {None: 3}),
        "shares": ({"num_files": 9, "partition_by": ["ds"]}, {"a b": 7, None: 2, "c%d": 1}),
        "each": ({"files_per_partition": 3, "partition_by": ["ds"]}, {"a b": 3, None: 3, "c%d": 3}),
        "row_each": ({"files_per_partition": 20, "partition_by": ["ds"]}, {"a b": 20, None: 20, "c%d": 17}),
    }
    for name, (config, _) in ways.items():
        project.model(name, SKEWED, **TABLE, **config)
    project.dbt("run")
    for name, (config, planned) in ways.items():
        partitioned = "partition_by" in config
        assert_exact(project, planned, ROWS_OF if partitioned else {None: 900}, name, "ds" if partitioned else "null")
        assert_same_rows(project, SKEWED, name) if partitioned else None


@pytest.mark.parametrize(
    "strategies", all_long_but((STRATEGIES[::2],), [STRATEGIES[::2], STRATEGIES[1::2]]), ids="-".join
)
def test_all_strategies_write_the_same_rows(project: Project, strategies: tuple[str, ...]) -> None:
    for strategy in strategies:
        config = {"file_strategy": strategy} | ({"scale_factor": 2.5} if strategy == "by_column_salted" else {})
        project.model(strategy, SKEWED, **TABLE, partition_by=["region", "ds"], rows_per_file=300, **config)
    project.dbt("run")
    # The least and the largest number of files. With by_column, one task writes all rows of each of the five partitions.
    limits = {"by_column": (5, 5), "exact": (7, 7), "by_column_salted": (1, 7), "repartition": (8, 900)}
    for strategy in strategies:
        assert_same_rows(project, SKEWED, strategy)
        least, largest = limits.get(strategy, (1, 900))
        assert least <= len(project.files(strategy)) <= largest, strategy
    assert project.tables() == set(strategies)


def test_identical_rows_are_spread_evenly(project: Project) -> None:
    project.build("select 1 as k, 'x' as v from range(0, 1000, 1, 3)", **TABLE, num_files=7)
    assert_exact(project, {None: 7}, {None: 1000}, partition="null")


@pytest.mark.parametrize(
    "size", all_long_but({"rows_per_file": 10}, [{"rows_per_file": 10}, {"target_file_size": "1MiB"}, {"num_files": 4}])
)
def test_empty_input_and_single_row_give_at_most_one_file(project: Project, size: dict[str, Any]) -> None:
    for name, rows in (("none", 0), ("one", 1)):
        for part, config in (("whole", {}), ("parts", {"partition_by": ["p"]})):
            project.model(f"{name}_{part}", f"select id as k, id as p from range({rows})", **TABLE, **config, **size)
    project.dbt("run")
    tables = project.tables()
    assert len(tables) == 4
    for table in tables:
        assert project.rows(f"select count(*) from {project.table(table)}")[0][0] == table.startswith("one"), table
        assert len(project.files(table)) <= 1


@pytest.mark.parametrize(
    "conf",
    [
        pytest.param({"spark.sql.adaptive.enabled": "false", "spark.sql.files.maxRecordsPerFile": "30"}, marks=pytest.mark.long),
        pytest.param({"spark.sql.adaptive.advisoryPartitionSizeInBytes": "1g", "spark.sql.shuffle.partitions": "3"}, marks=pytest.mark.long),
        {"spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k",
         "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.ansi.enabled": "true", "spark.sql.sources.partitionOverwriteMode": "DYNAMIC"},
        pytest.param({"spark.sql.files.maxPartitionBytes": "2k", "spark.sql.files.openCostInBytes": "1", "spark.sql.parquet.enableVectorizedReader": "false"}, marks=pytest.mark.long),
    ],
    ids=lambda conf: "_".join(key.removeprefix("spark.sql.") for key in conf),
)  # fmt: skip
def test_session_settings_do_not_affect_the_files(project: Project, conf: dict[str, str]) -> None:
    with settled(project.spark, conf):
        project.build(SKEWED, **TABLE, partition_by=["ds"], rows_per_file=60)
        assert_exact(project, {"a b": 12, None: 4, "c%d": 1}, ROWS_OF)


@pytest.mark.long
def test_docs_grants_contracts_and_locations_work_as_for_other_tables(project: Project, tmp_path: Any) -> None:
    project.describe({
        "name": "m", "description": "All of them", "config": {"contract": {"enforced": True}, "persist_docs": {"relation": True, "columns": True}},
        "columns": [{"name": "k", "data_type": "bigint", "description": "the key", "constraints": [{"type": "not_null"}]},
                    {"name": "p", "data_type": "string"}],
    })  # fmt: skip
    sql = "select id as k, cast(id % 3 as string) as p from range(30)"
    config = {
        **TABLE,
        "rows_per_file": 5,
        "partition_by": ["p"],
        "location_root": str(tmp_path),
        "tblproperties": {"a": "b"},
    }
    for _ in range(2):
        project.build(sql, **config, post_hook="alter table {{ this }} set tblproperties ('hooked' = 'yes')")
    assert project.detail("m", "Comment") == "All of them"
    assert project.location("m").is_relative_to(tmp_path) and len(list((tmp_path / "m").iterdir())) == 1
    properties = str(project.detail("m", "Table Properties"))
    assert "a=b" in properties and "hooked=yes" in properties
    assert project.rows("describe {schema}.m")[0].comment == "the key"
    assert_exact(project, dict.fromkeys("012", 2), dict.fromkeys("012", 10), partition="p")
    project.model("m", f"select nullif(k, 4) as k, p from ({sql})", **config)
    _, failure = project.attempt("run")
    assert "not_null" in failure
    assert project.rows("select count(k) from {schema}.m")[0][0] == 30


@pytest.mark.parametrize("pairs", all_long_but((("id", "sc"),), [("id", "sc"), ("tn", "fb")]), ids=" ".join)
def test_partitions_of_every_type_are_written(project: Project, extension: None, pairs: tuple[str, ...]) -> None:
    """Run with the session extension, which must not affect the result."""
    values = {
        "i": "if(id % 3 = 0, null, cast(id % 3 as int))",
        "d": "date_add(date'1583-01-01', cast(id % 3 as int) * 400000)",
        "t": "timestamp_seconds(id % 3 * 1000000 + 0.25)",
        "n": "cast(id % 3 - 1.5 as decimal(10,3))",
        "f": "if(id % 3 = 0, double('NaN'), if(id % 3 = 1, null, 2.5D))",
        "b": "cast(nullif(id % 3, 2) as boolean)",
        "s": "array('', ' a/b=c ', '日本')[id % 3]",
        "c": "cast(array('x', 'yy', null)[id % 3] as char(4))",
    }
    nested = "named_struct('a b', id, 'l', array(named_struct('x', id))) as deep, map('k', id) as m, cast('' as binary) as bin"
    columns = ", ".join(f"{value} as {name}" for name, value in values.items())
    # Spark stores an empty partition string as NULL, and pads CHAR columns.
    content = "select id, to_json(struct(i, d, t, n, f, b, nullif(s, ''), rtrim(c), deep, m, bin)) from {} order by id"
    for pair in pairs:
        sql = f"select id, {nested}, {columns} from range(0, 99, 1, 4)"
        project.model(pair, sql, **TABLE, partition_by=list(pair), rows_per_file=10)
    project.dbt("run")
    expected = project.rows(content.format(f"(select id, {nested}, {columns} from range(99))"))
    for pair in pairs:
        partition = f"concat_ws(',', {', '.join(pair)})"
        assert sorted(rows_of_files(project, pair, partition).values()) == [[9, 8, 8, 8]] * 3, pair
        assert project.rows(content.format(project.table(pair))) == expected, pair


def test_reserved_column_name_is_refused(project: Project) -> None:
    project.model("m", "select 1 as `_Metadata`, 2 as k", **TABLE, num_files=2)
    _, failure = project.attempt("run")
    assert "Model `m` has an invalid column." in failure and "_Metadata" in failure and project.tables() == set()
