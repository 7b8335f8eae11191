"""Simulate how each file strategy spreads the rows of equal partitions over tasks; this uses Spark's hash, not Spark.

Each partition gets a fixed number of files of equal size. A *key* is a pair of partition and file number. Ideally, each
task writes the rows of one key. A task with rows of several keys takes longer, and a task without keys is idle. "On
Spark, Hive, and Small Files" (Airbnb, 2018) defines the three rates, and all strategies except `exact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import NamedTuple

from spark_bucketing.organize.murmur3 import hash_of, shuffle_keys, task_of

# Rates are means over this number of key sets, because a single set may be an outlier.
_SETS = 20
# spark.sql.execution.rangeExchange.sampleSizePerPartition, and the limit of RangePartitioner.
_SAMPLED_OF_A_TASK, _MOST_SAMPLED = 100, 1_000_000
# The chart combines tasks with this many keys or more.
CROWDED = 4


class Shape(NamedTuple):
    """The planned table."""

    partitions: int
    files: int  # number of files per partition
    scale: float = 1.0  # tasks per file with by_column_salted

    @property
    def total(self) -> int:
        """Return the number of files of the table."""
        return self.partitions * self.files


@dataclass(frozen=True)
class Spread:
    """The keys, files and rows of tasks, as means over several sets of keys."""

    tasks: int
    wanted: int  # number of planned files
    by_keys: tuple[float, ...]  # number of tasks by number of keys; the last counts CROWDED or more
    files: float  # number of written files
    largest: float  # rows of the largest task divided by rows of a planned file

    @property
    def busy(self) -> float:
        """Return the number of tasks with rows."""
        return self.tasks - self.by_keys[0]

    @property
    def efficiency(self) -> float:
        """Return the number of tasks with rows divided by the number of planned files."""
        return self.busy / self.wanted

    @property
    def collisions(self) -> float:
        """Return the share of tasks with two or more keys among tasks with rows."""
        return sum(self.by_keys[2:]) / self.busy

    @property
    def serious_collisions(self) -> float:
        """Return the share of tasks with three or more keys among tasks with rows."""
        return sum(self.by_keys[3:]) / self.busy


def simulate(shape: Shape) -> Mapping[str, Spread]:
    """Simulate all strategies; return their results by name."""
    return {name: strategy(shape) for name, strategy in _STRATEGIES.items()}


def by_column_salted(shape: Shape) -> Spread:
    """Simulate REPARTITION(scale x files, partition column, file number)."""
    tasks = max(round(shape.total * shape.scale), 1)
    return _mean([_hashed(tasks, shape, keys) for keys in _sets_of_keys(shape)])


def _scattered(shape: Shape) -> Spread:
    """Simulate tasks that each have rows of all partitions."""
    by_keys = [0.0] * (CROWDED + 1)
    by_keys[min(shape.partitions, CROWDED)] = shape.total
    return Spread(shape.total, shape.total, tuple(by_keys), shape.total * shape.partitions, 1.0)


def _by_column(shape: Shape) -> Spread:
    """Simulate REPARTITION(files, partition column), where each partition is a single key."""
    whole = shape._replace(files=1)
    spreads = [_hashed(shape.total, whole, keys) for keys in _sets_of_keys(whole)]
    mean = _mean(spreads)
    return Spread(mean.tasks, shape.total, mean.by_keys, mean.files, mean.largest * shape.files)


def _by_range(shape: Shape) -> Spread:
    """Simulate REPARTITION_BY_RANGE(files, hash of the partition column, row number) with quantiles of a sample."""
    random, tasks = Random(7), shape.total  # noqa: S311
    sample = sorted(random.random() for _ in range(min(_SAMPLED_OF_A_TASK * tasks, _MOST_SAMPLED)))
    inner = [sample[len(sample) * task // tasks] for task in range(1, tasks)]
    # Each partition has length one on a common axis.
    bounds = [bound * shape.partitions for bound in (0.0, *inner, 1.0)]
    keys = [min(int(end), shape.partitions - 1) - int(start) + 1 for start, end in pairwise(bounds)]
    largest = max(end - start for start, end in pairwise(bounds)) * shape.files
    return Spread(tasks, shape.total, _by_keys(keys), sum(keys), largest)


def _exact(shape: Shape) -> Spread:
    """Simulate REPARTITION(files, key) with integer keys, each of which hashes to a different task."""
    keys = Counter(task_of(key, shape.total) for key in shuffle_keys(shape.total))
    loads = [keys[task] for task in range(shape.total)]
    return Spread(shape.total, shape.total, _by_keys(loads), sum(loads), max(loads))


_STRATEGIES: Mapping[str, Callable[[Shape], Spread]] = {
    "coalesce": _scattered,
    "repartition": _scattered,
    "by_column": _by_column,
    "by_column_salted": by_column_salted,
    "by_range": _by_range,
    "exact": _exact,
}


def _sets_of_keys(shape: Shape) -> Sequence[Sequence[tuple[str, int]]]:
    """Return sets of keys: days over several years, each with its file numbers."""
    first = date(2000, 1, 1)
    days = [str(first + timedelta(days=day)) for day in range(shape.partitions * _SETS)]
    starts = range(0, len(days), shape.partitions)
    return [
        [(day, number) for day in days[start : start + shape.partitions] for number in range(shape.files)]
        for start in starts
    ]


def _hashed(tasks: int, shape: Shape, keys: Sequence[tuple[str, int]]) -> Spread:
    by_task: dict[int, list[str]] = {}
    for day, number in keys:
        # With one file per partition, Spark hashes only the partition column.
        hashed = hash_of(day, number) if shape.files > 1 else hash_of(day)
        by_task.setdefault(hashed % tasks, []).append(day)
    loads = [len(days) for days in by_task.values()] + [0] * (tasks - len(by_task))
    files = sum(len(set(days)) for days in by_task.values())
    return Spread(tasks, len(keys), _by_keys(loads), files, max(loads))


def _by_keys(loads: Sequence[int]) -> tuple[float, ...]:
    numbers = Counter(min(load, CROWDED) for load in loads)
    return tuple(float(numbers[keys]) for keys in range(CROWDED + 1))


def _mean(spreads: Sequence[Spread]) -> Spread:
    first = spreads[0]
    by_keys = tuple(fmean(numbers) for numbers in zip(*(spread.by_keys for spread in spreads), strict=True))
    files, largest = (fmean(values) for values in zip(*((one.files, one.largest) for one in spreads), strict=True))
    return Spread(first.tasks, first.wanted, by_keys, files, largest)
