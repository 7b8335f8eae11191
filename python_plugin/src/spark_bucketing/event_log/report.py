"""Write a comparison of event logs as text, as JSON, or as a self-contained HTML page with plots."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any, TextIO

from rich.text import Text

from spark_bucketing import output
from spark_bucketing.event_log.comparison import RULE, WRITE_TIME, ComparedNode, Comparison, CostlyTable, Difference
from spark_bucketing.output import console_on, print_rows, template_beside
from spark_bucketing.units import size

SCHEMA_VERSION = 1
_MEDIANS = "Medians of all successful runs, before -> after"
_TITLES = {
    "seconds": "seconds",
    "shuffle_bytes": "shuffled",
    "spill_bytes": "spilled",
    "task_seconds": "task seconds",
    "write_seconds": "write seconds",
}
# The measures whose verdicts the text and HTML reports show, and the titles of these columns.
_JUDGED = {"seconds": "time verdict", "shuffle_bytes": "shuffle verdict"}
# Pixels of a plot's bars, and of a letter in the widest font.
_WIDTH, _ROW, _LETTER = 420, 26, 7.5
_STYLES = {"gained": "green", "lost": "red"}


def write_json(comparison: Comparison, file: TextIO) -> None:
    """Write the comparison as JSON."""
    measured = {"before": comparison.before, "after": comparison.after}
    logs = {when: {"target": one.target or None, **vars(one.counts)} for when, one in measured.items()}
    data = {
        "schema_version": SCHEMA_VERSION,
        "rule": RULE,
        "logs": logs,
        "total": _node(comparison.total) if comparison.total else None,
        "models": [_node(node) for node in comparison.nodes],
        "costly": [vars(one) for one in comparison.costly],
        "only_before": list(comparison.only_before),
        "only_after": list(comparison.only_after),
    }
    output.write_json(data, file)


def _node(node: ComparedNode) -> dict[str, Any]:
    found: dict[str, Any] = {"node": node.node}
    for name, one in node.differences.items():
        before, after = one.medians
        found[name] = {
            "before": before,
            "after": after,
            "verdict": one.verdict,
            "runs_before": list(one.before),
            "runs_after": list(one.after),
        }
    return found


def write_text(comparison: Comparison, file: TextIO) -> None:
    """Write the comparison as a table."""
    console = console_on(file)
    titles, *found = rows(comparison)
    verdicts = [title for title in titles if title in _JUDGED.values()]
    styled = [
        [
            Text(cell, _STYLES.get(cell.split()[0], "dim") if title in verdicts else "")
            for title, cell in zip(titles, row, strict=True)
        ]
        for row in found
    ]
    if styled:
        console.print(f"{_MEDIANS}:\n", markup=False)
        print_rows(console, titles, styled, titles[1 : -len(verdicts)])
        console.print()
    for line in lines(comparison):
        console.print(line, markup=False)


def rows(comparison: Comparison) -> Iterator[list[str]]:
    """Yield the titles and the rows of the table, without measures that are zero for all nodes."""
    nodes = [*comparison.nodes, *filter(None, [comparison.total])]
    shown = [name for name in _TITLES if any(any(node.differences[name].medians) for node in nodes)]
    judged = [name for name in _JUDGED if name in ("seconds", *shown)]
    yield ["model", "runs", *(_TITLES[name] for name in shown), *(_JUDGED[name] for name in judged)]
    for node in nodes:
        time = node.differences["seconds"]
        medians = (medians_text(name, node.differences[name]) for name in shown)
        verdicts = (verdict_text(node.differences[name]) for name in judged)
        yield [short(node.node), f"{len(time.before)} -> {len(time.after)}", *medians, *verdicts]


def medians_text(measure: str, difference: Difference) -> str:
    """Return the medians of a measure before and after bucketing."""
    texts = (size(round(value)) if measure.endswith("bytes") else f"{value:,.1f}" for value in difference.medians)
    return " -> ".join(dict.fromkeys(texts))


def verdict_text(difference: Difference) -> str:
    """Return the verdict on a measure, with its relative change."""
    verdict, (before, _) = difference.verdict or "", difference.medians
    if verdict not in _STYLES or not before:
        return verdict
    change = abs(difference.saved) / before
    # A gain of 100% leaves nothing.
    is_nearly_all = difference.saved > 0 and 0.99 <= change < 1
    return f"{verdict} {floor(change * 1000) / 10}%" if is_nearly_all else f"{verdict} {change:.0%}"


def short(node: str) -> str:
    """Return a node's name without its resource type and package."""
    kind, _, name = node.partition(".")
    return name if kind == "table" else node.split(".", 2)[-1]


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines below the table: costly models, models that were not compared, warnings, and the rule."""
    if not comparison.nodes:
        yield "No model ran successfully both before and after."
    for costly in comparison.costly:
        yield costly_text(costly)
    for names, when in ((comparison.only_before, "before"), (comparison.only_after, "after")):
        if names:
            yield f"Not compared, because they ran only {when}: {', '.join(map(short, names))}"
    for when, measured in (("Before", comparison.before), ("After", comparison.after)):
        yield f"{when}: {measured.summary}"
    if _TITLES["write_seconds"] in next(rows(comparison)):
        yield WRITE_TIME
    yield RULE


def costly_text(one: CostlyTable) -> str:
    """Explain by how much a bucketed model costs more than it saves."""
    text = f"Each build of {short(one.node)} costs {one.cost_seconds:,.1f} more task seconds, and saves its readers"
    if one.ad_hoc_readers:
        return (
            f"{text} in dbt {one.saved_seconds:,.1f}. Queries outside dbt also read its buckets, and the report cannot "
            "compare them."
        )
    return f"{text} {one.saved_seconds:,.1f}. Set materialized='table' in this model."


def write_html(comparison: Comparison, file: TextIO) -> None:
    """Write the comparison as an HTML page."""
    template = template_beside(__file__, "report.html", costly_text, short)
    plots = [("Seconds", _plot(comparison, "seconds")), ("Bytes shuffled", _plot(comparison, "shuffle_bytes"))]
    titles, *found = rows(comparison)
    longest = max((len(short(node.node)) for node in comparison.nodes), default=0)
    notes = [*([WRITE_TIME] if _TITLES["write_seconds"] in titles else []), RULE]
    texts = {"medians": _MEDIANS, "notes": [note.replace("`", "") for note in notes]}
    sizes = {"width": _WIDTH, "row": _ROW, "names": round(longest * _LETTER) + 6}
    file.write(template.render(comparison=comparison, titles=titles, rows=found, plots=plots, **sizes, **texts) + "\n")


def _plot(comparison: Comparison, measure: str) -> list[dict[str, Any]]:
    """Return the bars of each model for a plot. Each bar shows a median, with a dot for each run."""
    differences = [node.differences[measure] for node in comparison.nodes]
    every = [value for one in differences for value in (*one.before, *one.after)]
    scale = _WIDTH / (max(every, default=0) or 1)
    return [
        {
            "name": short(node.node),
            "medians": medians_text(measure, one),
            "verdict": verdict_text(one),
            "bars": [
                (when, round(middle * scale, 1), [round(value * scale, 1) for value in runs])
                for when, middle, runs in zip(("before", "after"), one.medians, (one.before, one.after), strict=True)
            ],
        }
        for node, one in zip(comparison.nodes, differences, strict=True)
    ]
