"""Which changes become fixes: the plan is modelled anew with each, and the operator's verdict has to be better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_bucketing.eligibility.model import Fix, Verdict
from spark_bucketing.eligibility.operators import Operator
from spark_bucketing.eligibility.planner import Planner
from spark_bucketing.eligibility.rules import reason_for
from spark_bucketing.eligibility.steps import Change, Step
from spark_bucketing.eligibility.verdicts import RANKS, local_sorts, modelled, needed_exchange
from spark_bucketing.eligibility.world import World
from spark_bucketing.plan import Plan

# Settings that may have to go along with another change, before that one is of use.
_ALONG = (
    {"spark.sql.legacy.bucketedTableScan.outputOrdering": "true"},
    {"spark.sql.requireAllClusterKeysForCoPartition": "false"},
)


class Promises:
    """What changes would bring to the operators of one plan.

    Args:
        plan: the plan.
        planner: the model of the plan as it is.
    """

    def __init__(self, plan: Plan, planner: Planner) -> None:
        self.plan, self.planner = plan, planner
        self.now = modelled(planner)

    def fixes(self, step: Step, changes: Sequence[Change], current: Verdict) -> tuple[tuple[Fix, ...], Change | None]:
        """Fixes that better an operator and harm no other one of the query, by one change or by two.

        Args:
            step: the Exchange or Sort.
            changes: what could be done about it.
            current: the operator's verdict.

        Returns:
            The fixes, and a change that is a part of what it would take where there are none.
        """
        found: list[Fix] = []
        part: Change | None = None
        for change in changes:
            fix = self._promise(step.op, change, current)
            if fix is None and self._saves(step.op, change.world):
                part = part or change
                fix = self._by_two(step.op, change, current)
            if fix and fix not in found:
                found.append(fix)
        return tuple(found), None if found else part

    def _promise(self, op: Operator, change: Change, current: Verdict) -> Fix | None:
        world, number = self.planner.world, op.node.number
        for along in ({}, *_ALONG):
            if any(world.get(name) == value for name, value in along.items()) and along:
                continue
            after = modelled(Planner(self.plan, change.world.setting(along)))
            better = RANKS.get(after[number], 9) < RANKS.get(current, 0)
            harmed = any(RANKS.get(after[n], 0) > RANKS.get(self.now[n], 0) for n in after if n != number)
            if better and not harmed:
                words = " and ".join(f"{name}={value}" for name, value in along.items())
                fields = {**change.fields}
                if along:
                    fields["settings"] = {**fields.get("settings", {}), **along}
                text = f"{change.text} Set {words} as well." if along else change.text
                return Fix(kind=change.kind, text=text, promises=after[number], **fields)
        return None

    def _by_two(self, op: Operator, change: Change, current: Verdict) -> Fix | None:
        """A change together with what is due next where it was made: both sides of a join are to be sorted, say.

        Only where neither is of use alone: what the second one would do by itself is a fix of another finding.
        """
        alone = {
            other.text
            for step in _left(op, self.planner)
            for other in reason_for(step)[1].changes
            if self._promise(op, other, current)
        }
        for step in _left(op, Planner(self.plan, change.world)):
            for second in reason_for(step)[1].changes:
                also = None if second.text in alone else self._promise(op, second, current)
                if also:
                    text = f"{change.text} And {also.text[0].lower()}{also.text[1:]}"
                    return Fix(change.kind, text, also.promises, also=(also,), **change.fields)
        return None

    def _saves(self, op: Operator, world: World) -> bool:
        """Whether a change saves a shuffle or a sort, without changing the verdict yet."""

        def cost(planner: Planner) -> tuple[int, int]:
            outcome = planner.outcomes[op.node.number]
            return sum(outcome.shuffled), sum(outcome.sorted)

        return cost(Planner(self.plan, world)) < cost(self.planner)


def _left(op: Operator, planner: Planner) -> Iterator[Step]:
    """Exchanges and Sorts of the plan at hand that are still there in a model."""
    outcome = planner.outcomes[op.node.number]
    for place, side in enumerate(op.sides):
        exchange, sorts = needed_exchange(side), local_sorts(side)
        if outcome.shuffled[place] and exchange:
            yield Step(planner, op, place, exchange)
        elif outcome.sorted[place] and not outcome.shuffled[place] and sorts:
            yield Step(planner, op, place, sorts[0])
