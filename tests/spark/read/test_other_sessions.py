"""Tests that a session which has read a table sees what other sessions of its driver write, without REFRESH TABLE."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from bucketed_tables import Tables, rows_of
from local_files import denied, while_held
from partition_specs import logged
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

BUCKETS = "clustered by (k) sorted by (k) into 4 buckets"
RANGES = "tblproperties ('bucketing.range_by' = '[\"k\"]', 'bucketing.rows_per_file' = '10')"
# The columns and the rest of the DDL. Hive's DDL names the partition column in its own clause.
KINDS = {
    f"{layout} {of} {'partitioned' if partitioned else 'whole'}": ddl
    for of in ("parquet", "orc")
    for partitioned in (True, False)
    for layout, ddl in {
        "hive": f"(k int, v int) partitioned by (p int) {BUCKETS} stored as {of}"
        if partitioned
        else f"(k int, v int, p int) {BUCKETS} stored as {of}",
        "spark": f"(k int, v int, p int) using {of} {'partitioned by (p)' if partitioned else ''} {BUCKETS}",
        "organized": f"(k int, v int, p int) using {of} {'partitioned by (p)' if partitioned else ''} {RANGES}",
    }.items()
}
ROWS = "select cast(id as int) as k, 1 as v, cast(id % 2 as int) as p from range({})"
INSERT = f"insert into t {ROWS.format(50)}"
READS = ("select count(*) from t", "select count(*) from (select k from t group by k)")


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[Tables]:
    made = Tables(spark, "other_sessions")
    yield made
    made.sql("drop table if exists t")


def counts(session: SparkSession) -> list[int]:
    return [session.sql(query).collect()[0][0] for query in READS]


def reader_of(tables: Tables, kind: str) -> SparkSession:
    """Create a table, and return another session that has read it."""
    tables.create(f"t {KINDS[kind]}")
    tables.sql(INSERT)
    reader = tables.new_session()
    assert counts(reader) == [50, 50]
    return reader


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_session_sees_that_another_session_has_truncated_the_table(tables: Tables, kind: str) -> None:
    reader = reader_of(tables, kind)
    if "partitioned" in kind:
        tables.sql("truncate table t partition (p = 1)")
        assert counts(reader) == [25, 25]
    tables.sql("truncate table t")
    assert counts(reader) == [0, 0]


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_session_sees_the_rows_that_another_session_has_inserted(tables: Tables, kind: str) -> None:
    reader = reader_of(tables, kind)
    tables.sql(INSERT)
    assert counts(reader) == [100, 50]


def test_session_sees_the_files_that_another_session_has_loaded(tables: Tables) -> None:
    reader = reader_of(tables, "hive parquet whole")
    tables.create("u (k int, v int, p int) stored as parquet")
    tables.sql(f"insert into u {ROWS.format(50)}")
    for path in tables.files("u"):
        tables.sql(f"load data local inpath '{path}' into table t")
    assert counts(reader) == [100, 50]


# Statements that replace the files of a planned query.
REPLACING = {
    "overwrite": [f"insert overwrite t {ROWS.format(9)}"],
    "merge": [
        "merge into t using (select 7 as k, 1 as p) s on t.k = s.k when matched then update set v = 3",
        "delete from t where k < 40",
    ],
}


# The quick cases cover each layout, both formats, and both kinds of readers.
QUICK = (
    ("hive parquet whole", "overwrite", "true"),
    ("spark orc partitioned", "overwrite", "false"),
    ("organized parquet partitioned", "overwrite", "true"),
    ("hive orc whole", "merge", "true"),
)
REPLACED = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
    for case in product(KINDS, REPLACING, ("true", "false"))
]


@pytest.mark.parametrize(("kind", "replacing", "vectorized"), REPLACED)
def test_query_finishes_with_the_files_that_it_was_planned_with(
    tables: Tables, kind: str, replacing: str, vectorized: str
) -> None:
    reader = reader_of(tables, kind)
    for key in ("parquet.enableVectorizedReader", "orc.enableVectorizedReader", "adaptive.enabled"):
        reader.conf.set(f"spark.sql.{key}", "false" if key == "adaptive.enabled" else vectorized)
    queries = [reader.sql("select * from t"), reader.sql("select k, max(v), max(p) from t group by k")]
    before = rows_of(queries[0].collect())
    for query in queries:
        # Lists the files.
        query._jdf.queryExecution().toRdd()
    for statement in REPLACING[replacing]:
        tables.sql(statement)
    assert [rows_of(query.collect()) for query in queries] == [before, before]
    assert rows_of(reader.sql("select * from t").collect()) != before


@pytest.mark.parametrize(("kind", "replacing", "vectorized"), REPLACED)
def test_query_finishes_with_a_file_that_it_has_opened(
    tables: Tables, kind: str, replacing: str, vectorized: str
) -> None:
    """Some readers open a file again, for example to read parts of it in parallel."""
    reader = reader_of(tables, kind)
    for key in ("parquet.enableVectorizedReader", "orc.enableVectorizedReader", "adaptive.enabled"):
        reader.conf.set(f"spark.sql.{key}", "false" if key == "adaptive.enabled" else vectorized)
    before = rows_of(tables.sql("select * from t"))
    for query in ("select * from t", "select k, max(v), max(p) from t group by k"):
        planned = reader.sql(query)
        with while_held(tables.spark, "opened .*/t/(p=.*/)?[^/]*part-[^/]*", planned.collect) as running:
            for statement in REPLACING[replacing]:
                tables.new_session().sql(statement.replace(" t ", f" {tables.database}.t ")).collect()
        assert rows_of(running.result()) == before
        tables.create(f"t {KINDS[kind]}")
        tables.sql(INSERT)


@pytest.mark.parametrize("statement", ["insert overwrite t select 0, 0, 0", "alter table t recover files"])
def test_replaced_files_are_kept_for_the_configured_time(tables: Tables, statement: str) -> None:
    tables.create(f"t {KINDS['hive parquet whole']}")
    tables.sql(INSERT)
    tables.sql("insert overwrite t select 1, 1, 1")
    assert len([*tables.folder("t").glob("_retained/*/*.parquet")]) == 4
    with tables.settings({"spark.bucketing.write.retainOldFiles": "0s"}):
        tables.sql(statement)
    assert not [*tables.folder("t").glob("_retained")]


@pytest.mark.parametrize(
    "kind", ["hive parquet partitioned", pytest.param("organized orc whole", marks=pytest.mark.long)]
)
def test_user_without_permission_for_the_records_reads_the_table_but_cannot_write(tables: Tables, kind: str) -> None:
    reader = reader_of(tables, kind)
    tables.sql("merge into t using (select 7 as k, 1 as p) s on t.k = s.k when matched then update set v = 3")
    with denied(tables.spark, ".*/t/_replaced.*"):
        assert counts(reader) == [50, 50]
        assert reader.sql("select distinct status from bucket_specs('t')").count() == 1
        with pytest.raises(PySparkException, match="Permission denied"):
            tables.sql(INSERT)
    assert counts(reader) == [50, 50]


def test_queries_without_permission_for_the_records_log_one_warning(tables: Tables) -> None:
    tables.create(f"without_permission {KINDS['hive parquet partitioned']}")
    tables.sql(INSERT.replace("into t", "into without_permission"))
    readers = [tables.new_session() for _ in range(2)]
    logger = logged(tables.spark, "org.apache.spark.sql.bucketing.metadata.Replacement")
    with denied(tables.spark, ".*/_replaced.*"), logger as lines:
        for reader in readers:
            for query in READS:
                assert reader.sql(query.replace("from t", "from without_permission")).collect()[0][0] == 50
            reader.sql(f"select * from bucket_specs('{tables.database}.without_permission')").collect()
    (warning,) = [line for line in lines if "may return old and new rows" in line]
    for words in (
        "without_permission",
        "found no permission to list",
        "Expected permission",
        "Instead: grant this permission",
    ):
        assert words in warning
    tables.sql("drop table without_permission")


@pytest.mark.parametrize("name", ["_retained", "_replaced"])
def test_link_in_the_place_of_a_hidden_directory_deletes_nothing_elsewhere(
    tables: Tables, tmp_path: Path, name: str
) -> None:
    tables.create(f"t {KINDS['hive parquet whole']}")
    tables.sql(INSERT)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").touch()
    shutil.rmtree(tables.folder("t") / name, ignore_errors=True)
    (tables.folder("t") / name).symlink_to(tmp_path)
    with tables.settings({"spark.bucketing.write.retainOldFiles": "0s"}):
        tables.sql("insert overwrite t select 1, 1, 1")
    assert (tmp_path / "victim/file").exists()
