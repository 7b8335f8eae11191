"""Tests of the listed files in Spark's cache."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from session_settings import setting

DIRECTORY = "hdfs://one:8020/warehouse/t/p=1"
HOSTS = [["a", "b"], ["b", "c"], ["a", "b"]]


def array(spark: SparkSession, kind: Any, values: list[Any]) -> Any:
    made = cast("Any", spark.sparkContext)._gateway.new_array(kind, len(values))
    for at, value in enumerate(values):
        made[at] = value
    return made


def listed(spark: SparkSession, names: list[str], blocks: int | None) -> Any:
    """Return files of different sizes, whose blocks are on different hosts."""
    java: Any = cast("Any", spark)._jvm.java.lang
    fs: Any = cast("Any", spark)._jvm.org.apache.hadoop.fs

    def block(number: int) -> Any:
        hosts = HOSTS[number % len(HOSTS)]
        ports = array(spark, java.String, [f"{host}:50010" for host in hosts])
        return fs.BlockLocation(ports, array(spark, java.String, hosts), number * 2**27, 2**27 - number)

    files = [
        fs.FileStatus(2**33 + at, False, 3, 2**27, 10**12 + at, fs.Path(f"{DIRECTORY}/{name}"))
        for at, name in enumerate(names)
    ]
    if blocks is not None:
        files = [
            fs.LocatedFileStatus(file, array(spark, fs.BlockLocation, [block(at + n) for n in range(blocks)]))
            for at, file in enumerate(files)
        ]
    return array(spark, fs.FileStatus, files)


def packing(spark: SparkSession) -> Any:
    return cast("Any", spark)._jvm.org.apache.spark.sql.bucketing.read.PackedFiles


def described(files: Any) -> list[tuple[str, ...]]:
    def blocks(file: Any) -> str:
        found = [] if file.getClass().getSimpleName() == "FileStatus" else file.getBlockLocations()
        return str([(str(of), list(of.getNames())) for of in found])

    # The text starts with the name of the class.
    return [(file.toString().partition("{")[2], str(file.hashCode()), blocks(file)) for file in files]


@pytest.mark.parametrize("blocks", [None, 0, 1, 3])
def test_packed_files_are_the_same_when_unpacked(spark: SparkSession, extension: None, blocks: int | None) -> None:
    files = listed(spark, ["part-0", "a:b c%2F+ü", "1"], blocks)
    packed = packing(spark)
    kept = packed.pack(files)
    assert len(kept) == 1
    assert described(packed.unpack(kept)) == described(files)


@pytest.mark.parametrize("names", [[], ["0", "below/0"], ["below/0", "0"]])
def test_files_of_several_directories_are_not_packed(spark: SparkSession, extension: None, names: list[str]) -> None:
    packed = packing(spark)
    files = listed(spark, names, None)
    assert described(packed.pack(files)) == described(files)


def test_packed_files_take_a_quarter_of_the_memory(spark: SparkSession, extension: None) -> None:
    files = listed(
        spark, [f"part-{number:05}-6ae2a0c8-0f1e-4c35-b2b7-4f0e4ed6a0a8_{number:05}.c000" for number in range(16)], 1
    )
    packed = packing(spark)
    sizes = [
        cast("Any", spark)._jvm.org.apache.spark.util.SizeEstimator.estimate(of) for of in (files, packed.pack(files))
    ]
    assert sizes[1] < sizes[0] / 4, sizes


def test_cached_listing_has_the_same_files(spark: SparkSession, extension: None) -> None:
    buckets = "clustered by (k) sorted by (k) into 2 buckets stored as parquet"
    spark.sql(f"create table named (k int) partitioned by (p string) {buckets}")
    rows = "select id, element_at(array('a:b c', '%2F+', 'ü'), int(id % 3) + 1) from range(9)"
    spark.sql(f"insert into named partition (p) {rows}")
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    for file in sorted(warehouse.glob("named/p=*/[!._]*"))[::2]:
        # Spark does not read directories below that of a partition.
        (file.parent / "below").mkdir()
        shutil.copy(file, file.parent / "below")
    query = "select input_file_name(), input_file_block_length(), p, k from named order by p, k"
    first, again = (spark.sql(query).collect() for _ in range(2))
    with setting(spark, "spark.bucketing.enabled", "false"):
        assert first == again == spark.sql(query).collect()
    assert len(first) == 9
    name = spark.table("named").selectExpr("_metadata.file_name").first()[0]  # type: ignore[index]
    of_a_file = spark.table("named").where(f"_metadata.file_name = '{name}'").select("k")
    assert 0 < len(of_a_file.collect()) < 9
    scan = cast("Any", of_a_file)._jdf.queryExecution().executedPlan().collectLeaves().head()
    # Each of three partitions has a file with this name, and one with another name.
    assert scan.metrics().apply("numFiles").value() == 3
    spark.sql("drop table named")
