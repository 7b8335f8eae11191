"""`spark-bucketing evolution` on real tables: what it shows and finds, what it mends, and what no death of it loses."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bucketed import Tables
from click.testing import Result
from commanded import evolution_of
from pyspark.sql import SparkSession

from conftest import Project
from spark_bucketing.evolution.owner import Owner
from spark_bucketing.evolution.staging import FOLDER, OWNER
from spark_bucketing.evolution.warehouse import Warehouse

pytestmark = pytest.mark.usefixtures("extension")

DB = "evolution_command"
HARD = ("it's", 'a "b" c', "x/y=z%", "${spark.master}", "b\\c", "ü ~", None)
# What a run does to the metastore or the files for one partition, with a word of each.
STEPS = {
    "create": "create",
    "insert": "insert",
    "make folder": "make_folder",
    "record without buckets": "not clustered",
    "swap": "set location",
    "record": "clustered by",
    "copy": "copy",
    "delete old folder": "clear",
    "rename copy": "rename",
    "swap back": "set location",
    "record again": "clustered by",
    "delete new folder": "clear",
    "delete hidden folder": "delete",
    "drop": "drop",
}


def steps_before(moment: str) -> int:
    """How many steps come first."""
    return list(STEPS).index(moment)


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[Tables]:
    made = Tables(spark, DB)
    # dbt-spark, whose tests share this session, switches ANSI mode off.
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.ansi.enabled": "true"}):
        yield made


@pytest.fixture
def command(new_project: Callable[..., Project]) -> Callable[..., Result]:
    """The command, run in this process with this session."""
    return evolution_of(new_project())


def literal(value: str | None) -> str:
    if value is None:
        return "null"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def make(tables: Tables, name: str, columns: str = "ds string", stored: str = "stored as parquet") -> None:
    tables.sql(f"drop table if exists {name}")
    tables.sql(
        f"create table {name} (k int, v bigint) partitioned by ({columns}) clustered by (k) sorted by (k) "
        f"into 4 buckets {stored}"
    )


def fill(tables: Tables, name: str, ds: str | None, rows: int = 40, how: str = "overwrite") -> None:
    tables.sql(
        f"insert {how} table {name} partition (ds = {literal(ds)}) select cast(id as int), id from range({rows})"
    )


def alter(tables: Tables, name: str, buckets: int, rest: str = "") -> None:
    tables.sql(f"alter table {name} {rest} clustered by (k) sorted by (k) into {buckets} buckets")


def evolved(tables: Tables, name: str, specs: Mapping[str, int], stored: str = "stored as parquet") -> None:
    """A table with partitions of these numbers of buckets, whose own spec is the last one."""
    make(tables, name, stored=stored)
    for ds, buckets in specs.items():
        alter(tables, name, buckets)
        fill(tables, name, ds)


def record(tables: Tables, name: str) -> dict[str, tuple[object, ...]]:
    """Number of buckets by record and by descriptor, and where the partition is."""
    rows = tables.sql(
        f"select partition, num_buckets, descriptor_num_buckets, problem from bucket_specs('{DB}.{name}')"
    )
    return {str(row[0]): row[1:] for row in rows}


def locations(tables: Tables, name: str) -> dict[str, Path]:
    rows = tables.sql(f"select partition, location from bucket_specs('{DB}.{name}')")
    return {str(row[0]): Path(str(row[1]).removeprefix("file:").replace("//", "/")) for row in rows}


def set_parameter(tables: Tables, name: str, ds: str, key: str, value: str | None) -> None:
    """What another engine can do to a record."""
    jvm, session = tables.spark.sparkContext._jvm, tables.spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    metastore = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(client.conf()).getMSC()
    partition = metastore.getPartition(DB, name, f"ds={ds}")
    if value is None:
        partition.getParameters().remove(key)
    else:
        partition.getParameters().put(key, value)
    metastore.alter_partition(DB, name, partition)


def unrecord(tables: Tables, name: str) -> None:
    for key in ("spec_version", "num_buckets", "columns", "sort_columns", "hash"):
        set_parameter(tables, name, "a", f"bucketing.{key}", None)


def sums(tables: Tables, name: str) -> list[str]:
    tables.sql(f"refresh table {name}")
    return tables.rows(f"select ds, count(*), sum(v), count(distinct k) from {name} group by ds")


def fine(run: Callable[..., Result], name: str) -> None:
    result = run("verify", f"{DB}.{name}", "--rows")
    assert result.exit_code == 0, result.output


def test_specs_are_shown_as_ranges(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "shown", {"a": 4, "b": 4, "c": 8})
    result = command("show", f"{DB}.shown")
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert (result.exit_code, lines[0]) == (0, f"{DB}.shown: 8 buckets by (k), sorted by (k), 3 partitions")
    assert "ds=a .. ds=b 2 partitions 4 buckets by (k), sorted by (k)" in lines
    assert "ds=c 1 partition 8 buckets by (k), sorted by (k)" in lines
    assert "all partitions together: as 4 buckets by (k)" in lines
    tables.sql("alter table shown partition (ds = 'b') not clustered")
    data = json.loads(command("show", f"{DB}.shown", "--format", "json").output)
    assert [(read["first"], read["last"], read["num_buckets"]) for read in data["readable"]] == [
        ("ds=a", "ds=a", 4),
        ("ds=b", "ds=b", None),
        ("ds=c", "ds=c", 8),
    ]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(8, id="divides"),
        pytest.param(6, id="by a half", marks=pytest.mark.long),
        pytest.param(5, id="not at all"),
    ],
)
def test_what_show_says_of_reading_is_what_the_planner_does(
    tables: Tables, command: Callable[..., Result], second: int
) -> None:
    evolved(tables, "planned", {"a": 4, "b": second})
    together = json.loads(command("show", f"{DB}.planned", "--format", "json").output)["all_partitions"]
    plan = tables.plan("select k, count(*) from planned group by k")
    expected = together["num_buckets"]
    assert ("Bucketed: true" in plan) == (expected is not None), plan
    if expected:
        assert f"Bucketed: true ({expected} Hive buckets" in plan
    else:
        assert together["why"][:40] in plan


def test_a_table_that_never_evolved_is_fine(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "never")
    with tables.settings({"spark.bucketing.enabled": "false"}):
        tables.sql("insert into never partition (ds = 'a') select 1, 1")
    fine(command, "never")
    assert "No spec was ever altered" in command("show", f"{DB}.never").output
    assert "every record is what the files are" in command("repair", f"{DB}.never").output
    assert record(tables, "never")["ds=a"][0] is None


BREAKS: dict[str, Callable[[Tables, str], object]] = {
    "a key is gone": lambda t, n: set_parameter(t, n, "a", "bucketing.hash", None),
    "no number": lambda t, n: set_parameter(t, n, "a", "bucketing.num_buckets", "many"),
    "no JSON": lambda t, n: set_parameter(t, n, "a", "bucketing.columns", "[k"),
    "another version": lambda t, n: set_parameter(t, n, "a", "bucketing.spec_version", "9"),
    "another number": lambda t, n: set_parameter(t, n, "a", "bucketing.num_buckets", "16"),
    "another column": lambda t, n: set_parameter(t, n, "a", "bucketing.columns", '["v"]'),
    "a column that is not there": lambda t, n: set_parameter(t, n, "a", "bucketing.columns", '["gone"]'),
    "no order": lambda t, n: set_parameter(t, n, "a", "bucketing.sort_columns", "[]"),
    "no record": lambda t, n: unrecord(t, n),
    "said to have none": lambda t, n: t.sql(f"alter table {n} partition (ds = 'a') not clustered"),
    "analyzed": lambda t, n: t.sql(f"analyze table {n} partition (ds = 'a') compute statistics"),
    "serde properties": lambda t, n: t.sql(f"alter table {n} partition (ds = 'a') set serdeproperties ('x' = 'y')"),
}
QUICK_BREAKS = ("a key is gone", "another number", "analyzed")


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[] if how in QUICK_BREAKS else [pytest.mark.long]) for how in BREAKS]
)
def test_every_broken_record_is_found_and_repaired(tables: Tables, command: Callable[..., Result], how: str) -> None:
    evolved(tables, "broken", {"a": 4, "b": 8})
    BREAKS[how](tables, "broken")
    before = record(tables, "broken")
    # Files that are more than their record says are no mistake.
    if how != "said to have none":
        found = command("verify", f"{DB}.broken", "--rows")
        assert found.exit_code == 1 and found.output.startswith("ds=a: found"), found.output
    dry = command("repair", f"{DB}.broken", "--dry-run")
    assert (dry.exit_code, record(tables, "broken")) == (0, before)
    assert "would write 4 buckets by (k), sorted by (k)" in dry.output
    repaired = command("repair", f"{DB}.broken")
    assert repaired.exit_code == 0, repaired.output
    assert record(tables, "broken") == {"ds=a": (4, 4, None), "ds=b": (8, 8, None)}
    assert "every record is what the files are" in command("repair", f"{DB}.broken").output
    fine(command, "broken")


@pytest.mark.long
@pytest.mark.parametrize("numbers", [(8, 4), (4, 8)], ids=["fewer", "more"])
def test_a_stale_record_is_found_by_the_rows(
    tables: Tables, command: Callable[..., Result], numbers: tuple[int, int]
) -> None:
    evolved(tables, "stale", {"a": numbers[0], "b": numbers[1]})
    files = locations(tables, "stale")
    for path in files["ds=a"].glob("*"):
        path.unlink()
    for path in files["ds=b"].glob("0*"):
        (files["ds=a"] / path.name).write_bytes(path.read_bytes())
    by_names = command("verify", f"{DB}.stale")
    assert by_names.exit_code == (1 if numbers[1] > numbers[0] else 0)
    by_rows = command("verify", f"{DB}.stale", "--rows")
    assert by_rows.exit_code == 1
    assert f"expected files of {numbers[0]} buckets" in by_rows.output
    assert command("repair", f"{DB}.stale").exit_code == 0
    assert record(tables, "stale")["ds=a"] == (numbers[1], numbers[1], None)
    fine(command, "stale")


@pytest.mark.long
def test_files_that_prove_nothing_are_recorded_so(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "loose", {"a": 4, "b": 4})
    folder = locations(tables, "loose")["ds=a"]
    first, second = sorted(folder.glob("0*"))[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    for path in folder.glob(".*.crc"):
        path.unlink()
    tables.sql("refresh table loose")
    rows = sums(tables, "loose")
    assert command("verify", f"{DB}.loose").exit_code == 0
    assert "holds rows of bucket" in command("verify", f"{DB}.loose", "--rows").output
    assert "the files prove no spec" in command("repair", f"{DB}.loose").output
    assert record(tables, "loose") == {"ds=a": (0, 0, None), "ds=b": (4, 4, None)}
    assert sums(tables, "loose") == rows
    fine(command, "loose")


def test_unsorted_files_lose_their_order_only(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "unsorted")
    tables.sql("alter table unsorted clustered by (k) sorted by (v) into 4 buckets")
    tables.sql("insert overwrite table unsorted partition (ds = 'a') select cast(id as int), -id from range(40)")
    alter(tables, "unsorted", 4)
    alter(tables, "unsorted", 4, "partition (ds = 'a')")
    assert "rows that are smaller than the one before" in command("verify", f"{DB}.unsorted", "--rows").output
    assert command("repair", f"{DB}.unsorted").exit_code == 0
    rows = tables.sql(f"select num_buckets, sort_columns from bucket_specs('{DB}.unsorted')")
    assert rows == [(4, [])]


@pytest.mark.parametrize("clustered", [True, False], ids=["clustered", "not clustered"])
def test_records_that_no_reader_asks_for_are_found_and_shown_to_readers_again(
    tables: Tables, command: Callable[..., Result], clustered: bool
) -> None:
    evolved(tables, "hidden", {"a": 4, "b": 8})
    if not clustered:
        tables.sql("alter table hidden not clustered")
    tables.sql("alter table hidden unset tblproperties ('bucketing.evolved')")
    records = record(tables, "hidden")
    assert "that no reader asks for" in command("show", f"{DB}.hidden").output
    found = command("verify", f"{DB}.hidden", "--rows")
    assert found.exit_code == 1 and found.output.count(": found") == 1, found.output
    assert f"{DB}.hidden: found no property bucketing.evolved=true" in found.output
    assert "would set bucketing.evolved=true" in command("repair", f"{DB}.hidden", "--dry-run").output
    assert command("verify", f"{DB}.hidden").exit_code == 1
    assert "sets bucketing.evolved=true" in command("repair", f"{DB}.hidden").output
    assert record(tables, "hidden") == records
    fine(command, "hidden")
    alone = "select k, count(*) from hidden where ds = 'a' group by k"
    with tables.settings({"spark.bucketing.enabled": "true"}):
        assert "Bucketed: true (4 Hive buckets" in tables.plan(alone)


def test_places_of_the_tables_spec_that_differ_are_found(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "apart", {"a": 4})
    jvm, session = tables.spark.sparkContext._jvm, tables.spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    metastore = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(client.conf()).getMSC()
    table = metastore.getTable(DB, "apart")
    table.getSd().setNumBuckets(32)
    metastore.alter_table(DB, "apart", table)
    result = command("verify", f"{DB}.apart")
    assert result.exit_code == 1
    assert "its descriptor says 32 buckets by (k), sorted by (k), and Spark's table properties say 4" in result.output
    alter(tables, "apart", 4)
    fine(command, "apart")


@pytest.mark.parametrize("stored", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_a_rewrite_brings_the_selected_partitions(tables: Tables, command: Callable[..., Result], stored: str) -> None:
    evolved(tables, "rewritten", {"a": 4, "b": 6, "c": 8}, f"stored as {stored}")
    rows = sums(tables, "rewritten")
    before = {path: path.stat().st_mtime_ns for path in locations(tables, "rewritten")["ds=c"].glob("0*")}
    dry = command("rewrite", f"{DB}.rewritten", "--dry-run")
    assert "ds=a: 4 files, " in dry.output and "ds=c: has the table's spec already" in dry.output
    assert "2 partitions to be brought to 8 buckets by (k), sorted by (k), 10 files and " in dry.output
    assert record(tables, "rewritten")["ds=a"] == (4, 4, None)
    assert command("rewrite", f"{DB}.rewritten", "--where", "ds < 'b'").exit_code == 0
    assert record(tables, "rewritten") == {"ds=a": (8, 8, None), "ds=b": (6, 6, None), "ds=c": (8, 8, None)}
    assert sums(tables, "rewritten") == rows
    result = command("rewrite", f"{DB}.rewritten")
    assert "1 partition brought to the table's spec, 2 had it before" in result.output
    assert "0 partitions brought" in command("rewrite", f"{DB}.rewritten").output
    assert sums(tables, "rewritten") == rows
    assert {path: path.stat().st_mtime_ns for path in before} == before
    nothing_is_left(tables, "rewritten")
    fine(command, "rewritten")
    assert "Bucketed: true (8 Hive buckets" in tables.plan("select k, count(*) from rewritten group by k")


def nothing_is_left(tables: Tables, name: str) -> None:
    """Every folder below the table's is a partition's, none is hidden, and no staging table is there."""
    used = set(locations(tables, name).values())
    folder = tables.folder(name)
    data = {path.parent for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"}
    assert data <= used, f"left behind: {data - used}"
    staged = [path for path in folder.rglob(f"{FOLDER}*") if path.is_dir()]
    assert not staged, f"left behind: {staged}"
    assert not tables.sql(f"show tables like '{name}__*'")


@pytest.mark.long
def test_partitions_with_hard_names(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "hard", "ds string, n int")
    for ds in HARD:
        place = f"ds = {literal(ds)}, n = {'null' if ds is None else 7}"
        tables.sql(f"insert overwrite table hard partition ({place}) select cast(id as int), id from range(9)")
    alter(tables, "hard", 8)
    rows = sums(tables, "hard")
    first, places = record(tables, "hard"), locations(tables, "hard")
    assert len(first) == len(HARD)
    fine(command, "hard")
    tables.sql("alter table hard partition (ds = 'it\\'s', n = 7) clustered by (k) into 16 buckets")
    assert command("repair", f"{DB}.hard").exit_code == 0
    assert record(tables, "hard") == first
    result = command("rewrite", f"{DB}.hard")
    assert result.exit_code == 0, result.output
    assert set(record(tables, "hard").values()) == {(8, 8, None)}
    assert locations(tables, "hard") == places
    assert sums(tables, "hard") == rows
    nothing_is_left(tables, "hard")
    fine(command, "hard")


class Died(Exception):
    """The process is dead."""


def half_deleted(folder: str, *_: object) -> None:
    next(iter(sorted(Path(folder.removeprefix("file:")).glob("0*")))).unlink()


def half_copied(folder: str, target: str) -> None:
    Path(target.removeprefix("file:")).mkdir()
    path = next(iter(sorted(Path(folder.removeprefix("file:")).glob("0*"))))
    (Path(target.removeprefix("file:")) / path.name).write_bytes(path.read_bytes()[:40])


def half_renamed(folder: str, target: str) -> None:
    """On object stores a folder is renamed file by file."""
    Path(target.removeprefix("file:")).mkdir()
    path = next(iter(sorted(Path(folder.removeprefix("file:")).glob("0*"))))
    path.rename(Path(target.removeprefix("file:")) / path.name)


# Deaths within a step: which one, and what is done of it.
WITHIN: dict[str, tuple[str, Callable[..., None]]] = {
    "half deleted": ("delete old folder", half_deleted),
    "half copied": ("copy", half_copied),
    "half renamed": ("rename copy", half_renamed),
    "half cleared up": ("delete new folder", half_deleted),
}


@contextmanager
def dying(
    monkeypatch: pytest.MonkeyPatch, before: int | None, last_act: Callable[..., None] = lambda *_: None
) -> Iterator[list[str]]:
    """Record what is changed; die before one of the changes, and let nothing happen after that."""
    done: list[str] = []

    def watched(name: str) -> Callable[..., None]:
        real = getattr(Warehouse, name)

        def act(self: Warehouse, *what: Any) -> Any:
            if before is not None and len(done) >= before:
                if len(done) == before:
                    last_act(*what)
                done.append("dead")
                raise Died(*what)
            done.append(f"{name} {what[0]}")
            return real(self, *what)

        return act

    with monkeypatch.context() as patched:
        for name in ("change", "clear", "copy", "delete", "make_folder", "rename"):
            patched.setattr(Warehouse, name, watched(name))
        yield done


# The rest are as good, and take long.
QUICK_DEATHS = ("swap", "half renamed", "swap back")


@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=[] if moment in QUICK_DEATHS else [pytest.mark.long]) for moment in (*STEPS, *WITHIN)],
)
def test_a_death_before_any_step_loses_nothing(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    evolved(tables, "mortal", {"a": 4, "b": 8})
    rows = sums(tables, "mortal")
    query = "select x.k, count(*), sum(y.v) from mortal x join mortal y on x.k = y.k where x.ds = 'a' group by x.k"
    joined = tables.stock_rows(query)
    places = locations(tables, "mortal")
    step, last_act = WITHIN.get(moment, (moment, lambda *_: None))
    last = steps_before(step)
    with dying(monkeypatch, last, last_act) as done:
        assert command("rewrite", f"{DB}.mortal").exit_code == 2
    assert [word in step for step, word in zip(done[:last], STEPS.values(), strict=False)] == [True] * last
    assert set(done[last:]) == {"dead"}
    assert sums(tables, "mortal") == rows
    assert tables.rows(query) == joined
    result = command("rewrite", f"{DB}.mortal")
    assert result.exit_code == 0, result.output
    assert record(tables, "mortal") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None)}
    assert sums(tables, "mortal") == rows
    assert locations(tables, "mortal") == places
    nothing_is_left(tables, "mortal")
    fine(command, "mortal")


def test_these_are_all_steps_of_a_rewrite(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "steps", {"a": 4, "b": 8})
    with dying(monkeypatch, None) as done:
        assert command("rewrite", f"{DB}.steps").exit_code == 0
    assert len(done) == len(STEPS)
    assert [word in step for step, word in zip(done, STEPS.values(), strict=True)] == [True] * len(STEPS)


def test_the_next_run_completes_another_partitions_swap_even_if_the_spec_was_altered_since(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "altered", {"a": 4, "b": 8})
    rows = sums(tables, "altered")
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.altered")
    assert record(tables, "altered")["ds=a"] == (0, 0, None)
    alter(tables, "altered", 16)
    result = command("rewrite", f"{DB}.altered", "--where", "ds = 'b'")
    assert "ds=a: completing an earlier run" in result.output
    assert record(tables, "altered") == {"ds=a": (8, 8, None), "ds=b": (16, 16, None)}
    assert sums(tables, "altered") == rows
    fine(command, "altered")


def test_rows_added_after_a_swap_whose_run_died_are_not_recorded_as_buckets(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "added", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.added")
    alter(tables, "added", 4)
    tables.sql("insert into added select *, 'a' as ds from (select cast(id as int) as k, id as v from range(40))")
    rows = sums(tables, "added")
    result = command("rewrite", f"{DB}.added", "--where", "ds = 'b'")
    assert "ds=a: completing an earlier run" in result.output
    assert record(tables, "added")["ds=a"] == (0, 0, None)
    assert sums(tables, "added") == rows
    nothing_is_left(tables, "added")


def test_other_readers_of_the_path_find_what_was_rewritten(
    tables: Tables, command: Callable[..., Result], tmp_path: Path
) -> None:
    evolved(tables, "outside", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'outside'}'")
    rows, places = sums(tables, "outside"), locations(tables, "outside")
    result = command("rewrite", f"{DB}.outside")
    assert result.exit_code == 0, result.output
    assert record(tables, "outside") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None)}
    assert locations(tables, "outside") == places
    assert sums(tables, "outside") == rows
    tables.sql("drop table outside")
    make(tables, "outside", stored=f"stored as parquet location '{tmp_path / 'outside'}'")
    tables.sql("msck repair table outside")
    assert sums(tables, "outside") == rows


@pytest.mark.long
def test_an_undone_swap_leaves_the_old_record(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "undone", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before("swap")):
        command("rewrite", f"{DB}.undone")
    assert record(tables, "undone")["ds=a"] == (0, 0, None)
    assert "an earlier run died here" in command("rewrite", f"{DB}.undone", "--dry-run").output
    assert "clearing up" in command("rewrite", f"{DB}.undone", "--where", "ds = 'b'").output
    assert record(tables, "undone")["ds=a"] == (4, 4, None)
    nothing_is_left(tables, "undone")
    fine(command, "undone")


@contextmanager
def meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object], time: int = 1) -> Iterator[None]:
    """Something else happens just before a step of a rewrite, the first time that it comes, or another one."""
    seen: list[str] = []

    def watched(name: str) -> Callable[..., None]:
        real = getattr(Warehouse, name)

        def done(self: Warehouse, *what: Any) -> Any:
            if step in f"{name} {what[0]}":
                seen.append(step)
                if len(seen) == time:
                    act()
            return real(self, *what)

        return done

    with monkeypatch.context() as patched:
        for name in ("change", "clear", "copy", "delete", "rename"):
            patched.setattr(Warehouse, name, watched(name))
        yield
    assert len(seen) >= time


@pytest.mark.long
@pytest.mark.parametrize("moment", ["copy", "swap"])
def test_rows_written_meanwhile_are_not_lost(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    evolved(tables, "busy", {"a": 4, "b": 8})
    rows = sums(tables, "busy")
    folder = locations(tables, "busy")["ds=a"]
    # While it is copied; or in the moment between the last look at the files and the swap.
    step = "insert overwrite" if moment == "copy" else "set location"
    with meanwhile(monkeypatch, step, lambda: (folder / "00000_0_late.parquet").write_bytes(some_file(folder))):
        result = command("rewrite", f"{DB}.busy")
    assert result.exit_code == 2
    said = (
        "its files were changed while" if moment == "copy" else f"something wrote to file:{folder} in the last moment"
    )
    assert said in result.output
    assert record(tables, "busy")["ds=a"] == ((4, 4, None) if moment == "copy" else (0, 0, None))
    assert locations(tables, "busy")["ds=a"] == folder
    added = sums(tables, "busy")
    assert added != rows
    assert command("rewrite", f"{DB}.busy").exit_code == 0
    assert (locations(tables, "busy")["ds=a"], sums(tables, "busy")) == (folder, added)
    nothing_is_left(tables, "busy")
    fine(command, "busy")


@pytest.mark.long
def test_a_folder_that_was_written_to_after_the_swap_is_left(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "behind", {"a": 4, "b": 8})
    rows, folder = sums(tables, "behind"), locations(tables, "behind")["ds=a"]
    late = folder / "00000_0_late.parquet"
    with meanwhile(monkeypatch, "copy", lambda: late.write_bytes(some_file(folder))):
        result = command("rewrite", f"{DB}.behind")
    assert f"its files stay in file:{tables.folder('behind')}" in result.output
    again = command("rewrite", f"{DB}.behind")
    assert f"ds=a: file:{folder} holds files that are not in the table: {late.name}" in again.output
    assert (again.exit_code, sums(tables, "behind")) == (0, rows)
    shutil.rmtree(folder)
    assert command("rewrite", f"{DB}.behind").exit_code == 0
    assert (locations(tables, "behind")["ds=a"], sums(tables, "behind")) == (folder, rows)
    nothing_is_left(tables, "behind")
    fine(command, "behind")


@pytest.mark.long
@pytest.mark.parametrize("step", ["copy", "rename", "swap back", "clear"])
def test_rows_written_while_files_go_home_are_not_lost(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    evolved(tables, "homing", {"a": 4, "b": 8})
    folder = locations(tables, "homing")["ds=a"]

    def append() -> None:
        fill(tables, "homing", "a", rows=3, how="into")

    def late() -> None:
        (hidden,) = (path for path in tables.folder("homing").rglob(f"{FOLDER}*/ds=a") if path.is_dir())
        (hidden / "00000_0_late.parquet").write_bytes(some_file(hidden))

    # The last look is over when the other folder is cleared: only a writer that had found it long before comes then.
    act = late if step == "clear" else append
    with meanwhile(
        monkeypatch, step.replace("swap back", "set location"), act, 2 if step in ("swap back", "clear") else 1
    ):
        result = command("rewrite", f"{DB}.homing")
    assert result.exit_code == 0 and "written to meanwhile" in result.output, result.output
    (hidden,) = (path for path in tables.folder("homing").rglob(f"{FOLDER}*/ds=a") if path.is_dir())
    if step == "clear":
        assert f"file:{hidden} was written to" in result.output
        assert [path.name for path in hidden.glob("0*")] == ["00000_0_late.parquet"]
        return
    # The partition is what has all rows, and the next run takes it home.
    assert locations(tables, "homing")["ds=a"] == hidden
    assert "43" in sums(tables, "homing")[0]
    assert command("rewrite", f"{DB}.homing").exit_code == 0
    assert locations(tables, "homing")["ds=a"] == folder
    assert "43" in sums(tables, "homing")[0]
    nothing_is_left(tables, "homing")
    fine(command, "homing")


def some_file(folder: Path) -> bytes:
    return next(iter(sorted(folder.glob("0*")))).read_bytes()


def test_a_folder_that_loses_files_before_it_is_the_location_is_not_kept(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "thinned", {"a": 4, "b": 8})
    rows, home = sums(tables, "thinned"), locations(tables, "thinned")["ds=a"]
    with meanwhile(monkeypatch, "set location", lambda: next(iter(sorted(home.glob("0*")))).unlink(), 2):
        result = command("rewrite", f"{DB}.thinned")
    assert f"files were deleted in file:{home}" in result.output
    assert (sums(tables, "thinned"), record(tables, "thinned")["ds=a"]) == (rows, (8, 8, None))
    shutil.rmtree(home)
    assert command("rewrite", f"{DB}.thinned").exit_code == 0
    assert (sums(tables, "thinned"), locations(tables, "thinned")["ds=a"]) == (rows, home)
    nothing_is_left(tables, "thinned")
    fine(command, "thinned")


def owned(monkeypatch: pytest.MonkeyPatch, owner: Owner) -> None:
    monkeypatch.setattr(Owner, "current", staticmethod(lambda: owner))


def test_two_rewrites_do_not_meet(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "contended", {"a": 4, "b": 8})
    rows = sums(tables, "contended")
    with monkeypatch.context() as elsewhere, dying(monkeypatch, steps_before("rename copy")):
        owned(elsewhere, Owner(7, "1", "elsewhere"))
        assert command("rewrite", f"{DB}.contended").exit_code == 2
    state = record(tables, "contended"), locations(tables, "contended")
    refused = command("rewrite", f"{DB}.contended")
    assert refused.exit_code == 2 and "begun by process 7 on elsewhere" in refused.output
    with subprocess.Popen(["sleep", "60"]) as alive:
        began = Path(f"/proc/{alive.pid}/stat").read_text().split()[21] if Path("/proc").exists() else ""
        other = Owner(alive.pid, began, Owner.current().place)
        tables.sql(f"alter table {DB}.contended__bucketing_rewrite set tblproperties ('{OWNER}' = '{other}')")
        refused = command("rewrite", f"{DB}.contended")
        alive.kill()
    assert refused.exit_code == 2 and f"Process {alive.pid} on this machine is rewriting" in refused.output
    assert (record(tables, "contended"), locations(tables, "contended")) == state
    assert sums(tables, "contended") == rows
    assert "completing" in command("rewrite", f"{DB}.contended").output, "it is dead now"
    assert sums(tables, "contended") == rows
    nothing_is_left(tables, "contended")
    fine(command, "contended")


@pytest.mark.parametrize(
    ("moment", "late"), [("rename copy", "hidden"), ("record again", "hidden"), ("record again", "home")]
)
@pytest.mark.long
def test_rows_written_just_before_a_death_are_kept(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str, late: str
) -> None:
    evolved(tables, "late", {"a": 4, "b": 8})
    home = locations(tables, "late")["ds=a"]
    with dying(monkeypatch, steps_before(moment)):
        command("rewrite", f"{DB}.late")
    (hidden,) = (path for path in tables.folder("late").rglob(f"{FOLDER}*/ds=a") if path.is_dir())
    new = (hidden if late == "hidden" else home) / "00000_0_late.parquet"
    new.write_bytes(some_file(hidden))
    rows = sums(tables, "late")
    result = command("rewrite", f"{DB}.late")
    assert result.exit_code == 0, result.output
    assert sums(tables, "late") == rows
    assert locations(tables, "late")["ds=a"] == home
    if (moment, late) == ("record again", "hidden"):
        assert new.exists() and "holds files that are not in" in result.output
    else:
        nothing_is_left(tables, "late")


@pytest.mark.parametrize("moment", ["copy", "clear", "rename", "delete"])
@pytest.mark.long
def test_another_run_that_takes_over_stops_this_one(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    evolved(tables, "overtaken", {"a": 4, "b": 8})
    rows = sums(tables, "overtaken")
    outputs: list[str] = []

    def second() -> None:
        with monkeypatch.context() as elsewhere:
            owned(elsewhere, Owner(7, "1", "elsewhere"))
            outputs.append(command("rewrite", f"{DB}.overtaken", "--take-over").output)

    with meanwhile(monkeypatch, moment, second):
        result = command("rewrite", f"{DB}.overtaken")
    assert "an earlier run that died" in outputs[0]
    assert result.exit_code == 2, result.output
    assert sums(tables, "overtaken") == rows
    assert command("rewrite", f"{DB}.overtaken").exit_code == 0
    assert sums(tables, "overtaken") == rows
    fine(command, "overtaken")


@pytest.mark.long
def test_another_table_of_the_name_is_left_alone(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tables.sql("drop table if exists renamed")
    evolved(tables, "namesake", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'one'}'")
    with dying(monkeypatch, steps_before("copy")):
        command("rewrite", f"{DB}.namesake")
    tables.sql("alter table namesake rename to renamed")
    rows = sums(tables, "renamed")
    evolved(tables, "namesake", {"a": 4, "b": 8}, f"stored as parquet location '{tmp_path / 'two'}'")
    result = command("rewrite", f"{DB}.namesake")
    assert result.exit_code == 2 and "Expected the same table" in result.output
    assert sums(tables, "renamed") == rows


@pytest.mark.long
def test_a_rewrite_that_died_elsewhere_is_taken_over(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "taken", {"a": 4, "b": 8})
    rows = sums(tables, "taken")
    with monkeypatch.context() as elsewhere, dying(monkeypatch, steps_before("copy")):
        owned(elsewhere, Owner(7, "1", "elsewhere"))
        command("rewrite", f"{DB}.taken")
    assert command("rewrite", f"{DB}.taken", "--take-over").exit_code == 0
    assert sums(tables, "taken") == rows
    nothing_is_left(tables, "taken")


@pytest.mark.long
def test_a_folder_whose_name_begins_like_a_rewrites_is_left(
    tables: Tables, command: Callable[..., Result], tmp_path: Path
) -> None:
    evolved(tables, "lake", {"a": 4, "b": 8})
    place = tmp_path / f"{FOLDER}lake" / "clicks" / "foo"
    place.parent.mkdir(parents=True)
    precious = tmp_path / f"{FOLDER}lake" / "precious"
    precious.touch()
    shutil.copytree(locations(tables, "lake")["ds=a"], place)
    tables.sql(f"alter table lake partition (ds = 'a') set location '{place}'")
    rows = sums(tables, "lake")
    assert command("rewrite", f"{DB}.lake").exit_code == 0
    assert (locations(tables, "lake")["ds=a"], sums(tables, "lake")) == (place, rows)
    assert precious.exists()


@pytest.mark.long
def test_a_partition_goes_back_to_a_folder_of_any_name(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evolved(tables, "foo", {"a": 4, "b": 8})
    place = tmp_path / "föo = 1%"
    shutil.copytree(locations(tables, "foo")["ds=a"], place)
    tables.sql(f"alter table foo partition (ds = 'a') set location '{place}'")
    rows, home = sums(tables, "foo"), locations(tables, "foo")["ds=a"]
    late = place / "00000_0_late.parquet"
    with meanwhile(monkeypatch, "copy", lambda: late.write_bytes(some_file(place))):
        assert "its files stay in" in command("rewrite", f"{DB}.foo").output
    shutil.rmtree(place)
    assert command("rewrite", f"{DB}.foo").exit_code == 0
    assert (locations(tables, "foo")["ds=a"], sums(tables, "foo")) == (home, rows)
    assert not list(tmp_path.glob(f"{FOLDER}*"))
    fine(command, "foo")


@pytest.mark.long
def test_rows_of_a_partition_that_was_dropped_after_its_swap_do_not_come_back(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "dropped", {"a": 4, "b": 8})
    with dying(monkeypatch, steps_before("record")):
        command("rewrite", f"{DB}.dropped")
    tables.sql("alter table dropped drop partition (ds = 'a')")
    assert command("rewrite", f"{DB}.dropped").exit_code == 0
    fill(tables, "dropped", "a", rows=1, how="into")
    assert [row.split(", ")[1] for row in sums(tables, "dropped")] == ["1", "40"]
    nothing_is_left(tables, "dropped")
    fine(command, "dropped")


@pytest.mark.long
def test_a_partition_that_is_written_to_before_its_turn_is_refused(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "turns", {"a": 4, "b": 8, "c": 8})
    tables.sql("alter table turns partition (ds = 'c') not clustered")

    def append() -> None:
        with tables.settings({"spark.bucketing.enabled": "false"}):
            fill(tables, "turns", "c", rows=5, how="into")

    with meanwhile(monkeypatch, "not clustered", append):
        result = command("rewrite", f"{DB}.turns")
    assert result.exit_code == 2 and "its files were changed since they were looked at" in result.output
    assert record(tables, "turns") == {"ds=a": (8, 8, None), "ds=b": (8, 8, None), "ds=c": (0, 0, None)}


@pytest.mark.long
def test_a_value_that_sql_cannot_name_does_not_stop_the_others(tables: Tables, command: Callable[..., Result]) -> None:
    make(tables, "spelled", "ds decimal(10,2)")
    for ds in ("1.00", "2.00"):
        tables.sql(f"insert into spelled partition (ds = {ds}) select cast(id as int), id from range(40)")
    jvm, session = tables.spark.sparkContext._jvm, tables.spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    metastore = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(client.conf()).getMSC()
    for partition in metastore.listPartitions(DB, "spelled", -1):
        if partition.getValues()[0].startswith("1"):
            values = jvm.java.util.ArrayList()
            values.add("1.0")
            renamed = partition.deepCopy()
            renamed.setValues(values)
            metastore.renamePartition(DB, "spelled", partition.getValues(), renamed)
    alter(tables, "spelled", 8)
    result = command("rewrite", f"{DB}.spelled")
    assert result.exit_code == 2 and "as Spark spells these values" in result.output, result.output
    assert (8, 8, None) in record(tables, "spelled").values()


@pytest.mark.long
def test_new_files_that_vanish_before_the_swap_undo_it(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "robbed", {"a": 4, "b": 8})
    rows = sums(tables, "robbed")

    def rob() -> None:
        for path in tables.folder("robbed").glob(f"{FOLDER}*/ds=a/0*"):
            path.unlink()

    with meanwhile(monkeypatch, "set location", rob):
        result = command("rewrite", f"{DB}.robbed")
    assert result.exit_code == 2 and "were deleted by something else" in result.output
    assert (sums(tables, "robbed"), record(tables, "robbed")["ds=a"]) == (rows, (4, 4, None))
    assert command("rewrite", f"{DB}.robbed").exit_code == 0
    assert sums(tables, "robbed") == rows
    nothing_is_left(tables, "robbed")
    fine(command, "robbed")


def test_a_partition_above_another_ones_folder_is_refused(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "nested", {"a": 4, "b": 8})
    inner = locations(tables, "nested")["ds=a"] / "inner"
    tables.sql(f"alter table nested add partition (ds = 'c') location '{inner}'")
    rows = sums(tables, "nested")
    result = command("rewrite", f"{DB}.nested", "--where", "ds = 'a'")
    assert result.exit_code == 2 and "is also the folder of partition ds=c, or above it" in result.output
    assert sums(tables, "nested") == rows


def test_empty_partitions_get_their_record(tables: Tables, command: Callable[..., Result]) -> None:
    evolved(tables, "empty", {"a": 4, "b": 8})
    fill(tables, "empty", "a", rows=0)
    tables.sql("alter table empty partition (ds = 'a') clustered by (k) into 2 buckets")
    assert command("rewrite", f"{DB}.empty").exit_code == 0
    assert record(tables, "empty")["ds=a"] == (8, 8, None)
    nothing_is_left(tables, "empty")


REFUSED = [
    ("nowhere", ("show", f"{DB}.nowhere"), f"There is no table {DB}.nowhere"),
    ("view", ("show", f"{DB}.a_view"), "is a view"),
    ("unpartitioned", ("verify", f"{DB}.one"), "has no partitions"),
    ("spark layout", ("repair", f"{DB}.spark"), "4 buckets of the Spark layout, which cannot evolve"),
    ("plain", ("rewrite", f"{DB}.plain"), "has no buckets, and its partitions never had any"),
    ("name", ("show", "a.b.c"), "is no name of a table"),
    ("other column", ("rewrite", f"{DB}.refused", "--where", "k = 1"), "partition columns only, which are ds"),
    ("no predicate", ("rewrite", f"{DB}.refused", "--where", "ds ="), "partition columns only, which are ds"),
    ("no condition", ("rewrite", f"{DB}.refused", "--where", "ds"), "partition columns only, which are ds"),
    ("no target", ("rewrite", f"{DB}.unclustered"), "has no buckets now"),
]


@pytest.fixture(scope="module")
def refused(spark: SparkSession) -> None:
    made = Tables(spark, DB)
    made.sql("create or replace view a_view as select 1 as a")
    made.sql("create table if not exists one (k int) clustered by (k) into 4 buckets stored as parquet")
    made.sql(
        "create table if not exists spark (k int, ds string) using parquet partitioned by (ds) clustered by (k) into 4 buckets"
    )
    made.sql("create table if not exists plain (k int) partitioned by (ds string) stored as parquet")
    make(made, "refused")
    make(made, "unclustered")
    made.sql("alter table unclustered not clustered")


@pytest.mark.parametrize(("arguments", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_done_is_said(
    refused: None, command: Callable[..., Result], arguments: tuple[str, ...], said: str
) -> None:
    result = command(*arguments)
    assert result.exit_code == 2
    assert said in result.output, result.output
    assert "mistake of this program" not in result.output and "Traceback" not in result.output


def test_a_session_without_the_extension_says_what_to_do(
    refused: None, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_bucketing.errors import SparkError

    real = Warehouse.rows

    def rows(self: Warehouse, query: str) -> list[dict[str, object]]:
        if "hive_bucket" in query:
            raise SparkError("no such function")
        return real(self, query)

    monkeypatch.setattr(Warehouse, "rows", rows)
    result = command("show", f"{DB}.refused")
    assert result.exit_code == 2 and "spark-bucketing extension conf --format profiles" in result.output
