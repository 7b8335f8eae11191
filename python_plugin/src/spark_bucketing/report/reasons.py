"""What a reason means, from its own documentation."""

from __future__ import annotations

from spark_bucketing.check.reasons import PROJECT_REASONS, REASONS
from spark_bucketing.check.reasons.reason import Reason
from spark_bucketing.errors import ProjectError

ALL: tuple[Reason, ...] = (*REASONS, *PROJECT_REASONS)


def reason_text(slug: str) -> str:
    """All about one reason.

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
    return f"{rule.slug}: {rule.summary}\n\n{rule.documentation}\n"


def list_reasons() -> str:
    """A line for each reason."""
    width = max(len(rule.slug) for rule in ALL)
    return "".join(f"{rule.slug:{width}}  {rule.summary}\n" for rule in ALL)
