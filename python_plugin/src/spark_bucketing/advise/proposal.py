"""Propose bucket specs for all tables together.

A proposal contains the value of each spec, the config changes, and the reasons why other specs were rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from spark_bucketing.advise import optimizer
from spark_bucketing.advise.advice import Candidate, Change, Explanation, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advise.layout_options import Compatibility, Options, choices_of
from spark_bucketing.advise.optimizer import Choices, choose
from spark_bucketing.advise.requirements import RequiredLayout
from spark_bucketing.edits import ConfigChange
from spark_bucketing.project.manifest import Manifest, Node
from spark_bucketing.spec import BucketSpec

_NO_REQUIREMENT = "no shuffled join, grouping, distinct or window uses columns of this table as keys"


@dataclass(frozen=True)
class Proposal:
    """The option chosen for each table."""

    choices: Choices
    chosen: optimizer.Options  # index of each table's option

    def specs(self, options: Mapping[str, Options]) -> dict[str, BucketSpec]:
        """Return the new bucket specs of all tables that change."""
        return {name: spec for name, place in self.chosen.items() if place and (spec := options[name].specs[place])}

    def not_borne_out(
        self,
        options: Mapping[str, Options],
        proof: Sequence[QueryProof],
        readers: Mapping[str, Collection[str]],
        others: Mapping[str, float] = MappingProxyType({}),
    ) -> list[str]:
        """Return the tables whose new specs do not pay off, according to Spark's plans.

        A spec does not pay off if the queries that read the table save no more bytes than the table's writes cost.

        Several tables can have the same readers, so their savings overlap. If every spec pays off by itself, but all
        specs together do not, the result is the table with the smallest net gain. `others` maps tables to the bytes
        that other queries save.
        """
        gains = {one.unique_id: one.gain for one in proof}
        costs = {name: options[name].write_cost(self.chosen[name]) for name in self.specs(options)}
        net = {
            name: sum(gains[reader] for reader in dict.fromkeys(readers.get(name, ()))) + others.get(name, 0.0) - cost
            for name, cost in costs.items()
        }
        found = [name for name, rest in net.items() if rest <= 0]
        if net and not found and sum(gains.values()) + sum(others.values()) <= sum(costs.values()):
            return [min(net, key=net.__getitem__)]
        return found

    def saved(
        self, options: Mapping[str, Options], unplanned: Sequence[RequiredLayout], compatibility: Compatibility
    ) -> dict[str, float]:
        """Return, by table, the bytes that queries from other tools no longer shuffle."""
        return {
            name: sum(
                side.bytes
                for requirement in unplanned
                for side in requirement.sides
                if side.table == name and compatibility.serves(spec, requirement, side)
            )
            for name, spec in self.specs(options).items()
        }

    def changes(
        self,
        options: Mapping[str, Options],
        nodes: Mapping[str, Node],
        required: Sequence[RequiredLayout],
        compatibility: Compatibility,
    ) -> tuple[Change, ...]:
        """Return the changes, with the largest net gain first.

        The changes have no config yet; config_changes() adds it.
        """
        found = []
        for name, spec in self.specs(options).items():
            one, node, place = options[name], nodes[name], self.chosen[name]
            given = self.choices.given(name, self.chosen)
            cost = one.write_cost(place)
            lost = dict.fromkeys(
                f"{requirement.query} ({requirement.kind} by {', '.join(side.columns)})"
                for requirement in required
                for side in requirement.sides
                if side.table == name and not compatibility.serves(spec, requirement, side)
            )
            found.append(
                Change(
                    unique_id=node.unique_id,
                    model=node.name,
                    table=name,
                    before=one.specs[0],
                    after=spec,
                    config={},
                    size_bytes=one.subject.bytes,
                    rewritten_bytes=one.subject.rewritten(spec),
                    how=_how(node, one.subject.evolves_to(spec)),
                    gain=given[place] - given[0] + cost,
                    write_cost=cost,
                    lost=tuple(lost),
                    evolves=one.subject.evolves_to(spec),
                )
            )
        return tuple(sorted(found, key=lambda change: (-change.gain + change.write_cost, change.table)))


def _how(node: Node, evolves: bool) -> str:
    """Describe how the next dbt run changes the table's layout."""
    if evolves:
        return "old partitions keep their layout until you run `spark-bucketing table rewrite`"
    return "the next run rewrites all rows" if is_incremental(node) else "every run rewrites the table anyway"


def is_incremental(node: Node) -> bool:
    """Return whether a run of the model keeps its existing rows and adds new ones."""
    return node.materialized in ("incremental", "bucketed_incremental")


def proposed(
    options: Mapping[str, Options],
    required: Sequence[RequiredLayout],
    compatibility: Compatibility,
    budget: int | None = None,
) -> Proposal:
    """Return the specs with the highest total value that rewrite no more bytes than the budget."""
    choices = choices_of(options, required, compatibility)
    if budget is None:
        return Proposal(choices, choose(choices))
    weights = {name: [one.subject.rewritten(spec) for spec in one.specs] for name, one in options.items()}
    return Proposal(choices, choose(choices, weights, budget))


def suggested(
    options: Mapping[str, Options], required: Sequence[RequiredLayout], compatibility: Compatibility
) -> tuple[Suggestion, ...]:
    """For each source table, return the spec that saves the most by itself, if any spec saves bytes.

    dbt does not build source tables, so their specs are only suggestions.
    """
    choices = choices_of(options, required, compatibility)
    found = []
    for name, one in options.items():
        first = dict.fromkeys(options, 0)
        gains = [value + one.write_cost(place) for place, value in enumerate(choices.given(name, first))]
        best = max(range(len(gains)), key=gains.__getitem__)
        if best and (spec := one.specs[best]):
            found.append(Suggestion(name, spec, gains[best] - gains[0]))
    return tuple(sorted(found, key=lambda one: (-one.gain, one.table)))


def explained(
    table: str,
    one: Options | None,
    proposal: Proposal,
    required: Sequence[RequiredLayout],
    compatibility: Compatibility,
    left_out: Sequence[RejectedTable],
) -> Explanation:
    """Return all candidate specs for one table, best first."""
    mine = [why for why in left_out if why.table == table]
    if one is None or table not in proposal.choices.values:
        return Explanation(table, (), tuple(mine or [RejectedTable(table, _NO_REQUIREMENT)]))
    mine += [
        RejectedTable(table, why, keys) for keys, why in one.left_out.items() if keys not in {w.keys for w in mine}
    ]
    chosen = proposal.chosen
    alone = proposal.choices.given(table, dict.fromkeys(proposal.choices.values, 0))
    beside = proposal.choices.given(table, chosen)
    found = []
    for place, spec in enumerate(one.specs):
        if spec is None or place == 0:
            continue
        serves = tuple(
            dict.fromkeys(
                requirement.query
                for requirement in required
                for side in requirement.sides
                if side.table == table and compatibility.serves(spec, requirement, side)
            )
        )
        if place == chosen[table]:
            verdict = "proposed"
        elif beside[place] <= beside[0]:
            verdict = "writing it costs more than it saves"
        else:
            verdict = (
                "another candidate saves as much"
                if beside[place] == beside[chosen[table]]
                else "another candidate saves more"
            )
        found.append(Candidate(spec, alone[place] - alone[0], beside[place] - beside[0], verdict, serves))
    found.sort(key=lambda candidate: (candidate.verdict != "proposed", -candidate.beside))
    return Explanation(table, tuple(found), tuple(mine))


def config_changes(changes: Sequence[Change], manifest: Manifest) -> list[ConfigChange]:
    """Return the config keys to write for each model that changes."""
    found = []
    for change in changes:
        node = manifest.nodes[change.unique_id]
        incremental = is_incremental(node)
        config: dict[str, object] = {
            "materialized": "bucketed_incremental" if incremental else "bucketed_table",
            "clustered_by": list(change.after.bucket_columns),
            "buckets": change.after.num_buckets,
        }
        sorted_by = (
            list(change.after.sort_columns) if change.after.sort_columns != change.after.bucket_columns else None
        )
        if sorted_by or node.config.get("sorted_by") is not None:
            config["sorted_by"] = sorted_by
        if node.config.get("bucket_hash", "hive") != change.after.bucket_hash:
            config["bucket_hash"] = change.after.bucket_hash
        if incremental:
            config["on_bucket_change"] = "evolve" if change.evolves else "rebuild"
        found.append(ConfigChange(change.unique_id, config))
    return found
