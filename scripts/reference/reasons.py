"""Generate the list of reasons on the page about the reasons that `spark-bucketing check` reports.

The sections of the page are written by hand. `spark-bucketing explain` prints them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_bucketing.checks.reasons import REASONS
from spark_bucketing.checks.reasons.project import PROJECT_REASONS
from spark_bucketing.checks.reasons.reason import Reason

HEAD = """# Reasons

Use this page to look up a reason that `spark-bucketing check` reports, and the change that it suggests.

`spark-bucketing explain REASON` prints the section of a reason. To accept a reason for a model, list the reason in the
model's [`meta`](check.md#accepted-findings).

`check` assigns a reason to each Exchange or Sort between a bucketed table and a join, aggregate, distinct or window.
If several reasons apply, it chooses the first one on this page. A finding is a *warning* if a fix improves the verdict.
Otherwise, it is a *note*. An *error* means that queries return wrong rows or fail.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD, _list(REASONS), "\nReasons about the project as a whole:\n", _list(PROJECT_REASONS)]
    return "\n".join([*parts, *map(_section, (*REASONS, *PROJECT_REASONS))])


def _list(reasons: Sequence[Reason]) -> str:
    return "".join(f"- [`{reason.slug}`](#{reason.slug}): {reason.summary}\n" for reason in reasons)


def _section(reason: Reason) -> str:
    return f"## {reason.slug}\n\n{reason.documentation}\n"
