"""Why an Exchange or a Sort stands in a plan: all reasons, in the order in which they are asked."""

from __future__ import annotations

from types import ModuleType

from spark_bucketing.check.reasons import (
    fallback_scans,
    join_sides,
    key_mismatches,
    orderings,
    query_shapes,
    session_and_versions,
)
from spark_bucketing.check.reasons.exchanges_and_sorts import EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, ExchangeOrSort
from spark_bucketing.check.reasons.reason import Explanation, Reason, reason
from spark_bucketing.check.reasons.session_and_versions import ProjectFacts
from spark_bucketing.check.results import Finding, Fix


def _of(module: ModuleType) -> list[Reason]:
    """The reasons of a module, in the order in which they stand there."""
    return [found for found in vars(module).values() if isinstance(found, Reason)]


@reason("the check found no reason; a gap in the check itself", EXCHANGE, EXCHANGE_BELOW, SORT, JOIN)
def unexplained(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """None of the other reasons applies: the check does not understand the plan well enough.

    **Anti-pattern**

    None. It is a gap in the check.

    **Best practice**

    Look at the plan (`EXPLAIN FORMATTED`), and report it together with the query and the tables' DDL.
    """
    article = "an" if exchange_or_sort.about.startswith(EXCHANGE) else "a"
    message = f"Spark puts {article} {exchange_or_sort.about} here, and no reason for it is known to this check."
    return Explanation(message, exchange_or_sort.side.entry.tables)


# First what is no matter of buckets, then whether the table can be read as bucketed at all, then whether its buckets
# serve the keys, then whether they arrive, then whether they fit the other side; and sorts last.
REASONS: tuple[Reason, ...] = (
    *(
        found
        for module in (query_shapes, fallback_scans, key_mismatches, join_sides, orderings)
        for found in _of(module)
    ),
    unexplained,
)
PROJECT_REASONS: tuple[Reason, ...] = tuple(_of(session_and_versions))
EVERY_REASON = (*REASONS, *PROJECT_REASONS)


def reason_for(exchange_or_sort: ExchangeOrSort) -> tuple[str, Explanation]:
    """The slug of the first reason that applies, and its explanation."""
    asked = (found for found in REASONS if exchange_or_sort.about in found.about)
    return next((found.slug, explained) for found in asked if (explained := found.find(exchange_or_sort)))


def project_findings(project: ProjectFacts) -> tuple[Finding, ...]:
    """What is wrong with a project as a whole."""
    found = ((reason.slug, explained) for reason in PROJECT_REASONS for explained in reason.find(project))
    return tuple(
        Finding(slug, one.message, one.tables, one.level, tuple(Fix(**vars(each)) for each in one.candidates))
        for slug, one in found
    )
