"""Generate the page about the reasons that `spark-bucketing check` reports, from the docstrings of the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from spark_bucketing.check.reasons import PROJECT_REASONS, REASONS
from spark_bucketing.check.reasons.reason import Reason

HEAD = """# Reasons

Use this page to look up a reason that `spark-bucketing check` reports, and the change that it suggests.

`spark-bucketing explain REASON` prints the same text. To accept a reason for a model, list it under
[`meta`](check.md#accepted-findings).

Each Exchange or Sort between a bucketed table and a join, aggregate, distinct or window has one reason: the first
reason on this page that applies. A finding is a *warning* if a fix improves the verdict, and otherwise a *note*. An
*error* means wrong rows, or a query that cannot work.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD, _list(REASONS), "\nReasons about the project as a whole:\n", _list(PROJECT_REASONS)]
    return "\n".join([*parts, *map(_section, (*REASONS, *PROJECT_REASONS))])


def _list(reasons: Sequence[Reason]) -> str:
    return "".join(f"- [`{reason.slug}`](#{reason.slug}): {reason.summary}\n" for reason in reasons)


def _section(reason: Reason) -> str:
    return f"## {reason.slug}\n\n{reason.documentation}\n"
