"""Tests of sessions in which another engine replaces Spark's operators with columnar operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bucketed_tables import Tables, buckets_of_files, plan_of
from partition_specs import logged
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from second_sessions import active_session, open_beside

from spark_bucketing.extension.build import _compile, find_spark

ENGINE = """
package engine
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.ColumnarRule
class Rules extends ColumnarRule
class Extension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar(_ => new Rules)
}
"""


def plan(session: SparkSession, folder: Path) -> str:
    """Plan a query on a sealed table in the Spark layout, in a new session."""
    with active_session(session):
        session.sql(
            f"create table t (k bigint, v string) using parquet clustered by (k) sorted by (k) into 8 buckets "
            f"location '{folder}'"
        )
        session.sql("insert into t select id, 'x' from range(99)")
        frame = session.sql("select k, count(*) from t group by k")
        assert len(frame.collect()) == 99
        return plan_of(frame)


@pytest.mark.long
def test_extension_leaves_tables_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    source, jar = tmp_path / "Engine.scala", tmp_path / "engine.jar"
    source.write_text(ENGINE)
    _compile(find_spark(), [source], jar)
    enabled = {"spark.bucketing.enabled": "true"}
    alone = open_beside(spark, enabled)
    beside = open_beside(spark, enabled, jar, "engine.Extension")
    assert "Bucketed: true (8 Spark buckets" in plan(alone, tmp_path / "alone")
    assert "Spark buckets" not in plan(beside, tmp_path / "beside")


@contextmanager
def native_shuffles(tables: Tables, mode: str) -> Iterator[None]:
    """Replace Spark's exchanges with those of another engine, which hash the expressions of a partitioning themselves."""
    shuffles = tables.spark.sparkContext._jvm.org.apache.spark.sql.bucketing.support.NativeShuffles  # type: ignore[union-attr]
    state = tables.spark._jsparkSession.sessionState()
    shuffles.use(state, mode)
    try:
        with tables.settings(
            {"spark.sql.adaptive.enabled": "true", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
        ):
            yield
    finally:
        shuffles.use(state, "")


STORED = ("stored as parquet", "stored as orc tblproperties ('bucketing_version' = '2')")
ROWS = "select id as k, cast(id as string) as v, cast(id % 3 as int) as p from range(300)"


@pytest.mark.usefixtures("extension", "dynamic_partitions", "no_broadcast")
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.long
def test_engine_that_hashes_partitioning_expressions_itself(tables: Tables, stored: str) -> None:
    """Comet's native shuffle does this with each exchange whose partitioning is a HashPartitioning."""
    tables.create(f"whole (k bigint, v string, p int) clustered by (k) sorted by (k) into 8 buckets {stored}")
    tables.create(
        f"days (k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 8 buckets {stored}"
    )
    organized = "tblproperties ('bucketing.range_by'='[\"k\"]', 'bucketing.rows_per_file'='100')"
    tables.create(f"organized (k bigint, v string, p int) using parquet {organized}")
    with native_shuffles(tables, "hash"):
        for statement in (
            f"insert into whole {ROWS}",
            f"insert overwrite whole {ROWS}",
            f"insert into days {ROWS}",
            f"insert overwrite days {ROWS}",
            f"insert into organized {ROWS}",
            "merge into days t using (select id as k, 'new' as v, 1 as p from range(250, 400)) s on t.k = s.k "
            "when matched then update set * when not matched then insert *",
            "delete from organized where k % 10 = 3",
        ):
            tables.sql(statement)
            assert set(buckets_of_files(tables, "whole").values()) | set(buckets_of_files(tables, "days").values()) <= {
                1
            }
        assert tables.sql("select distinct status from bucket_specs('days')") == [("sealed",)]
        assert tables.sql("select count(*), max(cnt) from (select k, count(*) cnt from days group by k)") == [(400, 1)]
        # Only the other side is shuffled, by Hive's hash.
        for query in (
            "select * from whole a full join (select id + 0 as k from range(400)) b on a.k = b.k",
            "select p, count(*) from whole group by p",
        ):
            assert "NativeExchange" in tables.read(query)


@pytest.mark.usefixtures("extension", "dynamic_partitions")
def test_rows_that_another_engine_scatters_are_not_sealed(tables: Tables) -> None:
    tables.create("t (k bigint, v string, p int) clustered by (k) sorted by (k) into 8 buckets stored as parquet")
    tables.sql(f"insert into t {ROWS}")
    before = [path.name for path in tables.files("t")]
    with native_shuffles(tables, "scatter"):
        with pytest.raises(
            PySparkException, match=r"(?s)new files of bucket \d.*NativeExchange.*nothing has been replaced"
        ):
            tables.sql(f"insert overwrite t {ROWS}")
        assert [path.name for path in tables.files("t")] == before
        with logged(tables.spark, "org.apache.spark.sql.bucketing.write.SealedWrites") as lines:
            tables.sql(f"insert into t {ROWS}")
    assert [line for line in lines if "not sealed" in line and "NativeExchange" in line], lines
    assert tables.sql("select status from bucket_specs('t')") == [("seal-stale",)]
    assert tables.rows("select k, count(*) from t group by k") == tables.stock_rows(
        "select k, count(*) from t group by k"
    )
