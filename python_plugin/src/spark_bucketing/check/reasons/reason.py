"""What a reason is: a function named for the fault, whose docstring is what users read about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from spark_bucketing.check.reasons.movements import EXCHANGE, Movement
from spark_bucketing.check.results import Candidate

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Reason(Generic[Function]):
    """Why an Exchange or a Sort stands in a plan, or what is wrong with a project as a whole.

    Args:
        slug: its name, as users write it to allow it.
        summary: one line for lists.
        documentation: what it means, **Anti-pattern** and **Best practice**.
        about: what it explains, in the words of Movement.about.
        find: what it finds; for a movement an Explanation, or None where this is not the reason.
    """

    slug: str
    summary: str
    documentation: str
    about: tuple[str, ...]
    find: Function


@dataclass(frozen=True)
class Explanation:
    """A reason that applies: what was found, and what could be changed, the cheapest first."""

    message: str
    tables: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()


AnyReason = Reason[Any]
Explain = Callable[[Movement], Explanation | None]


def reason(summary: str, *about: str) -> Callable[[Function], Reason[Function]]:
    """Make a reason of a function.

    Args:
        summary: one line for lists.
        about: what it explains; Exchanges that operators need where nothing is given.
    """

    def made(function: Function) -> Reason[Function]:
        slug = function.__name__.replace("_", "-")
        return Reason(slug, summary, inspect.getdoc(function) or "", about or (EXCHANGE,), function)

    return made
