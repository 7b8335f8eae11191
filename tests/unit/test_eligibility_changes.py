"""The words of what could be changed: commands that can be copied as they are."""

from __future__ import annotations

import re
import shlex

import pytest

from spark_bucketing.eligibility.changes import rewrite_files, rewrite_partitions
from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.eligibility.world import World
from spark_bucketing.evolution.model import Column, Partition, RecordState, Table
from spark_bucketing.spec import BucketSpec

EIGHT = BucketSpec(8, ("k",), ("k",), "hive")


def world(column: str, *values: str) -> World:
    parts = tuple(
        Partition(f"{column}={value}", (value,), f"file:/t/{value}", RecordState.UNBUCKETED) for value in values
    )
    table = Table("db.t", EIGHT, (Column(column, "string"),), True, parts)
    return World({}, {"db.t": TableFacts("db.t", {}, EIGHT, (column,), partitions=table)})


@pytest.mark.parametrize(
    ("column", "value", "quoted", "predicate"),
    [
        ("ds", "2024-01", "\"ds = '2024-01'\"", "ds = '2024-01'"),
        ("ds", "$HOME", """'ds = '"'"'\\u0024HOME'"'"''""", "ds = '\\u0024HOME'"),
        ("ds", "now!", """'ds = '"'"'now!'"'"''""", "ds = 'now!'"),
        ("a b", "x", """'`a b` = '"'"'x'"'"''""", "`a b` = 'x'"),
    ],
)
def test_a_rewrite_can_be_copied_into_a_shell(column: str, value: str, quoted: str, predicate: str) -> None:
    made = world(column, value, "zzz")
    partitions = made.tables["db.t"].partitions
    assert partitions is not None
    change = rewrite_partitions(made, "db.t", partitions.partitions[:1])
    command = f"spark-bucketing evolution rewrite db.t --where {quoted}"
    assert change.text == f"Run `{command}` to bring partition {column}={value} to 8 buckets by (k), sorted by (k)."
    assert shlex.split(command)[-1] == change.fields["where"] == predicate


def test_no_command_ends_with_the_sentence() -> None:
    text = rewrite_files(world("ds", "a"), "db.t").text
    assert re.search(r"`dbt run --full-refresh` ", text)
