"""Generate docs/reasons.md from the docstrings of the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spark_bucketing.check.reasons import PROJECT_REASONS, REASONS
from spark_bucketing.check.reasons.reason import Reason

TARGET = Path(__file__).parents[1] / "docs" / "reasons.md"
HEAD = """# Reasons

This page lists the findings of `spark-bucketing check` under the names that `spark-bucketing explain` and a
model's `meta` accept. `scripts/write_reasons.py` generates it from the code, so edit the docstrings instead.

Each Exchange or Sort between a bucketed table and a join, an aggregate, a distinct or a window has one reason: the
first one in this list that applies. A finding is a *warning* if it comes with a fix that improves the verdict, and a
*note* otherwise. An *error* is a finding that produces wrong rows or cannot work.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD, _list(REASONS), "\nReasons about the project as a whole:\n", _list(PROJECT_REASONS)]
    return "\n".join([*parts, *map(_section, (*REASONS, *PROJECT_REASONS))])


def _list(reasons: Sequence[Reason]) -> str:
    return "".join(f"- [`{reason.slug}`](#{reason.slug}): {reason.summary}\n" for reason in reasons)


def _section(reason: Reason) -> str:
    return f"## {reason.slug}\n\n{reason.documentation}\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page())
