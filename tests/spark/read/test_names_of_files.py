"""Names of files: the macros and the session extension read from them what Python does."""

from __future__ import annotations

from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from conftest import Project

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "shared" / "file_names.yml").read_text())
EXPECTED = {case["name"]: (case["hive"], case["spark"]) for case in CASES}


def test_the_extension_reads_names(spark: SparkSession) -> None:
    assert spark.sparkContext._jvm is not None
    bucketing = spark.sparkContext._jvm.org.apache.spark.sql.bucketing

    def read(name: str, layout: str) -> object:
        found = bucketing.records.BucketFiles.bucketOf(name, bucketing.hash.BucketHash.named(layout).get())
        return found.get() if found.isDefined() else None

    assert {name: (read(name, "hive"), read(name, "spark")) for name in EXPECTED} == EXPECTED


def test_the_macros_read_names(project: Project) -> None:
    paths = ", ".join(f"'file:/w/t_00009.x/{name}'" for name in EXPECTED)
    read = "{{ spark_bucketing.bucket_of_path('path', '%s') }} as %s"
    columns = ", ".join(read % (layout, layout) for layout in ("hive", "spark"))
    project.build(f"select path, {columns} from (select explode(array({paths})) as path)", materialized="table")
    rows = project.rows("select * from {schema}.m")
    assert {row.path.rsplit("/", 1)[1]: (row.hive, row.spark) for row in rows} == EXPECTED
