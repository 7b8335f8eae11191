"""Tests of sessions in which another engine replaces Spark's operators with columnar operators."""

from __future__ import annotations

from pathlib import Path

import pytest
from bucketed_tables import plan_of
from pyspark.sql import SparkSession

from spark_bucketing.extension.build import _compile
from spark_bucketing.extension.spark_home import find_spark
from spark_bucketing.session import active_session, open_beside

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
