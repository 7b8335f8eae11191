"""Tests that a session which has read a table sees what other sessions of its driver write, without REFRESH TABLE."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bucketed_tables import Tables
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


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", KINDS)
def test_session_sees_that_another_session_has_truncated_the_table(tables: Tables, kind: str) -> None:
    reader = reader_of(tables, kind)
    if "partitioned" in kind:
        tables.sql("truncate table t partition (p = 1)")
        assert counts(reader) == [25, 25]
    tables.sql("truncate table t")
    assert counts(reader) == [0, 0]


@pytest.mark.some(3)
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
