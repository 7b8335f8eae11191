"""The command `explain-reason`."""

from __future__ import annotations

import click

from spark_bucketing.report.reasons import list_reasons, reason_text


@click.command("explain-reason")
@click.argument("reason", required=False)
def explain_reason(reason: str | None) -> None:
    """Say what a REASON of the check means, with an example and what to do; without REASON, list them all."""
    click.echo(reason_text(reason) if reason else list_reasons(), nl=False)
