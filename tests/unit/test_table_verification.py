"""Tests of the findings of `table verify`, and of the resulting state of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_bucketing.spec import BucketHash, BucketSpec
from spark_bucketing.tables.bucketed_files import BucketedFiles, DataFile
from spark_bucketing.tables.compatibility import Merging
from spark_bucketing.tables.file_statistics import FileStats
from spark_bucketing.tables.model import Column, Partition, Status, TableMetadata
from spark_bucketing.tables.overview import Overview, Verification

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
FILES = BucketedFiles(
    TableMetadata("db.t", SPEC, (Column("ds", "string"),)), SPEC, (DataFile("/t/ds=a/00000_0", 1, 1),)
)
MERGING = Merging("auto", 4, 4)


def part(ds: str, status: str) -> Partition:
    """Return a partition with a status, which a problem may follow."""
    status, _, problem = status.partition(" ")
    sealed = SPEC if status == Status.SEALED else None
    return Partition(f"ds={ds}", (ds,), f"/t/ds={ds}", status, sealed, problem, files=4, files_per_bucket=1)


def table(*parts: Partition) -> Overview:
    columns = (Column("ds", "string"),) if any(part.values for part in parts) else ()
    return Overview(TableMetadata("db.t", SPEC, columns, parts), FILES, MERGING)


def states(*found: str, sealed: tuple[Partition, ...] = ()) -> Verification:
    """Return the verification of a table whose partitions a, b and so on have these states."""
    return Verification(table(*map(part, "abc", found)), bool(sealed), sealed=sealed)


def organized(*found: str, overlaps: bool = False) -> Verification:
    files = tuple(FileStats(f"part-{n}", 1, 1, state, overlaps=overlaps) for n, state in enumerate(found))
    return Verification(Overview(TableMetadata("db.o", None, ()), statistics=files), statistics=files)


REFUSED = part("b", f"{Status.REFUSED} a row of bucket 1 in a file of bucket 0")
MISSING = "files-missing 1 of the 4 sealed files is missing"
STRAY = replace(FILES, files=(DataFile("/t/ds=a/data.parquet", 1, 1),))
CASES = {
    "sealed": (states("sealed", "empty"), ()),
    "not sealed": (states("sealed", "not-sealed"), ("1 partition without a valid seal, such as ds=b [not-sealed]: ", "spark-bucketing table seal db.t")),
    "no partitions": (Verification(table(Partition("", (), "/t", "not-sealed"))), ("no valid seal [not-sealed]: queries use an ordinary scan",)),
    "several": (states("seal-stale a file is gone", "not-sealed"), ("2 partitions without a valid seal, such as ds=a [seal-stale] a file is gone: ",)),
    "missing files": (states("sealed", MISSING), ("1 partition with missing files, such as ds=b [files-missing] 1 of the 4 sealed files is missing: restore them",)),
    "a refused partition is reported once": (
        Verification(table(part("b", "not-sealed")), True, sealed=(REFUSED,)),
        ("ds=b has a row of bucket 1 in a file of bucket 0: rewrite it",),
    ),
    "a file name": (Verification(replace(table(part("a", "sealed")), files=STRAY)), ("without a bucket id in the name",)),
    "statistics": (organized("covered"), ()),
    "not covered": (organized("covered", "not-covered"), ("1 file not in the file statistics, such as part-1: ", "table stats db.o --repair")),
    "wrong": (organized("wrong", "wrong"), ("2 files whose statistics differ from the rows",)),
    "overlapping": (organized("covered", overlaps=True), ("overlaps the range of another file", "--full-refresh")),
}  # fmt: skip


@pytest.mark.parametrize(("found", "parts"), CASES.values(), ids=CASES)
def test_finding_states_the_problem_and_the_command_to_run(found: Verification, parts: tuple[str, ...]) -> None:
    assert (found.state, len(found.findings)) == ("wrong" if parts else "ok", bool(parts))
    for text in parts:
        assert text in found.findings[0]


def test_stock_spark_reads_the_spark_layout_without_seals() -> None:
    spec = replace(SPEC, bucket_hash="spark")
    found = table(part("a", "not-sealed"))
    spark = replace(found, table=replace(found.table, spec=spec), files=replace(FILES, files=(), spec=spec))
    assert Verification(spark).state == "ok"
    broken = replace(spark, table=replace(spark.table, partitions=(part("a", "seal-stale"),)))
    assert Verification(broken).state == "wrong"


def test_table_without_the_extension_or_of_unreadable_files_is_unknown() -> None:
    sealed = table(part("a", "sealed"))
    assert Verification(replace(sealed, merging=None)).state == "unknown"
    text = Verification(replace(sealed, files=replace(FILES, files=(), unreadable="It is text.")))
    assert (text.state, text.unknown) == ("unknown", "It is text.")


def sealed_as(ds: str, bucket_hash: BucketHash | None) -> Partition:
    """Return a partition that is sealed with this hash, or an unsealed partition."""
    if bucket_hash is None:
        return part(ds, "not-sealed")
    return replace(part(ds, "sealed"), spec=replace(SPEC, bucket_hash=bucket_hash))


REFUSED_BY_TRINO = "so Trino cannot read the table"
INVALID = f"{REFUSED_BY_TRINO}. Spark and Trino support only '1' or '2': seal the table"
SET = "set the table property (ALTER TABLE db.t SET TBLPROPERTIES ('bucketing_version' = '{}'))"
SEAL = "has bucketing_version '{}', and its partitions are sealed with version {}: seal the table (spark-bucketing"
REWRITE = "1 partition in buckets of version {}, such as ds={}, but other partitions have version {}: {}rewrite these"
AGAIN = "1 partition sealed with version {}, such as ds={}, whose rows also match version {}: seal the table"
FIRST = "first set the table property, and then "
UNSEALED = "1 partition without a valid seal"
Hashes = dict[str, BucketHash | None]


@pytest.mark.parametrize(
    ("stated", "sealed", "read", "said"),
    [
        ("1", {"a": "hive"}, {}, []),
        (None, {"a": "hive"}, {}, []),
        ("2", {"a": "hive2", "b": "hive2"}, {}, []),
        ("1", {"a": "hive2"}, {}, [SET.format(2)]),
        (None, {"a": "hive2"}, {}, ["has bucketing_version '1', but its rows are in buckets of version 2"]),
        ("2", {"a": "hive"}, {}, [SET.format(1)]),
        (" 2 ", {"a": "hive2"}, {}, [SET.format(2)]),
        ("3", {}, {}, [f"'3', {INVALID}"]),
        ("02", {}, {}, [f"'02', {INVALID}"]),
        ("3", {"a": "hive2"}, {}, [f"'3', {REFUSED_BY_TRINO}. Its rows are in buckets of version 2: set the table property"]),
        ("3", {"a": "hive", "b": "hive2"}, {}, [f"'3', {REFUSED_BY_TRINO}, and its partitions are sealed"]),
        # Rows that match both versions may get the other version with the next seal.
        ("1", {"a": "hive", "b": "hive2"}, {}, [SEAL.format(1, "1 and 2")]),
        ("1", {"a": "hive", "b": "hive2", "c": "hive2"}, {}, [SEAL.format(1, "1 and 2")]),
        ("2", {"a": "hive", "b": None}, {}, [UNSEALED, SEAL.format(2, "1")]),
        ("1", {"a": "hive", "b": None}, {}, [UNSEALED]),
        # With the rows that were read
        ("1", {"a": None}, {"a": "hive2"}, [UNSEALED, SET.format(2)]),
        ("1", {"a": "hive", "b": "hive2"}, {"a": "hive", "b": "hive2"}, [REWRITE.format(2, "b", 1, "")]),
        ("2", {"a": "hive", "b": "hive2"}, {"a": "hive", "b": "hive2"}, [REWRITE.format(1, "a", 2, "")]),
        ("1", {"a": "hive", "b": "hive2", "c": "hive2"}, {"a": "hive", "b": "hive2", "c": "hive2"}, [SET.format(2), REWRITE.format(1, "a", 2, FIRST)]),
        # Only partitions that match a predicate were read.
        ("2", {"a": "hive", "b": "hive", "c": "hive2"}, {"c": "hive2"}, [SEAL.format(2, "1 and 2")]),
        ("2", {"a": "hive", "b": "hive"}, {"a": "hive2"}, [SEAL.format(2, "1 and 2")]),
        ("2", {"a": "hive", "b": "hive2"}, {"a": "hive2", "b": "hive2"}, [AGAIN.format(1, "a", 2)]),
        ("2", {"a": "hive", "b": None}, {"a": "hive2", "b": "hive2"}, ["1 partition", AGAIN.format(1, "a", 2)]),
    ],
)  # fmt: skip
def test_version_of_the_rows_is_compared_with_the_stated_version(
    stated: str | None, sealed: Hashes, read: Hashes, said: list[str]
) -> None:
    properties = {} if stated is None else {"Table Properties": f"[bucketing_version={stated}]"}
    of = table(*(sealed_as(*one) for one in sealed.items()))
    of = replace(of, table=replace(of.table, details={"Provider": "hive", **properties}))
    found = Verification(of, bool(read), sealed=tuple(sealed_as(*one) for one in read.items()))
    assert len(found.findings) == len(said), found.findings
    assert all(text in finding for text, finding in zip(said, found.findings, strict=True))
    assert found.state == ("wrong" if said else "ok")
