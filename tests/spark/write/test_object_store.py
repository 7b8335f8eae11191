"""Statements that replace files on an object store, where renames copy, times are whole seconds, and a crash may stop any change.

All tests simulate the object store with local files. After a number of changes, every other change fails, as if the
process was dead. Then another session reads the table, and runs the statement again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from bucketed_tables import ERRORS, Tables, plan_of, put
from local_files import held
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")
BUCKETS = "clustered by (k) sorted by (k) into 2 buckets stored as parquet"
ORGANIZED = """using parquet {by} tblproperties ('bucketing.range_by'='["k"]', 'bucketing.rows_per_file'='4')"""
TABLES = {
    "partitioned": f"(k bigint, v int) partitioned by (p int) {BUCKETS}",
    "whole": f"(k bigint, v int, p int) {BUCKETS}",
    "organized": f"(k bigint, v int, p int) {ORGANIZED.format(by='partitioned by (p)')}",
}
Rows = list[tuple[int, int, int]]
OLD: Rows = [(k, 0, k % 2) for k in range(8)]
MERGE = """merge into t using (select 20L as k, 1 as v, 5 as p union all select 1L, 1, 1) as s on t.k = s.k
    when matched then update set * when not matched then insert *"""
OVERWRITE = "insert overwrite t select id as k, 2 as v, 1 as p from range(30, 33)"
MERGED: Rows = sorted([*((k, int(k == 1), p) for k, _, p in OLD), (20, 1, 5)])
NEW: Rows = [(30, 2, 1), (31, 2, 1), (32, 2, 1)]
STATEMENTS = {
    "merge": MERGE,
    "delete": "delete from t where p = 1",
    "overwrite": OVERWRITE,
    "static overwrite": OVERWRITE.replace("select", "select /*+ partition_overwrite_mode('static') */"),
    "append": OVERWRITE.replace("overwrite", "into"),
}


def rows_after(name: str, of: str) -> Rows:
    if name == "merge":
        return MERGED
    if name == "append":
        return [*OLD, *NEW]
    added = [] if name == "delete" else NEW
    return (
        added
        if "overwrite" in name and (of == "whole" or "static" in name)
        else [*(row for row in OLD if row[2] != 1), *added]
    )


@contextmanager
def object_store(
    spark: SparkSession, changes: int = sys.maxsize >> 32, millis: int = 0, conditional: bool = True
) -> Iterator[Any]:
    """Let all changes of files after these fail."""
    files: Any = spark.sparkContext._jvm.org.apache.spark.sql.bucketing.support.TestFileSystem  # type: ignore[union-attr]
    try:
        yield files.startStore(changes, millis, conditional)
    finally:
        files.stopStore()


def create(tables: Tables, of: str) -> Path:
    tables.create(f"t {TABLES[of]}")
    tables.sql("insert into t select id as k, 0 as v, cast(id % 2 as int) as p from range(8)")
    return tables.folder("t")


def rows(tables: Tables) -> Rows:
    tables.sql("refresh table t")
    return sorted(tables.sql("select k, v, p from t"))  # type: ignore[arg-type]


def changes_of(tables: Tables, of: str, statement: str, new: Rows) -> int:
    """Run a statement on a new table, and return the number of changes of files that it made."""
    with object_store(tables.spark) as store:
        create(tables, of)
        before = store.changes()
        tables.sql(statement)
        number = int(store.changes() - before)
        assert rows(tables) == new
        return number


CASES = [(of, name) for of in TABLES for name in STATEMENTS if (of, name) != ("organized", "overwrite")]


@pytest.mark.parametrize(
    ("of", "name", "step"),
    [("partitioned", "merge", 9), *(pytest.param(*case, 1, marks=pytest.mark.long) for case in CASES)],
)  # fmt: skip
def test_statement_takes_effect_as_a_whole_or_not_at_all(tables: Tables, of: str, name: str, step: int) -> None:
    """Stop after each number of changes, or after every few numbers."""
    statement, new = STATEMENTS[name], rows_after(name, of)
    number = changes_of(tables, of, statement, new)
    kept = {"old": 0, "new": 0}
    for changes in range(0, number, step):
        with object_store(tables.spark):
            folder = create(tables, of)
        # If only old files are left to delete, the statement succeeds.
        with object_store(tables.spark, changes), suppress(Exception):
            tables.sql(statement)
        # Statements keep the files of one that has shown a sign of life in the last minute.
        for path in folder.glob("_replaced/*/*"):
            os.utime(path, (0, time.time() - 120))
        with object_store(tables.spark):
            found = rows(tables)
            kept["old" if found == OLD else "new"] += 1
            assert found in (OLD, new), changes
            if found == OLD or name not in ("merge", "append"):
                tables.sql(statement)
            tables.sql("alter table t recover files")
            assert rows(tables) == new, changes
        assert sorted(tables.sql("stock:select k, v, p from t")) == new, changes
        assert not [path for path in folder.rglob("*") if "files" in path.parts and path.is_file()]
    # A deletion in few partitions takes few changes; each of them was the last one before a crash.
    assert step > 1 or (sum(kept.values()) == number and min(kept.values()) > 1), kept


MOVES = {
    "rename": "alter table t partition (p=1) rename to partition (p=7)",
    "location": "alter table t set location '{}/moved'",
}


@pytest.mark.parametrize("of", ["partitioned", pytest.param("organized", marks=pytest.mark.long)])
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.long
def test_rows_after_a_crash_survive_a_statement_that_moves_files(
    tables: Tables, of: str, move: str, tmp_path: Path
) -> None:
    """The record of the crashed statement names the files by the directories that they had."""
    number = changes_of(tables, of, MERGE, MERGED)
    seen = set()
    for changes in range(number // 2, number, 2):
        with object_store(tables.spark):
            folder = create(tables, of)
        with object_store(tables.spark, changes), suppress(Exception):
            tables.sql(MERGE)
        with object_store(tables.spark):
            found = rows(tables)
            seen.add(tuple(found))
            tables.sql(MOVES[move].format(tmp_path))
            expected = [(k, v, 7 if move == "rename" and p == 1 else p) for k, v, p in found]
            assert rows(tables) == expected, changes
            tables.sql("update t set v = v + 1")
            assert rows(tables) == [(k, v + 1, p) for k, v, p in expected], changes
        # DROP TABLE does not delete the earlier directory of the table.
        tables.sql("drop table t")
        shutil.rmtree(folder, ignore_errors=True)
    assert seen == {tuple(OLD), tuple(MERGED)}


def rows_or_deletion(spark: SparkSession) -> list[tuple[object, ...]] | None:
    """Return the rows of the table, or None if a statement deletes an old file just before the query opens it."""
    try:
        return sorted(tuple(row) for row in spark.sql("select k, v, p from t").collect())
    except Exception as error:
        if "FILE_NOT_EXIST" not in str(error):
            raise
        return None


def test_readers_see_old_or_new_rows_while_files_are_copied(tables: Tables) -> None:
    with object_store(tables.spark, millis=100), ThreadPoolExecutor(1) as pool:
        create(tables, "partitioned")
        reader = tables.new_session()
        running = pool.submit(tables.sql, OVERWRITE)
        seen = []
        while not running.done():
            found = rows_or_deletion(reader)
            if found is not None:
                seen.append(found)
        running.result()
        assert {tuple(found) for found in seen} <= {tuple(OLD), tuple(rows_after("overwrite", "partitioned"))}
        assert len(seen) > 2


@pytest.mark.parametrize("name", [r"\1_0", r"\g<0>"], ids=["hive", "spark"])
def test_scan_compares_only_files_of_other_engines_with_the_listing(tables: Tables, name: str) -> None:
    """No other job writes a file with Spark's name, so it needs no request."""
    with object_store(tables.spark):
        create(tables, "whole")
        tables.rename("t", name)
        tables.seal("t")
        frame = tables.frame("select k, count(*) from t group by k")
        assert plan_of(frame).shape == (0, 0, 1)
        file = tables.files("t")[0]
        put(file, file.read_bytes(), time=10**18)
        if name == r"\1_0":
            with pytest.raises(ERRORS, match="was replaced while the query ran"):
                frame.collect()
        else:
            assert len(frame.collect()) == len(OLD)


@pytest.mark.long
def test_seals_and_statistics_have_the_times_of_listings(tables: Tables) -> None:
    """Listings have milliseconds, and the status of a single file has seconds."""
    with object_store(tables.spark):
        for of in ("partitioned", "organized"):
            create(tables, of)
            tables.sql(MERGE)
            if of == "partitioned":
                found = tables.sql(f"select distinct status from bucket_specs('{tables.database}.t')")
                assert found == [("sealed",)]
            else:
                known = tables.sql(f"select count(*), count(rows) from file_statistics('{tables.database}.t')")
                assert known[0][0] == known[0][1], known


def test_lost_answer_of_the_storage_is_no_failure(tables: Tables) -> None:
    """The storage has committed the statement, but reports an error."""
    files: Any = tables.spark.sparkContext._jvm.org.apache.spark.sql.bucketing.support.TestFileSystem  # type: ignore[union-attr]
    with object_store(tables.spark):
        create(tables, "partitioned")
        files.loseAnswers(".*/outcome")
        try:
            tables.sql(MERGE)
        finally:
            files.loseAnswers("(?!)")
        assert rows(tables) == MERGED
        assert tables.sql("alter table t recover files") == [("nothing",)]


@pytest.mark.parametrize("name", ["merge", "append"])
@pytest.mark.some(1)
def test_late_answer_of_the_storage_loses_no_row(tables: Tables, name: str) -> None:
    """Other statements complete the committed one, and delete its record, before it knows that it has committed."""
    with object_store(tables.spark), ThreadPoolExecutor(1) as pool:
        folder, other = create(tables, "partitioned"), tables.new_session({"spark.bucketing.write.recoverAfter": "0s"})
        with held(tables.spark, "answer .*/outcome") as answer:
            running = pool.submit(tables.sql, STATEMENTS[name])
            answer.await_reached()
            (record,) = [
                path.parent for path in folder.glob("_replaced/*/outcome") if not (path.parent / "done").exists()
            ]
            other.sql("delete from t where k = 2").collect()
            # Queries may need the record for some time after the statement.
            os.utime(record / "done", (time.time() - 3600,) * 2)
            other.sql("delete from t where k = 4").collect()
            assert not (record / "started").exists()
        with pytest.raises(PySparkException, match=r"(?s)the outcome is unknown.*RECOVER FILES.*compare the rows"):
            running.result()
        assert rows(tables) == [row for row in sorted(rows_after(name, "partitioned")) if row[0] not in (2, 4)]


def test_store_without_exclusive_creation_undoes_only_when_told(tables: Tables) -> None:
    """Another statement of unknown state may still be running, and two statements cannot exclude each other."""
    with object_store(tables.spark, conditional=False):
        folder = create(tables, "partitioned")
        # A finished statement is no obstacle.
        tables.sql(MERGE)
        record = folder / "_replaced" / "20990101000000000000-0"
        record.mkdir()
        lists = {
            "added": ["p=1/00000_0_part-new.c000"],
            "removed": [],
            "created": [],
            "dropped": [],
            "exclusive": False,
        }
        (record / "started").write_text(json.dumps(lists))
        for statement in (STATEMENTS["delete"], OVERWRITE, "alter table t recover files"):
            with pytest.raises(PySparkException, match=r"(?s)decide its outcome differently.*RECOVER FILES FORCE"):
                tables.sql(statement)
        assert rows(tables) == MERGED
        assert tables.sql("alter table t recover files force") == [("undone",)]
        tables.sql(OVERWRITE)
        assert rows(tables) == sorted([*(row for row in MERGED if row[2] != 1), *NEW])


@pytest.mark.parametrize("races", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("storage", ["local", "store"])
def test_commit_and_undo_exclude_each_other(tables: Tables, storage: str, races: int) -> None:
    """Two threads decide the same replacement at the same time. Both find the same decision."""
    jvm: Any = tables.spark.sparkContext._jvm
    records = jvm.org.apache.spark.sql.bucketing.metadata.Replacement
    tables.create(f"t {TABLES['whole']}")
    location = jvm.org.apache.hadoop.fs.Path(str(tables.folder("t")))
    conf = tables.spark.sparkContext._jsc.hadoopConfiguration()
    fs = location.getFileSystem(conf)
    found: Counter[tuple[str, ...]] = Counter()
    with object_store(tables.spark) if storage == "store" else nullcontext(), ThreadPoolExecutor(3) as pool:
        for _ in range(races):
            folder = records.newFolder(location, fs)
            path = tables.folder("t") / "_replaced" / folder.getName()
            (path / "started").write_text(
                json.dumps({"added": [], "removed": [], "created": [], "dropped": [], "exclusive": True})
            )
            record = next(
                one for one in _elements(records.records(location, conf)) if one.folder().getName() == folder.getName()
            )
            together = Barrier(3)

            def decide(commits: bool, record: Any = record, together: Barrier = together) -> str:
                together.wait()
                return str(records.decide(record, commits, False, fs))

            answers = tuple(sorted(set(pool.map(decide, (True, False, False)))))
            found[answers] += 1
            assert (path / "outcome").read_text().split()[0] == {"Some(true)": "committed"}.get(answers[0], "undone")
            records.forget(folder, fs)
    print(f"\n{storage}: {dict(found)}", flush=True)
    assert found.keys() <= {("Some(true)",), ("Some(false)",)}


def _elements(of: Any) -> list[Any]:
    return [of.apply(i) for i in range(of.size())]
