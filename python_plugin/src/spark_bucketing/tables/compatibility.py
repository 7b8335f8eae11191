"""Decide from metadata which partitions Spark can read together as bucketed.

The session extension decides in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, takewhile
from math import gcd

from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.metadata import Partition, TableMetadata

# Adjacent partitions with the same status and bucket spec.
PartitionRun = tuple[Partition, ...]


@dataclass(frozen=True)
class Merging:
    """The session settings that decide whether Spark reads files with `many` buckets as `few` buckets."""

    alignment: str = "auto"  # spark.bucketing.join.alignment
    cores: int = 1  # number of cores in the cluster; with fewer tasks, cores are idle
    most_ratio: int = 4  # spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio

    def worth(self, few: int, many: int) -> bool:
        """Return whether combining buckets pays off, like BucketAlignment.worthMerging in the extension."""
        if few == many:
            return True
        if few < 2 or self.alignment == "off":
            return False
        return self.alignment != "auto" or few >= self.cores or many // few <= self.most_ratio


@dataclass(frozen=True)
class Read:
    """How one query reads certain partitions."""

    partitions: tuple[Partition, ...]  # all partitions, in order
    spec: BucketSpec | None = None  # common spec of the bucketed scan; None for an ordinary scan
    why: str = ""  # reason for an ordinary scan


def compatible_read(table: TableMetadata, partitions: Sequence[Partition], merging: Merging) -> Read:
    """Determine how one query reads these partitions of a table. Partitions without files have no effect."""
    chosen = tuple(partitions)
    if table.spec is None:
        return Read(chosen, why="the table has no buckets now (it is NOT CLUSTERED)")
    filled = [partition for partition in chosen if partition.has_files]
    plain = [partition for partition in filled if partition.spec is None]
    if plain:
        alike = [partition for partition in plain if partition.status == plain[0].status]
        more = f"s {plain[0].name} and {len(alike) - 1:,} more are" if len(alike) > 1 else f" {plain[0].name} is"
        return Read(chosen, why=f"partition{more} {plain[0].status}")
    first_of: dict[BucketSpec, str] = {}
    for partition in filled:
        if partition.spec:
            first_of.setdefault(partition.spec, partition.name)
    common = common_spec(list(first_of) or [table.spec], merging)
    kinds: dict[str, str] = {}
    for spec, name in first_of.items():
        kinds.setdefault(_kind(spec, first_of), name)
    differing = ", ".join(f"{kind} in {name}" for kind, name in kinds.items())
    return Read(chosen, common, "" if common else f"its bucket specs differ: {differing}")


def common_spec(specs: Sequence[BucketSpec], merging: Merging) -> BucketSpec | None:
    """Return the spec with which one scan can read files with any of these specs, or None if there is none."""
    if len({(spec.bucket_columns, spec.bucket_hash) for spec in specs}) != 1:
        return None
    counts = [spec.num_buckets for spec in specs]
    common = reduce(gcd, counts)
    if not merging.worth(common, max(counts)):
        return None
    levels = zip(*(spec.sort_columns for spec in specs), strict=False)
    order = tuple(names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels))
    return BucketSpec(common, specs[0].bucket_columns, order, specs[0].bucket_hash)


def _kind(spec: BucketSpec, others: Iterable[BucketSpec]) -> str:
    """Describe the first part of a spec that differs from the other specs."""
    if any(other.bucket_columns != spec.bucket_columns for other in others):
        return f"by {', '.join(spec.bucket_columns)}"
    if any(other.bucket_hash != spec.bucket_hash for other in others):
        return f"hash {spec.bucket_hash}"
    return f"{spec.num_buckets} buckets"


def runs(partitions: Iterable[Partition]) -> list[PartitionRun]:
    """Group adjacent partitions that have the same spec and the same status."""
    return [tuple(group) for _, group in groupby(partitions, lambda partition: (partition.status, partition.spec))]


def span(partitions: Sequence[Partition]) -> str:
    """Return the names of the first and the last of several adjacent partitions: ds=a .. ds=f."""
    first, last = partitions[0].name, partitions[-1].name
    return first if first == last else f"{first} .. {last}"


def readable_ranges(table: TableMetadata, merging: Merging) -> list[Read]:
    """Return the longest ranges of partitions that Spark can read together, and the partitions that are in no range.

    If Spark can read certain partitions together, it can also read any subset of them together. Therefore, as the start
    of a range moves forward, its end never moves back.
    """
    found = runs(table.partitions)

    def read(start: int, end: int) -> Read:
        return compatible_read(table, [partition for run in found[start:end] for partition in run], merging)

    reads: list[Read] = []
    end = 0
    for start in range(len(found)):
        last = max(end, start + 1)
        while last < len(found) and read(start, last + 1).spec:
            last += 1
        # A range with the same end as the previous range is contained in it.
        if last > end:
            reads.append(read(start, last))
        end = last
    return reads


def smallest_rewrite(table: TableMetadata, selected: Sequence[Partition], merging: Merging) -> tuple[Partition, ...]:
    """Return the partitions to rewrite so that one query can read all selected partitions together.

    The rewritten partitions get the table's spec, so Spark must be able to read all others with a number of buckets
    that divides the table's. Of all divisors and maximum numbers, the pair wins with which the most partitions stay.
    """
    if table.spec is None or compatible_read(table, selected, merging).spec:
        return ()
    own, target = table.spec.num_buckets, table.spec

    def is_alike(part: Partition) -> bool:
        keys = (target.bucket_columns, target.bucket_hash)
        return part.spec is not None and (part.spec.bucket_columns, part.spec.bucket_hash) == keys

    numbers = Counter(part.spec.num_buckets for part in selected if part.spec and is_alike(part))
    staying = (
        {number for number in numbers if number % few == 0 and number <= many}
        for few in range(1, own + 1)
        for many in {own, *numbers}
        if own % few == 0 and many >= own and merging.worth(few, many)
    )
    best = max(staying, key=lambda stay: sum(numbers[number] for number in stay))

    def stays(part: Partition) -> bool:
        return not part.has_files or (part.spec is not None and is_alike(part) and part.spec.num_buckets in best)

    return tuple(part for part in selected if not stays(part))
