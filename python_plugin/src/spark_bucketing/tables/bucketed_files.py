"""Describe the files of a bucketed table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from spark_bucketing.spec import VERSION_OF_HASH, BucketHash, BucketSpec

# Hive and Trino read these names. Spark writes 00003_0_part-..., Hive 000003_0 and 000003_0_copy_1, Trino
# 000003_0_<query id>, and transactions of Hive bucket_00003.
_HIVE = re.compile(r"(?:bucket_(?=\d+(?:_\d+)?$)|(?=\d+_\d))(\d{1,9})(?:_\d+.*)?")
# part-<task>-<uuid>_<bucket>.c000.<codec>.<format>. Spark's BucketingUtils has no prefix, so it finds bucket 0 in every
# file that Hive writes.
_SPARK = re.compile(r"part-.*_(\d{1,9})(?:\..*)?")


def bucket_of(file_name: str, bucket_hash: BucketHash) -> int | None:
    """Return the bucket id in a file's name, whose form depends on the hash, or None without an id."""
    match = (_HIVE if bucket_hash in VERSION_OF_HASH else _SPARK).fullmatch(file_name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class DataFile:
    """A data file: its path as Spark returns it, its number of rows and its size in bytes."""

    path: str
    rows: int
    size: int = 0

    @property
    def folder(self) -> str:
        """Return the path without the file name. Each partition has its own directory."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Return the file's name without its directory."""
        return self.path.rpartition("/")[2]


class FileSizes(NamedTuple):
    """Statistics of file sizes in bytes."""

    smallest: int
    median: int
    largest: int
    total: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> FileSizes | None:
        """Summarize the given file sizes in bytes, or return None if there are none."""
        return cls(min(sizes), int(median(sizes)), max(sizes), sum(sizes)) if sizes else None


class Evenness(NamedTuple):
    """How evenly rows are distributed over buckets."""

    buckets: int
    empty: int  # number of buckets without rows
    skew: float  # rows of the largest bucket, divided by the mean of all buckets

    @classmethod
    def of(cls, rows: Sequence[int], buckets: int) -> Evenness:
        """Compare the numbers of rows of buckets, of which those without rows may be missing."""
        return cls(buckets, buckets - sum(number > 0 for number in rows), max(rows) * buckets / sum(rows))

    def __str__(self) -> str:
        """Describe the evenness, such as `8 of 16 buckets are empty, and the largest has 2.0 times the mean`."""
        empty = f"{self.empty} of {self.buckets} buckets {'is' if self.empty == 1 else 'are'} empty"
        largest = f"{f'{empty}, and the largest' if self.empty else f'the largest of {self.buckets} buckets'} has"
        return f"{largest} {self.skew:.1f} times the mean number of rows"


@dataclass(frozen=True)
class SpecFiles:
    """The files of all partitions that have the same bucket spec."""

    spec: BucketSpec
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Return the total number of rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def folders(self) -> set[str]:
        """Return the directories that contain the files."""
        return {file.folder for file in self.files}

    @property
    def skew(self) -> float | None:
        """Return the rows of the largest bucket over all partitions, divided by the mean, or None if unknown."""
        return self.evenness.skew if self.evenness else None

    @property
    def evenness(self) -> Evenness | None:
        """Return how evenly the rows are distributed over the buckets, or None if unknown."""
        if not self.rows or self.without_bucket() or self.beyond():
            return None
        rows: Counter[int | None] = Counter()
        for file in self.files:
            rows[self.bucket(file)] += file.rows
        return Evenness.of(list(rows.values()), self.spec.num_buckets)

    def bucket(self, file: DataFile) -> int | None:
        """Return the bucket id in a file's name."""
        return bucket_of(file.name, self.spec.bucket_hash)

    def without_bucket(self) -> list[DataFile]:
        """Return the files whose names contain no bucket id."""
        return [file for file in self.files if self.bucket(file) is None]

    def beyond(self) -> list[DataFile]:
        """Return the files whose bucket id is not less than the number of buckets in the spec."""
        return [file for file in self.files if (self.bucket(file) or 0) >= self.spec.num_buckets]
