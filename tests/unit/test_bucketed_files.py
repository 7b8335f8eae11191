"""Tests of a table's bucket spec, the bucket ids in its file names, and its rows, partitions, skew and problems."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.bucketed_files import BucketedFiles, DataFile, bucket_of
from spark_bucketing.tables.model import Column, Partition, TableMetadata

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
EIGHT = replace(SPEC, num_buckets=8)
CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "shared" / "file_names.yml").read_text())
HIVE = {"Provider": "hive", "Num Buckets": "8", "Bucket Columns": "[`k`]", "Sort Columns": "[`k`, `ts`]"}


BY_K_AND_TS = BucketSpec(8, ("k",), ("k", "ts"), "hive")
AWKWARD = BucketSpec(8, ("a, b", "c`d", "[e]"), ("k", "ts"), "hive")


@pytest.mark.parametrize(
    ("details", "spec"),
    [
        (HIVE, BY_K_AND_TS),
        ({**HIVE, "Provider": "PARQUET"}, replace(BY_K_AND_TS, bucket_hash="spark")),
        ({**HIVE, "Sort Columns": "[]"}, replace(BY_K_AND_TS, sort_columns=())),
        ({**HIVE, "Bucket Columns": "[`a, b`, `c``d`, `[e]`]"}, AWKWARD),
        *((without, None) for without in ({}, {"Provider": "parquet"}, {**HIVE, "Num Buckets": "0"}, {"Type": "VIEW"})),
    ],
)
def test_spec_matches_the_description(details: dict[str, str], spec: BucketSpec | None) -> None:
    assert BucketSpec.from_description(details) == spec


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_bucket_id_is_parsed_from_the_file_name(case: dict[str, Any]) -> None:
    assert (bucket_of(case["name"], "hive"), bucket_of(case["name"], "spark")) == (case["hive"], case["spark"])


@given(bucket=st.integers(0, 99_999), task=st.integers(0, 99_999), uuid=st.uuids(), part=st.integers(0, 999))
def test_names_that_spark_writes_are_parsed(bucket: int, task: int, uuid: object, part: int) -> None:
    name = f"part-{task:05d}-{uuid}_{bucket:05d}.c{part:03d}.snappy.parquet"
    assert bucket_of(name, "spark") == bucket
    assert bucket_of(f"{bucket:05d}_0_{name}", "hive") == bucket


def table(files: str = "", rows: int = 1, partitioned: bool = False) -> BucketedFiles:
    """Return a table with four buckets and these files, such as `00000_0:8`, whose number of rows may be omitted."""
    of = (file.partition(":")[::2] for file in files.split())
    found = tuple(DataFile(f"file:///wh/t/{path}", int(number or rows)) for path, number in of)
    return BucketedFiles(TableMetadata("t", SPEC, (Column("d", "int"),) if partitioned else ()), SPEC, found)


NUMBERS = {
    "no files": (table(), 1, 0, None),
    "no rows": (table("00001_0:0"), 1, 0, None),
    "even": (table("00000_0 00001_0 00002_0 00003_0", 5), 1, 20, 1.0),
    "the skew includes empty buckets": (table("00000_0:8"), 1, 8, 4.0),
    "the rows of a bucket's files add up": (table("00000_0:3 00000_0_copy_1:3 00001_0:2"), 1, 8, 3.0),
    "the rows of all partitions add up": (table("d=1/00000_0 d=2/00001_0", 4, True), 2, 8, 2.0),
    "name without a bucket id": (table("data.parquet:8"), 1, 8, None),
    "bucket out of range": (table("00000_0 00004_0", 4), 1, 8, None),
}


@pytest.mark.parametrize(("layout", "partitions", "rows", "skew"), NUMBERS.values(), ids=NUMBERS)
def test_table_has_the_expected_numbers_of_partitions_and_rows_and_skew(
    layout: BucketedFiles, partitions: int, rows: int, skew: float | None
) -> None:
    assert (layout.partitions, layout.rows, layout.skew) == (partitions, rows, skew)


def mixed(four: list[int], eight: list[int]) -> BucketedFiles:
    """Return the files of a table with a partition of four buckets, as in the table's spec, and one of eight."""
    files = [f"d={d}/{bucket:05}_0:{rows}" for d, of in ((1, four), (2, eight)) for bucket, rows in enumerate(of)]
    return replace(table(" ".join(files), partitioned=True), table=evolving({"d=1": None, "d=2": EIGHT}))


def evolving(specs: dict[str, BucketSpec | None]) -> TableMetadata:
    """Return a table partitioned by d, whose partitions are sealed with these specs."""
    parts = [Partition(name, (name[2:],), f"file:/wh/t/{name}", "", spec) for name, spec in specs.items()]
    return TableMetadata("db.t", SPEC, (Column("d", "int"),), tuple(parts))


@pytest.mark.parametrize(
    ("four", "eight", "skew"),
    [
        ([5] * 4, [5] * 8, 1.0),
        ([5] * 4, [1] * 8, 1.0),
        ([5] * 4, [8] + [0] * 7, 8.0),
        ([8, 0, 0, 0], [5] * 8, 4.0),
        ([0] * 4, [5] * 8, 1.0),
    ],
)
def test_partitions_with_different_bucket_counts_are_measured_separately(
    four: list[int], eight: list[int], skew: float
) -> None:
    layout = mixed(four, eight)
    assert (layout.skew, layout.state) == (skew, "ok")


def test_skew_is_unknown_if_the_buckets_of_a_partition_are_unknown() -> None:
    layout = mixed([5] * 4, [5] * 9)
    assert layout.skew is None
    assert layout.findings[0].startswith("1 file with a bucket id above 7, such as 00008_0")


FINDINGS = {
    "no files": (table(), ()),
    "one file per bucket": (table("00000_0 00003_0"), ()),
    "one file per bucket in each partition": (table("d=1/00000_0 d=2/00000_0", partitioned=True), ()),
    "name without a bucket id": (table("00000_0 data.parquet"), ("1 file without a bucket id in the name, such as data.parquet",)),
    "bucket out of range": (table("00004_0 00005_0"), ("2 files with a bucket id above 3, such as 00004_0",)),
    "several files": (table("00002_0 00002_1 00002_2:0"), ("1 bucket with more than one file, such as bucket 2 with 3",)),
    "folders that are not partitions": (table("a=1/00000_0 b=1/00000_0"), ("1 bucket with more than one file",)),
    "several files in a partition": (
        table("d=1/h=2/00000_0 d=1/h=2/00000_1 d=1/h=3/00000_0", partitioned=True),
        ("1 bucket with more than one file, such as bucket 0 of d=1/h=2 with 2",),
    ),
    "all kinds of problems": (
        table("data.parquet 00004_0 00001_0 00001_1"),
        ("1 file without", "1 file with a bucket id above 3", "1 bucket with more than one file"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "findings"), FINDINGS.values(), ids=FINDINGS)
def test_finding_states_the_problem_and_the_fix(layout: BucketedFiles, findings: tuple[str, ...]) -> None:
    assert layout.state == ("wrong" if findings else "ok")
    for found, said in zip(layout.findings, findings, strict=True):
        assert found.startswith(said) and "dbt run --full-refresh" in found


@pytest.mark.parametrize("files", ["d=2/00001_0 d=2/00001_1", "d=2/data.parquet", "d=2/00004_0"])
def test_only_unsorted_partitions_of_an_evolving_table_are_rewritten(files: str) -> None:
    found = table(f"d=1/00001_0 {files}", partitioned=True)
    (finding,) = replace(found, table=evolving({"d=1": None, "d=2": None})).findings
    assert finding.endswith('rewrite these partitions (spark-bucketing table rewrite db.t --where "d = 2").')
