"""Compare the runs of models before bucketing with their runs after bucketing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, erfc, sqrt
from statistics import median
from typing import Literal

from spark_bucketing.event_log.measured import AD_HOC, Invocation, Measured, Run

Verdict = Literal["gained", "lost", "no difference", "too few runs"]
LEAST_RUNS = 4
MOST_CHANCE = 0.05
MOST_EXACT = 50
RULE = (
    "`gained` and `lost` mean that the difference is larger than the noise between runs: the p-value of a two-sided "
    f"Mann-Whitney test is at most {MOST_CHANCE:.0%}. A verdict needs at least {LEAST_RUNS} runs before and "
    f"{LEAST_RUNS} runs after. The test is exact for up to {MOST_EXACT} runs in total, also with equal values."
)
_NO_MODELS = ("test.", "unit_test.", "operation.")
# The compared measures of a run.
MEASURES: Mapping[str, Callable[[Run], float]] = {
    "seconds": lambda run: run.seconds,
    "shuffle_bytes": lambda run: run.work.shuffle_bytes,
    "spill_bytes": lambda run: run.work.spill_bytes,
    "task_seconds": lambda run: run.work.task_ms / 1000,
    "write_seconds": lambda run: run.work.write_ms / 1000,
}


@dataclass(frozen=True)
class Difference:
    """The values of one measure in all runs of a node, before and after bucketing."""

    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def medians(self) -> tuple[float, float]:
        """Return the median value before and the median value after."""
        return median(self.before), median(self.after)

    @property
    def saved(self) -> float:
        """Return by how much the median decreased."""
        return self.medians[0] - self.medians[1]

    @property
    def verdict(self) -> Verdict:
        """Return whether the measure decreased or increased by more than the noise between runs."""
        if min(len(self.before), len(self.after)) < LEAST_RUNS:
            return "too few runs"
        # How many more pairs of runs show a decrease than an increase, which is what the test examines.
        decreases = sum((old > new) - (old < new) for old in self.before for new in self.after)
        if chance_of_noise(self.before, self.after) > MOST_CHANCE or self.saved * decreases <= 0:
            return "no difference"
        return "gained" if self.saved > 0 else "lost"


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
    # Without dbt's query comment, the table identifies the model.
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
    """Return the runs of models by the models' names, without the runs of tests and hooks."""
    runs: dict[str, dict[Invocation, Run]] = {}
    for node, of in measured.runs.items():
        if not node.startswith(_NO_MODELS):
            runs.setdefault(names.get(node, node), {}).update(of)
    return replace(
        measured,
        runs=runs,
        writers={table: names.get(node, node) for table, node in measured.writers.items()},
        bucketed={table: {names.get(one, one) for one in nodes} for table, nodes in measured.bucketed.items()},
    )


def _differences(before: Sequence[Run], after: Sequence[Run]) -> dict[str, Difference]:
    return {name: Difference(tuple(map(value, before)), tuple(map(value, after))) for name, value in MEASURES.items()}


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


def chance_of_noise(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Whitney U test.

    The function uses the exact distribution for up to MOST_EXACT runs, and otherwise the normal approximation, with a
    correction for ties. Equal values share the mean of their ranks.
    """
    ordered = sorted([*before, *after])
    # Twice the rank is an integer.
    ranks = {value: 2 * ordered.index(value) + ordered.count(value) + 1 for value in set(ordered)}
    left, right, both = len(before), len(after), len(ordered)
    distance = abs(sum(ranks[value] for value in before) - left * (both + 1))
    if both <= MOST_EXACT:
        sums = _rank_sums([ranks[value] for value in ordered], left)
        extreme = sum(number for total, number in enumerate(sums) if abs(total - left * (both + 1)) >= distance)
        return extreme / comb(both, left)
    ties = sum(number**3 - number for number in map(ordered.count, set(ordered)))
    variance = left * right / 12 * (both + 1 - ties / (both * (both - 1)))
    return erfc(max(distance / 2 - 0.5, 0) / sqrt(2 * variance)) if variance > 0 else 1.0


def _rank_sums(ranks: Sequence[int], size: int) -> Iterator[int]:
    """Yield for each sum, from 0, how many choices of `size` ranks have this sum.

    A generating function counts the choices: the coefficient of x**sum. An integer contains all coefficients, each with
    as many bits as the number of all choices.
    """
    bits = comb(len(ranks), size).bit_length()
    choices = [1] + [0] * size
    for rank in ranks:
        for number in range(size, 0, -1):
            choices[number] += choices[number - 1] << (rank * bits)
    left, mask = choices[size], (1 << bits) - 1
    while left:
        yield left & mask
        left >>= bits
