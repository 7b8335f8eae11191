"""Tests that the bucket spec of a table is parsed from DESCRIBE TABLE EXTENDED."""

from __future__ import annotations

import pytest

from spark_bucketing.spec import BucketSpec

HIVE = {"Provider": "hive", "Num Buckets": "8", "Bucket Columns": "[`k`]", "Sort Columns": "[`k`, `ts`]"}


@pytest.mark.parametrize(
    ("details", "spec"),
    [
        pytest.param(HIVE, BucketSpec(8, ("k",), ("k", "ts"), "hive"), id="hive"),
        pytest.param({**HIVE, "Provider": "PARQUET"}, BucketSpec(8, ("k",), ("k", "ts"), "spark"), id="spark"),
        pytest.param({**HIVE, "Sort Columns": "[]"}, BucketSpec(8, ("k",), (), "hive"), id="unsorted"),
        pytest.param(
            {**HIVE, "Bucket Columns": "[`a, b`, `c``d`, `[e]`]"},
            BucketSpec(8, ("a, b", "c`d", "[e]"), ("k", "ts"), "hive"),
            id="awkward names",
        ),
        *((without, None) for without in ({}, {"Provider": "parquet"}, {**HIVE, "Num Buckets": "0"}, {"Type": "VIEW"})),
    ],
)
def test_spec_matches_the_description(details: dict[str, str], spec: BucketSpec | None) -> None:
    assert BucketSpec.from_description(details) == spec
