"""The command `explain`."""

from __future__ import annotations

import click

from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.errors import ProjectError


@click.command("explain")
@click.argument("reason", required=False)
def explain(reason: str | None) -> None:
    """Explain a REASON of the check, with an example and what to do; without REASON, list all reasons."""
    click.echo(reason_text(reason) if reason else list_reasons(), nl=False)


def reason_text(slug: str) -> str:
    """All about one reason.

    Raises:
        ProjectError: there is no such reason.
    """
    rule = next((rule for rule in EVERY_REASON if rule.slug == slug), None)
    if rule is None:
        raise ProjectError(
            f"There is no such reason.\n  found:    {slug}\n"
            f"  expected: one of {', '.join(rule.slug for rule in EVERY_REASON)}\n"
            "  instead:  spark-bucketing explain, which lists them with a line for each"
        )
    return f"{rule.slug}: {rule.summary}\n\n{rule.documentation}\n"


def list_reasons() -> str:
    """A line for each reason."""
    width = max(len(rule.slug) for rule in EVERY_REASON)
    return "".join(f"{rule.slug:{width}}  {rule.summary}\n" for rule in EVERY_REASON)
