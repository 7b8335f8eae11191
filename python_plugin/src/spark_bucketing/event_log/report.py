"""Compare the runs of models before bucketing with their runs after bucketing.

Write the comparison as text, as JSON, or as a self-contained HTML page with plots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor
from statistics import median
from typing import Any, Literal, TextIO

from rich.text import Text

from spark_bucketing import output
from spark_bucketing.event_log.measured import AD_HOC, NO_MODELS, Measured, Run
from spark_bucketing.output import console_on, print_rows, template_beside
from spark_bucketing.units import size

Outcome = Literal["gained", "lost", "no difference", "too few runs"]
LEAST_RUNS = 4
LEAST_CHANGE = 0.05
RULE = (
    f"`gained` and `lost` mean that the median changed by more than {LEAST_CHANGE:.0%} and by more than 0.1 s or "
    "1 KiB, and that all runs after are lower than all runs before, or all are higher. Of 10 or more runs, the lowest "
    f"and the highest tenth do not count. A verdict needs at least {LEAST_RUNS} runs before and {LEAST_RUNS} runs "
    "after. With 4 runs each, about 3 of 100 models without a real difference get a verdict on a measure by chance."
)
WRITE_TIME = (
    "`write seconds` is the run time of the tasks in the stages that write files. It includes the reading and joining "
    "that Spark does in these stages, so it has no verdict."
)
# The title and the value of each compared measure of a run, and by how much the median must at least change for a
# verdict. Without a shuffle before the write, the writing stage also reads and joins, so a change of its time says
# nothing about the write.
_MEASURES: Mapping[str, tuple[str, Callable[[Run], float], float | None]] = {
    "seconds": ("seconds", lambda run: run.seconds, 0.1),
    "shuffle_bytes": ("shuffled", lambda run: run.work.shuffle_bytes, 1024),
    "spill_bytes": ("spilled", lambda run: run.work.spill_bytes, 1024),
    "task_seconds": ("task seconds", lambda run: run.work.task_ms / 1000, 0.1),
    "write_seconds": ("write seconds", lambda run: run.work.write_ms / 1000, None),
}


@dataclass(frozen=True)
class Difference:
    """The values of one measure in all runs of a node, before and after bucketing."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    least: float | None = 0.0  # a verdict requires a larger change of the median; None for a measure without a verdict

    @cached_property
    def medians(self) -> tuple[float, float]:
        """Return the median value before and the median value after."""
        return median(self.before), median(self.after)

    @property
    def saved(self) -> float:
        """Return by how much the median decreased."""
        return self.medians[0] - self.medians[1]

    @cached_property
    def verdict(self) -> Outcome | None:
        """Return whether the measure decreased or increased by more than the noise between runs."""
        if self.least is None:
            return None
        if min(len(self.before), len(self.after)) < LEAST_RUNS:
            return "too few runs"
        if abs(self.saved) <= max(self.least, LEAST_CHANGE * self.medians[0]):
            return "no difference"
        # The runs in order, without the lowest and the highest tenth.
        before, after = (
            sorted(runs)[len(runs) // 10 : len(runs) - len(runs) // 10] for runs in (self.before, self.after)
        )
        if after[-1] < before[0]:
            return "gained"
        return "lost" if after[0] > before[-1] else "no difference"


@dataclass(frozen=True)
class ComparedNode:
    """A node that ran successfully both before and after bucketing."""

    node: str
    differences: Mapping[str, Difference]  # by measure


@dataclass(frozen=True)
class CostlyTable:
    """A bucketed model whose builds cost more additional task time than its readers save."""

    node: str
    table: str
    cost_seconds: float  # increase of the task time of one build
    saved_seconds: float  # decrease of the readers' task time, per build
    ad_hoc_readers: bool = False  # whether queries outside dbt, whose savings are unknown, read its buckets


@dataclass(frozen=True)
class Comparison:
    """The comparison of all nodes that ran successfully both before and after bucketing."""

    before: Measured
    after: Measured
    nodes: tuple[ComparedNode, ...]  # sorted by saved time, largest first
    total: ComparedNode | None  # sums of complete invocations; None without complete invocations before and after
    costly: tuple[CostlyTable, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def compare(before: Measured, after: Measured) -> Comparison:
    """Compare the runs of all models that ran successfully in both sets of event logs."""
    # Without dbt's query comment, the model's own table identifies the model.
    written = [*before.writers.items(), *after.writers.items()]
    names = {f"table.{table}": node for table, node in written if not node.startswith("table.")}
    before, after = _named(before, names), _named(after, names)
    left, right = set(before.nodes()), set(after.nodes())
    both = sorted(left & right)
    compared = [ComparedNode(node, _differences(before.runs_of(node), after.runs_of(node))) for node in both]
    compared.sort(key=lambda one: (-one.differences["seconds"].saved, one.node))
    sums = _invocations(before, both), _invocations(after, both)
    total = ComparedNode("total", _differences(*sums)) if all(sums) else None
    costly = _costly(before, after, {one.node: one for one in compared})
    return Comparison(
        before, after, tuple(compared), total, costly, tuple(sorted(left - right)), tuple(sorted(right - left))
    )


def _named(measured: Measured, names: Mapping[str, str]) -> Measured:
    """Return the runs of models by the models' names, without the runs of tests and hooks.

    If runs have a model's query comment, all other writes to its table are not runs of the model.
    """
    runs = {node: of for node, of in measured.runs.items() if not node.startswith(NO_MODELS) and node not in names}
    for table in sorted(names.keys() & measured.runs):
        # Runs of two tables may have the same invocation, so they are not combined.
        if names[table] not in measured.runs and len(measured.runs[table]) > len(runs.get(names[table], ())):
            runs[names[table]] = measured.runs[table]
    readers = {node: AD_HOC if model in measured.runs else model for node, model in names.items()}
    return replace(
        measured,
        runs=runs,
        writers={table: names.get(node, node) for table, node in measured.writers.items()},
        bucketed={table: {readers.get(one, one) for one in nodes} for table, nodes in measured.bucketed.items()},
    )


def _differences(before: Sequence[Run], after: Sequence[Run]) -> dict[str, Difference]:
    return {
        name: Difference(tuple(map(value, before)), tuple(map(value, after)), least)
        for name, (_, value, least) in _MEASURES.items()
    }


def _invocations(measured: Measured, nodes: Sequence[str]) -> list[Run]:
    """Return one total for each dbt invocation that ran all of these nodes."""
    complete = [{key for key, run in measured.runs[node].items() if run.counts} for node in nodes]
    found = []
    for key in sorted(set.intersection(*complete) if complete else ()):
        total = Run(0, 0)
        for run in (measured.runs[node][key] for node in nodes):
            # Add the times, because models may run at the same time.
            total.ended += run.ended - run.started
            total.work.add(run.work)
        found.append(total)
    return found


def _costly(before: Measured, after: Measured, nodes: Mapping[str, ComparedNode]) -> tuple[CostlyTable, ...]:
    """Return the bucketed tables that cost more task time than they save.

    The table with the largest net cost comes first.

    If a model reads several bucketed tables, its savings are divided among them. Savings and costs that may be noise
    count as 0.
    """
    new = sorted(after.bucketed.keys() - before.bucketed)
    read: dict[str, list[str]] = {}
    for table in new:
        for reader in after.bucketed[table]:
            read.setdefault(reader, []).append(table)
    found = []
    for table in new:
        builder = nodes.get(after.writers.get(table, ""))
        if builder is None:
            continue
        cost, builds = -_certain(builder), len(after.runs_of(builder.node))
        saved = sum(
            _certain(nodes[reader]) / len(tables) * len(after.runs_of(reader)) / builds
            for reader, tables in read.items()
            if table in tables and reader in nodes
        )
        if cost > max(saved, 0):
            found.append(CostlyTable(builder.node, table, cost, saved, AD_HOC in after.bucketed[table]))
    return tuple(sorted(found, key=lambda one: (one.saved_seconds - one.cost_seconds, one.node)))


def _certain(node: ComparedNode) -> float:
    """Return how many task seconds a node saves per run, or 0 if the difference may be noise."""
    difference = node.differences["task_seconds"]
    return difference.saved if difference.verdict in ("gained", "lost") else 0.0


SCHEMA_VERSION = 1
_MEDIANS = "Medians of all successful runs, before -> after"
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
    shown = [name for name in _MEASURES if any(any(node.differences[name].medians) for node in nodes)]
    judged = [name for name in _JUDGED if name in ("seconds", *shown)]
    yield ["model", "runs", *(_MEASURES[name][0] for name in shown), *(_JUDGED[name] for name in judged)]
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
    if "write seconds" in next(rows(comparison)):
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
    notes = [*([WRITE_TIME] if "write seconds" in titles else []), RULE]
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
