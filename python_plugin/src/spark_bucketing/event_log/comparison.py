"""Compare the runs of models before bucketing with their runs after bucketing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Literal

from spark_bucketing.event_log.measured import AD_HOC, NO_MODELS, Measured, Run

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
# The compared measures of a run, and by how much the median must at least change for a verdict. Without a shuffle
# before the write, the writing stage also reads and joins, so a change of its time says nothing about the write.
_MEASURES: Mapping[str, tuple[Callable[[Run], float], float | None]] = {
    "seconds": (lambda run: run.seconds, 0.1),
    "shuffle_bytes": (lambda run: run.work.shuffle_bytes, 1024),
    "spill_bytes": (lambda run: run.work.spill_bytes, 1024),
    "task_seconds": (lambda run: run.work.task_ms / 1000, 0.1),
    "write_seconds": (lambda run: run.work.write_ms / 1000, None),
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
        for name, (value, least) in _MEASURES.items()
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
