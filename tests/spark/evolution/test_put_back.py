"""A spec that is altered while another statement writes the metadata of the same table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bucketed import Tables
from evolved import ROWS, create, places
from intercepted import intercepted
from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

DB = "put_back"


def test_the_later_of_two_statements_wins_and_rows_stay_right(spark: SparkSession) -> None:
    """As with SET TBLPROPERTIES, which reads the table, and writes it as it was a moment later."""
    tables = Tables(spark, DB)
    tables.sql(f"create or replace temporary view new_rows as {ROWS}")
    create(tables, "t")
    tables.sql("insert into t select * from new_rows")

    def put_back(client: Any, call: Callable[[], Any]) -> Any:
        before = client.getTable(DB, "t")
        result = call()
        client.alter_table(DB, "t", before)
        return result

    alter = "alter table t clustered by (k) sorted by (k) into 8 buckets"
    with intercepted(tables.spark, "alter_table_with_environmentContext", put_back):
        tables.sql(alter)
    query = "select a.k, b.v from t a join t b on a.k = b.k"
    for spec in ((4, ["k"], ["k"]), (8, ["k"], ["k"])):
        assert places(tables, "t").descriptor == spec
        assert tables.rows(query) == tables.stock_rows(query) != []
        tables.sql(alter)
        tables.sql("insert overwrite table t select * from new_rows")
