"""Tests of INSERT OVERWRITE as a replacement of files: the same rows as Spark's own, errors, concurrent statements, and crashes."""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from bucketed_tables import Tables
from local_files import while_held
from organized import begin
from pyspark.errors import AnalysisException
from statement_cases import read, run_steps

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

ATOMIC = "spark.bucketing.write.atomic"
BUCKETS = "clustered by (k) sorted by (k) into 3 buckets"
ORGANIZED = """tblproperties ('bucketing.range_by'='["k"]', 'bucketing.rows_per_file'='10')"""
OPTIONS = "options ('partitionOverwriteMode'='dynamic')"
# The columns and the storage of each table.
TABLES = {
    "partitioned": f"(k int, v string) partitioned by (p string) {BUCKETS} stored as parquet",
    "orc": f"(k int, v string) partitioned by (p string) {BUCKETS} stored as orc",
    "version 2": f"(k int, v string) partitioned by (p string) {BUCKETS} stored as parquet tblproperties ('bucketing_version'='2')",
    "typed": f"(k int, v string) partitioned by (p date, q int) {BUCKETS} stored as parquet",
    "mixed case": f"(k int, V string) partitioned by (P string, aB int) {BUCKETS} stored as parquet",
    "whole": f"(k int, v string, p string) {BUCKETS} stored as parquet",
    "organized": f"(k int, v string, p string) using parquet {OPTIONS} partitioned by (p) {ORGANIZED}",
    "organized whole": f"(k int, v string, p string) using parquet {ORGANIZED}",
    "spark layout": f"(k int, v string, p string) using parquet partitioned by (p) {BUCKETS}",
    "underscore": f"(k int, v string) partitioned by (p string, `_q` int) {BUCKETS} stored as parquet",
    "organized underscore": f"(k int, v string, `_p` string) using parquet partitioned by (`_p`) {ORGANIZED}",
    "organized static": f"(k int, v string, p string, q string) using parquet partitioned by (p, q) {ORGANIZED}",
}
ROWS = "select /*+ repartition(4) */ cast(id as int) as k, cast(id as string) as v, concat('p', id % 3) as p from range(60)"
CASES = [
    pytest.param(of, case["statements"], marks=[] if case.get("quick") == of else pytest.mark.long)
    for case in read("overwrites")
    for of in case["of"]
]


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    """Create the view `rows`, and the table `kept`, which no test changes."""
    tables.sql(f"create or replace temporary view rows as {ROWS}")
    with tables.settings({"spark.bucketing.enabled": "true", "hive.exec.dynamic.partition.mode": "nonstrict"}):
        create(tables, "kept", "partitioned")
    return tables


def create(tables: Tables, name: str, of: str) -> None:
    tables.create(f"{name} {TABLES[of]}")
    if of == "organized static":
        tables.sql(f"insert into {name} select k, v, p, concat('q', k % 2) from rows")
    elif of not in ("typed", "mixed case", "underscore", "organized underscore"):
        tables.sql(f"insert into {name} select k, v, p from rows")


def contents(tables: Tables, name: str, of: str) -> tuple[object, object]:
    rows = sorted(tables.sql(f"select * from {name}"), key=str)
    assert name == "stock" or sorted(tables.sql(f"stock:select * from {name}"), key=str) == rows
    partitions = [] if "whole" in of else sorted(tables.sql(f"show partitions {name}"))
    return rows, partitions


@pytest.mark.parametrize(("of", "statements"), CASES)
def test_rows_are_those_of_sparks_own_overwrite(tables: Tables, tmp_path: Path, of: str, statements: list[str]) -> None:
    names = {"atomic": "true", "stock": "false"}
    for name, value in names.items():
        with tables.settings({ATOMIC: value}):
            create(tables, name, of)
    for statement in statements:
        for name, value in names.items():
            with tables.settings({ATOMIC: value}):
                tables.sql(statement.format(t=name, elsewhere=tmp_path / name))
        assert contents(tables, "atomic", of) == contents(tables, "stock", of), statement
    assert replacements(tables, "atomic") and not replacements(tables, "stock")
    if "organized" not in of:
        assert {status for _, status in statuses(tables, "atomic")} <= {"sealed", "empty"}
        assert {status for _, status in statuses(tables, "stock")} <= {"not-sealed", "empty"}


def statuses(tables: Tables, name: str) -> list[tuple[object, ...]]:
    return tables.sql(f"select partition, status from bucket_specs('{name}')")


STATIC_MODE = (
    "insert overwrite shared select /*+ partition_overwrite_mode('static') */ k, 'new', p from rows where p = 'p1'"
)


@pytest.mark.parametrize(
    ("of", "statement"),
    [
        ("partitioned", STATIC_MODE),
        ("organized", STATIC_MODE),
        ("spark layout", STATIC_MODE),
        ("partitioned", STATIC_MODE.replace("shared", "shared with rows as (select * from rows)")),
        ("partitioned", f"{STATIC_MODE} order by k limit 20"),
        ("partitioned", f"with x as (select 1) {STATIC_MODE}"),
        ("partitioned", STATIC_MODE.replace("/*+ ", "/*+ repartition(2), ")),
    ],
)
@pytest.mark.some(1)
def test_hint_replaces_all_partitions(tables: Tables, of: str, statement: str) -> None:
    create(tables, "shared", of)
    replaced = {
        "select p, v, count(*) from shared group by p, v": [("p1", "new", 20)],
        "show partitions shared": ["p=p1"],
    }
    run_steps(tables, {statement: None, **replaced}, "shared")


@pytest.mark.parametrize("key", [ATOMIC, "spark.bucketing.enabled"])
def test_hint_is_an_error_if_spark_would_run_the_statement(tables: Tables, key: str) -> None:
    with tables.settings({key: "false"}):
        message = r"Cannot overwrite `kept`.\n.*PARTITION_OVERWRITE_MODE"
        run_steps(tables, {STATIC_MODE.replace("shared", "kept"): message}, "kept")


OTHERS = {
    "jdbc": "create table other using jdbc options (url '{url}', dbtable 'other')",
    "jdbc view": "create temporary view other using jdbc options (url '{url}', dbtable 'other')",
    "v1 view": "create temporary view other (k int, v string, p string) using parquet options (path '{path}')",
    "parquet": "create table other (k int, v string, p string) using parquet",
    "text": "create table other (k int, v string, p string) stored as textfile",
}
BOTH = "insert overwrite {} select /*+ replace_only('k > 0'), partition_overwrite_mode('static') */ k, v, p from rows"


@pytest.mark.parametrize("source", OTHERS)
@pytest.mark.some(1)
def test_hint_is_an_error_for_a_table_of_another_source(tables: Tables, tmp_path: Path, source: str) -> None:
    """Also checks that the table keeps its rows: the command for JDBC tables removes them before it plans the query."""
    tables.sql("drop view if exists other")
    tables.sql("drop table if exists other")
    url = "jdbc:derby:memory:other;create=true"
    rows = tables.spark.sql("select 1 as k, 'a' as v, 'p1' as p")
    rows.write.jdbc(url, "other", mode="overwrite")
    rows.write.parquet(str(tmp_path / "other"))
    tables.sql(OTHERS[source].format(url=url, path=tmp_path / "other"))
    if source in ("parquet", "text"):
        tables.sql("insert into other values (1, 'a', 'p1')")
    for prefix in ("", "stock:"):
        with pytest.raises(Exception, match=r"Cannot overwrite `other`.\n.*PARTITION_OVERWRITE_MODE"):
            tables.sql(prefix + BOTH.format("other"))
        assert tables.sql(f"{prefix}select * from other") == [(1, "a", "p1")]
    # The hints are the only reason of the error.
    for prefix in ("", "stock:"):
        tables.sql(prefix + BOTH.format("other").replace("/*+", "/*"))
        assert tables.sql(f"{prefix}select count(*) from other") == [(60,)]
    tables.sql("drop view if exists other" if "view" in source else "drop table other")


def only(condition: str, partitions: str) -> str:
    return f"""insert overwrite shared select /*+ replace_only("{condition}") */ k + 1000, v, p from rows where {partitions}"""


@pytest.mark.parametrize("of", ["partitioned", "organized", "whole"])
@pytest.mark.some(1)
def test_rows_are_replaced_only_if_they_meet_the_condition(tables: Tables, of: str) -> None:
    """NULL counts as true, and the statement replaces no rows of other partitions."""
    create(tables, "shared", of)
    fine = "nullif(v is null, false)" if of == "whole" else "nullif(p = 'p1', true)"
    steps = {
        only("p <=> 'p1' and k % 2 = k % 4", "p = 'p1'"): r"an old row.*, for which .*% 2.* is false",
        only("if(k >= 1000, true, raise_error(concat('boom at ', p)) is null)", "p = 'p1'"): "boom at p",
        only(fine, "p = 'p1' or p is null"): None,
        "select min(k) >= 1000 from shared where p = 'p1' or p is null": True,
    }
    run_steps(tables, steps, "shared")


OF_MODE, OF_CONDITION = (f"Cannot parse the hint `{name}`" for name in ("PARTITION_OVERWRITE_MODE", "REPLACE_ONLY"))
IGNORED = "Cannot apply the hint"
INSERT = "insert overwrite kept select /*+ {} */ k, v, p from rows"
# Statements with hints, and their errors.
WRONG = [
    (INSERT.replace("overwrite", "into").format("partition_overwrite_mode('static')"), OF_MODE),
    (INSERT.format("partition_overwrite_mode('dynamic')"), OF_MODE),
    (INSERT.format("partition_overwrite_mode"), OF_MODE),
    (INSERT.format("partition_overwrite_mode(static)"), OF_MODE),
    (INSERT.replace("overwrite", "into").format("replace_only('k > 0')"), OF_CONDITION),
    (INSERT.format("replace_only"), OF_CONDITION),
    (INSERT.format("replace_only('k >')"), f"{OF_CONDITION}|PARSE_SYNTAX_ERROR"),
    (INSERT.format("replace_only('k > 0', 'k < 9')"), OF_CONDITION),
    (INSERT.format("replace_only('k > 0'), replace_only('k < 9')"), OF_CONDITION),
    (INSERT.format("replace_only(k > 0)"), f"{OF_CONDITION}|PARSE_SYNTAX_ERROR"),
    (INSERT.format("replace_only(k)"), OF_CONDITION),
    (INSERT.format("replace_only(1)"), OF_CONDITION),
    ("insert overwrite kept with c as (select /*+ replace_only('k > 0') */ * from rows) select k, v, p from c", IGNORED),
    ("insert overwrite kept select k, v, p from rows where k in (select /*+ replace_only('k > 0') */ k from rows)", IGNORED),
    ("with c as (select /*+ partition_overwrite_mode('static') */ * from rows) insert overwrite kept select k, v, p from c", IGNORED),
    ("select /*+ replace_only('k > 0') */ * from kept", IGNORED),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), WRONG)
@pytest.mark.some(6)
def test_wrong_or_ignored_hint_is_an_error(tables: Tables, statement: str, message: str) -> None:
    run_steps(tables, {statement: message}, "kept")


NO_VALUE = "insert overwrite kept partition (p) select k, if(k = 50, raise_error('no value'), v), p from rows"


def test_failed_query_changes_nothing(tables: Tables) -> None:
    records = replacements(tables, "kept")
    run_steps(tables, {NO_VALUE: "no value"}, "kept")
    assert not [*tables.folder("kept").glob("_replaced/*/files")] and replacements(tables, "kept") == records


NEW = "insert overwrite shared partition (p = 'p1') select 1, 'new'"
IS_NEW: dict[str, Any] = {NEW: None, "select k, v from shared where p = 'p1'": [(1, "new")]}
STATEMENTS: dict[str, dict[str, Any]] = {
    "both hints": {
        BOTH.format("shared"): r"an old row.*, for which .*k > 0.* is false",
        f"{BOTH.format('shared').replace('k > 0', 'k >= 0')} where p = 'p1'": None,
        "select p, count(*) from shared group by p": [("p1", 20)],
    },
    "explained": {f"explain {STATIC_MODE}": "InsertIntoHadoopFsRelationCommand"},
    "cached table": {"cache table shared": None, **IS_NEW, "uncache table shared": None},
    "two partitions in a directory": {
        "alter table shared partition (p = 'p1') set location '{folder}'": None,
        "alter table shared partition (p = 'p2') set location '{folder}'": None,
        NEW: "2 partitions in the directory",
    },
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_have_these_results(tables: Tables, tmp_path: Path, name: str) -> None:
    create(tables, "shared", "partitioned")
    steps = {statement.replace("{folder}", str(tmp_path)): result for statement, result in STATEMENTS[name].items()}
    run_steps(tables, steps, "shared")


def test_partitions_on_another_file_system_are_not_overwritten(tables: Tables, tmp_path: Path) -> None:
    create(tables, "shared", "partitioned")
    tables.sql("alter table shared partition (p = 'p1') set location 'elsewhere://host/p1'")
    try:
        with pytest.raises(AnalysisException, match="found:    a partition in elsewhere://host/p1"):
            tables.sql(NEW)
    finally:
        tables.sql(f"alter table shared partition (p = 'p1') set location '{tmp_path}'")


def test_files_that_are_no_partition_are_not_replaced_unchecked(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    shutil.copytree(tables.folder("shared") / "p=p1", tables.folder("shared") / "p=p9")
    steps = {
        "insert overwrite shared select /*+ replace_only('k < 0') */ k, v, 'p9' from rows": "which is not a partition of the table",
        "insert overwrite shared select k, v, 'p9' from rows": None,
        "select count(*) from shared where p = 'p9'": 60,
    }
    run_steps(tables, steps, "shared")


def replacements(tables: Tables, name: str) -> list[Path]:
    return list((tables.folder(name) / "_replaced").glob("*/outcome"))


@pytest.mark.long
def test_statements_overwrite_different_partitions_at_the_same_time(tables: Tables) -> None:
    turns = 30
    create(tables, "shared", "partitioned")
    table = f"{tables.database}.shared"

    def overwrite(number: int) -> None:
        statement = (
            f"insert overwrite {table} partition (p = 'p{number}') select cast(id as int), '{{}}' from range(20)"
        )
        mine = tables.new_session()
        for turn in range(turns):
            mine.sql(statement.format(turn)).collect()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(overwrite, range(4)))
    tables.sql("refresh table shared")
    assert tables.sql("select p, v, count(*) from shared group by p, v order by p") == [
        (f"p{n}", str(turns - 1), 20) for n in range(4)
    ]
    assert {row[1] for row in statuses(tables, "shared")} == {"sealed"}
    assert not [*tables.folder("shared").glob("_replaced/*/files")]


CHANGES = {
    "update": ("update shared set v = 'changed'", {"changed"}),
    "insert": ("insert into shared select k, 'changed', p from rows", {"changed", *(str(n) for n in range(60))}),
}


@pytest.mark.parametrize(
    ("source", "change"), [("the table", "update"), ("the table", "insert"), ("other rows", "update")]
)
@pytest.mark.some(1)
def test_no_change_of_another_session_is_lost(tables: Tables, source: str, change: str) -> None:
    """Another session changes rows of a partition while a statement writes new files for it."""
    statement, expected = CHANGES[change]
    create(tables, "shared", "partitioned")
    table = f"{tables.database}.shared"
    query = f"select k, 'new', p from {table} where p = 'p1'" if source == "the table" else "select 1, 'new', 'p1'"
    overwrite = f"insert overwrite {table} partition (p) {query}"
    refused = pytest.raises(AnalysisException, match="run it again") if source == "the table" else nullcontext()
    writes = ".*/_replaced/[^/]*/files/_temporary/.*"
    with refused, while_held(tables.spark, writes, tables.new_session().sql, overwrite):
        tables.sql(statement)
    tables.sql("refresh table shared")
    values = defaultdict[object, set[object]](set)
    for partition, value in tables.sql("select distinct p, v from shared"):
        values[partition].add(value)
    if source == "the table":
        assert set().union(*values.values()) == expected and len(tables.sql("select * from shared")) >= 60
    else:
        assert values == {"p0": {"changed"}, "p1": {"new"}, "p2": {"changed"}}


def test_update_waits_for_a_running_overwrite(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    table, moves = f"{tables.database}.shared", "rename .*/_replaced/[^/]*/files/p=p1/.*"
    overwrite = f"insert overwrite {table} partition (p = 'p1') select 1, 'new'"
    with ThreadPoolExecutor(1) as pool:
        with while_held(tables.spark, moves, tables.new_session().sql, overwrite) as overwriting:
            update = f"update {table} set v = 'changed' where p = 'p0'"
            updating = pool.submit(tables.new_session().sql, update)
            time.sleep(2)
            assert not updating.done() and not overwriting.done()
        updating.result()
    tables.sql("refresh table shared")
    assert tables.sql("select distinct v from shared where p in ('p0', 'p1') order by v") == [("changed",), ("new",)]


def test_partition_that_is_dropped_while_empty_gets_its_rows(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    tables.sql("alter table shared add partition (p = 'empty')")
    moves, overwrite = (
        "rename .*/_replaced/[^/]*/files/p=empty/.*",
        "insert overwrite shared values (1, 'new', 'empty')",
    )
    with while_held(tables.spark, moves, tables.new_session().sql, overwrite):
        tables.sql("alter table shared drop partition (p = 'empty')")
    tables.sql("refresh table shared")
    assert tables.sql("select k, v from shared where p = 'empty'") == [(1, "new")]


def test_files_of_a_dropped_partition_are_replaced(tables: Tables, tmp_path: Path) -> None:
    """DROP PARTITION keeps the files of an external table. Like Spark's own statement, an overwrite of the partition replaces them."""
    tables.create(f"shared {TABLES['partitioned']} location '{tmp_path}'")
    tables.sql("insert into shared select k, v, p from rows")
    tables.sql("alter table shared drop partition (p = 'p1')")
    assert list((tmp_path / "p=p1").glob("*part-*"))
    run_steps(tables, IS_NEW, "shared")


def test_new_files_of_crashed_statements_are_deleted(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    folder = tables.folder("shared") / "_replaced"
    running, crashed = (folder / f"20990101000000000000-{number}" for number in range(2))
    for path in (running, crashed):
        (path / "files").mkdir(parents=True)
        (path / "begun").write_text("")
    os.utime(crashed / "begun", (0, time.time() - 120))
    tables.sql(NEW)
    assert running.exists() and not crashed.exists()


def test_crashed_replacement_is_undone_before_the_next_overwrite(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    added = "p=p1/00000_0_part-crashed.c000"
    record = begin(tables.folder("shared"), "20260101000000000000-0", added=[added])
    os.utime(record / "started", (0, time.time() - 120))
    (tables.folder("shared") / added).write_text("incomplete")
    run_steps(tables, IS_NEW, "shared")
    assert not (tables.folder("shared") / added).exists()
