"""The fewest partitions to write anew so that a query reads all that it selects as bucketed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.reading import Merging, common_buckets
from spark_bucketing.spec import BucketSpec

# Numbers of buckets of one table that are all tried with each other; beyond that, only those that divide in turn.
_TRIED = 12


def smallest_rewrite(table: Table, selected: Sequence[Partition], merging: Merging) -> tuple[Partition, ...]:
    """Partitions that have to get the table's own spec so that all selected can be read together.

    Args:
        table: of which the partitions are; it has buckets.
        selected: by the query, in their order.
        merging: when different numbers of buckets are read together.

    Returns:
        The fewest such partitions, in their order; none when all can be read together already.
    """
    if table.spec is None:
        return ()
    target = table.spec
    claims = [table.claim(partition) for partition in selected]
    specs = [claim for claim in claims if isinstance(claim, BucketSpec)]
    if len(specs) == len(claims) and (not specs or common_buckets(specs, merging)):
        return ()
    numbers: dict[int, int] = defaultdict(int)
    for spec in specs:
        if spec.bucket_columns == target.bucket_columns:
            numbers[spec.num_buckets] += 1
    fitting = (kept for kept in _subsets(sorted(numbers)) if _fits(target, kept, merging))
    best = max(fitting, key=lambda kept: (sum(numbers[number] for number in kept), -len(kept)))

    def stays(claim: BucketSpec | str) -> bool:
        return (
            isinstance(claim, BucketSpec)
            and claim.bucket_columns == target.bucket_columns
            and claim.num_buckets in best
        )

    return tuple(partition for partition, claim in zip(selected, claims, strict=True) if not stays(claim))


def _fits(target: BucketSpec, kept: Sequence[int], merging: Merging) -> bool:
    specs = [replace(target, num_buckets=number) for number in (target.num_buckets, *kept)]
    return common_buckets(specs, merging) is not None


def _subsets(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if len(numbers) <= _TRIED:
        for size in range(len(numbers) + 1):
            yield from combinations(numbers, size)
        return
    yield ()
    for number in numbers:
        yield tuple(other for other in numbers if other % number == 0)
