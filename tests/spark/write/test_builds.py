"""Tests that builds are published at once, and that only directories that a publication replaced are deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from bucketed_tables import Tables
from metastore_interception import failing, intercepted
from partition_specs import metastore, metastore_calls
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession

from conftest import all_long_but, data_files

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

LAYOUTS = {
    "hive": ("k bigint, v string", "p string", "stored as parquet"),
    "hive orc": ("k bigint, v string", "p string", "stored as orc"),
    "spark": ("k bigint, v string, p string", "p", "using parquet"),
}
QUERIES = ("select * from t", "select p, k, count(*), max(v) from t group by p, k")
FAILURES = (PySparkException, Py4JJavaError)
_times = count(20240101000000000000)


@pytest.fixture(params=["hive", "spark", pytest.param("hive orc", marks=pytest.mark.long)])
def table(tables: Tables, request: pytest.FixtureRequest) -> Iterator[Tables]:
    """Create a table with the partitions a and b."""
    columns, partition, stored = LAYOUTS[request.param]
    tables.make("t", columns, "k", 4, rest=f"partitioned by ({partition})", stored=stored)
    tables.sql("insert into t select id, 'old', array('a', 'b')[id % 2] from range(40)")
    yield tables
    tables.sql("drop table if exists built")


def build(tables: Tables, rows: str, *touched: str, name: str = "built") -> Path:
    """Write a build of these rows. It reads the touched partitions."""
    place = tables.folder("t") / f"build-{next(_times)}"
    tables.sql(f"drop table if exists {name}")
    tables.sql(f"create table {name} like t location '{place}' tblproperties ('bucketing.build' = '{place.name}')")
    if touched:
        tables.sql(f"alter table {name} add " + " ".join(f"partition (p = '{value}')" for value in touched))
        tables.sql(f"alter table t start build in {name}")
    tables.sql(f"insert into {name} {rows}")
    return place


def make_external(tables: Tables) -> None:
    """Replace the table by an external table with the same rows, whose DROP PARTITION deletes no files."""
    place = tables.folder("t").with_name(f"external-{next(_times)}")
    tables.sql(f"create table external like t location '{place}'")
    tables.sql("insert into external select * from t")
    tables.sql("drop table t")
    tables.sql("alter table external rename to t")


def publish(tables: Tables, names: str = "built") -> list[str]:
    return [str(row[0]) for row in tables.sql(f"alter table t publish build from {names}")]


def recover(tables: Tables) -> None:
    tables.sql("alter table t recover build from built")


def rows_of(tables: Tables) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each partition; stock Spark and bucketed reads must return the same."""
    tables.sql("refresh table t")
    for query in QUERIES:
        tables.read(query)
    found: dict[str, list[tuple[object, ...]]] = {}
    for k, v, p in tables.sql("select k, v, p from t order by k"):
        found.setdefault(str(p), []).append((k, v))
    return found


def statuses(tables: Tables) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in tables.sql("select partition, status from bucket_specs('t')")}


def folders(tables: Tables) -> set[str]:
    """Return the folders with data below the table's."""
    root = tables.folder("t")
    return {str(path.parent.relative_to(root)) for path in data_files(root)}


NEW = [(number, "new") for number in range(3)]
CHANGE = "select id, 'new', array('a', 'c')[id % 2] from range(6)"


def test_new_changed_and_emptied_partitions_are_published_at_once(table: Tables) -> None:
    before = rows_of(table)
    place = build(table, CHANGE, "a", "b", "c")
    assert rows_of(table) == before
    assert publish(table) == ["p=a", "p=b", "p=c"]
    assert rows_of(table) == {"a": [(k, "new") for k in (0, 2, 4)], "c": [(k, "new") for k in (1, 3, 5)]}
    assert statuses(table) == {"p=a": "sealed", "p=c": "sealed"}
    assert folders(table) == {f"{place.name}/p=a", f"{place.name}/p=c"}
    assert {path.name for path in place.iterdir()} - {"_SUCCESS", "._SUCCESS.crc"} == {"p=a", "p=c"}
    assert "Bucketed: true" in table.plan("select k, count(*) from t where p = 'a' group by k")
    table.sql("insert into t select 7, 'later', 'b'")
    assert rows_of(table)["b"] == [(7, "later")]


@pytest.mark.parametrize("number", [20, pytest.param(1100, marks=pytest.mark.long)])
def test_all_partitions_change_in_one_metastore_transaction(tables: Tables, number: int) -> None:
    columns, partition, stored = LAYOUTS["hive"]
    tables.make("t", columns, "k", 1, rest=f"partitioned by ({partition})", stored=stored)
    tables.sql(f"insert into t select id, 'old', cast(id as string) from range({number})")
    half = number // 2
    rows = f"select id, 'new', cast(id as string) from range({half}, {number + half})"
    build(tables, rows, *map(str, range(half, number + half)))
    with metastore_calls(tables.spark) as calls:
        assert len(publish(tables)) == number
    altered = [call for call in calls if call.startswith(("alter_partition", "add_partition"))]
    # The first call adds the owner to the build's table.
    assert altered == ["add_partitions", "add_partitions", "alter_partitions"], calls
    found = {p: v for p, [(_, v)] in rows_of(tables).items()}
    assert found == {str(p): "new" if p >= half else "old" for p in range(number + half)}


@pytest.mark.parametrize("change", ["insert into t select 99, 'other', 'b'", "alter table t drop partition (p = 'b')"])
@pytest.mark.parametrize("writer", ["", "stock:"])
def test_partition_that_was_written_since_is_not_replaced(table: Tables, change: str, writer: str) -> None:
    build(table, CHANGE, "a", "b", "c")
    table.sql(writer + change)
    before, stored = rows_of(table), statuses(table)
    with pytest.raises(
        PySparkException, match=r"(?s)changes by another statement in the partition p=b since.*no other write.*again"
    ):
        publish(table)
    assert rows_of(table) == before and statuses(table) == stored


def test_partition_that_was_created_since_is_not_replaced(table: Tables) -> None:
    build(table, CHANGE, "a", "c")
    table.sql("insert into t select 99, 'other', 'c'")
    before = rows_of(table)
    with pytest.raises(PySparkException, match="changes by another statement in the partition p=c since"):
        publish(table)
    assert rows_of(table) == before


def test_build_that_reads_nothing_replaces_whatever_is_there(table: Tables) -> None:
    build(table, CHANGE)
    table.sql("insert into t select 99, 'other', 'a'")
    assert publish(table) == ["p=a", "p=c"]
    assert set(rows_of(table)) == {"a", "b", "c"} and (99, "other") not in rows_of(table)["a"]


def test_build_with_deleted_files_is_not_published(table: Tables) -> None:
    place, before = build(table, CHANGE, "a", "c"), rows_of(table)
    shutil.rmtree(place / "p=a")
    with pytest.raises(PySparkException, match=r"found:    other files in .*p=a than the build of p=a has written"):
        publish(table)
    assert rows_of(table) == before


# The calls of a publication: the first adds the owner to the build's table.
CALLS = [("add_partitions", 1), ("add_partitions", 2), ("alter_partitions", 1)]


@pytest.mark.parametrize("commits", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize(("call", "number"), CALLS)
def test_failed_metastore_call_leaves_old_or_new_rows(table: Tables, call: str, number: int, commits: bool) -> None:
    old = rows_of(table)
    new = {"a": [(k, "new") for k in (0, 2, 4)], "b": old["b"], "c": [(k, "new") for k in (1, 3, 5)]}

    seen: list[str] = []

    def lost_reply(_: Any, act: Callable[[], Any]) -> Any:
        seen.append(call)
        if len(seen) < number:
            return act()
        if commits:
            act()
        raise RuntimeError("failed on purpose")

    build(table, CHANGE, "a", "c")
    with intercepted(table.spark, call, lost_reply), pytest.raises(FAILURES, match="on purpose"):
        publish(table)
    assert rows_of(table) == (new if commits and call == "alter_partitions" else old)
    recover(table)
    assert rows_of(table) == (new if commits and call == "alter_partitions" else old)
    build(table, CHANGE, "a", "c")
    publish(table)
    assert rows_of(table) == new
    assert not {"p=a", "p=c"} & folders(table)


def test_failed_calls_are_the_calls_of_a_publication(table: Tables) -> None:
    for call in ("add_partitions", "alter_partitions"):
        build(table, CHANGE.replace("'c'", f"'{call}'"), "a", call)
        with failing(table.spark, call, 99) as seen:
            publish(table)
        assert len(seen) == len([found for found, _ in CALLS if found == call])


@contextmanager
def crash_after_transaction(table: Tables) -> Iterator[None]:
    """Crash a publication when its transaction is complete, before it deletes directories."""
    done: list[bool] = []

    def complete(_: Any, act: Callable[[], Any]) -> Any:
        done.append(True)
        return act()

    def crash(_: Any, act: Callable[[], Any]) -> Any:
        if done:
            raise RuntimeError("crashed on purpose")
        return act()

    with (
        intercepted(table.spark, "alter_partitions", complete),
        intercepted(table.spark, "listPartitions", crash),
        pytest.raises(FAILURES, match="on purpose"),
    ):
        yield


HOW = all_long_but(("managed stock:", "external "), ("managed stock:", "external ", "managed ", "external stock:"))


@pytest.mark.parametrize("crash", ["", "crash"])
@pytest.mark.parametrize("how", HOW)
def test_partition_that_is_dropped_by_hand_gets_no_old_rows_back(table: Tables, how: str, crash: str) -> None:
    kind, writer = how.split(" ")
    if kind == "external":
        make_external(table)
    build(table, CHANGE, "a", "b", "c")
    if crash:
        with crash_after_transaction(table):
            publish(table)
        assert {"p=a", "p=b"} < folders(table)
        recover(table)
    else:
        publish(table)
    assert not {"p=a", "p=b", "p=c"} & folders(table)
    table.sql(f"{writer}alter table t drop if exists partition (p = 'a'), partition (p = 'b')")
    table.sql(f"{writer}msck repair table t")
    assert set(rows_of(table)) == {"c"}
    table.sql(f"{writer}insert into t select 7, 'later', 'a' union all select 7, 'later', 'b'")
    found = rows_of(table)
    assert (found["a"], found["b"]) == ([(7, "later")], [(7, "later")])
    build(table, "select 8, 'run', 'b'")
    publish(table)
    assert rows_of(table) == found | {"b": [(8, "run")]}


def test_replaced_directories_stay_for_one_publication(table: Tables) -> None:
    places = []
    for number in range(4):
        places.append(build(table, f"select id, 'v{number}', 'a' from range(3)", "a").name)
        publish(table)
        assert folders(table) == {"p=b", *(f"{place}/p=a" for place in places[-2:])}
    assert {path.name for path in table.folder("t").glob("build-*")} == set(places[-2:])


def test_dropped_and_created_external_table_loses_no_directory(table: Tables) -> None:
    """No partition of the new table points to the builds of the old one, whose files the user may still need."""
    make_external(table)
    place = table.folder("t")
    ((definition,),) = table.sql("show create table t")
    for run in ("first", "second"):
        build(table, CHANGE.replace("new", run), "a", "c")
        publish(table)
    before = folders(table)
    build(table, CHANGE.replace("new", "third"), "a", "c")
    with crash_after_transaction(table):
        publish(table)
    published = folders(table)
    table.sql("drop table t")
    table.sql(str(definition))
    assert table.folder("t") == place
    recover(table)
    for run in ("fourth", "fifth", "sixth"):
        build(table, CHANGE.replace("new", run))
        publish(table)
        assert published <= folders(table), run
    assert {row[1] for rows in rows_of(table).values() for row in rows} == {"sixth"}
    assert before & published


def test_directory_of_a_partition_that_was_dropped_by_hand_stays(table: Tables) -> None:
    make_external(table)
    first = build(table, CHANGE, "a", "c")
    publish(table)
    table.sql("alter table t drop partition (p = 'a')")
    build(table, "select id, 'newer', 'c' from range(3)", "c")
    publish(table)
    build(table, "select id, 'newest', 'c' from range(3)", "c")
    publish(table)
    assert f"{first.name}/p=a" in folders(table) and f"{first.name}/p=c" not in folders(table)
    table.sql(f"alter table t add partition (p = 'a') location '{first / 'p=a'}'")
    assert rows_of(table)["a"] == [(k, "new") for k in (0, 2, 4)]


def test_directory_that_another_partition_uses_stays(table: Tables) -> None:
    first = build(table, CHANGE, "a", "c")
    publish(table)
    table.sql(f"alter table t add partition (p = 'copy') location '{first / 'p=a'}'")
    for run in ("second", "third", "fourth"):
        build(table, CHANGE.replace("new", run), "a", "c")
        publish(table)
    assert rows_of(table)["copy"] == [(k, "new") for k in (0, 2, 4)]
    assert f"{first.name}/p=c" not in folders(table)


def test_partition_that_is_set_back_by_hand_keeps_its_files(table: Tables) -> None:
    first = build(table, CHANGE, "a", "c")
    publish(table)
    build(table, CHANGE.replace("new", "second"), "a", "c")
    publish(table)
    table.sql(f"alter table t partition (p = 'a') set location '{first / 'p=a'}'")
    before = rows_of(table)["a"]
    assert before == [(k, "new") for k in (0, 2, 4)]
    build(table, "select id, 'third', 'c' from range(3)", "c")
    publish(table)
    assert rows_of(table)["a"] == before
    third = build(table, CHANGE.replace("new", "third"), "a", "c")
    assert rows_of(table)["a"] == before
    publish(table)
    assert {f"{first.name}/p=a", f"{third.name}/p=a"} <= folders(table)


@pytest.mark.parametrize("later", ["", "after the next run"])
def test_rows_that_a_slow_insert_wrote_to_a_replaced_directory_are_reported(table: Tables, later: str) -> None:
    """The INSERT was planned before the publication, and commits after it."""
    old = table.folder("t") / "p=a"
    if later:
        old = build(table, "select id, 'first', 'a' from range(3)", "a") / "p=a"
        publish(table)
    build(table, CHANGE, "a", "c")
    publish(table)
    table.sql(f"insert overwrite directory '{old.with_name('slow')}' using parquet select 99L as k, 'slow' as v")
    (written,) = old.with_name("slow").glob("part-*")
    old.mkdir(exist_ok=True)
    written.rename(old / f"00000_0_{written.name}")
    before = rows_of(table)
    build(table, CHANGE.replace("new", "newer"), "a", "c")
    with pytest.raises(PySparkException, match=r"found:    files in .*p=a that another statement has written"):
        publish(table)
    assert rows_of(table) == before and list(old.glob("00000_0*"))
    shutil.rmtree(old)
    publish(table)
    assert {row[1] for row in rows_of(table)["a"]} == {"newer"}


def test_unpublished_build_is_deleted(table: Tables) -> None:
    before = rows_of(table)
    place = build(table, CHANGE, "a", "c")
    recover(table)
    assert rows_of(table) == before and not place.exists()


def test_last_build_of_a_partition_is_published(table: Tables) -> None:
    rows = build(table, CHANGE)
    assert [row[0] for row in table.sql("alter table t start build in built")] == ["p=a"]
    merged = build(table, "select k, v, p from t where p = 'a' union all select 99, 'merged', 'a'", "a", name="merged")
    before = rows_of(table)
    assert publish(table, "built, merged") == ["p=a", "p=c"]
    assert rows_of(table) == before | {"a": [*before["a"], (99, "merged")], "c": [(k, "new") for k in (1, 3, 5)]}
    assert folders(table) == {"p=b", f"{rows.name}/p=c", f"{merged.name}/p=a"}
    assert not {"built", "merged"} & {str(row[1]) for row in table.sql("show tables")}


def test_rows_in_unrecorded_partitions_are_refused(table: Tables) -> None:
    """Otherwise, the publication would replace rows that the build has not read."""
    build(table, "select id, 'new', array('a', 'b')[id % 2] from range(6)", "a")
    before = rows_of(table)
    with pytest.raises(PySparkException, match=r"found:    new rows in the partition p=b of .*has not recorded"):
        publish(table)
    assert rows_of(table) == before


def test_build_without_files_does_not_drop_a_partition(table: Tables) -> None:
    """Another run may have deleted the files."""
    place = build(table, CHANGE)
    for partition in ("a", "c"):
        shutil.rmtree(place / f"p={partition}")
    table.sql("refresh table built")
    before = rows_of(table)
    with pytest.raises(PySparkException, match="found:    other files in"):
        publish(table)
    assert rows_of(table) == before


def test_columns_and_buckets_of_the_build_are_published(tables: Tables) -> None:
    columns, partition, stored = LAYOUTS["hive"]
    tables.make("t", columns, "k", 4, rest=f"partitioned by ({partition})", stored=stored)
    tables.sql("insert into t select id, 'old', array('a', 'b')[id % 2] from range(40)")
    tables.sql("alter table t add columns (w string)")
    tables.sql("alter table t clustered by (v) sorted by (v, k) into 2 buckets")
    build(tables, "select id, 'new', 'w', array('a', 'c')[id % 2] from range(6)")
    publish(tables)
    for value in ("a", "c"):
        found = metastore(tables.spark).getPartition(tables.database, "t", f"p={value}").getSd()
        assert [column.getName() for column in found.getCols()] == ["k", "v", "w"]
        assert (found.getNumBuckets(), list(found.getBucketCols())) == (2, ["v"])
        assert [column.getCol() for column in found.getSortCols()] == ["v", "k"]
    assert {row[2] for row in tables.sql("select k, v, w from t where p <> 'b'")} == {"w"}


def test_partition_named_like_an_internal_directory_keeps_its_rows(table: Tables) -> None:
    for value in ("empty-x", "build-20240101000000000000", "_new"):
        for _ in ("created", "replaced", "replaced again"):
            build(table, f"select id, 'new', '{value}' from range(3)", value)
            publish(table)
            assert rows_of(table)[value] == NEW


def test_cached_table_is_published_and_read(table: Tables) -> None:
    for run in ("first", "second", "third"):
        table.sql("cache table t")
        table.sql("select count(*) from t")
        build(table, CHANGE.replace("new", run), "a", "c")
        publish(table)
        assert {row[0] for row in table.sql("select v from t where p <> 'b'")} == {run}
    assert len(folders(table)) == 5
    table.sql("uncache table t")


@pytest.mark.parametrize("value", ["it's", "x/y=z%", "ü ~", "a b", "${x}"])
def test_special_partition_values_are_published(table: Tables, value: str) -> None:
    literal = value.replace("'", "\\'").replace("$", "\\u0024")
    rows = f"select id, 'new', '{literal}' from range(3)"
    for _ in ("created", "replaced"):
        build(table, rows, literal)
        publish(table)
        assert rows_of(table)[value] == NEW


def test_null_partition_is_published(table: Tables) -> None:
    for _ in ("created", "replaced"):
        build(table, "select id, 'new', null from range(3)")
        publish(table)
        assert rows_of(table)["None"] == NEW


def test_renamed_table_keeps_its_builds(table: Tables) -> None:
    build(table, CHANGE, "a", "b", "c")
    publish(table)
    before = rows_of(table)
    table.sql("drop table if exists renamed")
    table.sql("alter table t rename to renamed")
    table.sql("alter table renamed rename to t")
    assert rows_of(table) == before
    build(table, CHANGE.replace("new", "newer"), "a", "c")
    publish(table)
    assert {row[1] for rows in rows_of(table).values() for row in rows} == {"newer"}


def test_dropped_table_leaves_nothing(table: Tables) -> None:
    root = table.folder("t")
    build(table, CHANGE, "a", "c")
    publish(table)
    table.sql("drop table t")
    assert not root.exists()


def test_repair_and_analyze_keep_the_published_rows(table: Tables) -> None:
    build(table, CHANGE, "a", "c")
    publish(table)
    before = rows_of(table)
    for statement in ("msck repair table t", "analyze table t compute statistics", "refresh table t"):
        table.sql(statement)
        assert rows_of(table) == before
    table.sql("insert overwrite table t partition (p = 'a') select 5, 'by hand'")
    table.sql("insert into t select 6, 'by hand', 'c'")
    found = rows_of(table)
    assert found["a"] == [(5, "by hand")] and (6, "by hand") in found["c"]


WRONG = [
    ("alter table plain start build in built", "found:    a table without partitions"),
    ("alter table t publish build from elsewhere", "is not a build\n  expected: an external table at .*/t/build-"),
    ("alter table t recover build from elsewhere", "is not a build"),
    ("alter table t publish build from otherwise", "partitioned by q"),
    ("alter table t publish build from no_such_table", "no_such_table"),
]


@pytest.mark.parametrize(("statement", "error"), WRONG)
def test_wrong_builds_are_refused(table: Tables, statement: str, error: str) -> None:
    build(table, CHANGE)
    table.create("plain (k int) using parquet")
    table.create("elsewhere (k bigint, v string) partitioned by (p string) stored as parquet")
    place = table.folder("t") / f"build-{next(_times)}"
    table.create(
        f"otherwise (k bigint, v string) partitioned by (q string) stored as parquet location '{place}' "
        f"tblproperties ('bucketing.build' = '{place.name}')"
    )
    with pytest.raises(PySparkException, match=error):
        table.sql(statement)


@pytest.mark.parametrize(
    "rest",
    [
        "start build",
        "publish build built",
        "publish build from",
        "publish build from a,",
        "publish build from a id",
        "recover build",
    ],
)
def test_syntax_errors_are_reported(tables: Tables, rest: str) -> None:
    with pytest.raises(ParseException):
        tables.sql(f"alter table t {rest}")


# The sessions of readers: whether the extension is enabled, and whether each query lists the files again.
READERS = {"fresh": ("true", True), "stock": ("false", True), "warm": ("true", False)}


def read_until(stop: Event, session: SparkSession, refreshes: bool, seen: list[set[tuple[object, ...]]]) -> None:
    while not stop.is_set():
        if refreshes:
            session.sql("refresh table t")
        seen.append({tuple(row) for row in session.sql("select p, v, count(*) from t group by p, v").collect()})


@pytest.mark.parametrize("runs", [pytest.param(5, id="some"), pytest.param(200, id="many", marks=pytest.mark.long)])
def test_readers_see_all_old_or_all_new_partitions(table: Tables, runs: int) -> None:
    partitions = [f"p{number}" for number in range(6)]
    rows = f"select id, 'v{{}}', concat('p', id % {len(partitions)}) from range(60)"
    table.sql(f"insert overwrite table t {rows.format(0)}")
    table.sql("alter table t drop if exists partition (p = 'a'), partition (p = 'b')")
    stop, seen = Event(), {name: list[set[tuple[object, ...]]]() for name in READERS}
    with ThreadPoolExecutor() as pool:
        readers = []
        for name, (enabled, refreshes) in READERS.items():
            session = table.spark.newSession()
            session.conf.set("spark.bucketing.enabled", enabled)
            session.sql(f"use {table.database}")
            readers.append(pool.submit(read_until, stop, session, refreshes, seen[name]))
        try:
            for run in range(1, runs + 1):
                build(table, rows.format(run), *partitions)
                publish(table)
        finally:
            stop.set()
        for reader in readers:
            reader.result()
    whole = [{(partition, f"v{run}", 10) for partition in partitions} for run in range(runs + 1)]
    for name, states in seen.items():
        wrong = [state for state in states if state not in whole]
        assert states and not wrong, (name, len(states), wrong[:1])
    print({name: len(states) for name, states in seen.items()})
