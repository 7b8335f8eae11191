"""The bucket spec of a table, read from the text of DESCRIBE TABLE EXTENDED."""

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
    ],
)
def test_spec_is_what_the_description_says(details: dict[str, str], spec: BucketSpec) -> None:
    assert BucketSpec.from_description(details) == spec


@pytest.mark.parametrize("details", [{}, {"Provider": "parquet"}, {**HIVE, "Num Buckets": "0"}, {"Type": "VIEW"}])
def test_a_table_without_buckets_has_no_spec(details: dict[str, str]) -> None:
    assert BucketSpec.from_description(details) is None
