"""The bucket spec of a table, read from the text of DESCRIBE TABLE EXTENDED."""

import pytest

from spark_bucketing.spec import BucketSpec, Description

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


def test_the_sections_of_a_description_are_not_columns_of_their_names() -> None:
    rows = [
        ("k", "int"),
        ("# Partition Information", "string"),
        ("ds", "date"),
        ("# Partition Information", ""),
        ("# col_name", "data_type"),
        ("ds", "date"),
        ("", ""),
        ("# Detailed Table Information", ""),
        ("Provider", "hive"),
        ("", None),
        ("# Storage", ""),
        ("Provider", "other"),
    ]
    found = Description.of(rows)
    assert list(found.columns) == ["k", "# Partition Information", "ds"]
    assert found.partition_columns == {"ds": "date"}
    assert found.details == {"Provider": "hive"}
    assert Description.of([("k", "int")]) == Description({"k": "int"})
