"""Why an Exchange or a Sort stands in a plan: all reasons, in the order in which they are asked."""

from __future__ import annotations

from types import ModuleType

from spark_bucketing.check.reasons import keys, plain_reads, project, queries, sides, sorts
from spark_bucketing.check.reasons.movements import EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, Movement
from spark_bucketing.check.reasons.project import ProjectFacts
from spark_bucketing.check.reasons.reason import Explanation, Reason, reason
from spark_bucketing.check.results import Finding, Fix


def _of(module: ModuleType) -> list[Reason]:
    """The reasons of a module, in the order in which they stand there."""
    return [found for found in vars(module).values() if isinstance(found, Reason)]


@reason("the check found no reason; a gap in the check itself", EXCHANGE, EXCHANGE_BELOW, SORT, JOIN)
def unexplained(movement: Movement) -> Explanation | None:
    """None of the other reasons applies: the check does not understand the plan well enough.

    **Anti-pattern**

    None. It is a gap in the check.

    **Best practice**

    Look at the plan (`EXPLAIN FORMATTED`), and report it together with the query and the tables' DDL.
    """
    article = "an" if movement.about.startswith(EXCHANGE) else "a"
    message = f"Spark puts {article} {movement.about} here, and no reason for it is known to this check."
    return Explanation(message, movement.side.entry.tables)


# First what is no matter of buckets, then whether the table can be read as bucketed at all, then whether its buckets
# serve the keys, then whether they arrive, then whether they fit the other side; and sorts last.
REASONS: tuple[Reason, ...] = (
    *(found for module in (queries, plain_reads, keys, sides, sorts) for found in _of(module)),
    unexplained,
)
PROJECT_REASONS: tuple[Reason, ...] = tuple(_of(project))
EVERY_REASON = (*REASONS, *PROJECT_REASONS)


def reason_for(movement: Movement) -> tuple[str, Explanation]:
    """The slug of the first reason that applies, and its explanation."""
    asked = (found for found in REASONS if movement.about in found.about)
    return next((found.slug, explained) for found in asked if (explained := found.find(movement)))


def project_findings(project: ProjectFacts) -> tuple[Finding, ...]:
    """What is wrong with a project as a whole."""
    found = ((reason.slug, explained) for reason in PROJECT_REASONS for explained in reason.find(project))
    return tuple(
        Finding(slug, one.message, one.tables, one.level, tuple(Fix(**vars(each)) for each in one.candidates))
        for slug, one in found
    )
