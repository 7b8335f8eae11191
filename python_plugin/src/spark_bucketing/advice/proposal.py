"""Propose bucket specs for all tables together.

A local search starts from the current options, from the best option for each table considered separately, and from the
result of a search without a limit. It changes the option of one table, or of two tables whose options have a value as a
pair, and ends when no such change increases the total value. If two options have the same value, the first one wins.

A proposal contains the value of each spec, the config changes, and the reasons why other specs were rejected.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf
from operator import itemgetter

from spark_bucketing.advice.advice import Candidate, Candidates, ProposedSpec, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advice.layout_options import Compatibility, Options
from spark_bucketing.advice.query_plans import RequiredLayout, Requirement
from spark_bucketing.project.manifest import Node
from spark_bucketing.spec import BucketSpec

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

    def choose(self, limit: float = inf) -> Chosen:
        """Choose one option for each table, whose weights add up to no more than the limit.

        Within the limit, changing the options of one table, or of two with a pair value, does not increase the total
        value.
        """
        best_alone = {name: max(range(len(values)), key=values.__getitem__) for name, values in self.values.items()}
        unlimited = self._improved(best_alone, inf)
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


def choices_of(
    options: Mapping[str, Options], required: Sequence[RequiredLayout], compatibility: Compatibility
) -> Choices:
    """Return the bytes that each spec and each pair of specs saves over all runs, minus the write cost.

    The weights are the bytes that the next run rewrites.
    """
    values = {name: [-one.write_cost(place) for place in range(len(one.specs))] for name, one in options.items()}
    order = {name: place for place, name in enumerate(options)}
    together: dict[tuple[str, str], list[list[float]]] = {}
    for requirement in required:
        names = sorted({side.table for side in requirement.sides} & order.keys(), key=order.__getitem__)
        for places in product(*(range(len(values[name])) for name in names)):
            specs = {name: options[name].specs[place] for name, place in zip(names, places, strict=True)}
            gain = compatibility.gain(requirement, [specs.get(side.table) for side in requirement.sides])
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
    required: Sequence[RequiredLayout]
    compatibility: Compatibility
    choices: Choices
    chosen: Chosen  # index of each table's option

    @property
    def specs(self) -> dict[str, BucketSpec]:
        """Return the new bucket specs of all tables that change."""
        chosen = {name: self.options[name].specs[place] for name, place in self.chosen.items() if place}
        return {name: spec for name, spec in chosen.items() if spec}

    def not_borne_out(self, proof: Sequence[QueryProof], unplanned: Sequence[RequiredLayout] = ()) -> list[str]:
        """Return the tables whose new specs cost more bytes in writes than they save in readers, by Spark's plans.

        Several tables can have the same readers, so their savings overlap. If every spec pays off by itself, but all
        specs together do not, the result is the table with the smallest net gain.
        """
        costs, net, others = 0.0, {}, 0.0
        for name, spec in self.specs.items():
            cost = self.options[name].write_cost(self.chosen[name])
            saved = sum(side.bytes for _, side, is_served in self._sides(name, spec, unplanned) if is_served)
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
                    yield requirement, side, self.compatibility.serves(spec, requirement, side)

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
                for requirement, side, is_served in self._sides(name, spec, self.required)
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
            sides = self._sides(table, spec, self.required)
            serves = dict.fromkeys(requirement.query for requirement, _, is_served in sides if is_served)
            net = round(alone[place] - alone[0]), round(beside[place] - beside[0])
            found.append(Candidate(spec, *net, verdict, tuple(serves)))
        found.sort(key=lambda candidate: (candidate.verdict != "proposed", -candidate.beside_bytes))
        return Candidates(table, tuple(found), tuple(mine))


def proposed(
    options: Mapping[str, Options],
    required: Sequence[RequiredLayout],
    compatibility: Compatibility,
    most_bytes: float = inf,
) -> Proposal:
    """Return the specs with the highest total value that rewrite no more bytes than given."""
    choices = choices_of(options, required, compatibility)
    return Proposal(options, required, compatibility, choices, choices.choose(most_bytes))


def suggested(
    options: Mapping[str, Options], required: Sequence[RequiredLayout], compatibility: Compatibility
) -> tuple[Suggestion, ...]:
    """Return for each source table, which dbt does not build, the spec that saves the most by itself, if any."""
    choices = choices_of(options, required, compatibility)
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
