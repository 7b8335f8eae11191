"""Tests of statements in the Spark of this process, and of their progress."""

from __future__ import annotations

from contextlib import closing

from pyspark.sql import SparkSession

from spark_bucketing.session import SessionStatements

# A query with eight tasks of a third of a second each.
SLOW = "select id from range(0, 8, 1, 8) where java_method('java.lang.Thread', 'sleep', 300L + id) is not null"


def test_statement_reports_completed_tasks(spark: SparkSession) -> None:
    seen: list[tuple[int, int]] = []
    with closing(SessionStatements(spark, lambda done, total: seen.append((done, total)))) as statements:
        assert len(statements.rows(SLOW)) == 8
    assert any(0 < done < total == 8 for done, total in seen), seen
