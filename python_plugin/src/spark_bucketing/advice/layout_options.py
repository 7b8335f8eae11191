"""Enumerate candidate bucket specs for a table, and explain why other specs are no candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spark_bucketing.advice.query_plans import RequiredLayout, Requirement
from spark_bucketing.advice.subjects import AdvisedTable
from spark_bucketing.config.schema import HIVE_TYPES, SPARK_TYPES, base_type
from spark_bucketing.spec import BucketHash, BucketSpec, are_compatible, number_of_buckets

# A bucket may differ from the target file size by this factor, so that the specs of joined tables can match.
_STRETCH = 4
# A value with more rows than this multiple of an average bucket delays the task that reads it.
_SKEW = 4


@dataclass(frozen=True)
class Options:
    """The candidate specs of one table, with its current spec first, and the keys that were rejected."""

    subject: AdvisedTable
    specs: tuple[BucketSpec | None, ...]
    left_out: Mapping[tuple[str, ...], str] = field(default_factory=dict)  # the reason for each rejected set of keys

    def write_cost(self, place: int) -> float:
        """Return how many more bytes writes would shuffle and sort with this spec than now, over all runs."""
        have = self.specs[0] is not None
        return 2.0 * self.subject.bytes * self.subject.written * ((self.specs[place] is not None) - have)


@dataclass(frozen=True)
class Compatibility:
    """The rules that decide whether a session can use a bucket spec."""

    extension: bool  # with it, bucket counts may be multiples and unions keep buckets; without it, counts must be equal
    all_keys: bool = True  # on stock Spark, a join requires that its tables are bucketed by all of its keys

    @property
    def by_some_keys(self) -> bool:
        """Return whether a join can use the buckets of a table that is bucketed by only some of the join keys."""
        return self.extension or not self.all_keys

    def serves(self, spec: BucketSpec | None, requirement: RequiredLayout, side: Requirement) -> bool:
        """Return whether the operator can use buckets with this spec on one of its sides."""
        if spec is None or (requirement.united and not self.extension):
            return False
        columns, keys = {column.lower() for column in spec.bucket_columns}, set(side.columns)
        return columns <= keys if self.by_some_keys or not requirement.is_join else columns == keys

    def agree(self, one: BucketSpec, other: BucketSpec, requirement: RequiredLayout) -> bool:
        """Return whether Spark can join two tables with these bucket specs without a shuffle."""
        sides = requirement.sides
        places = [
            [side.keys.index(column.lower()) for column in spec.bucket_columns]
            for spec, side in zip((one, other), sides, strict=True)
        ]
        same = one.num_buckets == other.num_buckets
        fit = same or (self.extension and not requirement.united and are_compatible(one.num_buckets, other.num_buckets))
        return places[0] == places[1] and fit and one.bucket_hash == other.bucket_hash

    def gain(self, requirement: RequiredLayout, specs: Sequence[BucketSpec | None]) -> float:
        """Return how many bytes one operator saves over all runs if the tables on its sides have these specs."""
        served = [self.serves(spec, requirement, side) for spec, side in zip(specs, requirement.sides, strict=True)]
        # The bytes of its sort count if the files have the required order.
        spared = [
            side.shuffled + (side.sorted if spec and _in_order(spec, side) else 0.0) if ok else 0.0
            for spec, side, ok in zip(specs, requirement.sides, served, strict=True)
        ]
        one, other = specs if len(specs) == 2 else (None, None)
        fit = one is not None and other is not None and all(served) and self.agree(one, other, requirement)
        if requirement.united and not fit:
            return 0.0
        # Spark shuffles only one of the two sides.
        return (sum(spared) if fit or not all(served) else max(spared)) * requirement.runs


def _in_order(spec: BucketSpec, side: Requirement) -> bool:
    columns = tuple(column.lower() for column in spec.sort_columns)[: len(side.order)]
    # Spark reorders the keys of a join to match the bucket columns if the table is bucketed by all of them.
    by_all = spec.bucket_columns == spec.sort_columns and set(side.keys) == set(columns) == set(side.order)
    return bool(side.order) and (columns == side.order or by_all)


def keys_of(required: Sequence[RequiredLayout], compatibility: Compatibility) -> dict[str, dict[tuple[str, ...], None]]:
    """Return candidate bucket columns for each table: its join keys, in either table's order, and grouping keys.

    A grouping can use any subset of its keys, and a join can if the session allows it, so keys that several operators
    have in common are candidates, too.
    """
    found: dict[str, dict[tuple[str, ...], None]] = {}
    sets: dict[str, dict[tuple[str, ...], None]] = {}
    for requirement in required:
        for side in requirement.sides:
            sets.setdefault(side.table, {})[tuple(sorted(side.columns))] = None
            by_name = sorted(range(len(side.keys)), key=lambda place, keys=side.keys: str(keys[place]))  # type: ignore[misc]
            _add(found, requirement, by_name)
    for requirement in required:
        if compatibility.by_some_keys or not requirement.is_join:
            for side in requirement.sides:
                for part in _parts(side, sets[side.table]):
                    _add(found, requirement, part)
    return found


def _parts(side: Requirement, sets: Iterable[tuple[str, ...]]) -> Iterator[list[int]]:
    """Return the positions of subsets of the keys: keys shared with another operator, and each key alone."""
    places = {key: place for place, key in enumerate(side.keys) if key is not None}
    for other in sets:
        yield [places[column] for column in other if column in places]
    for place in places.values():
        yield [place]


def _add(found: dict[str, dict[tuple[str, ...], None]], requirement: RequiredLayout, places: Sequence[int]) -> None:
    """Add the key columns at these positions as candidates for the tables on all sides, so that their specs match."""
    for side in requirement.sides:
        if keys := dict.fromkeys(key for place in places if (key := side.keys[place]) is not None):
            found.setdefault(side.table, {})[tuple(keys)] = None


def orders_of(required: Sequence[RequiredLayout]) -> dict[str, dict[tuple[str, ...], None]]:
    """Return candidate sort columns for each table's files, besides the bucket columns."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for side in (side for requirement in required for side in requirement.sides if len(side.order) > 1):
        found.setdefault(side.table, {})[side.order] = None
    return found


def numbers_beside(
    tables: Mapping[str, AdvisedTable], required: Sequence[RequiredLayout], target_file_size: int
) -> dict[str, set[int]]:
    """For each table, return the bucket counts that suit the other tables of its operators."""
    numbers = {name: number_of_buckets(one.per_partition, target_file_size) for name, one in tables.items()}
    beside: dict[str, set[int]] = {}
    for requirement in required:
        found = {numbers[side.table] for side in requirement.sides if side.table in numbers}
        for side in requirement.sides:
            beside.setdefault(side.table, set()).update(found)
    return beside


def options_of(
    subject: AdvisedTable,
    keys: Iterable[tuple[str, ...]],
    numbers: Iterable[int],
    target_file_size: int,
    orders: Iterable[tuple[str, ...]] = (),
) -> Options:
    """Return the candidate specs of a table, by these keys and with these or the table's own sort columns.

    The bucket counts suit the table's own size, or are numbers that suit the tables that queries join with it.
    """
    in_folders = {name.lower() for name in subject.table.partition_columns}
    orders = [order for order in orders if not in_folders.intersection(order)]
    own = number_of_buckets(subject.per_partition, target_file_size)
    there = subject.table.spec.num_buckets if subject.table.spec else None
    fitting = {own, *(n for n in numbers if own / _STRETCH <= n <= own * _STRETCH)}
    if there:
        # Spark can read old partitions together with new ones only if the counts are multiples.
        fitting = {there} | {there << i for i in range(8) if own / _STRETCH <= there << i <= own * _STRETCH}
    specs: list[BucketSpec | None] = [subject.table.spec]
    left_out: dict[tuple[str, ...], str] = {}
    for columns in keys:
        if why := _objection(subject, columns, own):
            left_out[columns] = why
            continue
        types = {name.lower(): base_type(kind) for name, kind in subject.table.columns.items()}
        is_hive = all(types.get(column) in HIVE_TYPES for column in columns)
        layout: BucketHash = subject.bucket_hash if is_hive else "spark"
        sorts = [columns, *(order for order in orders if set(columns) <= set(order) and order != columns)]
        for number in sorted(fitting, key=lambda n: (abs(math.log2(n / own)), n)):
            wide = (BucketSpec(number, columns, order, layout) for order in sorts)
            specs += [spec for spec in wide if spec not in specs]
    return Options(subject, tuple(specs), left_out)


def _objection(subject: AdvisedTable, columns: tuple[str, ...], number: int) -> str:
    types = {name.lower(): kind for name, kind in subject.table.columns.items()}
    partitions = {name.lower() for name in subject.table.partition_columns}
    for column in columns:
        kind = types.get(column, "")
        if column in partitions:
            return f"{column} is a partition column"
        if base_type(kind) not in SPARK_TYPES:
            return f"{column} has {'the type ' + kind if kind else 'an unknown type'}, which cannot be a bucket column"
    facts = [subject.facts.columns.get(column) for column in columns]
    counts = [one.distinct for one in facts if one and one.distinct is not None]
    if len(counts) == len(columns) and math.prod(counts) < 2 * number:
        return f"only {math.prod(counts):,} distinct values for {number:,} buckets"
    shares = [one.largest for one in facts if one and one.largest is not None]
    if len(shares) == len(columns) and min(shares, default=0) > _SKEW / max(number, _SKEW):
        return f"one value has {min(shares):.0%} of the rows"
    return ""
