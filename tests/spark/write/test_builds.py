"""START BUILD, PUBLISH BUILD and CLEAN BUILDS: all partitions change at once, and no used directory is deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from bucketed_tables import Tables
from metastore_interception import failing, intercepted
from partition_specs import metastore_calls
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


def build(tables: Tables, rows: str, *touched: str) -> Path:
    """Write a build of these rows; the touched partitions are those that it reads."""
    place = tables.folder("t") / f"build-{next(_times)}"
    tables.sql("drop table if exists built")
    tables.sql(f"create table built like t location '{place}'")
    if touched:
        tables.sql("alter table built add " + " ".join(f"partition (p = '{value}')" for value in touched))
        tables.sql("alter table t start build in built")
    tables.sql(f"insert into built {rows}")
    return place


def make_external(tables: Tables) -> None:
    """Replace the table by an external table with the same rows, whose DROP PARTITION deletes no files."""
    place = tables.folder("t").with_name(f"external-{next(_times)}")
    tables.sql(f"create table external like t location '{place}'")
    tables.sql("insert into external select * from t")
    tables.sql("drop table t")
    tables.sql("alter table external rename to t")


def publish(tables: Tables) -> int:
    ((published,),) = tables.sql("alter table t publish build from built")
    tables.sql("drop table built")
    return int(str(published))


def clean(tables: Tables) -> int:
    return int(str(tables.sql("alter table t clean builds")[0][0]))


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
    assert publish(table) == 3
    assert rows_of(table) == {"a": [(k, "new") for k in (0, 2, 4)], "c": [(k, "new") for k in (1, 3, 5)]}
    assert statuses(table) == {"p=a": "sealed", "p=b": "empty", "p=c": "sealed"}
    assert folders(table) == {f"{place.name}/p=a", f"{place.name}/p=c"}
    assert "Bucketed: true" in table.plan("select k, count(*) from t where p = 'a' group by k")
    assert clean(table) == 2  # the folders of b, which has no rows, and of c until the publication
    assert folders(table) == {f"{place.name}/p=a", f"{place.name}/p=c"}
    assert statuses(table) == {"p=a": "sealed", "p=c": "sealed"}
    table.sql("insert into t select 7, 'later', 'b'")
    assert rows_of(table)["b"] == [(7, "later")]


def test_hundred_partitions_change_in_one_metastore_transaction(tables: Tables) -> None:
    columns, partition, stored = LAYOUTS["hive"]
    tables.make("t", columns, "k", 1, rest=f"partitioned by ({partition})", stored=stored)
    tables.sql("insert into t select id, 'old', cast(id as string) from range(100)")
    build(tables, "select id, 'new', cast(id as string) from range(50, 150)", *map(str, range(50, 150)))
    with metastore_calls(tables.spark) as calls:
        assert publish(tables) == 100
    assert [call for call in calls if call.startswith(("alter_partition", "add_partition"))] in (
        ["add_partitions", "alter_partitions"],
        ["add_partitions", "alter_partitions", "alter_partitions"],
    ), calls
    assert {p: v for p, [(_, v)] in rows_of(tables).items()} == {
        str(p): "new" if p >= 50 else "old" for p in range(150)
    }


@pytest.mark.parametrize("change", ["insert into t select 99, 'other', 'b'", "alter table t drop partition (p = 'b')"])
@pytest.mark.parametrize("writer", ["", "stock:"])
def test_partition_that_was_written_since_is_not_replaced(table: Tables, change: str, writer: str) -> None:
    build(table, CHANGE, "a", "b", "c")
    table.sql(writer + change)
    before, stored = rows_of(table), statuses(table)
    with pytest.raises(PySparkException, match=r"has written to the partition p=b since.*no other write.*again"):
        publish(table)
    assert rows_of(table) == before and statuses(table) == stored


def test_partition_that_was_created_since_is_not_replaced(table: Tables) -> None:
    build(table, CHANGE, "a", "c")
    table.sql("insert into t select 99, 'other', 'c'")
    before = rows_of(table)
    with pytest.raises(PySparkException, match="has written to the partition p=c since"):
        publish(table)
    assert rows_of(table) == before


def test_build_that_reads_nothing_replaces_whatever_is_there(table: Tables) -> None:
    build(table, CHANGE)
    table.sql("insert into t select 99, 'other', 'a'")
    assert publish(table) == 2
    assert set(rows_of(table)) == {"a", "b", "c"} and (99, "other") not in rows_of(table)["a"]


def test_build_with_deleted_files_is_not_published(table: Tables) -> None:
    place, before = build(table, CHANGE, "a", "c"), rows_of(table)
    shutil.rmtree(place / "p=a")
    with pytest.raises(PySparkException, match=r"found other files in .*p=a than the build of p=a has written"):
        publish(table)
    assert rows_of(table) == before


CALLS = ("add_partitions", "alter_partitions")


@pytest.mark.parametrize("commits", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("call", CALLS)
def test_failed_metastore_call_leaves_old_or_new_rows(table: Tables, call: str, commits: bool) -> None:
    old = rows_of(table)
    new = {"a": [(k, "new") for k in (0, 2, 4)], "b": old["b"], "c": [(k, "new") for k in (1, 3, 5)]}

    def lost_reply(_: Any, act: Callable[[], Any]) -> Any:
        if commits:
            act()
        raise RuntimeError("failed on purpose")

    build(table, CHANGE, "a", "c")
    with intercepted(table.spark, call, lost_reply), pytest.raises(FAILURES, match="on purpose"):
        publish(table)
    assert rows_of(table) == (new if commits and call == "alter_partitions" else old)
    clean(table)
    build(table, CHANGE, "a", "c")
    publish(table)
    assert rows_of(table) == new
    clean(table)
    assert rows_of(table) == new


def test_failed_calls_are_the_calls_of_a_publication(table: Tables) -> None:
    build(table, CHANGE, "a", "c")
    with failing(table.spark, "alter_partitions", 99) as seen:
        publish(table)
    assert seen


def test_cleaning_keeps_directories_that_any_table_uses(table: Tables) -> None:
    first = build(table, CHANGE, "a", "c")
    publish(table)
    assert folders(table) == {"p=b", f"{first.name}/p=a", f"{first.name}/p=c"}
    outside = table.folder("t").with_name("outside")
    table.create(f"other (k bigint, v string) partitioned by (q string) stored as parquet location '{outside}'")
    table.sql(f"alter table other add partition (q = 'x') location '{first / 'p=a'}'")
    table.create(f"whole (k bigint, v string) stored as parquet location '{first / 'p=c'}'")
    second = build(table, CHANGE.replace("new", "newer"), "a", "c")
    publish(table)
    clean(table)
    assert folders(table) == {"p=b", *(f"{place.name}/p={p}" for place in (first, second) for p in "ac")}
    for name in ("other", "whole"):
        table.sql(f"drop table {name}")
    clean(table)
    assert folders(table) == {"p=b", f"{second.name}/p=a", f"{second.name}/p=c"}


def test_cleaning_lists_partitions_of_overlapping_tables_only_if_asked_to(table: Tables) -> None:
    root, first = table.folder("t"), build(table, CHANGE, "a", "c")
    publish(table)
    for name, place in (("inside", root / "inside"), ("outside", root.with_name("outside"))):
        table.create(f"{name} (k bigint, v string) partitioned by (q string) stored as parquet location '{place}'")
    table.sql(f"alter table inside add partition (q = 'x') location '{first / 'p=a'}'")
    table.sql("alter table outside add partition (q = 'x')")
    build(table, CHANGE.replace("new", "newer"), "a", "c")
    publish(table)
    listed = []

    def act(_: Any, call: Callable[[], Any]) -> Any:
        listed.append(1)
        return call()

    found = {}
    for setting in ("false", "true"):
        listed.clear()
        checks = table.settings({"spark.bucketing.clean.checkAllTables": setting})
        with checks, intercepted(table.spark, "listPartitions", act):
            clean(table)
        found[setting] = len(listed)
        assert f"{first.name}/p=a" in folders(table) and f"{first.name}/p=c" not in folders(table)
    assert found["false"] < found["true"]
    for name in ("inside", "outside"):
        table.sql(f"drop table {name}")


def test_cleaning_keeps_directories_that_the_package_did_not_create(table: Tables) -> None:
    root = table.folder("t")
    names = ["build-1", "build-2024", "builds", "p=z", "build-20240101000000000000x"]
    for name in names:
        (root / name).mkdir()
        (root / name / "file").write_text("by someone else")
    build(table, CHANGE, "a", "c")
    publish(table)
    clean(table)
    assert {name for name in names if not (root / name / "file").exists()} == set()


def test_nothing_is_deleted_if_the_metastore_does_not_answer(table: Tables) -> None:
    build(table, CHANGE, "a", "c")
    publish(table)
    before = folders(table)
    with failing(table.spark, "getTableObjectsByName"):
        assert clean(table) == 0
    assert folders(table) == before


@pytest.mark.parametrize("emptied", ["by the publication", "by the next run"])
@pytest.mark.parametrize(
    "how", all_long_but(("managed stock:", "external "), ("managed stock:", "external ", "managed ", "external stock:"))
)
def test_partition_that_is_dropped_by_hand_gets_no_old_rows_back(table: Tables, emptied: str, how: str) -> None:
    kind, writer = how.split(" ")
    if kind == "external":
        make_external(table)
    build(table, CHANGE, "a", "b", "c")
    if emptied == "by the publication":
        publish(table)
    else:
        with failing(table.spark, "getTableObjectsByName"):
            publish(table)
        assert {"p=a", "p=b"} < folders(table)
        clean(table)
    assert not {"p=a", "p=b", "p=c"} & folders(table)
    table.sql(f"{writer}alter table t drop if exists partition (p = 'a'), partition (p = 'b')")
    table.sql(f"{writer}msck repair table t")
    assert set(rows_of(table)) == {"c"}
    table.sql(f"{writer}insert into t select 7, 'later', 'a' union all select 7, 'later', 'b'")
    found = rows_of(table)
    assert (found["a"], found["b"]) == ([(7, "later")], [(7, "later")])
    clean(table)
    assert rows_of(table) == found


def test_publication_keeps_default_directories_that_another_table_uses(table: Tables) -> None:
    root, old = table.folder("t"), rows_of(table)
    table.create(f"whole (k bigint, v string) stored as parquet location '{root / 'p=a'}'")
    build(table, CHANGE, "a", "b", "c")
    publish(table)
    assert "p=a" in folders(table) and "p=b" not in folders(table)
    clean(table)
    assert table.sql("select k, v from whole order by k") == old["a"]
    table.sql("drop table whole")
    clean(table)
    assert "p=a" not in folders(table)


@pytest.mark.parametrize("value", ["it's", "x/y=z%", "ü ~", "a b", "${x}"])
def test_special_partition_values_are_published(table: Tables, value: str) -> None:
    literal = value.replace("'", "\\'").replace("$", "\\u0024")
    rows = f"select id, 'new', '{literal}' from range(3)"
    for _ in ("created", "replaced"):
        build(table, rows, literal)
        publish(table)
        assert rows_of(table)[value] == NEW
        clean(table)
        assert rows_of(table)[value] == NEW


def test_null_partition_is_published(table: Tables) -> None:
    for _ in ("created", "replaced"):
        build(table, "select id, 'new', null from range(3)")
        publish(table)
        clean(table)
        assert rows_of(table)["None"] == NEW


def test_renamed_table_keeps_its_builds(table: Tables) -> None:
    build(table, CHANGE, "a", "b", "c")
    publish(table)
    before = rows_of(table)
    table.sql("drop table if exists renamed")
    table.sql("alter table t rename to renamed")
    table.sql("alter table renamed rename to t")
    assert rows_of(table) == before
    clean(table)
    assert rows_of(table) == before


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
    ("alter table plain start build in built", "found a table without partitions"),
    ("alter table t publish build from elsewhere", "Expected a table at .*/t/build-"),
    ("alter table t publish build from otherwise", "is partitioned by q"),
    ("alter table t publish build from no_such_table", "no_such_table"),
]


@pytest.mark.parametrize(("statement", "error"), WRONG)
def test_wrong_builds_are_refused(table: Tables, statement: str, error: str) -> None:
    build(table, CHANGE)
    table.create("plain (k int) using parquet")
    table.create("elsewhere (k bigint, v string) partitioned by (p string) stored as parquet")
    place = table.folder("t") / f"build-{next(_times)}"
    table.create(f"otherwise (k bigint, v string) partitioned by (q string) stored as parquet location '{place}'")
    with pytest.raises(PySparkException, match=error):
        table.sql(statement)


@pytest.mark.parametrize("rest", ["start build", "publish build built", "publish build from", "clean builds now"])
def test_syntax_errors_are_reported(table: Tables, rest: str) -> None:
    with pytest.raises(ParseException):
        table.sql(f"alter table t {rest}")


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
                # Cleans after the INSERT instead of before it, because a query here may take as long as a whole run.
                clean(table)
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
