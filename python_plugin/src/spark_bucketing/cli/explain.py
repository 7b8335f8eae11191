"""Define the command `explain`."""

from __future__ import annotations

import click

from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.errors import ProjectError


@click.command("explain")
@click.argument("reason", required=False)
def explain(reason: str | None) -> None:
    """Explain a REASON that `check` reports, with an example and a fix. Without REASON, list all reasons."""
    click.echo(reason_text(reason) if reason else list_reasons(), nl=False)


def reason_text(slug: str) -> str:
    """Return the summary and the full documentation of a reason.

    Raises:
        ProjectError: the reason does not exist.
    """
    rule = next((rule for rule in EVERY_REASON if rule.slug == slug), None)
    if rule is None:
        raise ProjectError(
            f"The reason `{slug}` does not exist.",
            expected=f"one of {', '.join(rule.slug for rule in EVERY_REASON)}",
            instead="run `spark-bucketing explain` to list all reasons",
        )
    return f"{rule.slug}: {rule.summary}\n\n{rule.documentation}\n"


def list_reasons() -> str:
    """Return a list of all reasons, one per line."""
    width = max(len(rule.slug) for rule in EVERY_REASON)
    return "".join(f"{rule.slug:{width}}  {rule.summary}\n" for rule in EVERY_REASON)
