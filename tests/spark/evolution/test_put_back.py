"""A spec that is altered while others write the metadata of the same table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bucketed import Tables
from evolved import ROWS, create, places
from intercepted import intercepted
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

DB = "put_back"


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """A database for tables that are altered."""
    made = Tables(spark, DB)
    made.sql(f"create or replace temporary view new_rows as {ROWS}")
    return made


@pytest.mark.parametrize("what", ["all", pytest.param("properties", marks=pytest.mark.long)])
def test_a_spec_that_another_statement_puts_back_is_set_again(tables: Tables, what: str) -> None:
    """As SET TBLPROPERTIES does, which reads the table, and writes it as it was a moment later."""
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")
    seen = []

    def put_back(client: Any, call: Callable[[], Any]) -> Any:
        before = client.getTable(DB, "t")
        result = call()
        seen.append(str(before.getParameters().get("spark.sql.sources.schema.numBuckets")))
        if len(seen) < 3:
            now = before if what == "all" else client.getTable(DB, "t")
            now.putToParameters("spark.sql.sources.schema.numBuckets", "4")
            client.alter_table(DB, "t", now)
        return result

    with intercepted(tables.spark, "alter_table_with_environmentContext", put_back):
        tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    assert len(seen) == 3
    assert places(tables, "t").descriptor == (8, ["k"], ["k"])
    assert places(tables, "t").properties["numBuckets"] == "8"


def test_a_spec_that_is_put_back_again_and_again_is_an_error(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")

    def put_back(client: Any, call: Callable[[], Any]) -> Any:
        before = client.getTable(DB, "t")
        result = call()
        client.alter_table(DB, "t", before)
        return result

    with (
        intercepted(tables.spark, "alter_table_with_environmentContext", put_back),
        pytest.raises(AnalysisException, match=rf"`{DB}`.`t`: found that other statements put them back 5 times"),
    ):
        tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    assert places(tables, "t").descriptor == (4, ["k"], ["k"])
    query = "select a.k, b.v from t a join t b on a.k = b.k"
    assert tables.rows(query) == tables.stock_rows(query) != []


def test_a_spec_that_another_statement_alters_is_left(tables: Tables) -> None:
    create(tables, "t")

    def alter_further(client: Any, call: Callable[[], Any]) -> Any:
        result = call()
        after = client.getTable(DB, "t")
        after.getSd().setNumBuckets(16)
        after.putToParameters("spark.sql.sources.schema.numBuckets", "16")
        client.alter_table(DB, "t", after)
        return result

    with intercepted(tables.spark, "alter_table_with_environmentContext", alter_further):
        tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    assert places(tables, "t").descriptor == (16, ["k"], ["k"])
