"""Tests of the texts of suggested changes, which contain commands to copy."""

from __future__ import annotations

import re
import shlex

import pytest

from spark_bucketing.check.changes import bucket, rewrite_files, rewrite_partitions
from spark_bucketing.check.scans import BucketedScan, TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.plan import PlanNode
from spark_bucketing.spec import BucketSpec
from spark_bucketing.table.model import Column, Partition, Status, Table
from spark_bucketing.table.partition_predicates import rewrite_command

EIGHT = BucketSpec(8, ("k",), ("k",), "hive")


def table(column: str, *values: str) -> TableFacts:
    parts = tuple(Partition(f"{column}={value}", (value,), f"file:/t/{value}", Status.NOT_SEALED) for value in values)
    partitions = Table("db.t", EIGHT, (Column(column, "string"),), parts)
    return TableFacts("db.t", {}, EIGHT, (column,), partitions=partitions)


@pytest.mark.parametrize(
    ("column", "value", "quoted", "predicate"),
    [
        ("ds", "2024-01", "\"ds = '2024-01'\"", "ds = '2024-01'"),
        ("ds", "$HOME", """'ds = '"'"'\\u0024HOME'"'"''""", "ds = '\\u0024HOME'"),
        ("ds", "now!", """'ds = '"'"'now!'"'"''""", "ds = 'now!'"),
        ("a b", "x", """'`a b` = '"'"'x'"'"''""", "`a b` = 'x'"),
    ],
)
def test_rewrite_command_can_be_copied_into_a_shell(column: str, value: str, quoted: str, predicate: str) -> None:
    made = table(column, value, "zzz")
    assert made.partitions is not None
    change = rewrite_partitions(made.partitions, made.partitions.partitions[:1])
    command = f"spark-bucketing table rewrite db.t --where {quoted}"
    assert (
        change.text
        == f"Run `{command}` to rewrite partition {column}={value} with 8 buckets by (k), sorted by (k), hash hive."
    )
    assert shlex.split(command)[-1] == change.where == predicate


def test_no_command_ends_with_a_full_stop() -> None:
    assert rewrite_command("db.`a b`", "true") == "spark-bucketing table rewrite 'db.`a b`'"
    whole = TableFacts("db.t", {}, EIGHT)
    text = rewrite_files(BucketedScan(PlanNode(1, "Scan"), whole, EIGHT, Settings())).text
    assert re.search(r"`dbt run --full-refresh` ", text)


def test_no_table_is_bucketed_by_its_own_partition_column() -> None:
    assert bucket(table("ds", "a"), BucketSpec(8, ("ds",), ("ds",), "hive")) == ()
    assert bucket(table("ds", "a"), BucketSpec(8, ("k",), ("k", "ds"), "hive")) == ()
    assert bucket(table("ds", "a"), EIGHT) == ()
    (change,) = bucket(table("ds", "a"), BucketSpec(16, ("k",), ("k",), "hive"))
    assert change.text == "Bucket db.t with clustered_by=['k'], buckets=16, bucket_hash='hive'."
