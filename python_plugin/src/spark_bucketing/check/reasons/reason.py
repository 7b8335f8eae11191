"""Define a reason: a function named after the cause, whose docstring becomes its user documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spark_bucketing.check.reasons.exchanges_and_sorts import EXCHANGE, ExchangeOrSort
from spark_bucketing.check.results import Change, Level


@dataclass(frozen=True)
class Reason:
    """A reason for an Exchange or a Sort in a plan, or for a finding about the whole project."""

    slug: str  # its name, with which users allow it
    summary: str  # one line for lists
    documentation: str  # explanation, **Anti-pattern** and **Best practice**
    about: tuple[str, ...]  # the values of ExchangeOrSort.about that it explains
    # Returns an Explanation, or None if the reason does not apply; for a project, yields findings.
    find: Callable[..., Any]


@dataclass(frozen=True)
class Explanation:
    """Why a reason applies: a message, and possible changes in order of their cost, cheapest first."""

    message: str
    tables: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    level: Level = "warning"  # level of a project finding


def reason(summary: str, *about: str, of: str = "") -> Callable[[Callable[..., Any]], Reason]:
    """Turn a function into a Reason.

    By default, the reason explains Exchanges that operators require.

    With `of`, the function gets the table below the Exchange or Sort as a second argument. With `table`, it can be any
    table. With `read`, it is a table whose buckets Spark can read.
    """

    def made(function: Callable[..., Any]) -> Reason:
        slug = function.__name__.replace("_", "-")

        def find(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
            table = getattr(exchange_or_sort, of)
            found: Explanation | None = function(exchange_or_sort, table) if table else None
            return replace(found, tables=found.tables or (table.name,)) if found else None

        return Reason(slug, summary, inspect.getdoc(function) or "", about or (EXCHANGE,), find if of else function)

    return made
