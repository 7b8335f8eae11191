"""Bucket ids in file names: each layout has its own scheme, and a name of the other one proves nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bucketing.layout.names import bucket_of
from spark_bucketing.spec import BucketHash

UUID = "7c1214c5-55c7-4638-9ffc-953b472cef26"


@pytest.mark.parametrize(
    ("name", "bucket_hash", "bucket"),
    [
        (f"00003_0_part-00007-{UUID}_00003.c000.snappy.parquet", "hive", 3),
        ("000003_0", "hive", 3),
        ("000003_0_copy_1", "hive", 3),
        ("000003_1.snappy", "hive", 3),
        ("123456_0", "hive", 123456),
        (f"part-00003-{UUID}_00003.c000.snappy.parquet", "hive", None),
        (f"part-00003-{UUID}-c000.snappy.parquet", "hive", None),
        (f"part-00007-{UUID}_00003.c000.snappy.parquet", "spark", 3),
        (f"part-00007-{UUID}_00003.c001.zstd.orc", "spark", 3),
        (f"part-00007-{UUID}_99999", "spark", 99999),
        (f"part-00003-{UUID}-c000.snappy.parquet", "spark", None),
        ("000003_0", "spark", None),
        (f"00003_0_part-00007-{UUID}_00003.c000.snappy.parquet", "spark", None),
        ("data.parquet", "hive", None),
        ("data.parquet", "spark", None),
        ("data_2024.parquet", "hive", None),
        ("data_2024.parquet", "spark", None),
    ],
)
def test_bucket_of_a_name(name: str, bucket_hash: BucketHash, bucket: int | None) -> None:
    assert bucket_of(name, bucket_hash) == bucket


@given(bucket=st.integers(0, 99_999), task=st.integers(0, 99_999), uuid=st.uuids(), part=st.integers(0, 999))
def test_names_that_spark_writes_are_read_back(bucket: int, task: int, uuid: object, part: int) -> None:
    name = f"part-{task:05d}-{uuid}_{bucket:05d}.c{part:03d}.snappy.parquet"
    assert bucket_of(name, "spark") == bucket
    assert bucket_of(f"{bucket:05d}_0_{name}", "hive") == bucket
