"""Write a comparison of event logs as a self-contained HTML page with plots."""

from __future__ import annotations

from typing import Any, TextIO

from spark_bucketing.event_log.comparison import RULE, WRITE_TIME, ComparedNode, Comparison
from spark_bucketing.report.event_log_data import (
    MEDIANS,
    costly_text,
    logs_text,
    medians_text,
    rows,
    short,
    shows_write_time,
    verdict_text,
)
from spark_bucketing.report.output import pages

# Pixels of a plot's bars, and of a letter in the widest font.
_WIDTH, _ROW, _LETTER = 420, 26, 7.5


def write_html(comparison: Comparison, file: TextIO) -> None:
    """Write the comparison as an HTML page."""
    template = pages(costly_text, logs_text, short).get_template("event_log.html")
    plots = [
        (title, _plot(comparison, measure))
        for measure, title in (("seconds", "Seconds"), ("shuffle_bytes", "Bytes shuffled"))
    ]
    titles, *found = rows(comparison)
    longest = max((len(short(node.node)) for node in comparison.nodes), default=0)
    notes = [*([WRITE_TIME] if shows_write_time(comparison) else []), RULE]
    texts = {"medians": MEDIANS, "notes": [note.replace("`", "") for note in notes]}
    sizes = {"width": _WIDTH, "row": _ROW, "names": round(longest * _LETTER) + 6}
    file.write(template.render(comparison=comparison, titles=titles, rows=found, plots=plots, **sizes, **texts) + "\n")


def _plot(comparison: Comparison, measure: str) -> list[dict[str, Any]]:
    """Return the bars of each model for a plot.

    Each bar shows a median, with a dot for each run.
    """
    every = [value for node in comparison.nodes for runs in _runs(node, measure) for value in runs]
    scale = _WIDTH / (max(every, default=0) or 1)
    return [
        {
            "name": short(node.node),
            "medians": medians_text(measure, node.differences[measure]),
            "verdict": verdict_text(node.differences[measure]),
            "bars": [
                (when, round(middle * scale, 1), [round(value * scale, 1) for value in runs])
                for when, middle, runs in zip(
                    ("before", "after"), node.differences[measure].medians, _runs(node, measure), strict=True
                )
            ],
        }
        for node in comparison.nodes
    ]


def _runs(node: ComparedNode, measure: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    difference = node.differences[measure]
    return difference.before, difference.after
