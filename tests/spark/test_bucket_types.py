"""Tests that the session extension agrees with the shared cases on the types of bucket columns."""

from __future__ import annotations

import yaml
from pyspark.sql import SparkSession

from conftest import REPOSITORY

TYPES = yaml.safe_load((REPOSITORY / "tests" / "cases" / "shared" / "bucket_types.yml").read_text())


def test_extension_accepts_the_types_of_the_hive_layout(spark: SparkSession) -> None:
    packages = spark.sparkContext._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    fields = ", ".join(f"`{case['type']}` {case['type']}" for case in TYPES)
    schema = packages.types.StructType.fromDDL(fields)
    accepted = {field.name(): packages.bucketing.hash.BucketHash.spreads(field) for field in schema.fields()}
    assert accepted == {case["type"]: case["hive"] for case in TYPES}
