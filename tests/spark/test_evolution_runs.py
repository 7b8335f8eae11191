"""Tests that on_bucket_change='evolve' changes only the specs of the table and of the partitions that a run writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bucketed_tables import no_extension
from crashes import content, statements
from session_settings import setting
from test_bucketed_table import assert_one_file_per_bucket

from conftest import Failed, Project

EVOLVING: dict[str, Any] = {
    "materialized": "bucketed_incremental", "clustered_by": ["k"], "partition_by": ["ds"], "on_bucket_change": "evolve",
}  # fmt: skip
# The first run fills three days; each later run adds rows for the days in its variable.
ROWS = "select k, v, ds from {{ ref('rows') }}"
ALL = "select k, v, ds from {{schema}}.{}"
SOURCE = """
    {% if var('run') %}
    select id + 5 as k, 'run {{ var('run') }}' as v, ds from range(12) lateral view explode({{ var('days') }}) as ds
    {% else %}
    select id as k, 'first' as v, date_add(date'2024-01-01', cast(id % 3 as int)) as ds from range(60)
    {% endif %}"""
STRATEGIES: dict[str, dict[str, Any]] = {
    "append": {"incremental_strategy": "append"},
    "insert_overwrite": {"incremental_strategy": "insert_overwrite"},
    "merge": {"incremental_strategy": "merge", "unique_key": ["k", "ds"]},
    "microbatch": {
        "incremental_strategy": "microbatch", "event_time": "ds", "batch_size": "day", "begin": "2024-01-01",
    },
}  # fmt: skip
Spec = tuple[int, tuple[str, ...], tuple[str, ...]] | None
PLAIN: Spec = (0, (), ())


def spec(buckets: int, *columns: str) -> Spec:
    return (buckets, columns or ("k",), columns or ("k",))


def days(*numbers: int) -> str:
    return "array(" + ", ".join(f"date'2024-01-0{number}'" for number in numbers) + ")"


def sealed_specs(project: Project, table: str) -> dict[str, Spec]:
    """Return the sealed spec of each partition, which must equal its descriptor; PLAIN for an unsealed partition."""
    rows = project.rows(f"select * from bucket_specs('{project.schema}.{table}')")
    found: dict[str, Spec] = {}
    for row in rows:
        name = row.partition.removeprefix("ds=2024-01-0").removeprefix("month=2013-")
        described = (row.descriptor_num_buckets, row.descriptor_bucket_columns, row.descriptor_sort_columns)
        assert row.status in ("sealed", "not-sealed"), row
        found[name] = PLAIN
        if row.status == "sealed":
            assert described == (row.num_buckets, row.bucket_columns, row.sort_columns), row.partition
            found[name] = (row.num_buckets, tuple(row.bucket_columns), tuple(row.sort_columns))
    return found


def source(project: Project) -> Project:
    project.model("rows", SOURCE, materialized="view", event_time="ds")
    return project


def files_of(project: Project, table: str) -> dict[str, set[tuple[str, int]]]:
    """Return the files of each partition with their modification times."""
    found: dict[str, set[tuple[str, int]]] = {}
    for path in project.files(table):
        changed = (project.location(table) / path).stat().st_mtime_ns
        found.setdefault(path.parent.name.removeprefix("ds=2024-01-0"), set()).add((path.name, changed))
    return found


def assert_files_match_seals(project: Project, table: str) -> None:
    """Check that each partition's files have the names and rows that its seal requires, one file per bucket."""
    for row in project.rows(f"select * from bucket_specs('{project.schema}.{table}')"):
        files = [path.name for path in project.files(table) if path.parent.name == row.partition]
        ids = [int(found[1]) for file in files if (found := re.match(r"(\d+)_\d+_part", file))]
        if row.status == "not-sealed":
            assert not ids, f"{row.partition} has files with bucket ids"
            continue
        assert files and row.status == "sealed", row
        assert len(ids) == len(files) == len(set(ids)) and max(ids) < row.num_buckets, (row, files)
        bucket = f"hive_bucket({row.num_buckets}, {', '.join(row.bucket_columns)})"
        wrong = project.rows(
            f"select count(*) from {project.table(table)} where input_file_name() like '%/{row.partition}/%' and {bucket} <> "
            "cast(regexp_extract(input_file_name(), '/(\\\\d+)_[^/]*$', 1) as int)"
        )
        assert wrong[0][0] == 0, row


def alterations(sent: list[str]) -> list[str]:
    return [statement for statement in sent if "clustered" in statement.lower() and statement.startswith("alter")]


# The kind of the initial table, and the strategy.
QUICK = ["plain_insert_overwrite"]
OTHERS = sorted({f"{before}_{strategy}" for before in ("bucketed", "plain") for strategy in STRATEGIES} - {*QUICK})


class History:
    """Tables that every strategy writes with changing specs, and the observations after each run."""

    def __init__(self, project: Project, cases: list[str]) -> None:
        self.project, self.cases = project, cases
        self.records: list[dict[str, dict[str, Spec]]] = []
        self.files: list[dict[str, dict[str, set[tuple[str, int]]]]] = []
        self.rows: list[dict[str, list[tuple[object, ...]]]] = []
        self.sent: list[list[str]] = []

    def configure(self, buckets: int, *, first: bool = False, **config: Any) -> None:
        for case in self.cases:
            before, strategy = case.split("_", 1)
            if before == "plain" and first:
                self.project.model(
                    case, ROWS, materialized="incremental", file_format="parquet", partition_by=["ds"],
                    incremental_strategy="insert_overwrite",
                )  # fmt: skip
            else:
                self.project.model(case, ROWS, **EVOLVING | STRATEGIES[strategy] | {"buckets": buckets} | config)

    def run(self, *numbers: int) -> None:
        first, last = min(numbers or [1]), max(numbers or [3]) + 1
        batches = ("--event-time-start", f"2024-01-0{first}", "--event-time-end", f"2024-01-0{last}")
        with statements() as sent:
            self.project.dbt("run", *batches, run=len(self.sent), days=days(*numbers))
        self.sent.append(sent)
        self.records.append({case: sealed_specs(self.project, case) for case in self.cases})
        self.files.append({case: files_of(self.project, case) for case in self.cases})
        self.rows.append({case: content(self.project, ALL.format(case), case) for case in self.cases})


@pytest.fixture(scope="module", params=[QUICK, pytest.param(OTHERS, marks=pytest.mark.long)], ids=["quick", "others"])
def history(request: pytest.FixtureRequest, new_project: Callable[..., Project]) -> Iterator[History]:
    history = History(source(new_project()), request.param)
    with setting(history.project.spark, "spark.bucketing.enabled", "true"):
        history.configure(4, first=True)
        history.run()
        history.configure(8)
        history.run(2, 4)
        history.run(4)
        history.configure(4, sorted_by=["k", "v"])
        history.run(3)
        yield history


def test_written_partitions_get_the_new_spec_and_others_keep_theirs(history: History) -> None:
    for case in history.cases:
        first = spec(4) if case.startswith("bucketed") else PLAIN
        last: Spec = (4, ("k",), ("k", "v"))
        expected = [
            {"1": first, "2": first, "3": first},
            {"1": first, "2": spec(8), "3": first, "4": spec(8)},
            {"1": first, "2": spec(8), "3": first, "4": spec(8)},
            {"1": first, "2": spec(8), "3": last, "4": spec(8)},
        ]
        assert [after[case] for after in history.records] == expected


def test_partitions_without_new_rows_are_not_rewritten(history: History) -> None:
    for case in history.cases:
        first, second, third, fourth = (after[case] for after in history.files)
        assert second["1"] == first["1"] == fourth["1"]
        assert third["2"] == second["2"] == fourth["2"]
        assert fourth["4"] == third["4"]
        assert not second["2"] & first["2"], "every file in the written partition must be new"


def test_no_row_is_lost_or_duplicated(history: History) -> None:
    for case in history.cases:
        project, strategy = history.project, case.split("_", 1)[1]
        rows: dict[tuple[int, int, int], str] = {}
        counter = 0
        for k in range(60):
            rows[k, k % 3 + 1, 0] = "first"
        for run, numbers in ((1, (2, 4)), (2, (4,)), (3, (3,))):
            for day in numbers:
                if strategy in ("insert_overwrite", "microbatch"):
                    rows = {key: v for key, v in rows.items() if key[1] != day}
                for k in range(5, 17):
                    counter += 1
                    rows[k, day, 0 if strategy == "merge" else counter] = f"run {run}"
        expected = sorted((str(k), v, f"2024-01-0{day}") for (k, day, _), v in rows.items())
        assert history.rows[-1][case] == expected
        with setting(project.spark, "spark.bucketing.enabled", "false"):
            assert content(project, ALL.format(case), case) == expected


def test_files_match_their_seals(history: History) -> None:
    for case in history.cases:
        assert_files_match_seals(history.project, case)


def test_table_is_altered_once_per_spec_change(history: History) -> None:
    assert [len(alterations(sent)) for sent in history.sent] == [0, len(history.cases), 0, len(history.cases)]
    assert all(" partition " not in statement for sent in history.sent for statement in alterations(sent))
    assert {history.project.detail(case, "Provider") for case in history.cases} == {"hive"}


# The following tests combine the spec change with other model configs.

SECOND_COLUMNS = {
    "append_new_columns": "select 7L as k, 'x' as v, 5L as w, date'2024-01-02' as ds",
    "sync_all_columns": "select 7L as k, 5L as w, date'2024-01-02' as ds",
}


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_columns_and_buckets_may_change_together(new_project: Callable[..., Project]) -> None:
    project = source(new_project())
    names = [f"{before}_{mode}" for before in ("bucketed", "plain") for mode in SECOND_COLUMNS]
    for name in names:
        config = EVOLVING | {"buckets": 4, "on_schema_change": name.split("_", 1)[1]}
        plain = {"materialized": "incremental", "file_format": "parquet", "partition_by": ["ds"]}
        project.model(name, ROWS, **(plain if name.startswith("plain") else config))
    project.dbt("run", run=0, days=days())
    for name in names:
        mode = name.split("_", 1)[1]
        sql = f"{{% if is_incremental() %}}{SECOND_COLUMNS[mode]}{{% else %}}select 1{{% endif %}}"
        # The new column is the new bucket column.
        project.model(name, sql, **EVOLVING | {"buckets": 8, "clustered_by": ["w"], "on_schema_change": mode})
    project.dbt("run", run=1, days=days())
    for name in names:
        assert project.rows(f"select count(*), count(w) from {project.table(name)}")[0][:] == (61, 1)
        old = spec(4) if name.startswith("bucketed") else PLAIN
        # Removed columns must disappear from every file, so dbt rewrites the whole table.
        others = old if name.endswith("append_new_columns") else spec(8, "w")
        assert sealed_specs(project, name) == {"1": others, "2": spec(8, "w"), "3": others}
        assert_files_match_seals(project, name)


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_other_features_work_while_specs_change(project: Project) -> None:
    """Cover upper-case names, special values, comments, a contract, --empty, full refresh and a reverted spec."""
    sql = """
        select cast(id as bigint) as Key, cast(id as string) as v, array('a b', 'c%d', 'e+f', null, "x'/y")[id % 5] as `Day`
        from {{ ref('numbers') }} {% if is_incremental() %}where id % 5 <> 1{% endif %}"""
    project.model("numbers", "select id from range(40)", materialized="view")
    columns = [{"name": "Key", "data_type": "bigint", "description": "the key"}, {"name": "v", "data_type": "string"}]
    columns.append({"name": "Day", "data_type": "string"})
    project.describe({"name": "m", "columns": columns, "config": {"contract": {"enforced": True}}})
    base = EVOLVING | {"clustered_by": ["key"], "partition_by": ["day"], "on_schema_change": "fail"}
    base |= {"persist_docs": {"relation": True, "columns": True}}
    project.build(sql, **base | {"materialized": "incremental", "file_format": "parquet"})
    for buckets in (4, 8, 4):
        project.build(sql, **base, buckets=buckets)
        found = {row.partition: row.num_buckets for row in project.rows("select * from bucket_specs('{schema}.m')")}
        assert found.pop("day=c%25d") is None, "a partition that was not written must not be sealed"
        assert list(found.values()) == [buckets] * 4, found
        assert project.detail("m", "Num Buckets") == str(buckets)
    project.model("m", sql, **base, buckets=16)
    project.dbt("run", "--empty")
    assert project.detail("m", "Num Buckets") == "16"
    assert {row.num_buckets for row in project.rows("select * from bucket_specs('{schema}.m')")} == {None, 4}
    comments = {row.col_name.lower(): row.comment for row in project.rows("describe {schema}.m")}
    assert comments["key"] == "the key"
    project.dbt("run", "--full-refresh")
    assert {row.num_buckets for row in project.rows("select * from bucket_specs('{schema}.m')")} == {16}
    assert_one_file_per_bucket(project, "m", "hive", 16)
    assert project.tables() == {"m", "numbers"}


# Changes that `evolve` refuses for an existing table: (config of the first run, changes, parts of the message).
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "format": ({"buckets": 4}, {"file_format": "orc"}, ["parquet, partitioned by (ds)", "file_format=orc"]),
    "partitions": ({"buckets": 4}, {"partition_by": ["v"]}, ["partitioned by (ds)", "partition_by=[v]"]),
    "spark_layout": (
        {"buckets": 4, "bucket_hash": "spark", "on_bucket_change": "fail"}, {"bucket_hash": "hive"},
        ["spark layout", "the same number of buckets"],
    ),
    "unpartitioned": ({"buckets": 4, "partition_by": [], "on_bucket_change": "fail"}, {}, ["partition_by=[ds]"]),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_other_layout_changes_do_not_evolve(new_project: Callable[..., Project]) -> None:
    project = source(new_project())
    for name, (first, _, _) in REFUSED.items():
        project.model(name, ROWS, **EVOLVING | first)
    project.dbt("run", run=0, days=days())
    before = {name: files_of(project, name) for name in REFUSED}
    for name, (_, change, _) in REFUSED.items():
        project.model(name, ROWS, **EVOLVING | {"buckets": 8} | change)
    with statements() as sent:
        results, _ = project.attempt("run", run=1, days=days(1))
    for name, (_, _, parts) in REFUSED.items():
        message = str(results[name].message)
        title = f"Model `{name}` has an invalid `on_bucket_change`"
        for part in [title, "found:    evolve", "on_bucket_change='rebuild'", *parts]:
            assert part in message, message
        assert files_of(project, name) == before[name]
    assert not alterations(sent) and not [statement for statement in sent if "insert" in statement]
    assert project.tables() == {*REFUSED, "rows"}


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_unsupported_session_fails_before_anything_changes(project: Project) -> None:
    spark = source(project).spark
    evolving = EVOLVING | {"incremental_strategy": "insert_overwrite"}
    project.model("m", ROWS, **evolving, buckets=4)
    project.dbt("run", run=0, days=days())
    project.model("m", ROWS, **evolving, buckets=8)
    before = files_of(project, "m")

    def refused(*parts: str) -> None:
        with statements() as sent, pytest.raises(Failed) as failure:
            project.dbt("run", run=1, days=days(1))
        for part in ["Model `m` has an invalid `on_bucket_change`", "expected: the session extension, enabled", *parts]:
            assert part in str(failure.value), failure.value
        assert not [statement for statement in sent if statement.startswith(("alter", "insert"))]
        assert files_of(project, "m") == before and project.tables() == {"m", "rows"}

    with setting(spark, "spark.bucketing.enabled", "false"):
        refused("evolve, in a session with spark.bucketing.enabled=false", "set spark.bucketing.enabled=true")

    with no_extension(spark):
        refused("evolve, in a session without the session extension", "spark-bucketing extension conf", "'rebuild'")
        spark.sql("create temporary function bucket_specs as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'")
        try:
            refused("another function has the name `bucket_specs`", "GenericUDFHash", "drop or rename that function")
        finally:
            spark.sql("drop temporary function bucket_specs")
        # A full refresh rebuilds all partitions, so it does not need the extension.
        project.dbt("run", "--full-refresh", run=1, days=days(1))
    assert sealed_specs(project, "m") == {"1": spec(8)}
    assert project.detail("m", "Num Buckets") == "8"
