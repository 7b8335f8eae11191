"""Tests of INSERT OVERWRITE as a replacement of files: the same rows as Spark's own, errors, concurrent statements, and crashes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bucketed_tables import Tables, explain
from local_files import held

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
STATEMENTS = {
    "existing and new partitions": [
        "insert overwrite {t} partition (p) select k, 'new', p from rows where p = 'p1' union all select k, 'new', 'p7' from rows",
    ],
    "strange values": [
        "insert overwrite {t} partition (p) select k, v, elt(k % 4 + 1, null, 'a/b=c %25', ' ', 'ä\"\\'') from rows",
        "insert overwrite {t} partition (p) select k + 100, v, elt(k % 2 + 1, null, 'a/b=c %25') from rows",
    ],
    "a partition by name": ["insert overwrite {t} partition (p = 'p1') select k, 'new' from rows"],
    "a new partition by name": ["insert overwrite {t} partition (p = 'p9') select k, 'new' from rows"],
    "no rows": [
        "insert overwrite {t} partition (p) select k, v, p from rows where k < 0",
        "insert overwrite {t} partition (p = 'p1') select k, v from rows where k < 0",
        "insert overwrite {t} partition (p = 'p9') select k, v from rows where k < 0",
    ],
    "NULL by name": [
        "insert overwrite {t} partition (p) select k, v, null from rows",
        "insert overwrite {t} partition (p = null) select k, 'new' from rows where k < 5",
        "insert overwrite {t} partition (p = null) select k, 'new' from rows where k < 0",
    ],
    "if not exists": [
        "insert overwrite {t} partition (p = 'p1') if not exists select k, 'new' from rows",
        "insert overwrite {t} partition (p = 'p9') if not exists select k, 'new' from rows",
    ],
    "the table itself": ["insert overwrite {t} partition (p) select k + 1, v, if(k % 2 = 0, p, 'p9') from {t}"],
    "sorted rows": ["insert overwrite {t} partition (p) select k, 'new', p from rows where p != 'p1' order by p, k desc"],
    "a partition elsewhere": [
        "alter table {t} partition (p = 'p1') set location '{elsewhere}'",
        "insert into {t} partition (p = 'p1') values (1, 'elsewhere')",
        "insert overwrite {t} partition (p) select k, 'new', p from rows",
    ],
}  # fmt: skip
SOME = ("existing and new partitions", "strange values")
WHOLE = {
    "all rows": ["insert overwrite {t} select k, 'new', p from rows"],
    "no rows": ["insert overwrite {t} select k, v, p from rows where k < 0"],
    "limited rows": [
        "insert overwrite {t} select k, 'new', p from rows limit 3",
        "insert overwrite {t} select * from rows",
    ],
}
BY_TABLE: dict[str, dict[str, list[str]]] = {
    "partitioned": STATEMENTS,
    "organized": STATEMENTS,
    **{of: {name: STATEMENTS[name] for name in SOME} for of in ("orc", "version 2")},
    "whole": WHOLE,
    "organized whole": WHOLE,
    "typed": {
        "dates and numbers": [
            "insert overwrite {t} partition (p, q) select k, v, date '2024-01-01' + k % 3, k % 2 from rows",
            "insert overwrite {t} partition (p, q) select k, 'new', date '2024-01-02', nullif(k % 3, 2) from rows",
            "insert overwrite {t} partition (p = '2024-01-02', q) select k, 'newer', 0 from rows",
            "insert overwrite {t} partition (p = date '2024-01-03', q = 1) select k, 'newest' from rows",
        ],
    },
    "underscore": {
        "underscore": [
            "insert overwrite {t} partition (p, `_q`) select k, v, p, k % 2 from rows",
            "insert overwrite {t} partition (p = 'p1', `_q` = 1) select k, 'new' from rows",
            "insert overwrite {t} partition (p, `_q`) select k, 'newer', 'p2', 0 from rows",
        ],
    },
    "organized underscore": {
        "underscore": [
            "insert overwrite {t} select k, v, p from rows",
            "insert overwrite {t} select k, 'new', 'p1' from rows",
        ],
    },
    "mixed case": {
        "mixed case": [
            "insert overwrite {t} partition (P, aB) select k, v, p, k % 2 from rows",
            "insert overwrite {t} partition (p = 'p1', ab) select k, 'new', k % 3 from rows",
            "insert overwrite {t} partition (p = 'p2', AB = 1) select k, 'newer' from rows",
        ],
    },
    "organized static": {
        "NULL and partitions without files": [
            "insert into {t} select k, v, null, null from rows",
            "alter table {t} add partition (p = 'empty', q = 'empty')",
            "insert overwrite {t} partition (p = null, q) select k, 'new', 'y' from rows where k < 5",
            "insert overwrite {t} select k, 'newer', p, 'x' from rows",
        ],
        "all partitions": ["insert overwrite {t} select k, 'new', p, 'x' from rows where p = 'p1'"],
        "partitions of a value": [
            "insert overwrite {t} partition (p = 'p1', q) select k, 'new', 'y' from rows",
            "insert overwrite {t} partition (p = 'p2', q) select k, 'new', 'y' from rows where k < 0",
        ],
    },
}
CASES = [(of, name) for of, cases in BY_TABLE.items() for name in cases]


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


QUICK = (("partitioned", "existing and new partitions"), ("organized whole", next(iter(WHOLE))))


@pytest.mark.parametrize(
    ("of", "case"), [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long) for case in CASES]
)
def test_rows_are_those_of_sparks_own_overwrite(tables: Tables, tmp_path: Path, of: str, case: str) -> None:
    for name, value in (("atomic", "true"), ("stock", "false")):
        with tables.settings({ATOMIC: value}):
            create(tables, name, of)
    for statement in BY_TABLE[of][case]:
        for name, value in (("atomic", "true"), ("stock", "false")):
            with tables.settings({ATOMIC: value}):
                tables.sql(statement.format(t=name, elsewhere=tmp_path / name))
        assert contents(tables, "atomic", of) == contents(tables, "stock", of)
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
    tables.sql(statement)
    assert tables.sql("select p, v, count(*) from shared group by p, v") == [("p1", "new", 20)]
    assert tables.sql("show partitions shared") == [("p=p1",)]


@pytest.mark.parametrize("key", [ATOMIC, "spark.bucketing.enabled"])
def test_hint_is_an_error_if_spark_would_run_the_statement(tables: Tables, key: str) -> None:
    before = tables.files("kept")
    error = pytest.raises(Exception, match=r"Cannot overwrite `kept`.\n.*PARTITION_OVERWRITE_MODE")
    with tables.settings({key: "false"}), error:
        tables.sql(STATIC_MODE.replace("shared", "kept"))
    assert tables.files("kept") == before


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


def test_statement_can_have_both_hints(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    before = contents(tables, "shared", "partitioned")
    with pytest.raises(Exception, match=r"an old row.*, for which .*k > 0.* is false"):
        tables.sql(BOTH.format("shared"))
    assert contents(tables, "shared", "partitioned") == before
    tables.sql(f"{BOTH.format('shared').replace('k > 0', 'k >= 0')} where p = 'p1'")
    assert tables.sql("select p, count(*) from shared group by p") == [("p1", 20)]


def only(condition: str, partitions: str) -> str:
    return f"""insert overwrite shared select /*+ replace_only("{condition}") */ k + 1000, v, p from rows where {partitions}"""


@pytest.mark.parametrize("of", ["partitioned", "organized", "whole"])
@pytest.mark.some(1)
def test_rows_are_replaced_only_if_they_meet_the_condition(tables: Tables, of: str) -> None:
    create(tables, "shared", of)
    before = contents(tables, "shared", of)
    wrong = "p <=> 'p1' and k % 2 = k % 4"
    with pytest.raises(Exception, match=r"an old row.*, for which .*% 2.* is false"):
        tables.sql(only(wrong, "p = 'p1'"))
    with pytest.raises(Exception, match="boom at p"):
        tables.sql(only("if(k >= 1000, true, raise_error(concat('boom at ', p)) is null)", "p = 'p1'"))
    assert contents(tables, "shared", of) == before
    # NULL counts as true, and the statement replaces no rows of other partitions.
    fine = "v is not null or null" if of == "whole" else "p = 'p1' or p is null and null"
    tables.sql(only(fine, "p = 'p1' or p is null"))
    assert tables.sql("select min(k) >= 1000 from shared where p = 'p1' or p is null") == [(True,)]


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
    before = tables.files("kept")
    with pytest.raises(Exception, match=message):
        tables.sql(statement)
    assert tables.files("kept") == before


def test_statement_with_hints_can_be_explained(tables: Tables) -> None:
    assert "InsertIntoHadoopFsRelationCommand" in explain(tables, STATIC_MODE.replace("shared", "kept"))


def test_files_that_are_no_partition_are_not_replaced_unchecked(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    shutil.copytree(tables.folder("shared") / "p=p1", tables.folder("shared") / "p=p9")
    with pytest.raises(Exception, match="which is not a partition of the table"):
        tables.sql("insert overwrite shared select /*+ replace_only('k < 0') */ k, v, 'p9' from rows")
    tables.sql("insert overwrite shared select k, v, 'p9' from rows")
    assert tables.sql("select count(*) from shared where p = 'p9'") == [(60,)]


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
    with ThreadPoolExecutor(1) as pool:
        with held(tables.spark, ".*/_replaced/[^/]*/files/_temporary/.*") as operation:
            running = pool.submit(tables.new_session().sql, f"insert overwrite {table} partition (p) {query}")
            operation.await_reached()
            tables.sql(statement)
        error = running.exception()
    tables.sql("refresh table shared")
    values = defaultdict[object, set[object]](set)
    for partition, value in tables.sql("select distinct p, v from shared"):
        values[partition].add(value)
    if source == "the table":
        assert "run it again" in str(error) and "AnalysisException" in type(error).__name__
        assert set().union(*values.values()) == expected and len(tables.sql("select * from shared")) >= 60
    else:
        assert error is None and values == {"p0": {"changed"}, "p1": {"new"}, "p2": {"changed"}}


def test_update_waits_for_a_running_overwrite(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    table, other = f"{tables.database}.shared", tables.new_session()
    overwrite = f"insert overwrite {table} partition (p = 'p1') select 1, 'new'"
    with ThreadPoolExecutor(2) as pool:
        with held(tables.spark, "rename .*/_replaced/[^/]*/files/p=p1/.*") as operation:
            overwriting = pool.submit(tables.new_session().sql, overwrite)
            operation.await_reached()
            updating = pool.submit(other.sql, f"update {table} set v = 'changed' where p = 'p0'")
            time.sleep(2)
            assert not updating.done() and not overwriting.done()
        assert overwriting.exception() is None and updating.exception() is None
    tables.sql("refresh table shared")
    assert tables.sql("select distinct v from shared where p in ('p0', 'p1') order by v") == [("changed",), ("new",)]


def test_partition_that_is_dropped_while_empty_gets_its_rows(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    table = f"{tables.database}.shared"
    tables.sql("alter table shared add partition (p = 'empty')")
    with ThreadPoolExecutor(1) as pool:
        with held(tables.spark, "rename .*/_replaced/[^/]*/files/p=empty/.*") as operation:
            overwriting = pool.submit(tables.new_session().sql, f"insert overwrite {table} values (1, 'new', 'empty')")
            operation.await_reached()
            tables.sql("alter table shared drop partition (p = 'empty')")
        assert overwriting.exception() is None
    tables.sql("refresh table shared")
    assert tables.sql("select k, v from shared where p = 'empty'") == [(1, "new")]


def test_failed_query_changes_nothing(tables: Tables) -> None:
    before, records = contents(tables, "kept", "partitioned"), replacements(tables, "kept")
    with pytest.raises(Exception, match="no value"):
        tables.sql("insert overwrite kept partition (p) select k, if(k = 50, raise_error('no value'), v), p from rows")
    assert contents(tables, "kept", "partitioned") == before
    assert not [*tables.folder("kept").glob("_replaced/*/files")] and replacements(tables, "kept") == records


def test_files_of_a_dropped_partition_are_replaced(tables: Tables, tmp_path: Path) -> None:
    """DROP PARTITION keeps the files of an external table. Like Spark's own statement, an overwrite of the partition replaces them."""
    tables.create(f"shared {TABLES['partitioned']} location '{tmp_path}'")
    tables.sql("insert into shared select k, v, p from rows")
    tables.sql("alter table shared drop partition (p = 'p1')")
    assert list((tmp_path / "p=p1").glob("*part-*"))
    tables.sql("insert overwrite shared partition (p = 'p1') select 1, 'new'")
    assert tables.sql("select k, v from shared where p = 'p1'") == [(1, "new")]


def test_partitions_that_share_a_directory_are_not_overwritten(tables: Tables, tmp_path: Path) -> None:
    create(tables, "shared", "partitioned")
    for name in ("p1", "p2"):
        tables.sql(f"alter table shared partition (p = '{name}') set location '{tmp_path}'")
    with pytest.raises(Exception, match="2 partitions in the directory"):
        tables.sql("insert overwrite shared partition (p = 'p1') select 1, 'new'")


def test_partitions_on_another_file_system_are_not_overwritten(tables: Tables, tmp_path: Path) -> None:
    create(tables, "shared", "partitioned")
    tables.sql("alter table shared partition (p = 'p1') set location 'elsewhere://host/p1'")
    try:
        with pytest.raises(Exception, match="found:    a partition in elsewhere://host/p1"):
            tables.sql("insert overwrite shared partition (p = 'p1') select 1, 'new'")
    finally:
        tables.sql(f"alter table shared partition (p = 'p1') set location '{tmp_path}'")


def test_cached_table_has_the_new_rows(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    tables.sql("cache table shared")
    tables.sql("insert overwrite shared partition (p = 'p1') select 1, 'new'")
    assert tables.sql("select k, v from shared where p = 'p1'") == [(1, "new")]
    tables.sql("uncache table shared")


def test_new_files_of_crashed_statements_are_deleted(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    folder = tables.folder("shared") / "_replaced"
    running, crashed = (folder / f"20990101000000000000-{number}" for number in range(2))
    for path in (running, crashed):
        (path / "files").mkdir(parents=True)
        (path / "begun").write_text("")
    os.utime(crashed / "begun", (0, time.time() - 120))
    tables.sql("insert overwrite shared partition (p = 'p1') select 1, 'new'")
    assert running.exists() and not crashed.exists()


def test_crashed_replacement_is_undone_before_the_next_overwrite(tables: Tables) -> None:
    create(tables, "shared", "partitioned")
    added = "p=p1/00000_0_part-crashed.c000"
    record = tables.folder("shared") / "_replaced" / "20260101000000000000-0"
    record.mkdir(parents=True)
    (record / "started").write_text(json.dumps({"added": [added], "removed": [], "created": [], "exclusive": True}))
    os.utime(record / "started", (0, time.time() - 120))
    (tables.folder("shared") / added).write_text("incomplete")
    tables.sql("insert overwrite shared partition (p = 'p1') select 1, 'new'")
    assert tables.sql("select k, v from shared where p = 'p1'") == [(1, "new")]
    assert not (tables.folder("shared") / added).exists()
