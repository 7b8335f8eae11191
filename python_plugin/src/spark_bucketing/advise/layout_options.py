"""Layouts that a table could have, and what is against others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spark_bucketing.advise.optimizer import Choices
from spark_bucketing.advise.requirements import RequiredLayout, Requirement
from spark_bucketing.advise.table_sizes import TableSize
from spark_bucketing.plan.whatif import HypotheticalTable
from spark_bucketing.spec import BucketHash, BucketSpec

# A bucket may be so many times larger or smaller than the file size asks, so that tables of one join fit together.
_STRETCH = 4
# Types of keys; the others than Hive's have no hash that is the same everywhere, and are for the Spark layout alone.
_HIVE_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date")
_TYPES = (*_HIVE_TYPES, "varchar", "char", "binary", "timestamp", "timestamp_ntz")
# One value whose rows are so many times a bucket's share holds up the task that reads it.
_SKEW = 4


@dataclass(frozen=True)
class Subject:
    """A table that could be bucketed."""

    table: HypotheticalTable  # as it is
    facts: TableSize
    written: float = 1.0  # how often as many bytes as it has are written
    bucket_hash: BucketHash = "hive"
    evolves: bool = False  # whether old partitions keep their layout when the table gets one of Hive

    def rewritten(self, spec: BucketSpec | None) -> int:
        """Bytes that the next run writes anew where the layout becomes this one."""
        return 0 if self.evolves_to(spec) or spec == self.table.spec else self.bytes

    def evolves_to(self, spec: BucketSpec | None) -> bool:
        """Whether old partitions keep their layout when this one comes."""
        return self.evolves and spec is not None and spec.bucket_hash == "hive"

    def hash_of(self, columns: Iterable[str]) -> BucketHash:
        """The layout for these keys."""
        types = {name.lower(): _base(kind) for name, kind in self.table.columns.items()}
        return self.bucket_hash if all(types.get(column) in _HIVE_TYPES for column in columns) else "spark"

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return self.facts.size_bytes or 0

    @property
    def per_partition(self) -> float:
        """Bytes of one partition, or of a table that has none."""
        return self.bytes / max(self.facts.partitions or 1, 1) if self.table.partition_columns else self.bytes


@dataclass(frozen=True)
class Options:
    """The layouts of one table, of which the first is the one that it has, and keys that were left out."""

    subject: Subject
    specs: tuple[BucketSpec | None, ...]
    left_out: Mapping[tuple[str, ...], str] = field(default_factory=dict)  # why, by keys

    def write_cost(self, place: int) -> float:
        """Bytes that a layout shuffles and sorts when it is written, beyond those of the present one, all runs."""
        have = self.specs[0] is not None
        return 2.0 * self.subject.bytes * self.subject.written * ((self.specs[place] is not None) - have)


@dataclass(frozen=True)
class Compatibility:
    """How layouts serve what is required, by the rules of the session that reads them."""

    extension: bool  # numbers of buckets that divide each other fit, else only equal ones; unions keep buckets
    all_keys: bool = True  # stock Spark: a join wants buckets by all of its keys

    @property
    def by_some_keys(self) -> bool:
        """Whether buckets by some of its keys serve a join."""
        return self.extension or not self.all_keys

    def serves(self, spec: BucketSpec | None, requirement: RequiredLayout, side: Requirement) -> bool:
        """Whether rows with equal keys are in one bucket, in a way that the operator makes use of."""
        if spec is None or (requirement.united and not self.extension):
            return False
        columns, keys = {column.lower() for column in spec.bucket_columns}, set(side.columns)
        return columns <= keys if self.by_some_keys or not requirement.is_join else columns == keys

    def agree(self, one: BucketSpec, other: BucketSpec, requirement: RequiredLayout) -> bool:
        """Whether two tables' buckets can be put side by side."""
        sides = requirement.sides
        places = [
            [side.keys.index(column.lower()) for column in spec.bucket_columns]
            for spec, side in zip((one, other), sides, strict=True)
        ]
        numbers = sorted((one.num_buckets, other.num_buckets))
        fit = numbers[1] % numbers[0] == 0 if self.extension and not requirement.united else numbers[0] == numbers[1]
        return places[0] == places[1] and fit and one.bucket_hash == other.bucket_hash

    def gain(self, requirement: RequiredLayout, specs: Sequence[BucketSpec | None]) -> float:
        """Bytes that are spared in one operator, all runs, by the layouts of its sides' tables."""
        served = [self.serves(spec, requirement, side) for spec, side in zip(specs, requirement.sides, strict=True)]
        spared = [
            _spared(spec, side) if ok else 0.0 for spec, side, ok in zip(specs, requirement.sides, served, strict=True)
        ]
        one, other = specs if len(specs) == 2 else (None, None)
        fit = one is not None and other is not None and all(served) and self.agree(one, other, requirement)
        if requirement.united and not fit:
            return 0.0
        # One of them stays where it is.
        return (sum(spared) if fit or not all(served) else max(spared)) * requirement.runs


def _spared(spec: BucketSpec | None, side: Requirement) -> float:
    """Bytes of a side that is served, of which its files may have the order as well."""
    return side.shuffled + (side.sorted if spec and _in_order(spec, side) else 0.0)


def _in_order(spec: BucketSpec, side: Requirement) -> bool:
    columns = tuple(column.lower() for column in spec.sort_columns)[: len(side.order)]
    # Spark puts the keys of a join in the order of the buckets, where these are by all of them.
    by_all = spec.bucket_columns == spec.sort_columns and set(side.keys) == set(columns) == set(side.order)
    return bool(side.order) and (columns == side.order or by_all)


def number_of_buckets(size: float, target_file_size: int) -> int:
    """A power of two, so that no bucket is larger than the file size by more than half."""
    return 1 << max(0, round(math.log2(max(size / target_file_size, 1))))


def keys_of(required: Sequence[RequiredLayout], compatibility: Compatibility) -> dict[str, dict[tuple[str, ...], None]]:
    """Keys by which each table could be bucketed: those of its joins, in the order of either table, and of groupings.

    What operators have in common with others serves all of them: any of a grouping's keys does, and some of a join's
    where the session allows it.
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
    """Places of a part of the keys: what they have in common with others, and each column."""
    places = {key: place for place, key in enumerate(side.keys) if key is not None}
    for other in sets:
        yield [places[column] for column in other if column in places]
    for place in places.values():
        yield [place]


def _add(found: dict[str, dict[tuple[str, ...], None]], requirement: RequiredLayout, places: Sequence[int]) -> None:
    """Add the columns of all sides at these places of their keys, so that they fit together."""
    for side in requirement.sides:
        if keys := dict.fromkeys(key for place in places if (key := side.keys[place]) is not None):
            found.setdefault(side.table, {})[tuple(keys)] = None


def orders_of(required: Sequence[RequiredLayout]) -> dict[str, dict[tuple[str, ...], None]]:
    """Columns by which each table's files could be sorted, beyond those of the buckets."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for side in (side for requirement in required for side in requirement.sides if len(side.order) > 1):
        found.setdefault(side.table, {})[side.order] = None
    return found


def options_of(
    subject: Subject,
    keys: Iterable[tuple[str, ...]],
    numbers: Iterable[int],
    target_file_size: int,
    orders: Iterable[tuple[str, ...]] = (),
) -> Options:
    """The layouts of a table by these keys, and in its own number of buckets or those of others that it is joined to.

    Args:
        subject: the table.
        keys: by which it could be bucketed.
        numbers: of buckets of tables that it is joined to.
        target_file_size: bytes that a bucket of one partition should have.
        orders: by which its files could be sorted, instead of by the keys.
    """
    in_folders = {name.lower() for name in subject.table.partition_columns}
    orders = [order for order in orders if not in_folders.intersection(order)]
    own = number_of_buckets(subject.per_partition, target_file_size)
    there = subject.table.spec.num_buckets if subject.table.spec else None
    fitting = {own, *(n for n in numbers if own / _STRETCH <= n <= own * _STRETCH)}
    if there:
        # Multiples of what is there read together with it, where only a part is written anew.
        fitting = {there} | {there << i for i in range(8) if own / _STRETCH <= there << i <= own * _STRETCH}
    specs: list[BucketSpec | None] = [subject.table.spec]
    left_out: dict[tuple[str, ...], str] = {}
    for columns in keys:
        if why := _objection(subject, columns, own):
            left_out[columns] = why
            continue
        layout = subject.hash_of(columns)
        sorts = [columns, *(order for order in orders if set(columns) <= set(order) and order != columns)]
        for number in sorted(fitting, key=lambda n: (abs(math.log2(n / own)), n)):
            wide = (BucketSpec(number, columns, order, layout) for order in sorts)
            specs += [spec for spec in wide if spec not in specs]
    return Options(subject, tuple(specs), left_out)


def _base(kind: str) -> str:
    """A type without its arguments."""
    return kind.lower().partition("(")[0].strip()


def _objection(subject: Subject, columns: tuple[str, ...], number: int) -> str:
    types = {name.lower(): kind for name, kind in subject.table.columns.items()}
    partitions = {name.lower() for name in subject.table.partition_columns}
    for column in columns:
        kind = types.get(column, "")
        if column in partitions:
            return f"{column} is a partition column"
        if _base(kind) not in _TYPES:
            return f"{column} is a {kind or 'column that is not known'}, which is no type to bucket by"
    facts = [subject.facts.columns.get(column) for column in columns]
    counts = [one.distinct for one in facts if one and one.distinct is not None]
    if len(counts) == len(columns) and math.prod(counts) < 2 * number:
        return f"too few values: {math.prod(counts):,} for {number:,} buckets"
    shares = [one.largest for one in facts if one and one.largest is not None]
    if len(shares) == len(columns) and min(shares, default=0) > _SKEW / max(number, _SKEW):
        return f"one value has {min(shares):.0%} of the rows"
    return ""


def choices_of(
    options: Mapping[str, Options], required: Sequence[RequiredLayout], compatibility: Compatibility
) -> Choices:
    """What the layouts of all tables are worth: bytes spared in all runs, less those that writing them costs."""
    values = {name: [-one.write_cost(place) for place in range(len(one.specs))] for name, one in options.items()}
    order = {name: place for place, name in enumerate(options)}
    together: dict[tuple[str, str], list[list[float]]] = {}
    for requirement in required:
        sides = [side for side in requirement.sides if side.table in options]
        if not sides:
            continue
        names = sorted({side.table for side in sides}, key=order.__getitem__)
        if len(names) == 1:
            for place, spec in enumerate(options[names[0]].specs):
                specs = [spec if side.table == names[0] else None for side in requirement.sides]
                values[names[0]][place] += compatibility.gain(requirement, specs)
            continue
        a, b = names
        matrix = together.setdefault((a, b), [[0.0] * len(options[b].specs) for _ in options[a].specs])
        for i, first in enumerate(options[a].specs):
            for j, second in enumerate(options[b].specs):
                matrix[i][j] += compatibility.gain(
                    requirement, [first if side.table == a else second for side in requirement.sides]
                )
    return Choices(values, together)
