"""What a reason is: a function named for the fault, whose docstring is what users read about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spark_bucketing.check.reasons.exchanges_and_sorts import EXCHANGE, ExchangeOrSort
from spark_bucketing.check.results import Candidate, Level


@dataclass(frozen=True)
class Reason:
    """Why an Exchange or a Sort stands in a plan, or what is wrong with a project as a whole."""

    slug: str  # its name, as users write it to allow it
    summary: str  # one line for lists
    documentation: str  # what it means, **Anti-pattern** and **Best practice**
    about: tuple[str, ...]  # what it explains, in the words of ExchangeOrSort.about
    # Of an Exchange or Sort: an Explanation, or None where this is not the reason; of a project: findings.
    find: Callable[..., Any]


@dataclass(frozen=True)
class Explanation:
    """A reason that applies: what was found, and what could be changed, the cheapest first."""

    message: str
    tables: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    level: Level = "warning"  # of what is wrong with a project


def reason(summary: str, *about: str, of: str = "") -> Callable[[Callable[..., Any]], Reason]:
    """Make a reason of a function, of Exchanges that operators require where it is not told what it is about.

    Where it is one `of` the table below the Exchange or Sort, or of what can be read as bucketed, it gets that, too.
    """

    def made(function: Callable[..., Any]) -> Reason:
        slug = function.__name__.replace("_", "-")

        def find(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
            table = getattr(exchange_or_sort, of)
            found: Explanation | None = function(exchange_or_sort, table) if table else None
            return replace(found, tables=found.tables or (table.name,)) if found else None

        return Reason(slug, summary, inspect.getdoc(function) or "", about or (EXCHANGE,), find if of else function)

    return made
