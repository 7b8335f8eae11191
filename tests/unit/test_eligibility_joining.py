"""Which side of a join the model of the planner shuffles, after Spark's EnsureRequirements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_bucketing.eligibility.joining import divides, join_inputs
from spark_bucketing.eligibility.layout import Hashed, Layout, ordered_by
from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.eligibility.world import World
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.spec import BucketSpec

STOCK = World({}, {})
TABLE = TableFacts("t", {"k": "int"}, BucketSpec(8, ("k",), ("k",), "spark"))
EXTENSION = World({"spark.sql.extensions": EXTENSION_CLASS}, {"t": TABLE})
LEFT_ALONE = World({"spark.sql.extensions": EXTENSION_CLASS}, {"t": replace(TABLE, columns={"k": "timestamp"})})
NOT_ALL_KEYS = STOCK.setting({"spark.sql.requireAllClusterKeysForCoPartition": "false"})
COALESCING = STOCK.setting({"spark.sql.bucketing.coalesceBucketsInJoin.enabled": "true"})
PLAIN = Layout()


def buckets(number: int, *keys: str, kind: str = "spark", table: str | None = "t") -> Layout:
    return Layout((Hashed(kind, keys, number, table),), order=ordered_by(keys))


# fmt: off
CASES = [
    # World, left, right, keys of either side, what is shuffled.
    (STOCK, buckets(8, "#1"), buckets(8, "#2"), ("#1",), ("#2",), (False, False)),
    (STOCK, PLAIN, PLAIN, ("#1",), ("#2",), (True, True)),
    (STOCK, buckets(8, "#1"), PLAIN, ("#1",), ("#2",), (False, True)),
    (STOCK, buckets(8, "#1"), buckets(16, "#2"), ("#1",), ("#2",), (True, False)),
    (STOCK, buckets(24, "#1"), buckets(16, "#2"), ("#1",), ("#2",), (False, True)),
    (COALESCING, buckets(8, "#1"), buckets(16, "#2"), ("#1",), ("#2",), (False, False)),
    (COALESCING, buckets(8, "#1"), buckets(64, "#2"), ("#1",), ("#2",), (True, False)),
    (COALESCING, buckets(8, "#1"), buckets(12, "#2"), ("#1",), ("#2",), (True, False)),
    (COALESCING, buckets(8, "#1"), buckets(16, "#2", table=None), ("#1",), ("#2",), (True, False)),
    (EXTENSION, buckets(8, "#1"), buckets(32, "#2"), ("#1",), ("#2",), (False, False)),
    (EXTENSION, buckets(8, "#1"), buckets(64, "#2"), ("#1",), ("#2",), (True, False)),
    (LEFT_ALONE, buckets(8, "#1"), buckets(32, "#2"), ("#1",), ("#2",), (True, False)),
    (replace(EXTENSION, aligns_far=True), buckets(8, "#1"), buckets(64, "#2"), ("#1",), ("#2",), (False, False)),
    (EXTENSION, buckets(8, "#1", kind="hive"), buckets(8, "#2"), ("#1",), ("#2",), (False, True)),
    (EXTENSION, buckets(8, "#1", kind="hive"), buckets(8, "#2", kind="hive"), ("#1", "#3"), ("#2", "#4"), (False, False)),
    (STOCK, buckets(8, "#1"), buckets(8, "#2"), ("#1", "#3"), ("#2", "#4"), (True, True)),
    (NOT_ALL_KEYS, buckets(8, "#1"), buckets(8, "#2"), ("#1", "#3"), ("#2", "#4"), (False, False)),
    (NOT_ALL_KEYS, buckets(8, "#1"), buckets(8, "#4"), ("#1", "#3"), ("#2", "#4"), (False, True)),
    (STOCK, buckets(8, "#1", "#3"), buckets(8, "#2"), ("#1",), ("#2",), (True, False)),
    (STOCK, buckets(8, "#1", "#3"), buckets(8, "#2", "#4"), ("#1", "#3"), ("#2", "#4"), (False, False)),
    (STOCK, buckets(8, "#1", "#3"), buckets(8, "#4", "#2"), ("#1", "#3"), ("#2", "#4"), (False, True)),
    (STOCK, Layout(single=True), Layout(single=True), ("#1",), ("#2",), (False, False)),
    (STOCK, Layout(single=True), buckets(8, "#2"), ("#1",), ("#2",), (True, False)),
]
# fmt: on


@pytest.mark.parametrize(("world", "left", "right", "left_keys", "right_keys", "shuffled"), CASES)
def test_sides_that_are_shuffled(
    world: World,
    left: Layout,
    right: Layout,
    left_keys: tuple[str, ...],
    right_keys: tuple[str, ...],
    shuffled: tuple[bool, bool],
) -> None:
    assert join_inputs(left, right, (left_keys, right_keys), world).shuffled == shuffled


def test_a_shuffled_side_is_spread_as_the_other_one_is() -> None:
    joined = join_inputs(buckets(8, "#1", kind="hive"), PLAIN, (("#1", "#3"), ("#2", "#4")), EXTENSION)
    assert joined.layouts[1] == Layout((Hashed("hive", ("#2",), 8),))


@pytest.mark.parametrize(("world", "ordered"), [(COALESCING, False), (EXTENSION, True)])
def test_merged_buckets_stay_in_order_only_with_the_extension(world: World, ordered: bool) -> None:
    joined = join_inputs(buckets(8, "#1"), buckets(16, "#2"), (("#1",), ("#2",)), world)
    assert bool(joined.layouts[1].order) is ordered
    assert joined.layouts[1].hashed[0].partitions == 8


def test_columns_that_go_take_the_buckets_with_them() -> None:
    layout = buckets(8, "#1", "#2")
    assert layout.renamed(lambda key: {"#1": ("#5", "#6"), "#2": ("#2",)}.get(key, ())).hashed == (
        Hashed("spark", ("#5", "#2"), 8, "t"),
        Hashed("spark", ("#6", "#2"), 8, "t"),
    )
    partly = layout.renamed(lambda key: ("#1",) if key == "#1" else ())
    assert partly.hashed == ()
    assert partly.order == ordered_by(["#1"])
    assert layout.renamed(lambda key: ("#2",) if key == "#2" else ()).order == ()


def test_numbers_divide() -> None:
    assert divides(8, 64) and divides(64, 8) and not divides(8, 12)
