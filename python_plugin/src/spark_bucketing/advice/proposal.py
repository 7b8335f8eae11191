"""Enumerate candidate bucket specs for each table, and propose specs for all tables together.

A local search starts from the current options, from the best option for each table considered separately, and from the
result of a search without a limit. It changes the option of one table, or of two tables whose options have a value as a
pair, and ends when no such change increases the total value. If two options have the same value, the first one wins.

A proposal contains the value of each spec, the config changes, and the reasons why other specs were rejected.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from operator import itemgetter

from spark_bucketing.advice.advice import Candidate, Candidates, ProposedSpec, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advice.query_plans import RequiredLayout, Requirement
from spark_bucketing.advice.subjects import AdvisedTable
from spark_bucketing.config.schema import HIVE_TYPES, SPARK_TYPES, base_type
from spark_bucketing.project.manifest import Node
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
class Workload:
    """What queries require of tables, and the rules that decide whether a session can use a bucket spec."""

    extension: bool  # with it, bucket counts may be multiples and unions keep buckets; without it, counts must be equal
    all_keys: bool = True  # on stock Spark, a join requires that its tables are bucketed by all of its keys
    required: Sequence[RequiredLayout] = ()  # parents first
    unplanned: Sequence[RequiredLayout] = ()  # those of statements that are known only from event logs

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


def keys_of(workload: Workload) -> dict[str, dict[tuple[str, ...], None]]:
    """Return candidate bucket columns for each table: its join keys, in either table's order, and grouping keys.

    A grouping can use any subset of its keys, and a join can if the session allows it, so keys that several operators
    have in common are candidates, too.
    """
    found: dict[str, dict[tuple[str, ...], None]] = {}
    sets: dict[str, dict[tuple[str, ...], None]] = {}
    for requirement in workload.required:
        for side in requirement.sides:
            sets.setdefault(side.table, {})[tuple(sorted(side.columns))] = None
            by_name = sorted(range(len(side.keys)), key=lambda place, keys=side.keys: str(keys[place]))  # type: ignore[misc]
            _add(found, requirement, by_name)
    for requirement in workload.required:
        if workload.by_some_keys or not requirement.is_join:
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


Pair = tuple[str, str]
Matrix = Sequence[Sequence[float]]
Chosen = Mapping[str, int]

# Relative tolerance; smaller gains are treated as rounding errors.
_PRECISION = 1e-12


@dataclass(frozen=True)
class Choices:
    """The values of the options of tables, the current one first, and the further values of pairs of options."""

    values: Mapping[str, Sequence[float]]
    together: Mapping[Pair, Matrix]
    # The weight of each option, such as the bytes to rewrite. The first option of a table has no weight.
    weights: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def value(self, chosen: Chosen) -> float:
        """Return the total value of the chosen options."""
        alone = sum(options[chosen[name]] for name, options in self.values.items())
        return alone + sum(matrix[chosen[a]][chosen[b]] for (a, b), matrix in self.together.items())

    def given(self, name: str, chosen: Chosen) -> list[float]:
        """Return the value of each option for one table, given the chosen options of the other tables."""
        return [self._part((name,), {**chosen, name: place}) for place in range(len(self.values[name]))]

    def choose(self, limit: float = math.inf) -> Chosen:
        """Choose one option for each table, whose weights add up to no more than the limit.

        Within the limit, changing the options of one table, or of two with a pair value, does not increase the total
        value.
        """
        best_alone = {name: max(range(len(values)), key=values.__getitem__) for name, values in self.values.items()}
        unlimited = self._improved(best_alone, math.inf)
        starts = [dict.fromkeys(self.values, 0), *(self._reduced(start, limit) for start in (best_alone, unlimited))]
        return max((self._improved(start, limit) for start in starts), key=self.value)

    @cached_property
    def _pairs(self) -> Mapping[str, Mapping[Pair, Matrix]]:
        """Return, for each table, the pairs of tables that contain it."""
        pairs: dict[str, dict[Pair, Matrix]] = {name: {} for name in self.values}
        for pair, matrix in self.together.items():
            pairs[pair[0]][pair] = pairs[pair[1]][pair] = matrix
        return pairs

    def _part(self, group: Sequence[str], options: Chosen) -> float:
        """Return the part of the total value that depends on the options of these tables."""
        pairs = {pair: matrix for name in group for pair, matrix in self._pairs[name].items()}
        alone = sum(self.values[name][options[name]] for name in group)
        return alone + sum(matrix[options[a]][options[b]] for (a, b), matrix in pairs.items())

    def _weight(self, options: Chosen) -> float:
        return sum(self.weights[name][place] for name, place in options.items() if name in self.weights)

    def _reduced(self, options: Chosen, limit: float) -> Chosen:
        """Undo changes, starting with the lowest value per weight, until the sum of weights is within the limit."""
        while self._weight(options) > limit:
            values = {}
            for name, place in options.items():
                if weight := self._weight({name: place}):
                    given = self.given(name, options)
                    values[name] = (given[place] - given[0]) / weight
            options = {**options, min(values, key=values.__getitem__): 0}
        return options

    def _improved(self, options: Chosen, limit: float) -> Chosen:
        """Apply the best change for each table and pair of tables in turn, until no change increases the value."""
        groups = [*((name,) for name in self.values), *self.together]
        chosen, is_better = dict(options), True
        least, left = _PRECISION * abs(self.value(options)), limit - self._weight(options)
        while is_better:
            is_better = False
            for group in groups:
                changes = self._changes(group, chosen, left)
                gain, weight, change = max(changes, default=(0.0, 0.0, {}), key=itemgetter(0))
                if gain > least:
                    left, is_better = left - weight, True
                    chosen |= change
        return chosen

    def _changes(
        self, group: Sequence[str], options: dict[str, int], left: float
    ) -> Iterator[tuple[float, float, dict[str, int]]]:
        """Yield each change to the options of these tables within the weight that is left: its gain and its weight."""
        before, weight = self._part(group, options), self._weight({name: options[name] for name in group})
        for places in product(*(range(len(self.values[name])) for name in group)):
            change = dict(zip(group, places, strict=True))
            added = self._weight(change) - weight
            if added <= left:
                yield self._part(group, ChainMap(change, options)) - before, added, change


def choices_of(options: Mapping[str, Options], workload: Workload) -> Choices:
    """Return the bytes that each spec and each pair of specs saves over all runs, minus the write cost.

    The weights are the bytes that the next run rewrites.
    """
    values = {name: [-one.write_cost(place) for place in range(len(one.specs))] for name, one in options.items()}
    order = {name: place for place, name in enumerate(options)}
    together: dict[tuple[str, str], list[list[float]]] = {}
    for requirement in workload.required:
        names = sorted({side.table for side in requirement.sides} & order.keys(), key=order.__getitem__)
        for places in product(*(range(len(values[name])) for name in names)):
            specs = {name: options[name].specs[place] for name, place in zip(names, places, strict=True)}
            gain = workload.gain(requirement, [specs.get(side.table) for side in requirement.sides])
            if len(names) == 1:
                values[names[0]][places[0]] += gain
            elif names:
                (a, b), (i, j) = names, places
                matrix = together.setdefault((a, b), [[0.0] * len(values[b]) for _ in values[a]])
                matrix[i][j] += gain
    rewritten = {name: [one.subject.rewritten(spec) for spec in one.specs] for name, one in options.items()}
    return Choices(values, together, rewritten)


_NO_REQUIREMENT = "no shuffled join, grouping, distinct or window uses columns of this table as keys"


@dataclass(frozen=True)
class Proposal:
    """The option chosen for each table, and what it was chosen for."""

    options: Mapping[str, Options]  # by table
    workload: Workload
    choices: Choices
    chosen: Chosen  # index of each table's option

    @property
    def specs(self) -> dict[str, BucketSpec]:
        """Return the new bucket specs of all tables that change."""
        chosen = {name: self.options[name].specs[place] for name, place in self.chosen.items() if place}
        return {name: spec for name, spec in chosen.items() if spec}

    def not_borne_out(self, proof: Sequence[QueryProof]) -> list[str]:
        """Return the tables whose new specs cost more bytes in writes than they save in readers, by Spark's plans.

        Several tables can have the same readers, so their savings overlap. If every spec pays off by itself, but all
        specs together do not, the result is the table with the smallest net gain.
        """
        costs, net, others = 0.0, {}, 0.0
        for name, spec in self.specs.items():
            cost = self.options[name].write_cost(self.chosen[name])
            others_of = self._sides(name, spec, self.workload.unplanned)
            saved = sum(side.bytes for _, side, is_served in others_of if is_served)
            net[name] = sum(one.gain for one in proof if name in one.tables) + saved - cost
            costs, others = costs + cost, others + saved
        found = [name for name, rest in net.items() if rest <= 0]
        if net and not found and sum(one.gain for one in proof) + others <= costs:
            return [min(net, key=net.__getitem__)]
        return found

    def _sides(
        self, table: str, spec: BucketSpec, required: Sequence[RequiredLayout]
    ) -> Iterator[tuple[RequiredLayout, Requirement, bool]]:
        """Yield each side of an operator that reads a table, and whether the operator can use buckets with the spec."""
        for requirement in required:
            for side in requirement.sides:
                if side.table == table:
                    yield requirement, side, self.workload.serves(spec, requirement, side)

    def changes(self, nodes: Mapping[str, Node]) -> tuple[ProposedSpec, ...]:
        """Return the changes, with the largest net gain first."""
        found = []
        for name, spec in self.specs.items():
            subject, node, place = self.options[name].subject, nodes[name], self.chosen[name]
            given = self.choices.given(name, self.chosen)
            cost, evolves = self.options[name].write_cost(place), subject.evolves_to(spec)
            how = "the next run rewrites all rows" if node.is_incremental else "every run rewrites the table anyway"
            if evolves:
                how = "old partitions keep their layout until you run `spark-bucketing table rewrite`"
            lost = dict.fromkeys(
                f"{requirement.query} ({requirement.kind} by {', '.join(side.columns)})"
                for requirement, side, is_served in self._sides(name, spec, self.workload.required)
                if not is_served
            )
            found.append(
                ProposedSpec(
                    unique_id=node.unique_id,
                    model=node.name,
                    table=name,
                    before=subject.table.spec,
                    after=spec,
                    config=_config(node, spec, evolves),
                    bytes=subject.bytes,
                    rewritten_bytes=subject.rewritten(spec),
                    how=how,
                    gain_bytes=round(given[place] - given[0] + cost),
                    write_bytes=round(cost),
                    lost=tuple(lost),
                )
            )
        return tuple(sorted(found, key=lambda change: (-change.gain_bytes + change.write_bytes, change.table)))

    def explained(self, table: str, left_out: Sequence[RejectedTable]) -> Candidates:
        """Return all candidate specs for one table, best first."""
        mine = [why for why in left_out if why.table == table]
        if table not in self.options:
            return Candidates(table, (), tuple(mine or [RejectedTable(table, _NO_REQUIREMENT)]))
        alone = self.choices.given(table, dict.fromkeys(self.options, 0))
        beside = self.choices.given(table, self.chosen)
        found = []
        for place, spec in enumerate(self.options[table].specs):
            if spec is None or place == 0:
                continue
            if place == self.chosen[table]:
                verdict = "proposed"
            elif beside[place] <= beside[0]:
                verdict = "writing it costs more than it saves"
            elif beside[place] == beside[self.chosen[table]]:
                verdict = "another candidate saves as much"
            else:
                verdict = "another candidate saves more"
            sides = self._sides(table, spec, self.workload.required)
            serves = dict.fromkeys(requirement.query for requirement, _, is_served in sides if is_served)
            net = round(alone[place] - alone[0]), round(beside[place] - beside[0])
            found.append(Candidate(spec, *net, verdict, tuple(serves)))
        found.sort(key=lambda candidate: (candidate.verdict != "proposed", -candidate.beside_bytes))
        return Candidates(table, tuple(found), tuple(mine))


def proposed(options: Mapping[str, Options], workload: Workload, most_bytes: float = math.inf) -> Proposal:
    """Return the specs with the highest total value that rewrite no more bytes than given."""
    choices = choices_of(options, workload)
    return Proposal(options, workload, choices, choices.choose(most_bytes))


def suggested(options: Mapping[str, Options], workload: Workload) -> tuple[Suggestion, ...]:
    """Return for each source table, which dbt does not build, the spec that saves the most by itself, if any."""
    choices = choices_of(options, workload)
    found = []
    for name, one in options.items():
        first = dict.fromkeys(options, 0)
        gains = [value + one.write_cost(place) for place, value in enumerate(choices.given(name, first))]
        best = max(range(len(gains)), key=gains.__getitem__)
        if best and (spec := one.specs[best]):
            found.append(Suggestion(name, spec, round(gains[best] - gains[0])))
    return tuple(sorted(found, key=lambda one: (-one.gain_bytes, one.table)))


def _config(node: Node, spec: BucketSpec, evolves: bool) -> dict[str, object]:
    """Return the config keys to write for a model that gets a bucket spec."""
    config: dict[str, object] = {
        "materialized": "bucketed_incremental" if node.is_incremental else "bucketed_table",
        "clustered_by": list(spec.bucket_columns),
        "buckets": spec.num_buckets,
    }
    if spec.sort_columns != spec.bucket_columns or node.config.get("sorted_by") is not None:
        config["sorted_by"] = list(spec.sort_columns)
    if node.config.get("bucket_hash", "hive") != spec.bucket_hash:
        config["bucket_hash"] = spec.bucket_hash
    if node.is_incremental:
        config["on_bucket_change"] = "evolve" if evolves else "rebuild"
    return config
