"""Write docs/reasons.md from the docstrings of the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spark_bucketing.check.reasons import PROJECT_REASONS, REASONS
from spark_bucketing.check.reasons.reason import Reason

TARGET = Path(__file__).parents[1] / "docs" / "reasons.md"
HEAD = """# Reasons

What `spark-bucketing check` finds, by the name that `spark-bucketing explain` and a model's `meta` take. This
page is written by `scripts/write_reasons.py` from the code; change it there.

For each Exchange or Sort on the way from a bucketed table to a join, an aggregate, a distinct or a window there is
one reason: the first of this list that applies. A finding is a *warning* when it comes with a fix that betters the
verdict, and a *note* when it does not. What returns wrong rows or cannot work is an *error*.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD, _list(REASONS), "\nOf the project as a whole:\n", _list(PROJECT_REASONS)]
    return "\n".join([*parts, *map(_section, (*REASONS, *PROJECT_REASONS))])


def _list(reasons: Sequence[Reason]) -> str:
    return "".join(f"- [`{reason.slug}`](#{reason.slug}): {reason.summary}\n" for reason in reasons)


def _section(reason: Reason) -> str:
    return f"## {reason.slug}\n\n{reason.documentation}\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page())
