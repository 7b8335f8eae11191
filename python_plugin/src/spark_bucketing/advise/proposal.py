"""Layouts that are proposed together: what they are worth, what becomes of the configs, and why others lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_bucketing.advise import optimizer
from spark_bucketing.advise.advice import Candidate, Change, Explanation, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advise.layout_options import Compatibility, Options, choices_of
from spark_bucketing.advise.optimizer import Choices, choose
from spark_bucketing.advise.requirements import RequiredLayout
from spark_bucketing.edits import ConfigChange
from spark_bucketing.project.manifest import Manifest, Node
from spark_bucketing.spec import BucketSpec

_NO_REQUIREMENT = "no shuffled join, grouping, distinct or window has keys that are plain columns of this table"


@dataclass(frozen=True)
class Proposal:
    """The chosen options of all tables."""

    choices: Choices
    chosen: optimizer.Options  # place of each table's option

    def specs(self, options: Mapping[str, Options]) -> dict[str, BucketSpec]:
        """The layouts of tables that change."""
        return {name: spec for name, place in self.chosen.items() if place and (spec := options[name].specs[place])}

    def not_borne_out(
        self, options: Mapping[str, Options], proof: Sequence[QueryProof], readers: Mapping[str, Collection[str]]
    ) -> list[str]:
        """Tables whose readers, as Spark plans them, gain no more than writing costs.

        Tables share readers: where each alone is worth it and all together are not, it is the one that gains least.
        """
        gains = {one.unique_id: one.gain for one in proof}
        costs = {name: options[name].write_cost(self.chosen[name]) for name in self.specs(options)}
        net = {
            name: sum(gains[reader] for reader in dict.fromkeys(readers.get(name, ()))) - cost
            for name, cost in costs.items()
        }
        found = [name for name, rest in net.items() if rest <= 0]
        if net and not found and sum(gains.values()) <= sum(costs.values()):
            return [min(net, key=net.__getitem__)]
        return found

    def changes(
        self,
        options: Mapping[str, Options],
        nodes: Mapping[str, Node],
        required: Sequence[RequiredLayout],
        compatibility: Compatibility,
    ) -> tuple[Change, ...]:
        """What changes, the largest gain first; config is that of config_changes()."""
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
    """How the next run gets to another layout."""
    if evolves:
        return "old partitions keep their layout; `spark-bucketing evolution rewrite` brings them to the new one"
    return "the next run rewrites all rows" if is_incremental(node) else "each run writes it anyway"


def is_incremental(node: Node) -> bool:
    """Whether a run adds to what is there."""
    return node.materialized in ("incremental", "bucketed_incremental")


def proposed(
    options: Mapping[str, Options],
    required: Sequence[RequiredLayout],
    compatibility: Compatibility,
    budget: int | None = None,
) -> Proposal:
    """The layouts that spare most, rewriting no more bytes than a budget."""
    choices = choices_of(options, required, compatibility)
    if budget is None:
        return Proposal(choices, choose(choices))
    weights = {name: [one.subject.rewritten(spec) for spec in one.specs] for name, one in options.items()}
    return Proposal(choices, choose(choices, weights, budget))


def suggested(
    options: Mapping[str, Options], required: Sequence[RequiredLayout], compatibility: Compatibility
) -> tuple[Suggestion, ...]:
    """What would be best for each table alone, where that gains anything; writing it is somebody else's."""
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
    """Every candidate of one table, the best first."""
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
            verdict = "writing it costs more than it spares"
        else:
            verdict = (
                "another one spares as much" if beside[place] == beside[chosen[table]] else "another one spares more"
            )
        found.append(Candidate(spec, alone[place] - alone[0], beside[place] - beside[0], verdict, serves))
    found.sort(key=lambda candidate: (candidate.verdict != "proposed", -candidate.beside))
    return Explanation(table, tuple(found), tuple(mine))


def config_changes(changes: Sequence[Change], manifest: Manifest) -> list[ConfigChange]:
    """What to write into the configs of models."""
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
