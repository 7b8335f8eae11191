"""Tests that a lost file of a sealed table is reported, and that no statement hides the loss."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bucketed_tables import ERRORS, Tables, explain, put
from metastore_interception import failing
from pyspark.errors import PySparkException

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

BUCKETS = "clustered by (k) sorted by (k) into 4 buckets"
TABLES = {
    "parquet": f"t (k int, v int, p int) {BUCKETS} stored as parquet",
    "orc": f"t (k int, v int) partitioned by (p int) {BUCKETS} stored as orc",
    "spark": f"t (k int, v int, p int) using parquet partitioned by (p) {BUCKETS}",
}
ROWS = "select cast(id as int) as k, 0 as v, cast({} as int) as p from range({})"
COUNT, GROUPS = "select count(*) from t", "select k, count(*) from t group by k"
MISSING = "1 of the 4 sealed files is missing"
CHANGES = {
    "append": "insert into t values (500, 1, 0)",
    "append to a partition": "insert into t partition (p = 0) values (500, 1)",
    "delete": "delete from t where k = 3",
    "update": "update t set v = 2 where k = 3",
    "merge": "merge into t using (select 3 as k, 9 as v, 0 as p) as s on t.k = s.k when matched then update set * "
    "when not matched then insert *",
}


def create(tables: Tables, of: str) -> None:
    tables.create(TABLES[of])
    tables.sql(f"insert into t {ROWS.format('id div 100', 200)}")


def files(tables: Tables) -> list[Path]:
    """Return the files of a partition or of the whole table."""
    return [path for path in tables.files("t") if "p=" not in path.parent.name or path.parent.name == "p=0"]


def lose(tables: Tables, at: int = 1) -> Path:
    """Move a file away, as if it were lost."""
    lost = files(tables)[at]
    lost.rename(lost.with_name(f".{lost.name}.backup"))
    tables.sql("refresh table t")
    return lost


def restore(tables: Tables, lost: Path) -> None:
    lost.with_name(f".{lost.name}.backup").rename(lost)
    tables.sql("refresh table t")


def status(tables: Tables) -> tuple[object, ...]:
    found = tables.sql("select status, problem from bucket_specs('t') where partition in ('', 'p=0')")
    return found[0]


def assert_missing(tables: Tables) -> None:
    assert status(tables)[0] == "files-missing", status(tables)
    with pytest.raises(ERRORS, match=r"files? (is|are) missing"):
        tables.sql(COUNT)


@pytest.mark.parametrize("of", TABLES)
@pytest.mark.some(2)
def test_missing_file_is_reported_until_its_loss_is_accepted(tables: Tables, of: str) -> None:
    create(tables, of)
    lost = lose(tables)
    assert status(tables) == ("files-missing", MISSING)
    assert "Bucketed: false [files-missing]" in explain(tables, GROUPS)
    for query in (COUNT, GROUPS, "select * from t where k = 3"):
        with pytest.raises(ERRORS, match=f"(?s){MISSING}.*SEAL BUCKETS.*ignoreMissingFiles") as error:
            tables.sql(query)
        assert re.search(r"found:.*expected:.*instead:", str(error.value), re.DOTALL)
    with tables.settings({"spark.sql.files.ignoreMissingFiles": "true"}):
        assert tables.sql(COUNT) == tables.sql(f"stock:{COUNT}") and len(tables.sql(GROUPS)) < 200
    restore(tables, lost)
    assert tables.sql(COUNT) == [(200,)] and "Bucketed: true" in explain(tables, GROUPS)
    lose(tables)
    (dry,) = (row for row in tables.seal("t", "dry run") if row.partition in ("", "p=0"))
    assert (dry.status, dry.problem) == ("sealable", MISSING)
    assert status(tables)[0] == "files-missing"
    (outcome,) = (row for row in tables.seal("t") if row.partition in ("", "p=0"))
    assert (outcome.status, outcome.problem) == ("sealed", MISSING)
    assert status(tables)[0] == "sealed" and tables.sql(COUNT) == tables.sql(f"stock:{COUNT}")


def changes(of: str) -> list[str]:
    """Return the statements that a table of a kind supports."""
    return [
        statement for name, statement in CHANGES.items() if name != ("append to a partition" if of == "parquet" else "")
    ]


@pytest.mark.parametrize("of", ["parquet", "orc"])
def test_statements_do_not_hide_a_missing_file(tables: Tables, of: str) -> None:
    create(tables, of)
    lost = lose(tables)
    before = [path.name for path in tables.files("t")]
    for statement in changes(of):
        with pytest.raises(PySparkException, match=f"(?s){MISSING}.*restore the files.*SEAL BUCKETS"):
            tables.sql(statement)
    assert [path.name for path in tables.files("t")] == before
    if of == "orc":
        tables.sql("alter table t clustered by (k) into 8 buckets")
        with pytest.raises(PySparkException, match=MISSING):
            tables.sql("insert into t values (501, 1, 0)")
        tables.sql("delete from t where p = 1 and k = 101")
    tables.sql("stock:insert into t values (502, 1, 0)")
    assert_missing(tables)
    restore(tables, lost)
    assert tables.sql(COUNT) == [(201 if of == "parquet" else 200,)]
    lose(tables)
    tables.sql(f"insert overwrite t {ROWS.format('0', 50)}")
    assert status(tables)[0] == "sealed" and tables.sql("select count(*) from t where p = 0") == [(50,)]


OTHERS = {
    "stock overwrite": "stock:insert overwrite t select 3, 1, 0",
    "stock append": "stock:insert into t select 3, 1, 0",
    "truncate": "truncate table t",
}


@pytest.mark.parametrize("of", ["parquet", "orc"])
@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.some(3)
def test_files_that_other_writers_replaced_are_not_missing(tables: Tables, of: str, how: str) -> None:
    create(tables, of)
    tables.sql("refresh table t")
    tables.sql(OTHERS[how])
    tables.sql("refresh table t")
    assert status(tables)[0] == ("empty" if how == "truncate" else "seal-stale")
    assert tables.sql(COUNT) == tables.sql(f"stock:{COUNT}")
    if how == "truncate":
        tables.sql("stock:insert into t select 3, 1, 0")
        assert status(tables)[0] == "not-sealed"


EMPTYING = {
    "truncate": ["truncate table t"],
    "delete": ["delete from t"],
    "overwrite": [f"insert overwrite t {ROWS.format('0', 0)}"],
    "overwrite of partitions": [
        f"insert overwrite t partition (p = {p}) select cast(id as int), 0 from range(0)" for p in (0, 1)
    ],
}


@pytest.mark.parametrize("of", all_long_but("parquet", TABLES))
def test_loss_of_all_files_is_not_an_empty_table(tables: Tables, of: str) -> None:
    """Only statements without the extension cannot be told from a loss."""
    for how in set(EMPTYING) - {"overwrite of partitions" if of == "parquet" else "overwrite"}:
        create(tables, of)
        for statement in EMPTYING[how]:
            tables.sql(statement)
        assert status_of_all(tables) <= {"empty"} and tables.sql(COUNT) == [(0,)]
        tables.sql("insert into t values (500, 1, 0)")
        assert status(tables)[0] == "sealed" and tables.sql(COUNT) == [(1,)]
    create(tables, of)
    lost = [lose(tables, at=0) for _ in files(tables)]
    assert status(tables) == ("files-missing", "4 of the 4 sealed files are missing")
    assert "Bucketed: false [files-missing]" in explain(tables, GROUPS)
    for query in (COUNT, GROUPS, "select * from t where k = 3 and p = 0"):
        with pytest.raises(ERRORS, match="4 of the 4 sealed files are missing"):
            tables.sql(query)
    for statement in changes(of):
        with pytest.raises(PySparkException, match="4 of the 4 sealed files are missing"):
            tables.sql(statement)
    for path in lost:
        restore(tables, path)
    assert tables.sql(COUNT) == [(200,)] and status(tables)[0] == "sealed"
    for _ in files(tables):
        lose(tables, at=0)
    (outcome,) = (row for row in tables.seal("t") if row.partition in ("", "p=0"))
    assert outcome.status == "sealed" and "sealed files are missing" in str(outcome.problem)
    assert status(tables)[0] == "empty" and tables.sql(COUNT) == tables.sql(f"stock:{COUNT}")
    tables.sql("insert into t values (500, 1, 0)")
    assert status(tables)[0] == "sealed"


def status_of_all(tables: Tables) -> set[object]:
    return {row[0] for row in tables.sql("select status from bucket_specs('t')")}


def test_changed_file_with_a_name_of_hive_is_not_missing(tables: Tables) -> None:
    """A file that was restored from a backup may have another time."""
    create(tables, "parquet")
    tables.rename("t", r"0\1_0")
    tables.seal("t")
    path = files(tables)[1]
    content = path.read_bytes()
    path.unlink()
    tables.sql("refresh table t")
    assert_missing(tables)
    put(path, content, time=10**18)
    tables.sql("refresh table t")
    assert status(tables)[0] == "seal-stale" and tables.sql(COUNT) == [(200,)]


@pytest.mark.parametrize(("number", "state"), [(1, "not-sealed"), (0, "seal-stale")], ids=["once", "always"])
@pytest.mark.parametrize("of", ["parquet", "orc"])
@pytest.mark.some(2)
def test_files_that_an_unsealed_statement_deleted_are_not_missing(
    tables: Tables, of: str, number: int, state: str
) -> None:
    """The statement cannot write its seal. If it cannot remove the old seal either, the next statement does, before it deletes the files."""
    create(tables, of)
    change = "alter_table_with_environmentContext" if of == "parquet" else "alter_partitions"
    with failing(tables.spark, change, number=number) as failed:
        # This deletes whole buckets, and writes no files.
        tables.sql("delete from t where hive_bucket(4, k) in (1, 2) and p = 0")
    assert failed and status(tables)[0] == state
    tables.sql(f"delete from t where p = {0 if of == 'parquet' else 1} and k % 8 = 3")
    assert status(tables)[0] in ("not-sealed", "sealed")
    assert tables.sql(COUNT) == tables.sql(f"stock:{COUNT}")


def test_listing_that_is_older_than_the_seal_is_not_a_loss(tables: Tables) -> None:
    """A session with cached files reads the seal that another session has extended."""
    for of in ("parquet", "orc"):
        create(tables, of)
        reader = tables.new_session()
        assert reader.sql(COUNT).collect()[0][0] == 200
        frame = reader.sql(COUNT)
        frame._jdf.queryExecution().executedPlan()
        tables.sql(f"insert into t {ROWS.format('id div 100', 90)}")
        tables.sql("delete from t where k = 3")
        assert frame.collect()[0][0] in (200, 290, 288)
        reader.sql("refresh table t")
        assert reader.sql(COUNT).collect()[0][0] == 288
