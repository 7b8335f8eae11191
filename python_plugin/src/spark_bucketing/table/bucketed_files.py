"""What the files of one table amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal, NamedTuple

from spark_bucketing.spec import BucketSpec
from spark_bucketing.table.bucket_names import bucket_of
from spark_bucketing.table.model import Table, one_spelling
from spark_bucketing.table.partition_predicates import covering, rewrite_command
from spark_bucketing.units import count


@dataclass(frozen=True)
class DataFile:
    """A data file: its path as Spark gives it, the number of its rows and its bytes."""

    path: str
    rows: int
    size: int = 0

    @property
    def folder(self) -> str:
        """The path without the name; each partition has a folder of its own."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name without the path."""
        return self.path.rpartition("/")[2]


class FileSizes(NamedTuple):
    """Bytes of files."""

    smallest: int
    median: int
    largest: int
    total: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> FileSizes | None:
        """Those of some files; None without any."""
        return cls(min(sizes), int(median(sizes)), max(sizes), sum(sizes)) if sizes else None


@dataclass(frozen=True)
class SpecFiles:
    """The files of those partitions of a table that have one spec."""

    spec: BucketSpec
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def folders(self) -> set[str]:
        """Where there are files."""
        return {file.folder for file in self.files}

    @property
    def skew(self) -> float | None:
        """Rows of the largest bucket over the mean of all buckets, empty ones too; partitions are added up.

        It is 1.0 for even rows, and None when there are no rows or a file is in no bucket.
        """
        if not self.rows or self.without_bucket() or self.beyond():
            return None
        rows: Counter[int | None] = Counter()
        for file in self.files:
            rows[self.bucket(file)] += file.rows
        return max(rows.values()) * self.spec.num_buckets / self.rows

    def bucket(self, file: DataFile) -> int | None:
        """The bucket of a file by its name."""
        return bucket_of(file.name, self.spec.bucket_hash)

    def without_bucket(self) -> list[DataFile]:
        """Files whose names have none."""
        return [file for file in self.files if self.bucket(file) is None]

    def beyond(self) -> list[DataFile]:
        """Files of buckets that the spec does not have."""
        return [file for file in self.files if (self.bucket(file) or 0) >= self.spec.num_buckets]


@dataclass(frozen=True)
class BucketedFiles:
    """A bucketed table and all its files.

    When the files could not be read, unreadable says why, and nothing is known of them.
    """

    name: str  # qualified: db.t
    spec: BucketSpec  # the table's own
    file_format: str  # parquet, orc, or what else Spark calls it
    partitioned: bool  # whether it has partition columns
    files: tuple[DataFile, ...] = ()  # of all partitions
    unreadable: str = ""  # why there are none here
    evolving: Table | None = None  # with its partitions; None where single ones cannot be rewritten

    @cached_property
    def own_specs(self) -> Mapping[str, BucketSpec]:
        """Of partitions whose seals have one, by their folders."""
        partitions = self.evolving.partitions if self.evolving else ()
        return {one_spelling(part.location): part.spec for part in partitions if part.spec}

    @property
    def by_spec(self) -> tuple[SpecFiles, ...]:
        """The files by the specs of their partitions; the table's own where there are none."""
        files: dict[BucketSpec, list[DataFile]] = {}
        for file in self.files:
            files.setdefault(self.own_specs.get(file.folder, self.spec), []).append(file)
        return tuple(SpecFiles(spec, tuple(found)) for spec, found in files.items()) or (SpecFiles(self.spec, ()),)

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
        """That of the spec whose rows are the least even; None where that of one of them is not known.

        Buckets of different specs are not added up: the first 8 of 16 are no larger than the others for there being
        partitions of 8.
        """
        skews = [part.skew for part in self.by_spec if part.rows]
        return max((skew for skew in skews if skew is not None), default=None) if None not in skews else None

    @property
    def sizes(self) -> FileSizes | None:
        """Bytes of the files; None without any."""
        return FileSizes.of([file.size for file in self.files])

    @property
    def state(self) -> Literal["ok", "wrong", "unknown"]:
        """Whether the files are as the spec requires them: unknown is no pass."""
        if self.unreadable:
            return "unknown"
        return "wrong" if self.findings else "ok"

    @property
    def findings(self) -> tuple[str, ...]:
        """What is wrong with the files, each with an example and what to do."""
        return tuple(self._findings())

    def _findings(self) -> Iterator[str]:
        if unnamed := [file for part in self.by_spec for file in part.without_bucket()]:
            yield (
                f"{count(len(unnamed), 'file')} without a bucket id in the name, such as {unnamed[0].name}: "
                f"they were written without buckets; {self._rewrite(file.folder for file in unnamed)}."
            )
        for part in self.by_spec:
            if beyond := part.beyond():
                yield (
                    f"{count(len(beyond), 'file')} with a bucket id above {part.spec.num_buckets - 1}, such as "
                    f"{beyond[0].name}: they were written for more buckets than the table has; "
                    f"{self._rewrite(file.folder for file in beyond)}."
                )
        if crowded := self._crowded_buckets():
            folder, bucket, number = crowded[0]
            values = "/".join(part for part in folder.split("/") if "=" in part)
            where = f" of {values}" if values else ""
            cure = self._rewrite(found for found, _, _ in crowded)
            yield (
                f"{count(len(crowded), 'bucket')} with more than one file, such as bucket {bucket}{where} "
                f"with {number}: a bucket is in one order only when it is one file; {cure}."
            )

    def _rewrite(self, folders: Iterable[str]) -> str:
        """What brings the files in these folders into order: only their partitions, where that is possible."""
        table, wanted = self.evolving, set(folders)
        chosen = [part for part in table.partitions if one_spelling(part.location) in wanted] if table else []
        if not table or not chosen:
            return "rebuild the table (dbt run --full-refresh)"
        return f"rewrite these partitions ({rewrite_command(table.name, covering(table, chosen))})"

    def _crowded_buckets(self) -> list[tuple[str, int, int]]:
        """Folder, bucket and number of files, wherever a bucket of a partition has several."""
        numbers: Counter[tuple[str, int]] = Counter()
        for part in self.by_spec:
            for file in part.files:
                bucket = part.bucket(file)
                if bucket is not None:
                    numbers[file.folder if self.partitioned else "", bucket] += 1
        return sorted((folder, bucket, number) for (folder, bucket), number in numbers.items() if number > 1)
