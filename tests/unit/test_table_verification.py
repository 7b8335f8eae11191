"""Tests of the findings of `table verify`, and of the resulting state of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_bucketing.spec import BucketSpec
from spark_bucketing.table.bucketed_files import BucketedFiles, DataFile
from spark_bucketing.table.compatibility import Merging
from spark_bucketing.table.file_statistics import FileStats, State
from spark_bucketing.table.model import Column, Partition, Status, Table
from spark_bucketing.table.overview import Overview
from spark_bucketing.table.verification import Verification

SPEC = BucketSpec(4, ("k",), ("k",), "hive")
FILES = BucketedFiles("db.t", SPEC, "parquet", True, (DataFile("/t/ds=a/00000_0", 1, 1),))
MERGING = Merging("auto", 4, 4)


def part(ds: str, status: str, problem: str = "") -> Partition:
    sealed = SPEC if status == Status.SEALED else None
    return Partition(f"ds={ds}", (ds,), f"/t/ds={ds}", status, sealed, problem, files=4, files_per_bucket=1)


def bucketed(*parts: Partition, merging: Merging | None = MERGING) -> Overview:
    columns = (Column("ds", "string"),) if any(part.values for part in parts) else ()
    return Overview(Table("db.t", SPEC, columns, parts), FILES, merging)


def organized(*states: str, overlaps: bool = False) -> Verification:
    files = tuple(FileStats(f"part-{n}", 1, 1, state, overlaps=overlaps) for n, state in enumerate(states))
    return Verification(Overview(Table("db.o", None, ()), statistics=files), statistics=files)


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
        Verification(bucketed(part("a", Status.SEAL_BROKEN, "a file is gone"), part("b", Status.NOT_SEALED))),
        "wrong",
        ("2 partitions without a valid seal, such as ds=a [seal-broken] a file is gone: ",),
    ),
    "a refused partition is reported once": (
        Verification(bucketed(part("b", Status.NOT_SEALED)), True, sealed=(REFUSED,)),
        "wrong",
        ("ds=b has a row of bucket 1 in a file of bucket 0: rewrite it",),
    ),
    "no extension": (Verification(bucketed(merging=None)), "unknown", ()),
    "statistics": (organized(State.COVERED), "ok", ()),
    "not covered": (
        organized(State.COVERED, State.NOT_COVERED),
        "wrong",
        ("1 file not in the file statistics, such as part-1: ", "table stats db.o --repair"),
    ),
    "wrong": (organized(State.WRONG, State.WRONG), "wrong", ("2 files whose statistics differ from the rows",)),
    "overlapping": (
        organized(State.COVERED, overlaps=True),
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
    broken = replace(spark, table=replace(spark.table, partitions=(part("a", Status.SEAL_BROKEN),)))
    assert Verification(broken).state == "wrong"


def test_unreadable_table_is_unknown_and_does_not_pass() -> None:
    overview = replace(bucketed(part("a", Status.SEALED)), files=replace(FILES, files=(), unreadable="It is text."))
    assert (Verification(overview).state, Verification(overview).unknown) == ("unknown", "It is text.")
