"""Describe and check the files of a bucketed table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

from spark_bucketing.errors import State
from spark_bucketing.spec import VERSION_OF_HASH, BucketHash, BucketSpec
from spark_bucketing.tables.model import TableMetadata, one_spelling
from spark_bucketing.tables.partition_predicates import covering, rewrite_command
from spark_bucketing.units import count

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


@dataclass(frozen=True)
class BucketedFiles:
    """A bucketed table and all its files, or, if they cannot be read, an error message."""

    table: TableMetadata  # with its partitions if the session has the extension
    spec: BucketSpec  # of the table, with the names of columns as the metastore has them
    files: tuple[DataFile, ...] = ()  # of all partitions
    unreadable: str = ""  # why the files cannot be read

    @cached_property
    def by_spec(self) -> tuple[SpecFiles, ...]:
        """Group the files by the bucket spec of their partition. Unsealed partitions have the table's spec."""
        parts = self.table.partitions if self._is_evolving else ()
        own_specs = {one_spelling(part.location): part.spec for part in parts if part.spec}
        files: dict[BucketSpec, list[DataFile]] = {}
        for file in self.files:
            files.setdefault(own_specs.get(file.folder, self.spec), []).append(file)
        return tuple(SpecFiles(spec, tuple(found)) for spec, found in files.items()) or (SpecFiles(self.spec, ()),)

    @property
    def _is_evolving(self) -> bool:
        """Return whether each partition may have its own spec, so that single partitions can be rewritten."""
        return bool(self.table.columns) and self.spec.in_hive_layout

    @property
    def rows(self) -> int:
        """Return the total number of rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def partitions(self) -> int:
        """Return the number of partitions that have files, or 1 for an unpartitioned table."""
        return len({file.folder for file in self.files}) if self.table.columns else 1

    @property
    def skew(self) -> float | None:
        """Return the largest skew, each of one spec, because different numbers of buckets have different means."""
        skews = [part.skew for part in self.by_spec if part.rows]
        return max((skew for skew in skews if skew is not None), default=None) if None not in skews else None

    @property
    def sizes(self) -> FileSizes | None:
        """Summarize the sizes of the files, or return None if there are no files."""
        return FileSizes.of([file.size for file in self.files])

    @property
    def state(self) -> State:
        """Return whether the files match the bucket spec. The state is `unknown` if the files cannot be read."""
        if self.unreadable:
            return "unknown"
        return "wrong" if self.findings else "ok"

    @property
    def findings(self) -> tuple[str, ...]:
        """Return the violations that the files show, each with an example and a fix."""
        return tuple(self._findings())

    def _findings(self) -> Iterator[str]:
        if unnamed := [file for part in self.by_spec for file in part.without_bucket()]:
            yield (
                f"{count(len(unnamed), 'file')} without a bucket id in the name, such as {unnamed[0].name}: "
                f"a writer ignored the buckets; {self._rewrite(file.folder for file in unnamed)}."
            )
        for part in self.by_spec:
            if beyond := part.beyond():
                yield (
                    f"{count(len(beyond), 'file')} with a bucket id above {part.spec.num_buckets - 1}, such as "
                    f"{beyond[0].name}: a writer used more buckets than the table has; "
                    f"{self._rewrite(file.folder for file in beyond)}."
                )
        # The numbers of files by directory and bucket.
        numbers: Counter[tuple[str, int]] = Counter()
        for part in self.by_spec:
            for file in part.files:
                bucket_id = part.bucket(file)
                if bucket_id is not None:
                    numbers[file.folder if self.table.columns else "", bucket_id] += 1
        if crowded := sorted((*place, number) for place, number in numbers.items() if number > 1):
            folder, bucket, number = crowded[0]
            values = "/".join(part for part in folder.split("/") if "=" in part)
            where = f" of {values}" if values else ""
            fix = self._rewrite(found for found, _, _ in crowded)
            yield (
                f"{count(len(crowded), 'bucket')} with more than one file, such as bucket {bucket}{where} "
                f"with {number}: a bucket is sorted as a whole only if it has a single file; {fix}."
            )

    def _rewrite(self, folders: Iterable[str]) -> str:
        """Suggest a fix for the files in these directories, if possible only for their partitions."""
        table, wanted = self.table, set(folders)
        chosen = [part for part in table.partitions if one_spelling(part.location) in wanted]
        if not self._is_evolving or not chosen:
            return "rebuild the table (dbt run --full-refresh)"
        return f"rewrite these partitions ({rewrite_command(table.name, covering(table, chosen))})"
