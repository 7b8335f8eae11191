"""bucketed_incremental: every strategy gives the rows that dbt promises, and keeps one sorted file per bucket."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted

from conftest import Failed, Project, all_long_but

INCREMENTAL: dict[str, Any] = {"materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 4}
STRATEGIES = ("append", "insert_overwrite", "merge")
# Every strategy, hash and partitioning.
EVERY = {
    f"{strategy}_{bucket_hash}_{len(partition_by)}": {
        "incremental_strategy": strategy, "bucket_hash": bucket_hash, "partition_by": partition_by, "unique_key": "k",
    }
    for strategy, bucket_hash, partition_by in product(STRATEGIES, ("hive", "spark"), ([], ["p"]))
}  # fmt: skip
Case = tuple[str, bool, str, str]
LAYOUTS = [("hive", "parquet"), ("hive", "orc"), ("spark", "parquet"), ("spark", "orc")]
FIRST = "select id as k, concat('old', id) as v, id % 3 as p from range(30)"
SECOND = "select id as k, concat('new', id) as v, 1 as p from range(25, 35)"


def versions(first: str, later: str) -> str:
    return f"{{% if is_incremental() %}}{later}{{% else %}}{first}{{% endif %}}"


def run_twice(project: Project, **models: tuple[str, dict[str, Any]]) -> None:
    """Models by their names, as (SQL, config beside that of all), after a first and a second run."""
    for name, (sql, config) in models.items():
        project.model(name, sql, **INCREMENTAL | config)
    for _ in range(2):
        project.dbt("run")


def rows_of(project: Project, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in project.rows(f"select k, v, cast(p as int) from {project.table(table)}"))


def expected(project: Project, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in project.rows(f"select k, v, cast(p as int) from ({query})"))


EXPECTED = {
    ("append", False): f"{FIRST} union all {SECOND}",
    ("append", True): f"{FIRST} union all {SECOND}",
    ("insert_overwrite", False): SECOND,
    ("insert_overwrite", True): f"select * from ({FIRST}) where p != 1 union all {SECOND}",
    ("merge", False): f"select * from ({FIRST}) where k < 25 union all {SECOND}",
    ("merge", True): f"select * from ({FIRST}) where k < 25 union all {SECOND}",
}
CASES: list[Case] = [
    (strategy, partitioned, *layout)
    for strategy, partitioned in EXPECTED
    for layout in (LAYOUTS if partitioned else LAYOUTS[::3])
]
# Every strategy meets both hashes, both formats, and partitions or none.
QUICK: list[Case] = [(*case, *LAYOUTS[layout]) for case, layout in zip(EXPECTED, (3, 0, 0, 2, 3, 1), strict=True)]


def case_name(strategy: str, partitioned: bool, bucket_hash: str, file_format: str) -> str:
    return f"{strategy}_{'partitioned' if partitioned else 'whole'}_{bucket_hash}_{file_format}"


@pytest.fixture(scope="module")
def strategies(new_project: Callable[..., Project]) -> Project:
    """Every strategy, with one layout and format or more, after a first and a second run."""
    return after_two_runs(new_project(), QUICK)


@pytest.fixture(scope="module")
def other_strategies(new_project: Callable[..., Project]) -> Project:
    """The same for the rest."""
    return after_two_runs(new_project(), [case for case in CASES if case not in QUICK])


def after_two_runs(project: Project, cases: list[Case]) -> Project:
    for case in cases:
        strategy, partitioned, bucket_hash, file_format = case
        config: dict[str, Any] = {"bucket_hash": bucket_hash, "file_format": file_format}
        config |= {"partition_by": ["p"] if partitioned else [], "incremental_strategy": strategy}
        config |= {"unique_key": "k"} if strategy == "merge" else {}
        project.model(case_name(*case), versions(FIRST, SECOND), **INCREMENTAL | config)
    project.dbt("run")
    for case in cases:
        assert rows_of(project, case_name(*case)) == expected(project, FIRST)
    project.dbt("run")
    assert project.tables() == {case_name(*case) for case in cases}, "something is left beside the tables"
    return project


@pytest.mark.parametrize("case", all_long_but(tuple(QUICK), CASES), ids=lambda case: case_name(*case))
def test_second_run_gives_the_strategys_rows(request: pytest.FixtureRequest, case: Case) -> None:
    project = request.getfixturevalue("strategies" if case in QUICK else "other_strategies")
    (strategy, partitioned, bucket_hash, _), table = case, case_name(*case)
    assert rows_of(project, table) == expected(project, EXPECTED[strategy, partitioned])
    assert_one_file_per_bucket(project, table, bucket_hash, 4)
    assert_sorted(project, table, ["k"])


def test_only_touched_partitions_are_rewritten(project: Project) -> None:
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


# NULL, the empty string (which Hive stores as NULL), 'null', digits, quotes, a slash, a percent sign, non-ASCII; and
# values that the metastore cannot filter by.
REGIONS = "array(null, 'null', '007', 'it\\'s', 'a\\\\\\\\b', 'x/y', '50%', 'é=ü', 'a b')"
QUOTED = r"""array('q\'\\', '"', '\'"', null, '%')"""
VALUES = {
    "regions": (["q", "d"], REGIONS, 9),
    "quoted": (["q"], QUOTED, 5),
    "quoted_and_numbers": (["n", "q"], QUOTED, 5),
}


def test_partition_values_of_every_kind_survive_a_merge(project: Project) -> None:
    query = (
        "select id as k, '{v}' as v, element_at({values}, cast(id + 1 as int)) as q, "
        "date_add(date'2024-01-01', cast(id as int)) as d, if(id = 2, null, id * 1099511627776) as n from range({count})"
    )
    for name, (partition_by, values, count) in VALUES.items():
        rows = {v: query.format(v=v, values=values, count=count) for v in ("old", "new")}
        config = {"incremental_strategy": "merge", "partition_by": partition_by, "unique_key": "k"}
        later = f"select * from ({rows['new']}) where k % 2 = 0"
        project.model(name, versions(rows["old"], later), **INCREMENTAL | config)
    project.dbt("run")
    places = {name: project.rows(f"select k, q, d, n from {project.table(name)} order by k") for name in VALUES}
    project.dbt("run")
    for name, (_, _, count) in VALUES.items():
        assert len({row.q for row in places[name]}) == count
        assert project.rows(f"select k, q, d, n from {project.table(name)} order by k") == places[name]
        found = [row.v for row in project.rows(f"select v from {project.table(name)} order by k")]
        assert found == [("new", "old")[k % 2] for k in range(count)], name
    assert {row.q for row in places["quoted"]} == {"q'\\", '"', "'\"", None, "%"}


@pytest.mark.long
@pytest.mark.parametrize("partitions", [120, 1500])
def test_an_increment_may_touch_many_partitions(project: Project, partitions: int) -> None:
    query = f"select id as k, '{{}}' as v, id as p, concat('p', id) as q from range({partitions})"
    sql, merge = (
        versions(query.format("old"), query.format("new")),
        {"incremental_strategy": "merge", "unique_key": "k"},
    )
    run_twice(project, one=(sql, merge | {"partition_by": ["p"]}), two=(sql, merge | {"partition_by": ["p", "q"]}))
    for name in ("one", "two"):
        counted = project.rows(f"select count(*), count_if(v = 'new') from {project.table(name)}")
        assert counted[0][:] == (partitions, partitions)


@pytest.mark.parametrize("strategy", all_long_but("merge", STRATEGIES))
def test_a_key_whose_bytes_are_no_text_has_its_one_bucket(project: Project, strategy: str) -> None:
    new = "select cast(unhex(hex(id + 240)) as string) as k, 1 as p from range(12) union all select 'b', 1"
    config = {"incremental_strategy": strategy, "partition_by": ["p"], "unique_key": "k"}
    run_twice(project, m=(versions("select 'a' as k, 1 as p", new), config))
    assert project.rows("select count(*) from {schema}.m")[0][0] == (13 if strategy == "insert_overwrite" else 14)
    assert_one_file_per_bucket(project, "m", "hive", 4)


def test_the_name_of_nulls_directory_is_null_and_loses_no_row(project: Project) -> None:
    sql = versions("select 1 as k, cast(null as string) as p", "select 2 as k, '__HIVE_DEFAULT_PARTITION__' as p")
    run_twice(project, m=(sql, {"incremental_strategy": "append", "partition_by": ["p"]}))
    assert [row[:] for row in project.rows("select k, p from {schema}.m order by k")] == [(1, None), (2, None)]


@pytest.mark.long
def test_the_empty_string_and_null_share_a_partition_and_lose_no_row(project: Project) -> None:
    # Hive's layout of directories has one name for both.
    rows = "select id as k, '{}' as v, if(id % 2 = 0, '', null) as p from range({})"
    sql = versions(rows.format("old", "8"), rows.format("new", "6, 10"))
    run_twice(project, **{name: (sql, config) for name, config in EVERY.items() if config["partition_by"]})
    counts = {"append": 12, "insert_overwrite": 4, "merge": 10}
    for table in project.tables():
        counted = project.rows(f"select count(*), count(p), count_if(v = 'new') from {project.table(table)}")
        assert counted[0][:] == (counts[str(EVERY[table]["incremental_strategy"])], 0, 4), table
        assert_one_file_per_bucket(project, table, str(EVERY[table]["bucket_hash"]), 4)


@pytest.mark.long
def test_every_strategy_on_an_external_table(project: Project) -> None:
    root, sql = project.folder / "external", versions(FIRST, SECOND)
    run_twice(project, **{name: (sql, config | {"location_root": str(root)}) for name, config in EVERY.items()})
    for table, config in EVERY.items():
        query = EXPECTED[str(config["incremental_strategy"]), bool(config["partition_by"])]
        assert rows_of(project, table) == expected(project, query), table
        assert project.detail(table, "Type") == "EXTERNAL"
        assert [path.name for path in (root / table).iterdir()] == [project.location(table).name]
        assert_one_file_per_bucket(project, table, str(config["bucket_hash"]), 4)


@pytest.mark.long
def test_a_column_spelled_otherwise_is_the_same_column(project: Project) -> None:
    sql = versions("select id as Key, 1 as Part from range(4)", "select id as KEY, 1 as pART from range(2, 6)")
    odd = {"clustered_by": ["key"], "partition_by": ["part"], "unique_key": "kEY", "on_schema_change": "fail"}
    run_twice(project, **{name: (sql, config | odd) for name, config in EVERY.items() if config["partition_by"]})
    counts = {"append": 8, "insert_overwrite": 4, "merge": 6}
    for table in project.tables():
        count = project.rows(f"select count(key) from {project.table(table)}")[0][0]
        assert count == counts[str(EVERY[table]["incremental_strategy"])], table


def test_merge_updates_only_the_named_columns_and_honours_predicates(project: Project) -> None:
    rows = "select id as k, '{v}' as a, '{v}' as b from range({ids})"
    sql = versions(rows.format(v="old", ids="4"), rows.format(v="new", ids="2, 6"))
    merge = {"incremental_strategy": "merge", "unique_key": "k"}
    run_twice(
        project,
        updates=(sql, merge | {"merge_update_columns": ["a"]}),
        excludes=(sql, merge | {"merge_exclude_columns": ["A"]}),
        predicates=(sql, merge | {"incremental_predicates": ["DBT_INTERNAL_DEST.k != 3"]}),
    )
    expected = {
        "updates": ["0oldold", "1oldold", "2newold", "3newold", "4newnew", "5newnew"],
        "excludes": ["0oldold", "1oldold", "2oldnew", "3oldnew", "4newnew", "5newnew"],
        # As in MERGE INTO, a predicate is part of the match: row 3 is not matched, so the new one is inserted beside it.
        "predicates": ["0oldold", "1oldold", "2newnew", "3oldold", "3newnew", "4newnew", "5newnew"],
    }
    for table, found in expected.items():
        rows_found = project.rows(f"select * from {project.table(table)} order by k, a desc")
        assert [f"{row.k}{row.a}{row.b}" for row in rows_found] == found


def test_merge_keeps_null_keys_apart(project: Project) -> None:
    sql = versions("select cast(null as int) as k, 'old' as v", "select cast(null as int) as k, 'new' as v")
    run_twice(project, m=(sql, {"incremental_strategy": "merge", "unique_key": "k"}))
    assert [row.v for row in project.rows("select v from {schema}.m order by v")] == ["new", "old"]


def test_merge_refuses_two_new_rows_for_one_old_row_and_changes_nothing(project: Project) -> None:
    sql = versions("select 1 as k, 'old' as v", "select 1 as k, 'a' as v union all select 1, 'b'")
    with pytest.raises(Failed, match=r"(?s)unique_key.*at most one new row for each key of the table"):
        run_twice(project, m=(sql, {"incremental_strategy": "merge", "unique_key": "k"}))
    assert [tuple(row) for row in project.rows("select * from {schema}.m")] == [(1, "old")]


@pytest.mark.long
def test_a_model_may_read_itself(project: Project) -> None:
    sql = (
        "select id as k, 'v' as v, 0 as p from range(10)"
        "{% if is_incremental() %} where id <= (select max(k) from {{ this }}) - 1{% endif %}"
    )
    run_twice(project, **{name: (sql, config) for name, config in EVERY.items() if config["bucket_hash"] == "hive"})
    counts = {"append": 19, "insert_overwrite": 9, "merge": 10}
    for table in project.tables():
        count = project.rows(f"select count(*) from {project.table(table)}")[0][0]
        assert count == counts[str(EVERY[table]["incremental_strategy"])], table
        assert_one_file_per_bucket(project, table, "hive", 4)


def test_an_empty_increment_changes_nothing_but_a_whole_overwrite(project: Project) -> None:
    sql = versions(FIRST, f"select * from ({SECOND}) where false")
    run_twice(project, **{name: (sql, config) for name, config in EVERY.items() if config["bucket_hash"] == "hive"})
    for name in project.tables():
        emptied = name == "insert_overwrite_hive_0"
        assert rows_of(project, name) == ([] if emptied else expected(project, FIRST)), name


def test_is_incremental_is_true_only_when_there_is_a_table_to_add_to(project: Project) -> None:
    project.write("macros/m.sql", "{% macro nested() %}{{ return(is_incremental()) }}{% endmacro %}")
    sql = "select 1 as k, '{{ is_incremental() }} {{ nested() }} {{ spark_bucketing.is_incremental() }}' as v"
    project.model("m", sql, **INCREMENTAL | {"incremental_strategy": "insert_overwrite"})

    for options, answer in (((), "False"), ((), "True"), (("--full-refresh",), "False")):
        project.dbt("run", *options)
        assert [row.v for row in project.rows("select v from {schema}.m")] == [" ".join([answer] * 3)]


def test_a_table_that_a_hook_drops_is_built_from_the_text_of_a_full_build(project: Project) -> None:
    drop = "{{ 'drop table ' ~ this if var('drop', false) else 'select 1' }}"
    sql = "select 1 as k, '{{ spark_bucketing.is_incremental() }}' as v"
    project.build(sql, **INCREMENTAL, pre_hook=drop)
    project.dbt("run", drop=True)
    assert [row.v for row in project.rows("select v from {schema}.m")] == ["False"]


def test_increment_of_a_model_on_an_ephemeral_one(project: Project) -> None:
    project.model("e", "select 1 as k, 'v' as v", materialized="ephemeral")
    run_twice(project, m=("select * from {{ ref('e') }}", {}))
    assert project.rows("select count(*) from {schema}.m")[0][0] == 2
