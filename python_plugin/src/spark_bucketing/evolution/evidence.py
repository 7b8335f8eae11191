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
class BadFile:
    """A file that is not what it should be: its name, and what is wrong with it."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name} {self.problem}"


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


# Files that a sentence names.
_NAMED = 3


def some_of(bad: Sequence[BadFile], files: int) -> str:
    """Bad files in words: how many of all files, and the first few of them."""
    if len(bad) == 1:
        return f"the file {bad[0]}"
    more = f"; and {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    return f"{len(bad):,} of {files:,} files: {'; '.join(map(str, bad[:_NAMED]))}{more}"


def misnamed(spec: BucketSpec, names: Sequence[str]) -> list[BadFile]:
    """Files whose names cannot be of these buckets."""
    return [BadFile(name, problem) for name in names if (problem := _of_name(spec, name))]


def _of_name(spec: BucketSpec, name: str) -> str:
    bucket = bucket_of(name, "hive")
    if bucket is None:
        return "has no bucket id in its name"
    return f"is of bucket {bucket}" if bucket >= spec.num_buckets else ""


def misplaced(spec: BucketSpec, files: Sequence[FileEvidence]) -> list[BadFile]:
    """Files with rows of another bucket than their name says; those whose names are of none are left out."""
    return [BadFile(file.name, problem) for file in files if file.rows and (problem := _of_rows(spec, file))]


def _of_rows(spec: BucketSpec, file: FileEvidence) -> str:
    found = file.buckets.get(key_of(spec))
    if found is None:
        columns = ", ".join(spec.bucket_columns)
        return f"has rows that cannot be hashed by ({columns}): no such column, or a type that Hive hashes otherwise"
    (low, high), bucket = found, bucket_of(file.name, "hive")
    if bucket is None or bucket >= spec.num_buckets or low == high == bucket:
        return ""
    return f"holds rows of {f'bucket {low}' if low == high else f'buckets {low} to {high}'}"


def proves(spec: BucketSpec, files: Sequence[FileEvidence]) -> bool:
    """Whether these files are the buckets of a spec, its order left aside."""
    return not misnamed(spec, [file.name for file in files]) and not misplaced(spec, files)


def disordered(columns: tuple[str, ...], files: Sequence[FileEvidence]) -> str | None:
    """The files of buckets whose rows are not in this order, in words; None when all are."""
    found = unsorted(columns, files)
    return some_of(found, len(files)) if found else None


def unsorted(columns: tuple[str, ...], files: Sequence[FileEvidence]) -> list[BadFile]:
    """Files of buckets whose rows are not in this order, and how many of their rows.

    A file whose name is of no bucket is never read by buckets, whatever its order; misnamed() finds it.
    """
    named = [file for file in files if bucket_of(file.name, "hive") is not None]
    numbers = [(file.name, file.disorder.get(columns, 0) if columns else 0) for file in named]
    return [
        BadFile(name, f"has {number:,} rows that are smaller than the one before") for name, number in numbers if number
    ]


def with_proven_order(spec: BucketSpec, files: Sequence[FileEvidence]) -> BucketSpec:
    """The spec with as many of its sort columns as all files are sorted by."""
    columns = spec.sort_columns
    while columns and disordered(columns, files):
        columns = columns[:-1]
    return replace(spec, sort_columns=columns)


def has_spec(target: BucketSpec, files: Sequence[FileEvidence]) -> bool:
    """Whether files are the buckets of a spec, in its order."""
    return proves(target, files) and disordered(target.sort_columns, files) is None
