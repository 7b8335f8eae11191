"""bucketed_incremental: every strategy gives the rows that dbt promises, and keeps one sorted file per bucket."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted

from conftest import Failed, Project

INCREMENTAL = {"materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 4}
LAYOUTS = [("hive", "parquet"), ("hive", "orc"), ("spark", "parquet"), ("spark", "orc")]
FIRST = "select id as k, concat('old', id) as v, id % 3 as p from range(30)"
SECOND = "select id as k, concat('new', id) as v, 1 as p from range(25, 35)"


def versions(first: str, later: str) -> str:
    return f"{{% if is_incremental() %}}{later}{{% else %}}{first}{{% endif %}}"


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
CASES = [
    (strategy, partitioned, *layout)
    for strategy, partitioned in EXPECTED
    for layout in (LAYOUTS if partitioned else LAYOUTS[::3])
]


def case_name(strategy: str, partitioned: bool, bucket_hash: str, file_format: str) -> str:
    return f"{strategy}_{'partitioned' if partitioned else 'whole'}_{bucket_hash}_{file_format}"


@pytest.fixture(scope="module")
def strategies(new_project: Callable[..., Project]) -> Project:
    """Every strategy, layout and format, after a first and a second run."""
    project = new_project()
    for case in CASES:
        strategy, partitioned, bucket_hash, file_format = case
        config = INCREMENTAL | {
            "incremental_strategy": strategy,
            "bucket_hash": bucket_hash,
            "file_format": file_format,
        }
        if partitioned:
            config["partition_by"] = ["p"]
        if strategy == "merge":
            config["unique_key"] = "k"
        project.model(case_name(*case), versions(FIRST, SECOND), **config)
    project.dbt("run")
    for case in CASES:
        assert rows_of(project, case_name(*case)) == expected(project, FIRST)
    project.dbt("run")
    return project


@pytest.mark.parametrize("case", CASES, ids=lambda case: case_name(*case))
def test_second_run_gives_the_strategys_rows_in_one_sorted_file_per_bucket(
    strategies: Project, case: tuple[str, bool, str, str]
) -> None:
    strategy, partitioned, bucket_hash, _ = case
    table = case_name(*case)
    assert rows_of(strategies, table) == expected(strategies, EXPECTED[strategy, partitioned])
    assert_one_file_per_bucket(strategies, table, bucket_hash, 4)
    assert_sorted(strategies, table, ["k"])


def test_nothing_is_left_beside_the_tables(strategies: Project) -> None:
    assert strategies.tables() == {case_name(*case) for case in CASES}


def test_only_touched_partitions_are_rewritten(new_project: Callable[..., Project]) -> None:
    project = new_project()
    for strategy in ("append", "insert_overwrite", "merge"):
        config = INCREMENTAL | {"incremental_strategy": strategy, "partition_by": ["p"], "unique_key": ["k", "p"]}
        project.model(strategy, versions(FIRST, SECOND), **config)
    project.dbt("run")
    before = {strategy: set(project.files(strategy)) for strategy in ("append", "insert_overwrite", "merge")}
    project.dbt("run")
    for strategy, files in before.items():
        kept = files & set(project.files(strategy))
        assert {path.parent.name for path in files - kept} == {"p=1"}, strategy
        assert {path.parent.name for path in kept} == {"p=0", "p=2"}, strategy


def test_partition_values_of_every_kind_survive_a_merge(new_project: Callable[..., Project]) -> None:
    # NULL, the empty string (which Hive stores as NULL), 'null', digits, quotes, a slash, a percent sign, non-ASCII.
    project = new_project()
    values = "array(null, 'null', '007', 'it\\'s', 'a\\\\\\\\b', 'x/y', '50%', 'é=ü', 'a b')"
    query = f"select id as k, '{{}}' as v, element_at({values}, cast(id + 1 as int)) as region, date_add(date'2024-01-01', cast(id as int)) as ds from range(9)"
    project.model(
        "m",
        versions(query.format("old"), f"select * from ({query.format('new')}) where k % 2 = 0"),
        **INCREMENTAL | {"incremental_strategy": "merge", "partition_by": ["region", "ds"], "unique_key": "k"},
    )
    project.dbt("run")
    first = project.rows("select k, region, ds from {schema}.m order by k")
    assert len({row.region for row in first}) == 9
    project.dbt("run")
    assert project.rows("select k, region, ds from {schema}.m order by k") == first
    assert [row.v for row in project.rows("select v from {schema}.m order by k")] == ["new", "old"] * 4 + ["new"]


def test_partition_values_that_the_metastore_cannot_filter_by(new_project: Callable[..., Project]) -> None:
    project = new_project()
    values = r"""array('q\'\\', '"', '\'"', null, '%')"""
    query = f"select id as k, '{{}}' as v, element_at({values}, cast(id + 1 as int)) as q, if(id = 2, null, id * 1099511627776) as n from range(5)"
    for partition_by in (["q"], ["n", "q"]):
        project.model(
            f"m{len(partition_by)}",
            versions(query.format("old"), query.format("new")),
            **INCREMENTAL | {"incremental_strategy": "merge", "partition_by": partition_by, "unique_key": "k"},
        )
    project.dbt("run")
    assert {row.q for row in project.rows("select q from {schema}.m1")} == {"q'\\", '"', "'\"", None, "%"}
    project.dbt("run")
    for name in ("m1", "m2"):
        assert project.rows(f"select count(*), count_if(v = 'new') from {project.table(name)}")[0][:] == (5, 5)


@pytest.mark.parametrize("partitions", [12, *(pytest.param(n, marks=pytest.mark.long) for n in (120, 1500))])
def test_an_increment_may_touch_many_partitions(new_project: Callable[..., Project], partitions: int) -> None:
    project = new_project()
    query = f"select id as k, '{{}}' as v, id as p, concat('p', id) as q from range({partitions})"
    for partition_by in (["p"], ["p", "q"]):
        project.model(
            f"m{len(partition_by)}",
            versions(query.format("old"), query.format("new")),
            **INCREMENTAL | {"incremental_strategy": "merge", "partition_by": partition_by, "unique_key": "k"},
        )
    project.dbt("run")
    project.dbt("run")
    for name in ("m1", "m2"):
        counted = project.rows(f"select count(*), count_if(v = 'new') from {project.table(name)}")
        assert counted[0][:] == (partitions, partitions)


@pytest.mark.parametrize(
    "strategy", ["merge", *[pytest.param(name, marks=pytest.mark.long) for name in ("append", "insert_overwrite")]]
)
def test_a_key_whose_bytes_are_no_text_has_its_one_bucket(project: Project, strategy: str) -> None:
    new = "select cast(unhex(hex(id + 240)) as string) as k, 1 as p from range(12) union all select 'b', 1"
    project.model(
        "m",
        versions("select 'a' as k, 1 as p", new),
        **INCREMENTAL | {"incremental_strategy": strategy, "partition_by": ["p"], "unique_key": "k"},
    )
    project.dbt("run")
    project.dbt("run")
    assert project.rows("select count(*) from {schema}.m")[0][0] == (13 if strategy == "insert_overwrite" else 14)
    assert_one_file_per_bucket(project, "m", "hive", int(str(project.detail("m", "Num Buckets"))))


def test_the_name_of_nulls_directory_is_null_and_loses_no_row(project: Project) -> None:
    project.model(
        "m",
        versions("select 1 as k, cast(null as string) as p", "select 2 as k, '__HIVE_DEFAULT_PARTITION__' as p"),
        **INCREMENTAL | {"incremental_strategy": "append", "partition_by": ["p"]},
    )
    project.dbt("run")
    project.dbt("run")
    assert [row[:] for row in project.rows("select k, p from {schema}.m order by k")] == [(1, None), (2, None)]


@pytest.mark.long
def test_the_empty_string_and_null_share_a_partition_and_lose_no_row(new_project: Callable[..., Project]) -> None:
    # Hive's layout of directories has one name for both.
    project = new_project()
    first = "select id as k, 'old' as v, if(id % 2 = 0, '', null) as p from range(8)"
    later = "select id as k, 'new' as v, if(id % 2 = 0, '', null) as p from range(6, 10)"
    counts = {"append": 12, "insert_overwrite": 4, "merge": 10}
    for strategy in counts:
        for bucket_hash in ("hive", "spark"):
            config = {
                "incremental_strategy": strategy,
                "partition_by": "p",
                "unique_key": "k",
                "bucket_hash": bucket_hash,
            }
            project.model(f"{strategy}_{bucket_hash}", versions(first, later), **INCREMENTAL | config)
    project.dbt("run")
    project.dbt("run")
    for strategy, count in counts.items():
        for bucket_hash in ("hive", "spark"):
            table = f"{strategy}_{bucket_hash}"
            rows = project.rows(f"select count(*), count(p), count_if(v = 'new') from {project.table(table)}")
            assert rows[0][:] == (count, 0, 4), table
            assert_one_file_per_bucket(project, table, bucket_hash, 4)


@pytest.mark.long
def test_every_strategy_on_an_external_table(new_project: Callable[..., Project]) -> None:
    project = new_project()
    root = project.folder / "external"
    names = []
    for strategy in ("append", "insert_overwrite", "merge"):
        for bucket_hash in ("hive", "spark"):
            for partition_by in ([], ["p"]):
                names.append(
                    (f"{strategy}_{bucket_hash}_{len(partition_by)}", strategy, bool(partition_by), bucket_hash)
                )
                config = {"incremental_strategy": strategy, "partition_by": partition_by, "unique_key": "k"}
                config |= {"bucket_hash": bucket_hash, "location_root": str(root)}
                project.model(names[-1][0], versions(FIRST, SECOND), **INCREMENTAL | config)
    project.dbt("run")
    project.dbt("run")
    for table, strategy, partitioned, bucket_hash in names:
        assert rows_of(project, table) == expected(project, EXPECTED[strategy, partitioned]), table
        assert project.detail(table, "Type") == "EXTERNAL"
        assert [path.name for path in (root / table).iterdir()] == [project.location(table).name]
        assert_one_file_per_bucket(project, table, bucket_hash, 4)


@pytest.mark.long
def test_a_column_spelled_otherwise_is_the_same_column(new_project: Callable[..., Project]) -> None:
    project = new_project()
    for bucket_hash in ("hive", "spark"):
        for strategy in ("append", "insert_overwrite", "merge"):
            project.model(
                f"{strategy}_{bucket_hash}",
                versions("select id as Key, 1 as Part from range(4)", "select id as KEY, 1 as pART from range(2, 6)"),
                materialized="bucketed_incremental", clustered_by=["key"], buckets=2, partition_by=["part"],
                incremental_strategy=strategy, unique_key="kEY", bucket_hash=bucket_hash, on_schema_change="fail",
            )  # fmt: skip
    project.dbt("run")
    project.dbt("run")
    for bucket_hash in ("hive", "spark"):
        for strategy, count in (("append", 8), ("insert_overwrite", 4), ("merge", 6)):
            assert project.rows(f"select count(key) from {project.table(f'{strategy}_{bucket_hash}')}")[0][0] == count


def test_merge_updates_only_the_named_columns_and_honours_predicates(new_project: Callable[..., Project]) -> None:
    project = new_project()
    first = "select id as k, 'old' as a, 'old' as b from range(4)"
    later = "select id as k, 'new' as a, 'new' as b from range(2, 6)"
    merge = INCREMENTAL | {"incremental_strategy": "merge", "unique_key": "k"}
    project.model("updates", versions(first, later), **merge, merge_update_columns=["a"])
    project.model("excludes", versions(first, later), **merge, merge_exclude_columns=["A"])
    project.model("predicates", versions(first, later), **merge, incremental_predicates=["DBT_INTERNAL_DEST.k != 3"])
    project.dbt("run")
    project.dbt("run")

    def rows(table: str) -> list[str]:
        return [f"{r.k}{r.a}{r.b}" for r in project.rows(f"select * from {project.table(table)} order by k, a desc")]

    assert rows("updates") == ["0oldold", "1oldold", "2newold", "3newold", "4newnew", "5newnew"]
    assert rows("excludes") == ["0oldold", "1oldold", "2oldnew", "3oldnew", "4newnew", "5newnew"]
    # As in MERGE INTO, a predicate is part of the match: row 3 is not matched, so the new one is inserted beside it.
    assert rows("predicates") == ["0oldold", "1oldold", "2newnew", "3oldold", "3newnew", "4newnew", "5newnew"]


def test_merge_keeps_null_keys_apart(new_project: Callable[..., Project]) -> None:
    project = new_project()
    project.model(
        "m",
        versions("select cast(null as int) as k, 'old' as v", "select cast(null as int) as k, 'new' as v"),
        **INCREMENTAL | {"incremental_strategy": "merge", "unique_key": "k"},
    )
    project.dbt("run")
    project.dbt("run")
    assert [row.v for row in project.rows("select v from {schema}.m order by v")] == ["new", "old"]


def test_merge_refuses_two_new_rows_for_one_old_row_and_changes_nothing(new_project: Callable[..., Project]) -> None:
    project = new_project()
    project.model(
        "m",
        versions("select 1 as k, 'old' as v", "select 1 as k, 'a' as v union all select 1, 'b'"),
        **INCREMENTAL | {"incremental_strategy": "merge", "unique_key": "k"},
    )
    project.dbt("run")
    with pytest.raises(Failed, match=r"(?s)unique_key.*at most one new row for each row of the table"):
        project.dbt("run")
    assert [tuple(row) for row in project.rows("select * from {schema}.m")] == [(1, "old")]


@pytest.mark.long
def test_a_model_may_read_itself(new_project: Callable[..., Project]) -> None:
    project = new_project()
    for strategy in ("append", "insert_overwrite", "merge"):
        for partition_by in ([], ["p"]):
            project.model(
                f"{strategy}{len(partition_by)}",
                "select id as k, 'v' as v, 0 as p from range(10)"
                "{% if is_incremental() %} where id <= (select max(k) from {{ this }}) - 1{% endif %}",
                **INCREMENTAL
                | {"incremental_strategy": strategy, "partition_by": partition_by, "unique_key": "k", "buckets": 2},
            )
    project.dbt("run")
    project.dbt("run")
    counts = {name: project.rows(f"select count(*) from {project.table(name)}")[0][0] for name in project.tables()}
    assert counts == {
        "append0": 19, "append1": 19, "insert_overwrite0": 9, "insert_overwrite1": 9, "merge0": 10, "merge1": 10,
    }  # fmt: skip
    for name in counts:
        assert_one_file_per_bucket(project, name, "hive", 2)


def test_an_empty_increment_changes_nothing_but_a_whole_overwrite(new_project: Callable[..., Project]) -> None:
    project = new_project()
    for strategy in ("append", "insert_overwrite", "merge"):
        for partition_by in ([], ["p"]):
            project.model(
                f"{strategy}{len(partition_by)}",
                versions(FIRST, f"select * from ({SECOND}) where false"),
                **INCREMENTAL | {"incremental_strategy": strategy, "partition_by": partition_by, "unique_key": "k"},
            )
    project.dbt("run")
    project.dbt("run")
    for name in project.tables():
        assert rows_of(project, name) == ([] if name == "insert_overwrite0" else expected(project, FIRST)), name


def test_is_incremental_is_true_only_when_there_is_a_table_to_add_to(new_project: Callable[..., Project]) -> None:
    project = new_project()
    project.write("macros/m.sql", "{% macro nested() %}{{ return(is_incremental()) }}{% endmacro %}")
    sql = "select 1 as k, '{{ is_incremental() }} {{ nested() }} {{ spark_bucketing.is_incremental() }}' as v"
    project.model("m", sql, **INCREMENTAL | {"incremental_strategy": "insert_overwrite"})

    def answers() -> str:
        return str(project.rows("select v from {schema}.m")[0].v)

    project.dbt("run")
    assert answers() == "False False False"
    project.dbt("run")
    assert answers() == "True True True"
    project.dbt("run", "--full-refresh")
    assert answers() == "False False False"


def test_a_table_that_a_hook_drops_is_built_from_the_text_of_a_full_build(project: Project) -> None:
    drop = "{{ 'drop table ' ~ this if var('drop', false) else 'select 1' }}"
    sql = "select 1 as k, '{{ spark_bucketing.is_incremental() }}' as v"
    project.model("m", sql, **INCREMENTAL, pre_hook=drop)
    project.dbt("run")
    project.dbt("run", drop=True)
    assert [row.v for row in project.rows("select v from {schema}.m")] == ["False"]


def test_increment_of_a_model_on_an_ephemeral_one(new_project: Callable[..., Project]) -> None:
    project = new_project()
    project.model("e", "select 1 as k, 'v' as v", materialized="ephemeral")
    project.model("m", "select * from {{ ref('e') }}", **INCREMENTAL)
    project.dbt("run")
    project.dbt("run")
    assert project.rows("select count(*) from {schema}.m")[0][0] == 2
