"""Tests of bucket ids in file names: each layout has its own scheme, and ignores names of the other layout."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_bucketing.table.bucketed_files import bucket_of

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "shared" / "file_names.yml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_bucket_id_is_parsed_from_the_file_name(case: dict[str, Any]) -> None:
    assert (bucket_of(case["name"], "hive"), bucket_of(case["name"], "spark")) == (case["hive"], case["spark"])


@given(bucket=st.integers(0, 99_999), task=st.integers(0, 99_999), uuid=st.uuids(), part=st.integers(0, 999))
def test_names_that_spark_writes_are_parsed(bucket: int, task: int, uuid: object, part: int) -> None:
    name = f"part-{task:05d}-{uuid}_{bucket:05d}.c{part:03d}.snappy.parquet"
    assert bucket_of(name, "spark") == bucket
    assert bucket_of(f"{bucket:05d}_0_{name}", "hive") == bucket
