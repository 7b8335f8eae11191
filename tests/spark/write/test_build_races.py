"""Tests of builds while other statements write to the table or recover the same build: no row is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bucketed_tables import Tables
from local_files import held
from metastore_interception import failing, intercepted
from partition_specs import logged, metastore, metastore_calls
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from test_builds import CHANGE, build, folders, make_external, publish, recover, rows_of, statuses, table

from conftest import data_files

__all__ = ["table"]
pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")

TAKEN = "another run of the model has taken over the build"


def another_session(tables: Tables, enabled: str = "true") -> SparkSession:
    session = tables.spark.newSession()
    session.conf.set("spark.bucketing.enabled", enabled)
    session.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    session.sql(f"use {tables.database}")
    return session


@pytest.mark.parametrize("cached", [False, True], ids=["", "cached"])
def test_build_reads_rows_that_were_inserted_before_it_started(table: Tables, cached: bool) -> None:
    """The session has listed the table's files before another session inserts rows."""
    if cached:
        table.sql("cache table t")
    table.sql("select count(*) from t")
    another_session(table, "false").sql("insert into t select 99, 'other', 'a'")
    build(table, "select k, v, p from t where p = 'a' union all select 50, 'new', 'a'", "a")
    publish(table)
    found = rows_of(table)["a"]
    assert len(found) == 22 and (99, "other") in found and (50, "new") in found
    table.spark.catalog.clearCache()


def test_build_that_another_statement_deletes_is_not_published(table: Tables) -> None:
    place, before = build(table, CHANGE, "a", "c"), rows_of(table)
    other = another_session(table)
    with ThreadPoolExecutor(1) as pool, held(table.spark, f"delete .*/{place.name}") as deletion:
        recovery = pool.submit(other.sql, "alter table t recover build from built")
        deletion.await_reached()
        with pytest.raises(PySparkException, match=TAKEN):
            publish(table)
        deletion.open()
        recovery.result()
    assert rows_of(table) == before and not place.exists()
    for statement in ("publish build from built", "start build in built"):
        with pytest.raises(PySparkException, match=f"no table `built`, because {TAKEN}"):
            table.sql(f"alter table t {statement}")
    recover(table)
    assert rows_of(table) == before


def test_build_that_is_recovered_during_its_publication_stays_unpublished(table: Tables) -> None:
    """The publication waits before its transaction, where it deletes a directory of an earlier build.

    Another run may take it for crashed, and may publish its own rows before the first publication continues.
    """
    first = build(table, CHANGE, "a", "c")
    publish(table)
    build(table, CHANGE, "a", "c")
    publish(table)
    place = build(table, "select id, 'newest', array('a', 'b', 'd')[id % 3] from range(6)", "a", "b", "d")
    built = {f"{place.name}/p={value}" for value in ("a", "b", "d")}
    other = another_session(table)
    with ThreadPoolExecutor(1) as pool, held(table.spark, f"delete .*/{first.name}/p=a") as deletion:
        publication = pool.submit(other.sql, "alter table t publish build from built")
        deletion.await_reached()
        recover(table)
        assert folders(table) > built, "the owner of the build may still publish it"
        table.sql("insert into t select 99, 'other', 'd'")
        before = rows_of(table)
        deletion.open()
        with pytest.raises(PySparkException, match=TAKEN):
            publication.result()
    assert rows_of(table) == before and folders(table) > built


def test_build_whose_table_belongs_to_another_run_is_not_published(table: Tables) -> None:
    """Between the check and the first change, another run has deleted the build and started its own."""
    build(table, CHANGE, "a", "c")
    before = rows_of(table)

    def replace_first(client: Any, act: Callable[[], Any]) -> Any:
        found = client.getTable(table.database, "built")
        found.getParameters().put("bucketing.build", "build-20230101000000000000")
        client.alter_table(table.database, "built", found)
        return act()

    with intercepted(table.spark, "add_partitions", replace_first), pytest.raises(PySparkException, match=TAKEN):
        publish(table)
    assert rows_of(table) == before
    table.sql("drop table built")


def test_build_of_another_run_is_not_published(table: Tables) -> None:
    """Another run has deleted the build, and has started its own in a table of the same name."""
    place, before = build(table, CHANGE, "a", "c"), rows_of(table)
    recover(table)
    other = build(table, "select id, 'other', array('a', 'c')[id % 2] from range(6)")
    with pytest.raises(PySparkException, match=f"another build than {place.name} in `built`, because {TAKEN}"):
        publish(table, f"built id '{place.name}'")
    assert rows_of(table) == before
    assert publish(table, f"built id '{other.name}'") == ["p=a", "p=c"]
    assert {row[1] for row in rows_of(table)["a"]} == {"other"}


def test_recovery_completes_what_the_owner_began(table: Tables) -> None:
    """A publication crashes as soon as it owns its build: no later statement deletes the build's files or publishes them."""
    place, before = build(table, CHANGE, "a", "c"), rows_of(table)

    def crash(_: Any, act: Callable[[], Any]) -> Any:
        act()
        raise RuntimeError("crashed on purpose")

    with intercepted(table.spark, "add_partitions", crash), pytest.raises(Exception, match="on purpose"):
        publish(table)
    for statement in ("publish build from built", "start build in built"):
        with pytest.raises(PySparkException, match=TAKEN):
            table.sql(f"alter table t {statement}")
    recover(table)
    assert rows_of(table) == before and {f"{place.name}/p=a", f"{place.name}/p=c"} < folders(table)
    assert "built" not in {str(row[1]) for row in table.sql("show tables")}


def test_old_partition_needs_a_build_with_its_rows(table: Tables) -> None:
    build(table, CHANGE, "a", "c")
    build(table, "select 1, 'other', 'd'", name="merged")
    before = rows_of(table)
    with pytest.raises(PySparkException, match=r"only new rows in the partition p=a of .*built"):
        publish(table, "built, merged")
    assert rows_of(table) == before
    table.sql("drop table merged")


def test_new_partitions_are_added_in_one_transaction(table: Tables) -> None:
    place = build(table, "select id, 'new', array('c', 'd')[id % 2] from range(6)", "c", "d")
    before = rows_of(table)
    with failing(table.spark, "add_partitions", 99) as added, metastore_calls(table.spark) as calls:
        assert publish(table) == ["p=c", "p=d"]
    # The first call adds the owner to the build's table.
    assert len(added) == 2 and not [call for call in calls if call.startswith("alter_partition")], calls
    assert rows_of(table) == before | {
        value: [(k, "new") for k in range(6) if k % 2 == at] for at, value in enumerate("cd")
    }
    assert statuses(table) == dict.fromkeys(("p=a", "p=b", "p=c", "p=d"), "sealed")
    assert "Bucketed: true" in table.plan("select k, count(*) from t where p = 'c' group by k")
    client = metastore(table.spark)
    old, new = (client.getPartition(table.database, "t", f"p={value}") for value in "ac")
    assert old.getSd().getNumBuckets() == new.getSd().getNumBuckets()
    assert old.getSd().getCols().toString() == new.getSd().getCols().toString()
    assert "bucketing.read" not in dict(new.getParameters())
    assert {path.name for path in place.iterdir()} - {"_SUCCESS", "._SUCCESS.crc"} == {"p=c", "p=d"}
    table.sql("alter table t drop partition (p = 'c')")
    assert set(rows_of(table)) == {"a", "b", "d"}


def a_file(tables: Tables, folder: Path) -> Path:
    """Put a file with one row into a directory, as a slow INSERT does when it commits."""
    written = folder.with_name("slow")
    tables.sql(f"insert overwrite directory '{written}' using parquet select 99L as k, 'slow' as v")
    (file,) = written.glob("part-*")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"00000_0_{file.name}"
    file.rename(target)
    shutil.rmtree(written)
    return target


@pytest.mark.parametrize("others", ["", "and old partitions"])
def test_rows_that_a_slow_insert_wrote_to_a_new_partition_are_reported(table: Tables, others: str) -> None:
    """An INSERT that does not know the new partition writes to its default directory."""
    build(table, CHANGE if others else "select id, 'new', 'c' from range(6)", "c", *("a" if others else ""))
    publish(table)
    file = a_file(table, table.folder("t") / "p=c")
    before = rows_of(table)
    build(table, "select id, 'newer', 'c' from range(3)", "c")
    with pytest.raises(PySparkException, match=r"found:    files in .*p=c that another statement has written"):
        publish(table)
    assert rows_of(table) == before and file.exists()


def test_rows_that_were_inserted_into_an_empty_new_partition_stay(table: Tables) -> None:
    """An INSERT writes to a new partition before the transaction points it to the build."""
    place = build(table, CHANGE, "a", "c")
    files: list[Path] = []
    made = a_file(table, table.folder("t").with_name("made"))

    def insert_first(_: Any, act: Callable[[], Any]) -> Any:
        files.append(Path(shutil.copy(made, place / "_new" / "p=c")))
        return act()

    with intercepted(table.spark, "alter_partitions", insert_first):
        publish(table)
    assert rows_of(table)["c"] == [(k, "new") for k in (1, 3, 5)]
    assert [file.exists() for file in files] == [True]


def test_directory_that_a_partition_uses_through_a_link_stays(table: Tables) -> None:
    root = table.folder("t")
    link = root.with_name("link")
    link.symlink_to(root)
    try:
        table.sql(f"alter table t add partition (p = 'copy') location '{link}/p=a'")
        before = rows_of(table)["copy"]
        assert len(before) == 20
        for run in ("first", "second", "third"):
            build(table, CHANGE.replace("new", run), "a", "b", "c")
            publish(table)
            assert rows_of(table)["copy"] == before, run
        assert not (root / "p=b").exists(), "the default directory of another partition"
    finally:
        table.sql("drop table t")
        link.unlink()


def test_partition_that_a_publication_empties_stays_if_it_is_filled_again(table: Tables) -> None:
    """Another statement fills the partition after the transaction, and before the publication drops it."""
    table.sql("insert into t select 99, 'slow', 'made'")
    (file,) = data_files(table.folder("t") / "p=made")
    made = Path(shutil.copy(file, table.folder("t").with_name(file.name)))
    table.sql("alter table t drop partition (p = 'made')")
    build(table, "select 1, 'new', 'a'", "a", "b")

    def fill_first(client: Any, act: Callable[[], Any]) -> Any:
        found = client.getPartition(table.database, "t", "p=b").getSd().getLocation()
        shutil.copy(made, Path(found.removeprefix("file:")))
        return act()

    with intercepted(table.spark, "getPartitionsByNames", fill_when_empty(table, fill_first)):
        publish(table)
    assert rows_of(table) == {"a": [(1, "new")], "b": [(99, "slow")]}


def fill_when_empty(
    table: Tables, fill: Callable[[Any, Callable[[], Any]], Any]
) -> Callable[[Any, Callable[[], Any]], Any]:
    """Call a function before the metastore returns a partition that is in a build."""

    def act(client: Any, call: Callable[[], Any]) -> Any:
        location = client.getPartition(table.database, "t", "p=b").getSd().getLocation()
        return fill(client, call) if "/build-" in location else call()

    return act


def test_builds_that_no_partition_uses_are_named(table: Tables) -> None:
    """An external table keeps the files of a partition that was dropped by hand."""
    make_external(table)
    place = build(table, CHANGE, "a", "c")
    publish(table)
    for _ in range(2):
        build(table, "select id, 'newer', 'c' from range(3)", "c")
        publish(table)
    table.sql("alter table t drop partition (p = 'a')")
    build(table, "select id, 'newest', 'c' from range(3)", "c")
    with logged(table.spark, "org.apache.spark.sql.bucketing.metadata.Publication") as lines:
        publish(table)
    assert [line.split("delete them: ")[1].split(".")[0] for line in lines if "delete them" in line] == [place.name]
    assert folders(table) >= {f"{place.name}/p=a", "p=b"}
