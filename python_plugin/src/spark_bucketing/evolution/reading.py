"""Which partitions can be read together as bucketed: the rule of the session extension, on metadata alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from math import gcd

from spark_bucketing.evolution.model import Partition, Table, words
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class Merging:
    """When files of up to `many` buckets are read as `few`.

    Args:
        alignment: spark.bucketing.join.alignment.
        cores: of the cluster, by which few tasks are too few.
        most_ratio: spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio.
    """

    alignment: str = "auto"
    cores: int = 1
    most_ratio: int = 4

    def worth(self, few: int, many: int) -> bool:
        """The extension's BucketAlignment.worthMerging."""
        if few == many:
            return True
        if few < 2 or self.alignment == "off":
            return False
        return self.alignment != "auto" or few >= self.cores or many // few <= self.most_ratio


@dataclass(frozen=True)
class Run:
    """Neighbouring partitions of the same spec and status."""

    partitions: tuple[Partition, ...]
    claim: BucketSpec | str

    @property
    def name(self) -> str:
        """First and last partition."""
        return span(self.partitions)


@dataclass(frozen=True)
class Read:
    """How neighbouring partitions are read in one query.

    Args:
        partitions: all of them.
        buckets: their number, in which they are read together; None when they are read plainly.
        columns: the bucket columns.
        why: they are read plainly.
    """

    partitions: tuple[Partition, ...]
    buckets: int | None = None
    columns: tuple[str, ...] = ()
    why: str = ""


def span(partitions: Sequence[Partition]) -> str:
    """First and last of neighbouring partitions: ds=a .. ds=f."""
    first, last = partitions[0].name, partitions[-1].name
    return first if first == last else f"{first} .. {last}"


def runs(table: Table) -> list[Run]:
    """The partitions in their order, those that are told the same of put together."""

    def alike(partition: Partition) -> tuple[BucketSpec | str, str]:
        return table.claim(partition), partition.state

    return [Run(tuple(group), claim) for (claim, _), group in groupby(table.partitions, alike)]


def read_together(found: Sequence[Run], merging: Merging) -> Read:
    """How all partitions of these runs are read in one query."""
    partitions = tuple(partition for run in found for partition in run.partitions)
    refused = next((run for run in found if isinstance(run.claim, str)), None)
    if refused:
        alike = sum(len(run.partitions) for run in found if run.claim == refused.claim)
        return Read(partitions, why=_refusal(str(refused.claim), refused.partitions[0].name, alike))
    specs = [run.claim for run in found if isinstance(run.claim, BucketSpec)]
    common = common_buckets(specs, merging)
    if common is None:
        return Read(partitions, why=f"its bucket specs differ: {_kinds(found)}")
    return Read(partitions, common, specs[0].bucket_columns)


def _refusal(code: str, first: str, number: int) -> str:
    """Which partitions are read plainly, and the code of the reason."""
    return f"{f'partitions {first} and {number - 1:,} more are' if number > 1 else f'partition {first} is'} {code}"


def common_buckets(specs: Iterable[BucketSpec], merging: Merging) -> int | None:
    """The number of buckets that divides those of all specs, where they can be read so together."""
    found = list(specs)
    if len({spec.bucket_columns for spec in found}) != 1:
        return None
    counts = [spec.num_buckets for spec in found]
    common = reduce(gcd, counts)
    return common if merging.worth(common, max(counts)) else None


def _kinds(found: Sequence[Run]) -> str:
    specs = [run.claim for run in found if isinstance(run.claim, BucketSpec)]
    by_columns = len({spec.bucket_columns for spec in specs}) > 1
    kinds: dict[str, str] = {}
    for run, spec in zip(found, specs, strict=True):
        kind = f"by {', '.join(spec.bucket_columns)}" if by_columns else f"{spec.num_buckets} buckets"
        kinds.setdefault(kind, run.partitions[0].name)
    return ", ".join(f"{kind} in {name}" for kind, name in kinds.items())


def readable_ranges(found: Sequence[Run], merging: Merging) -> list[Read]:
    """The longest ranges of partitions that are read together, and those partitions that no range can have.

    What holds for partitions holds for fewer of them, so that the end of a range never moves back.
    """
    reads: list[Read] = []
    end = 0
    for start in range(len(found)):
        if isinstance(found[start].claim, str):
            reads.append(read_together(found[start : start + 1], merging))
            continue
        last = max(end, start)
        while last < len(found) and read_together(found[start : last + 1], merging).buckets:
            last += 1
        # A range that ends where the one before it did is a part of that one.
        if last > end:
            reads.append(read_together(found[start:last], merging))
        end = last
    return reads


def describe(claim: BucketSpec | str) -> str:
    """What is told of partitions, for people."""
    return claim if isinstance(claim, str) else words(claim)
