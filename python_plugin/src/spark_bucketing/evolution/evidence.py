"""What the files of partitions prove of their buckets: names give candidates, rows decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.layout.names import bucket_of
from spark_bucketing.spec import BucketSpec

Key = tuple[int, tuple[str, ...]]
"""Number of buckets and bucket columns."""


def key_of(spec: BucketSpec) -> Key:
    """What decides over a row's bucket."""
    return spec.num_buckets, spec.bucket_columns


@dataclass(frozen=True)
class FileEvidence:
    """A file of a partition, and what its rows are.

    Args:
        name: without its folder.
        rows: their number.
        buckets: the lowest and the highest bucket of its rows, by each candidate; empty for a file without rows.
        disorder: rows that are smaller than the one before them, by columns; missing where nobody looked.
    """

    name: str
    rows: int
    buckets: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    disorder: Mapping[tuple[str, ...], int] = field(default_factory=dict)


def misnamed(spec: BucketSpec, names: Sequence[str]) -> str | None:
    """A file whose name cannot be of these buckets, and why; None when all can be."""
    for name in names:
        bucket = bucket_of(name, "hive")
        if bucket is None:
            return f"{name} has no bucket id in its name"
        if bucket >= spec.num_buckets:
            return f"{name} is of bucket {bucket}"
    return None


def misplaced(spec: BucketSpec, files: Sequence[FileEvidence]) -> str | None:
    """A file with rows of another bucket than its name says, and which; None when there is none."""
    for file in files:
        if not file.rows:
            continue
        found = file.buckets.get(key_of(spec))
        if found is None:
            columns = ", ".join(spec.bucket_columns)
            return f"rows cannot be hashed by ({columns}): no such column, or a type that Hive hashes otherwise"
        low, high = found
        bucket = bucket_of(file.name, "hive")
        if (low, high) != (bucket, bucket):
            where = f"bucket {low}" if low == high else f"buckets {low} to {high}"
            return f"{file.name} holds rows of {where}"
    return None


def proves(spec: BucketSpec, files: Sequence[FileEvidence]) -> bool:
    """Whether these files are the buckets of a spec, its order left aside."""
    return misnamed(spec, [file.name for file in files]) is None and misplaced(spec, files) is None


def disordered(columns: tuple[str, ...], files: Sequence[FileEvidence]) -> str | None:
    """A file whose rows are not in this order, and how many; None when all are."""
    for file in files:
        if columns and file.disorder.get(columns, 0):
            return f"{file.name} has {file.disorder[columns]:,} rows that are smaller than the one before"
    return None


def with_proven_order(spec: BucketSpec, files: Sequence[FileEvidence]) -> BucketSpec:
    """The spec with as many of its sort columns as all files are sorted by."""
    columns = spec.sort_columns
    while columns and disordered(columns, files):
        columns = columns[:-1]
    return replace(spec, sort_columns=columns)
