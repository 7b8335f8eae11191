"""What the files of one table amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from spark_bucketing.layout.names import bucket_of
from spark_bucketing.spec import BucketSpec

_REBUILD = "write the table anew (dbt run --full-refresh)"


@dataclass(frozen=True)
class DataFile:
    """A data file: its path as Spark gives it and the number of its rows."""

    path: str
    rows: int

    @property
    def folder(self) -> str:
        """The path without the name; each partition has a folder of its own."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name without the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class TableLayout:
    """A bucketed table and all its files.

    When the files could not be read, unreadable says why, and nothing is known of them.
    """

    name: str
    spec: BucketSpec
    file_format: str
    partitioned: bool
    files: tuple[DataFile, ...] = ()
    unreadable: str = ""

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def partitions(self) -> int:
        """Partitions that have files; 1 for a table that is not partitioned."""
        return len({file.folder for file in self.files}) if self.partitioned else 1

    @property
    def skew(self) -> float | None:
        """Rows of the largest bucket over the mean of all buckets, empty ones too; partitions are added up.

        Returns:
            The quotient, 1.0 for an even table, or None when there are no rows or a file is in no bucket.
        """
        if not self.rows or self._files_without_bucket() or self._files_beyond():
            return None
        rows: Counter[int | None] = Counter()
        for file in self.files:
            rows[self._bucket(file)] += file.rows
        return max(rows.values()) * self.spec.num_buckets / self.rows

    @property
    def state(self) -> Literal["ok", "wrong", "unknown"]:
        """Whether the files are as the spec wants them: unknown is no pass."""
        if self.unreadable:
            return "unknown"
        return "wrong" if self.findings else "ok"

    @property
    def findings(self) -> tuple[str, ...]:
        """What is wrong with the files, each with an example and what to do."""
        return tuple(self._findings())

    def _findings(self) -> Iterator[str]:
        if unnamed := self._files_without_bucket():
            yield (
                f"{_count(unnamed, 'file')} without a bucket id in the name, such as {unnamed[0].name}: "
                f"they were written without buckets; {_REBUILD}."
            )
        if beyond := self._files_beyond():
            yield (
                f"{_count(beyond, 'file')} with a bucket id above {self.spec.num_buckets - 1}, such as "
                f"{beyond[0].name}: they were written for more buckets than the table has; {_REBUILD}."
            )
        if crowded := self._crowded_buckets():
            folder, bucket, number = crowded[0]
            values = "/".join(part for part in folder.split("/") if "=" in part)
            where = f" of {values}" if values else ""
            yield (
                f"{_count(crowded, 'bucket')} with more than one file, such as bucket {bucket}{where} with {number}: "
                f"a bucket is in one order only when it is one file; {_REBUILD}."
            )

    def _bucket(self, file: DataFile) -> int | None:
        return bucket_of(file.name, self.spec.bucket_hash)

    def _files_without_bucket(self) -> list[DataFile]:
        return [file for file in self.files if self._bucket(file) is None]

    def _files_beyond(self) -> list[DataFile]:
        return [file for file in self.files if (self._bucket(file) or 0) >= self.spec.num_buckets]

    def _crowded_buckets(self) -> list[tuple[str, int, int]]:
        """Folder, bucket and number of files, wherever a bucket of a partition has several."""
        numbers: Counter[tuple[str, int]] = Counter()
        for file in self.files:
            bucket = self._bucket(file)
            if bucket is not None:
                numbers[file.folder if self.partitioned else "", bucket] += 1
        return sorted((folder, bucket, number) for (folder, bucket), number in numbers.items() if number > 1)


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things):,} {noun}{'s' if len(things) > 1 else ''}"
