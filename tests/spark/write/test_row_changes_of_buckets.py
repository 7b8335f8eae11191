"""Tests of MERGE INTO, UPDATE and DELETE on bucketed tables: which files they replace, and what their plans read."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

import pytest
from bucketed_tables import Tables, last_stage, stages_after
from crashes import statements
from local_files import while_held
from pyspark.errors import PySparkException

from conftest import Project, all_long_but, data_files

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast", "dynamic_partitions")
ROWS = "select id as k, cast(id % 7 as int) as v, concat('p', id % 3) as ds from range(90)"
# Hive's buckets of a bigint below 2^31 are its remainders.
FORMATS = {f"{stored}-{by or 'whole'}": (stored, by) for stored, by in product(["parquet", "orc"], ["", "ds"])}


def make(tables: Tables, by: str, stored: str = "stored as parquet", buckets: int = 4, rows: str = ROWS) -> None:
    """Create the table t, partitioned by `ds` if `by` is not empty."""
    columns, rest = ("k bigint, v int", "partitioned by (ds string)") if by else ("k bigint, v int, ds string", "")
    tables.make("t", columns, "k", buckets, rows, rest=rest, stored=stored)


@pytest.fixture(params=all_long_but("parquet-ds", FORMATS), autouse=True)
def table(tables: Tables, request: pytest.FixtureRequest) -> str:
    stored, by = FORMATS[request.param]
    make(tables, by, f"stored as {stored}")
    return by


def changed(tables: Tables, statement: str) -> tuple[list[str], list[str], object]:
    """Run a statement; return the directories and buckets of old and of new files, and the number of changed rows."""
    before = set(tables.files("t"))
    number = tables.sql(statement)[0][0]
    after = set(tables.files("t"))

    def places(files: set[Path]) -> list[str]:
        return sorted(f"{path.parent.name} {path.name[:5]}" for path in files)

    return places(before - after), places(after - before), number


def assert_sealed(tables: Tables) -> None:
    found = tables.sql(f"select distinct status, max_files_per_bucket from bucket_specs('{tables.database}.t')")
    assert found == [("sealed", 1)]
    plan = tables.read("select a.k, a.v, b.v from t a join t b on a.k = b.k")
    assert "Exchange" not in str(plan) and "Sort [" not in str(plan)


def test_statement_replaces_only_the_touched_buckets(tables: Tables, table: str) -> None:
    folder = "ds=p1" if table else "t"
    old, new, number = changed(tables, "update t set v = v + 100 where k in (1, 13) and ds = 'p1'")
    assert (old, new, number) == ([f"{folder} 00001"], [f"{folder} 00001"], 2)
    assert_sealed(tables)
    # A new key moves the row to another bucket, and a new partition gets a directory.
    old, new, number = changed(tables, "update t set k = 200 where k = 1")
    both = [f"{folder} 00000", f"{folder} 00001"]
    assert (old, new, number) == (both, both, 1)
    source = "select 13L as k, -1 as v, 'p1' as ds union all select 14L, -1, 'new'"
    old, new, number = changed(
        tables,
        f"merge into t using ({source}) as s on t.k = s.k and t.ds = s.ds when matched then update set * when not matched then insert *",
    )
    expected = ["ds=new 00002", "ds=p1 00001"] if table else ["t 00001", "t 00002"]
    assert (new, number) == (expected, 2)
    assert_sealed(tables)
    assert tables.sql("select sum(v) from t where k in (13, 14, 200)") == [(-2 + 0 + 100 + 1,)]


def test_delete_of_partitions_writes_nothing(tables: Tables, table: str) -> None:
    old, new, number = changed(tables, "delete from t where DS in ('p0', 'p2')")
    assert number == 60 and len(old) == (8 if table else 4) and len(new) == (0 if table else 4)
    assert tables.sql("select distinct ds from t") == [("p1",)]
    if table:
        assert tables.sql("show partitions t") == [("ds=p1",)]
    assert_sealed(tables)


def test_partition_without_a_valid_seal_is_rewritten_whole(tables: Tables, table: str) -> None:
    tables.fill("t", "select 300L as k, 5 as v, 'p1' as ds union all select 301L, 6, 'p1'", sealed=False)
    old, new, _ = changed(tables, "update t set v = 0 where k = 300")
    assert len(new) == 4 and len(old) == 6
    assert_sealed(tables)
    assert tables.sql("select k, v from t where k >= 300 order by k") == [(300, 0), (301, 6)]


def test_merge_reads_the_buckets_of_the_table_without_a_shuffle(tables: Tables) -> None:
    merge = "merge into t using (select id + 80 as k, 1 as v, 'p1' as ds from range(20)) as s on t.k = s.k and t.ds = s.ds when matched then update set *"
    text = str(tables.sql(f"explain {merge}")[0][0])
    scan, source = text.split("SortMergeJoin")[1], text.split("Exchange")
    assert "Bucketed: true (4 Hive buckets" in scan and len(source) == 2, text
    assert "Range (0, 20" in source[1] and "SelectedFiles" not in source[1], text


def shuffled_rows(tables: Tables, statement: str) -> int:
    """Run a statement, and return the number of rows that its stages wrote into shuffles."""
    last = last_stage(tables.spark)
    tables.sql(statement)
    return sum(stage.shuffleWriteRecords() for stage in stages_after(tables.spark, last))


# Of more buckets, a task of a shuffle would write several.
@pytest.mark.parametrize("buckets", all_long_but(12, [4, 12, 60]))
@pytest.mark.parametrize("table", ["parquet-ds", pytest.param("orc-whole", marks=pytest.mark.long)], indirect=True)
def test_statement_writes_the_rows_of_sealed_buckets_without_a_shuffle(
    tables: Tables, table: str, buckets: int
) -> None:
    rows = "select id as k, 1 as v, concat('p', id % 3) as ds from range(1000, 11000)"
    make(tables, table, buckets=buckets, rows=rows)
    assert shuffled_rows(tables, "update t set v = v + 1") < 100
    source = "select id as k, 5 as v, concat('p', id % 3) as ds from range(10750, 11250)"
    merge = f"""merge into t using ({source}) as s on t.k = s.k and t.ds = s.ds
        when matched then update set * when not matched then insert *"""
    # Spark shuffles the 500 rows of the source for their join with the table, and the inserted rows, but not the 10,000 rows of the table.
    assert (merged := shuffled_rows(tables, merge)) < 3000, merged
    assert_sealed(tables)
    assert tables.sql("select v, count(*) from t group by v order by v") == [(2, 9750), (5, 500)]
    # Rows that move to other buckets are shuffled.
    assert shuffled_rows(tables, "update t set k = k + 1") >= 10_000
    assert_sealed(tables)
    assert tables.sql("select sum(k) from t") == [(sum(range(1001, 11251)),)]


@pytest.mark.parametrize("times", all_long_but(2, [2, 6]))
@pytest.mark.parametrize("table", ["parquet-ds"], indirect=True)
def test_statement_counts_the_rows_that_it_has_changed(tables: Tables, times: int) -> None:
    """The sample is different each time it is read."""
    tables.sql("create or replace temporary view sampled as select id from range(0, 90, 1, 9)")

    def sum_of_values() -> int:
        return int(str(tables.sql("select sum(v) from t")[0][0]))

    sample = "select id from sampled tablesample (10 percent)"
    for _ in range(times):
        before, reported, errors = sum_of_values(), 0, ""
        try:
            reported = int(str(tables.sql(f"update t set v = v + 1 where k in ({sample})")[0][0]))
        except PySparkException as error:
            errors = str(error)
        assert sum_of_values() == before + reported
        assert not errors or "changed rows" in errors


def test_seal_completes_an_interrupted_statement(tables: Tables, table: str) -> None:
    tables.sql("update t set v = 50 where k = 1")
    (record,) = (tables.folder("t") / "_replaced").glob("2*")
    files = json.loads((record / "started").read_text())
    (removed,), (added,) = files["removed"], files["added"]
    # As after a crash: the old file still exists, and the replacement is not done.
    shutil.copy(tables.folder("t") / added, tables.folder("t") / removed)
    (record / "done").unlink()
    tables.sql("refresh table t")
    for uses_buckets in ("true", "false"):
        with tables.settings({"spark.sql.sources.bucketing.enabled": uses_buckets}):
            assert tables.sql("select count(*), sum(if(v = 50, 1, 0)) from t") == [(90, 1)]
    tables.seal("t")
    assert not (tables.folder("t") / removed).exists() and (record / "done").exists()
    assert_sealed(tables)


@pytest.mark.parametrize("table", ["orc-whole"], indirect=True)
def test_committed_statement_succeeds_even_if_old_files_stay(tables: Tables) -> None:
    """A client would repeat a failed append, and add its rows twice."""
    append = "merge into t using (select 1L as k, 60 as v, 'p1' as ds) as s on false when not matched then insert *"
    with (
        tables.settings({"spark.bucketing.write.retainOldFiles": "0s"}),
        while_held(tables.spark, "delete .*/00001_0_part.*", tables.sql, append) as statement,
    ):
        (record,) = (tables.folder("t") / "_replaced").glob("2*")
        (removed,) = json.loads((record / "started").read_text())["removed"]
        old = tables.folder("t") / removed
        content = old.read_bytes()
        old.unlink()
        (old / "file").mkdir(parents=True)
    assert statement.result()[0][0] == 1
    shutil.rmtree(old)
    old.write_bytes(content)
    tables.sql("refresh table t")
    count = "select count(*), sum(if(v = 60, 1, 0)) from t"
    assert not (record / "done").exists() and tables.sql(count) == [(91, 1)]
    tables.sql("alter table t recover files")
    assert not old.exists() and tables.sql(count) == [(91, 1)]


@pytest.mark.parametrize("table", [pytest.param("parquet-ds", marks=pytest.mark.long), "orc-whole"], indirect=True)
def test_statements_change_buckets_in_the_spark_layout(tables: Tables, table: str) -> None:
    make(tables, table, "using parquet" if table else "using orc")
    bucket = r"cast(regexp_extract(input_file_name(), '_([0-9]+)[.][^/]*$', 1) as int)"
    placed = f"stock:select pmod(hash(k), 4) = {bucket}, count(*), sum(v) from t group by 1"
    source = "select id as k, 100 as v, if(id < 100, concat('p', id % 3), 'new') as ds from range(88, 102)"
    total = sum(number % 7 for number in range(90))
    statements = [
        ("update t set v = v + 100 where k in (1, 13) and ds = 'p1'", 2, 90, total + 200),
        ("update t set k = 200 where k = 1", 1, 90, total + 200),
        ("delete from t where ds = 'p0'", 30, 60, (two := total + 200 - sum(number % 7 for number in range(0, 90, 3)))),
        (
            f"merge into t using ({source}) as s on t.k = s.k and t.ds = s.ds when matched then update set * when not matched then insert *",
            14, 72, two - 88 % 7 - 89 % 7 + 1400,
        ),
    ]  # fmt: skip
    for statement, changed_rows, number, values in statements:
        before = set(tables.files("t"))
        assert tables.sql(statement)[0][0] == changed_rows
        assert tables.sql(placed) == [(True, number, values)], statement
        assert before & set(tables.files("t")) or not table, "a statement must keep the files of other partitions"
        assert_sealed(tables)
    if table:
        with tables.settings({"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
            overwritten = len(tables.sql("select k from t where ds = 'p1'"))
            tables.sql("insert overwrite table t select k, v + 1, ds from t where ds = 'p1'")
        assert_sealed(tables)
        # The extension and stock Spark read the same rows.
        for session in ("", "stock:"):
            assert tables.sql(f"{session}select count(*), sum(v) from t") == [(number, values + overwritten)]


@pytest.mark.parametrize("table", ["parquet-ds"], indirect=True)
def test_dbt_appends_and_merges_in_place(project: Project, table: str) -> None:
    first, second = (
        "select id as k, 0 as v, id % 3 as ds from range(60)",
        "select id as k, 1 as v, 1L as ds from range(64, 66)",
    )
    for strategy in ("append", "merge"):
        config = {"incremental_strategy": strategy, "unique_key": ["k", "ds"], "partition_by": ["ds"]}
        sql = f"{{% if is_incremental() %}}{second}{{% else %}}{first}{{% endif %}}"
        project.model(strategy, sql, materialized="bucketed_incremental", clustered_by=["k"], buckets=4, **config)
    project.dbt("run")
    before = {strategy: set(data_files(project.location(strategy))) for strategy in ("append", "merge")}
    with statements() as sent:
        project.dbt("run")
    assert not [text for text in sent if "__dbt_input" in text]
    assert sum("merge into" in text for text in sent) == 2
    for strategy, files in before.items():
        new = set(data_files(project.location(strategy))) - files
        assert sorted(f"{path.parent.name} {path.name[:5]}" for path in new) == ["ds=1 00000", "ds=1 00001"], strategy
        assert project.rows(f"select count(*), sum(v) from {project.table(strategy)}") == [(62, 2)]
