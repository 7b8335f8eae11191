"""What a reason means, from its own documentation."""

from __future__ import annotations

import inspect
from typing import ClassVar, Protocol

from spark_bucketing.eligibility import PROJECT_RULES, RULES
from spark_bucketing.errors import ProjectError


class Documented(Protocol):
    """A reason, of a model's or of the project's: what it is called, and a line about it."""

    slug: ClassVar[str]
    summary: ClassVar[str]


ALL: tuple[Documented, ...] = (*RULES, *PROJECT_RULES)


def documentation(rule: Documented) -> str:
    """A reason's text: what it means, **Anti-pattern** and **Best practice**."""
    return inspect.getdoc(type(rule)) or ""


def reason_text(slug: str) -> str:
    """All about one reason.

    Args:
        slug: its name.

    Raises:
        ProjectError: there is no such reason.
    """
    rule = next((rule for rule in ALL if rule.slug == slug), None)
    if rule is None:
        raise ProjectError(
            f"There is no such reason.\n  found:    {slug}\n"
            f"  expected: one of {', '.join(rule.slug for rule in ALL)}\n"
            "  instead:  spark-bucketing explain-reason, which lists them with a line for each"
        )
    return f"{rule.slug}: {rule.summary}\n\n{documentation(rule)}\n"


def list_reasons() -> str:
    """A line for each reason."""
    width = max(len(rule.slug) for rule in ALL)
    return "".join(f"{rule.slug:{width}}  {rule.summary}\n" for rule in ALL)
