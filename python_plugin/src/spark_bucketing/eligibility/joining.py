"""What Spark does about two inputs of a join: which one is shuffled, and how. After Spark's EnsureRequirements.

Stock Spark's CoalesceBucketsInJoin and the extension's BucketAlignment come before it: they read buckets in such a way
that no shuffle is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_bucketing.eligibility.layout import Hashed, Layout
from spark_bucketing.eligibility.world import World


@dataclass(frozen=True)
class Usable:
    """A hash of one input that serves a join, and at which places of the join's keys each hashed column stands."""

    hashed: Hashed
    places: tuple[frozenset[int], ...]


@dataclass(frozen=True)
class Joined:
    """Both inputs after the shuffles, and whether each one was shuffled."""

    layouts: tuple[Layout, Layout]
    shuffled: tuple[bool, bool]


def usable(layout: Layout, keys: Sequence[str], world: World) -> list[Usable]:
    """The hashes of an input that a join by these keys can use."""
    return [found for found in within(layout, keys) if covers(found, keys, world)]


def within(layout: Layout, keys: Sequence[str]) -> list[Usable]:
    """The hashes of an input over columns that are all among the keys."""
    found = []
    for hashed in layout.hashed:
        places = tuple(frozenset(i for i, key in enumerate(keys) if key == column) for column in hashed.keys)
        if all(places):
            found.append(Usable(hashed, places))
    return found


def covers(found: Usable, keys: Sequence[str], world: World) -> bool:
    """Whether all of the join's keys are hashed, or need not be."""
    if found.hashed.kind == "hive" or not world.on("spark.sql.requireAllClusterKeysForCoPartition"):
        return True
    return set(found.hashed.keys) == set(keys)


def pair_up(left: Usable, right: Usable) -> bool:
    """Whether both hash the same keys, whatever the number of partitions."""
    return (
        left.hashed.kind == right.hashed.kind
        and len(left.places) == len(right.places)
        and all(here & there for here, there in zip(left.places, right.places, strict=True))
    )


def divides(left: int, right: int) -> bool:
    """Whether one number of buckets is a multiple of the other."""
    return max(left, right) % min(left, right) == 0


def merges(left: Hashed, right: Hashed, world: World) -> bool:
    """Whether buckets of two tables that differ in number are read so that they fit."""
    if left.table is None or right.table is None or not divides(left.partitions, right.partitions):
        return False
    ratio = max(left.partitions, right.partitions) // min(left.partitions, right.partitions)
    small = ratio <= world.number("spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio")
    read = {world.extension_reads(left.table), world.extension_reads(right.table)}
    if len(read) > 1:
        return False
    if True in read:
        alignment = world.get("spark.bucketing.join.alignment")
        return alignment in ("coalesce", "split") or (alignment == "auto" and (small or world.aligns_far))
    return world.on("spark.sql.bucketing.coalesceBucketsInJoin.enabled") and small and left.direct and right.direct


def join_inputs(left: Layout, right: Layout, keys: tuple[Sequence[str], Sequence[str]], world: World) -> Joined:
    """Shuffle the inputs as far as they have to be."""
    if left.single and right.single:
        return Joined((left, right), (False, False))
    specs = (usable(left, keys[0], world), usable(right, keys[1], world))
    for here in specs[0]:
        for there in specs[1]:
            if pair_up(here, there) and here.hashed.partitions == there.hashed.partitions:
                return Joined((left, right), (False, False))
    for here in specs[0]:
        for there in specs[1]:
            if pair_up(here, there) and merges(here.hashed, there.hashed, world):
                return _merged((left, right), (here.hashed, there.hashed), world)
    return _shuffled((left, right), keys, specs, world)


def _merged(layouts: tuple[Layout, Layout], hashes: tuple[Hashed, Hashed], world: World) -> Joined:
    """The finer side reads several buckets as one; it stays in order only where its files are merged."""
    number = min(hashed.partitions for hashed in hashes)
    merges_files = world.number("spark.bucketing.read.mergeFiles") > 1
    after = []
    for layout, used in zip(layouts, hashes, strict=True):
        fewer = tuple(
            replace(hashed, partitions=number) if hashed.partitions == used.partitions else hashed
            for hashed in layout.hashed
        )
        keeps_order = merges_files and world.extension_reads(used.table)
        order = layout.order if used.partitions == number or keeps_order else ()
        after.append(replace(layout, hashed=fewer, order=order))
    return Joined((after[0], after[1]), (False, False))


def _shuffled(
    layouts: tuple[Layout, Layout],
    keys: tuple[Sequence[str], Sequence[str]],
    specs: tuple[list[Usable], list[Usable]],
    world: World,
) -> Joined:
    """The side with more partitions stays, and the other one is spread as it is; without such a side both are moved."""
    candidates = [(side, spec) for side in (0, 1) for spec in specs[side]]
    if not candidates:
        number = world.number("spark.sql.shuffle.partitions")
        made = tuple(Layout((Hashed("spark", tuple(side), number),)) for side in keys)
        return Joined((made[0], made[1]), (True, True))
    stays, best = max(candidates, key=lambda candidate: candidate[1].hashed.partitions)
    other = keys[1 - stays]
    moved = Layout((Hashed(best.hashed.kind, tuple(other[min(at)] for at in best.places), best.hashed.partitions),))
    if stays == 0:
        return Joined((layouts[0], moved), (False, True))
    return Joined((moved, layouts[1]), (True, False))
