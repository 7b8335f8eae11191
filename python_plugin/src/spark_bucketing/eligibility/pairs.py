"""How the two sides of a join fit each other."""

from __future__ import annotations

from spark_bucketing.eligibility.joining import Usable
from spark_bucketing.eligibility.steps import Step


def closest(step: Step) -> tuple[Usable, Usable] | None:
    """A hash of either side by the same keys of the join, whatever their kinds and numbers; None when there is none."""
    if step.other is None:
        return None
    for here in step.within:
        for there in step.other.within:
            same = len(here.places) == len(there.places) and all(
                mine & theirs for mine, theirs in zip(here.places, there.places, strict=True)
            )
            if same:
                return here, there
    return None
