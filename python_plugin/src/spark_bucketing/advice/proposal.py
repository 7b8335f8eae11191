"""Propose bucket specs for all tables together.

A proposal contains the value of each spec, the config changes, and the reasons why other specs were rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from spark_bucketing.advice.advice import Candidate, Candidates, ProposedSpec, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advice.layout_options import Compatibility, Options, choices_of
from spark_bucketing.advice.optimizer import Choices, Chosen
from spark_bucketing.advice.requirements import RequiredLayout, Requirement
from spark_bucketing.project.manifest import Node
from spark_bucketing.spec import BucketSpec

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
            how = "the next run rewrites all rows" if is_incremental(node) else "every run rewrites the table anyway"
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
                    size_bytes=subject.bytes,
                    rewritten_bytes=subject.rewritten(spec),
                    how=how,
                    gain=given[place] - given[0] + cost,
                    write_cost=cost,
                    lost=tuple(lost),
                )
            )
        return tuple(sorted(found, key=lambda change: (-change.gain + change.write_cost, change.table)))

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
            net = alone[place] - alone[0], beside[place] - beside[0]
            found.append(Candidate(spec, *net, verdict, tuple(serves)))
        found.sort(key=lambda candidate: (candidate.verdict != "proposed", -candidate.beside))
        return Candidates(table, tuple(found), tuple(mine))


def is_incremental(node: Node) -> bool:
    """Return whether a run of the model keeps its existing rows and adds new ones."""
    return node.materialized in ("incremental", "bucketed_incremental")


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
            found.append(Suggestion(name, spec, gains[best] - gains[0]))
    return tuple(sorted(found, key=lambda one: (-one.gain, one.table)))


def _config(node: Node, spec: BucketSpec, evolves: bool) -> dict[str, object]:
    """Return the config keys to write for a model that gets a bucket spec."""
    config: dict[str, object] = {
        "materialized": "bucketed_incremental" if is_incremental(node) else "bucketed_table",
        "clustered_by": list(spec.bucket_columns),
        "buckets": spec.num_buckets,
    }
    if spec.sort_columns != spec.bucket_columns or node.config.get("sorted_by") is not None:
        config["sorted_by"] = list(spec.sort_columns)
    if node.config.get("bucket_hash", "hive") != spec.bucket_hash:
        config["bucket_hash"] = spec.bucket_hash
    if is_incremental(node):
        config["on_bucket_change"] = "evolve" if evolves else "rebuild"
    return config
