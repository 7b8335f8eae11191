"""Define the command `explain`."""

from __future__ import annotations

import click

from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.config.values import nearest_name
from spark_bucketing.errors import ProjectError


@click.command("explain")
@click.argument("reason", required=False)
def explain(reason: str | None) -> None:
    """Explain a REASON that `check` reports, with an example and a fix. Without REASON, list all reasons."""
    if not reason:
        width = max(len(rule.slug) for rule in EVERY_REASON)
        for rule in EVERY_REASON:
            click.echo(f"{rule.slug:{width}}  {rule.summary}")
        return
    found = next((rule for rule in EVERY_REASON if rule.slug == reason), None)
    if found is None:
        slugs = [rule.slug for rule in EVERY_REASON]
        near = nearest_name(reason, slugs) or next((slug for slug in slugs if reason in slug), None)
        raise ProjectError(
            f"The reason `{reason}` does not exist.",
            expected=f"one of {', '.join(slugs)}",
            instead=f"run `spark-bucketing explain {near}`"
            if near
            else "run `spark-bucketing explain` to list all reasons",
        )
    click.echo(f"{found.slug}: {found.summary}\n\n{found.documentation}")
