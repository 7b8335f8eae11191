"""Records as the files prove them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_bucketing.evolution.evidence import (
    FileEvidence,
    key_of,
    misnamed,
    misplaced,
    proves,
    some_of,
    with_proven_order,
)
from spark_bucketing.evolution.model import Partition, RecordState, Table, words
from spark_bucketing.evolution.rows import Listing
from spark_bucketing.layout.names import bucket_of
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class Change:
    """A record to be written.

    Args:
        partition: whose.
        spec: the new record; None for files that are not the buckets of one spec.
        why: what the old one is, and what the files are.
    """

    partition: Partition
    spec: BucketSpec | None
    why: str

    def data(self) -> dict[str, Any]:
        """The record in the form in which the session extension takes it."""
        spec = self.spec
        record = (
            {"buckets": spec.num_buckets, "columns": spec.bucket_columns, "sort": spec.sort_columns} if spec else {}
        )
        return {"partition": self.partition.name, **record}


def candidates(table: Table, names: Iterable[Sequence[str]] = ()) -> tuple[BucketSpec, ...]:
    """Every spec that some partition, or the table, is said to have; then those that names of files suggest.

    Args:
        table: with all its partitions.
        names: of the files of each partition.
    """
    own = [spec for partition in table.partitions for spec in (partition.spec, partition.descriptor)]
    said = list(dict.fromkeys(spec for spec in (table.spec, *own) if spec))
    numbers = sorted({number for files in names if (number := _number(files)) > 1})
    return tuple(dict.fromkeys([*said, *(replace(spec, num_buckets=number) for number in numbers for spec in said)]))


def _number(names: Sequence[str]) -> int:
    """As many buckets as the last one of the files says; 0 where some file is of none."""
    buckets = [bucket_of(name, "hive") for name in names]
    return max((bucket + 1 for bucket in buckets if bucket is not None), default=0) if None not in buckets else 0


def plan_repair(
    table: Table, evidence: Mapping[str, Sequence[FileEvidence]], known: Sequence[BucketSpec]
) -> list[Change]:
    """The records that have to be written so that each says what the partition's files are.

    Args:
        table: with all its partitions.
        evidence: of the files of each partition, for all candidates.
        known: the candidates.

    Returns:
        Changes in the order of the partitions; none for partitions whose record and descriptor are right.
    """
    return list(_changes(table, evidence, known))


def _changes(
    table: Table, evidence: Mapping[str, Sequence[FileEvidence]], known: Sequence[BucketSpec]
) -> Iterator[Change]:
    for partition in table.partitions:
        files = evidence[partition.name]
        spec = proven(table, partition, files, known)
        # As long as no spec was altered, records are not read: what they would say is what the table says.
        plain = not table.evolved and partition.state is RecordState.MISSING and spec == table.spec
        in_step = not partition.described or partition.descriptor == spec
        if not (partition.has(spec) or (plain and in_step)):
            yield Change(partition, spec, f"{_record(table, partition)}; {_files(partition, spec, files, table)}")


def proven(
    table: Table, partition: Partition, files: Sequence[FileEvidence], known: Sequence[BucketSpec]
) -> BucketSpec | None:
    """The spec that a partition's files prove: what it is said to have goes before what others have."""
    if not files:
        return _without_files(table, partition)
    own = [spec for spec in (partition.spec, partition.descriptor, table.spec) if spec]
    fitting = [spec for spec in dict.fromkeys([*own, *known]) if proves(spec, files)]
    if not fitting:
        return None
    same = [with_proven_order(spec, files) for spec in fitting if key_of(spec) == key_of(fitting[0])]
    return max(same, key=lambda spec: len(spec.sort_columns))


def _without_files(table: Table, partition: Partition) -> BucketSpec | None:
    """Nothing is proven, and nothing contradicted."""
    if partition.state in (RecordState.BUCKETED, RecordState.UNBUCKETED):
        return partition.spec
    return partition.descriptor or table.spec


def _record(table: Table, partition: Partition) -> str:
    if partition.state is RecordState.BROKEN:
        return f"a broken record: {partition.problem}"
    if partition.state is RecordState.MISSING:
        said = f"no record, read by the table's {words(table.spec)}"
    else:
        said = f"a record of {words(partition.spec)}"
    if partition.described and partition.descriptor != partition.spec:
        said += f", a descriptor of {words(partition.descriptor)}"
    return said


def _files(partition: Partition, spec: BucketSpec | None, files: Sequence[FileEvidence], table: Table) -> str:
    if not files:
        return "there are no files, so nothing contradicts it"
    if spec is not None:
        return f"the files prove {words(spec)}"
    asked = partition.spec or partition.descriptor or table.spec
    names = [file.name for file in files]
    wrong = (misnamed(asked, names) or misplaced(asked, files)) if asked else []
    return "the files prove no spec" + (f": {some_of(wrong, len(files))}" if wrong else "")


def still_true(changes: Iterable[Change], before: Listing, now: Table, files: Listing) -> list[Change]:
    """The changes to partitions that are what they were when their rows were looked at.

    Args:
        changes: what is to be written.
        before: the files that were looked at.
        now: the table as it is.
        files: its files as they are.
    """
    same = {partition.name: partition for partition in now.partitions}
    return [
        change
        for change in changes
        if same.get(name := change.partition.name) == change.partition and files.get(name) == before.get(name)
    ]


def marks_evolved(table: Table, changes: Sequence[Change]) -> bool:
    """Whether these are the first records of the table, after which readers ask for them."""
    return bool(changes) and not table.evolved
