"""Tests of the findings of `table verify`, and of the resulting state of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_bucketing.spec import BucketHash, BucketSpec
from spark_bucketing.tables.bucketed_files import BucketedFiles, DataFile
from spark_bucketing.tables.compatibility import Merging
from spark_bucketing.tables.file_statistics import FileState, FileStats
from spark_bucketing.tables.model import Column, Partition, Status, TableMetadata
from spark_bucketing.tables.overview import Overview, Verification

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
FILES = BucketedFiles(
    TableMetadata("db.t", SPEC, (Column("ds", "string"),)), SPEC, (DataFile("/t/ds=a/00000_0", 1, 1),)
)
MERGING = Merging("auto", 4, 4)


def part(ds: str, status: str, problem: str = "") -> Partition:
    sealed = SPEC if status == Status.SEALED else None
    return Partition(f"ds={ds}", (ds,), f"/t/ds={ds}", status, sealed, problem, files=4, files_per_bucket=1)


def bucketed(*parts: Partition, merging: Merging | None = MERGING) -> Overview:
    columns = (Column("ds", "string"),) if any(part.values for part in parts) else ()
    return Overview(TableMetadata("db.t", SPEC, columns, parts), FILES, merging)


def organized(*states: str, overlaps: bool = False) -> Verification:
    files = tuple(FileStats(f"part-{n}", 1, 1, state, overlaps=overlaps) for n, state in enumerate(states))
    return Verification(Overview(TableMetadata("db.o", None, ()), statistics=files), statistics=files)


REFUSED = part("b", Status.REFUSED, "a row of bucket 1 in a file of bucket 0")
CASES = {
    "sealed": (Verification(bucketed(part("a", Status.SEALED), part("b", Status.EMPTY))), "ok", ()),
    "not sealed": (
        Verification(bucketed(part("a", Status.SEALED), part("b", Status.NOT_SEALED))),
        "wrong",
        ("1 partition without a valid seal, such as ds=b [not-sealed]: ", "spark-bucketing table seal db.t"),
    ),
    "no partitions": (
        Verification(bucketed(Partition("", (), "/t", Status.NOT_SEALED))),
        "wrong",
        ("no valid seal [not-sealed]: queries use an ordinary scan",),
    ),
    "several": (
        Verification(bucketed(part("a", Status.SEAL_STALE, "a file is gone"), part("b", Status.NOT_SEALED))),
        "wrong",
        ("2 partitions without a valid seal, such as ds=a [seal-stale] a file is gone: ",),
    ),
    "missing files": (
        Verification(
            bucketed(part("a", Status.SEALED), part("b", Status.FILES_MISSING, "1 of the 4 sealed files is missing"))
        ),
        "wrong",
        (
            "1 partition with missing files, such as ds=b [files-missing] 1 of the 4 sealed files is missing: restore them",
        ),
    ),
    "a refused partition is reported once": (
        Verification(bucketed(part("b", Status.NOT_SEALED)), True, sealed=(REFUSED,)),
        "wrong",
        ("ds=b has a row of bucket 1 in a file of bucket 0: rewrite it",),
    ),
    "no extension": (Verification(bucketed(merging=None)), "unknown", ()),
    "statistics": (organized(FileState.COVERED), "ok", ()),
    "not covered": (
        organized(FileState.COVERED, FileState.NOT_COVERED),
        "wrong",
        ("1 file not in the file statistics, such as part-1: ", "table stats db.o --repair"),
    ),
    "wrong": (organized(FileState.WRONG, FileState.WRONG), "wrong", ("2 files whose statistics differ from the rows",)),
    "overlapping": (
        organized(FileState.COVERED, overlaps=True),
        "wrong",
        ("overlaps the range of another file", "--full-refresh"),
    ),
}


@pytest.mark.parametrize(("found", "state", "parts"), CASES.values(), ids=CASES)
def test_findings_state_the_problem_and_the_command_to_run(
    found: Verification, state: str, parts: tuple[str, ...]
) -> None:
    assert found.state == state
    assert len(found.findings) == bool(parts)
    for text in parts:
        assert text in found.findings[0]


def test_file_names_are_checked_too() -> None:
    files = replace(FILES, files=(DataFile("/t/ds=a/data.parquet", 1, 1),))
    overview = replace(bucketed(part("a", Status.SEALED)), files=files)
    assert "without a bucket id in the name" in Verification(overview).findings[0]


def test_stock_spark_reads_the_spark_layout_without_seals() -> None:
    spec = replace(SPEC, bucket_hash="spark")
    found = bucketed(part("a", Status.NOT_SEALED))
    spark = replace(found, table=replace(found.table, spec=spec), files=replace(FILES, files=(), spec=spec))
    assert Verification(spark).state == "ok"
    broken = replace(spark, table=replace(spark.table, partitions=(part("a", Status.SEAL_STALE),)))
    assert Verification(broken).state == "wrong"


def test_unreadable_table_is_unknown_and_does_not_pass() -> None:
    overview = replace(bucketed(part("a", Status.SEALED)), files=replace(FILES, files=(), unreadable="It is text."))
    assert (Verification(overview).state, Verification(overview).unknown) == ("unknown", "It is text.")


def sealed_as(ds: str, bucket_hash: BucketHash | None) -> Partition:
    """Return a partition that is sealed with this hash, or an unsealed partition."""
    if bucket_hash is None:
        return part(ds, Status.NOT_SEALED)
    return replace(part(ds, Status.SEALED), spec=replace(SPEC, bucket_hash=bucket_hash))


def of_versions(stated: str | None, **hashes: BucketHash | None) -> Verification:
    """Return the verification of a table with this property, and with partitions sealed with these hashes."""
    properties = {} if stated is None else {"Table Properties": f"[bucketing_version={stated}]"}
    found = bucketed(*(sealed_as(ds, bucket_hash) for ds, bucket_hash in hashes.items()))
    details = {"Provider": "hive", **properties}
    return Verification(replace(found, table=replace(found.table, details=details)))


REFUSED_BY_TRINO = "so Trino cannot read the table"
BUCKETS = "are in buckets of version {}: set the table property"
SET = "set the table property (ALTER TABLE db.t SET TBLPROPERTIES ('bucketing_version' = '{}'))"
SEAL = "has bucketing_version '{}', and its partitions are sealed with version {}: seal the table (spark-bucketing"
REWRITE = "1 partition in buckets of version {}, such as ds={}, but other partitions have version {}: {}rewrite these"
FIRST = "first set the table property, and then "


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (of_versions("1", a="hive"), []),
        (of_versions(None, a="hive"), []),
        (of_versions("2", a="hive2", b="hive2"), []),
        (of_versions("1", a="hive2"), [SET.format(2)]),
        (of_versions(None, a="hive2"), ["has bucketing_version '1', but its rows are in buckets of version 2"]),
        (of_versions("2", a="hive"), [SET.format(1)]),
        (of_versions(" 2 ", a="hive2"), [SET.format(2)]),
        (of_versions("3"), [f"'3', {REFUSED_BY_TRINO}. Spark and Trino support only '1' or '2': seal the table"]),
        (of_versions("3", a="hive2"), [f"'3', {REFUSED_BY_TRINO}. Its rows {BUCKETS.format(2)}"]),
        (of_versions("3", a="hive", b="hive2"), [f"'3', {REFUSED_BY_TRINO}, and its partitions are sealed"]),
        (
            of_versions("02"),
            [f"'02', {REFUSED_BY_TRINO}. Spark and Trino support only '1' or '2': seal the table"],
        ),
        # Rows that match both versions may get the other version with the next seal.
        (of_versions("1", a="hive", b="hive2"), [SEAL.format(1, "1 and 2")]),
        (of_versions("1", a="hive", b="hive2", c="hive2"), [SEAL.format(1, "1 and 2")]),
        (of_versions("2", a="hive", b=None), ["1 partition without a valid seal", SEAL.format(2, "1")]),
        (of_versions("1", a="hive", b=None), ["1 partition without a valid seal"]),
    ],
)
def test_version_of_the_rows_is_compared_with_the_stated_version(found: Verification, said: list[str]) -> None:
    assert len(found.findings) == len(said), found.findings
    assert all(text in finding for text, finding in zip(said, found.findings, strict=True))
    assert found.state == ("wrong" if said else "ok")


AGAIN = "1 partition sealed with version {}, such as ds={}, whose rows also match version {}: seal the table"


@pytest.mark.parametrize(
    ("found", "read", "said"),
    [
        (of_versions("1", a=None), {"a": "hive2"}, ["1 partition without a valid seal", SET.format(2)]),
        (of_versions("1", a="hive", b="hive2"), {"a": "hive", "b": "hive2"}, [REWRITE.format(2, "b", 1, "")]),
        (of_versions("2", a="hive", b="hive2"), {"a": "hive", "b": "hive2"}, [REWRITE.format(1, "a", 2, "")]),
        (
            of_versions("1", a="hive", b="hive2", c="hive2"),
            {"a": "hive", "b": "hive2", "c": "hive2"},
            [SET.format(2), REWRITE.format(1, "a", 2, FIRST)],
        ),
        # Only partitions that match a predicate were read.
        (of_versions("2", a="hive", b="hive", c="hive2"), {"c": "hive2"}, [SEAL.format(2, "1 and 2")]),
        (of_versions("2", a="hive", b="hive"), {"a": "hive2"}, [SEAL.format(2, "1 and 2")]),
        (of_versions("2", a="hive", b="hive2"), {"a": "hive2", "b": "hive2"}, [AGAIN.format(1, "a", 2)]),
        (of_versions("2", a="hive", b=None), {"a": "hive2", "b": "hive2"}, ["1 partition", AGAIN.format(1, "a", 2)]),
    ],
)
def test_version_of_rows_that_were_read_is_compared_too(
    found: Verification, read: dict[str, BucketHash], said: list[str]
) -> None:
    deep = replace(found, is_deep=True, sealed=tuple(sealed_as(ds, bucket_hash) for ds, bucket_hash in read.items()))
    assert len(deep.findings) == len(said), deep.findings
    assert all(text in finding for text, finding in zip(said, deep.findings, strict=True))
