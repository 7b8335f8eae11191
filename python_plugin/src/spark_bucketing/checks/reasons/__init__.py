"""Collect all reasons for an Exchange or a Sort in a plan, in the order in which they are evaluated."""

from __future__ import annotations

from types import ModuleType

from spark_bucketing.checks.reasons import (
    orderings,
    session_and_versions,
    shuffles,
)
from spark_bucketing.checks.reasons.exchanges_and_sorts import EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, ExchangeOrSort
from spark_bucketing.checks.reasons.reason import Explanation, Reason, reason
from spark_bucketing.checks.reasons.session_and_versions import ProjectFacts
from spark_bucketing.checks.results import Finding, Fix


def _of(*modules: ModuleType) -> tuple[Reason, ...]:
    """Return the reasons that modules define, in the order of their definitions."""
    return tuple(found for module in modules for found in vars(module).values() if isinstance(found, Reason))


@reason("check does not know the reason, which is a gap in check itself", EXCHANGE, EXCHANGE_BELOW, SORT, JOIN)
def unexplained(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """No other reason applies, because `check` does not understand the plan well enough."""
    article = "an" if exchange_or_sort.about.startswith(EXCHANGE) else "a"
    message = f"Spark adds {article} {exchange_or_sort.about} here, but check does not know the reason."
    return Explanation(message, exchange_or_sort.side.entry.tables)


# The order of evaluation: causes other than buckets; whether Spark can read the table as bucketed; whether its buckets
# match the keys, reach the operator and match the other side; finally, sorts.
REASONS = (*_of(shuffles, orderings), unexplained)
PROJECT_REASONS = _of(session_and_versions)
EVERY_REASON = (*REASONS, *PROJECT_REASONS)


def reason_for(exchange_or_sort: ExchangeOrSort) -> tuple[str, Explanation]:
    """Return the slug of the first reason that applies, and its explanation."""
    asked = (found for found in REASONS if exchange_or_sort.about in found.about)
    return next((found.slug, explained) for found in asked if (explained := found.find(exchange_or_sort)))


def project_findings(project: ProjectFacts) -> tuple[Finding, ...]:
    """Return the findings that concern the whole project."""
    found = ((reason.slug, explained) for reason in PROJECT_REASONS for explained in reason.find(project))
    return tuple(
        Finding(slug, one.message, one.tables, one.level, tuple(Fix(**vars(each)) for each in one.changes))
        for slug, one in found
    )
