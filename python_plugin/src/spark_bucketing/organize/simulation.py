"""What each strategy of spreading rows over tasks makes of a table of equal partitions: Spark's hash without Spark.

The rows of a partition are wanted in so many files of equal size: each of them is a *key*, a partition with a number,
and the rows of one key are what one task should write. A task that gets rows of two keys does the work of two or more,
and one that gets none is idle. The three rates are those of "On Spark, Hive, and Small Files" (Airbnb, 2018), which
has the strategies but for `exact`.
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

# Sets of keys that rates are the means of, since a single one is a matter of luck.
_SETS = 20
# spark.sql.execution.rangeExchange.sampleSizePerPartition, and the most that RangePartitioner samples.
_SAMPLED_OF_A_TASK, _MOST_SAMPLED = 100, 1_000_000
# Keys of one task in the chart: as many, or more.
CROWDED = 4


class Shape(NamedTuple):
    """The table that is wanted."""

    partitions: int
    files: int  # of each partition
    scale: float = 1.0  # tasks for each file, of by_column_salted

    @property
    def total(self) -> int:
        """Files of the table."""
        return self.partitions * self.files


@dataclass(frozen=True)
class Spread:
    """What tasks get, in the mean of several sets of keys."""

    tasks: int
    wanted: int  # files
    by_keys: tuple[float, ...]  # tasks with no key, with one, and so on; the last: with CROWDED or more
    files: float  # that are written
    largest: float  # rows of the busiest task over those of a wanted file

    @property
    def busy(self) -> float:
        """Tasks that get rows."""
        return self.tasks - self.by_keys[0]

    @property
    def efficiency(self) -> float:
        """Tasks that get rows over the files that are wanted."""
        return self.busy / self.wanted

    @property
    def collisions(self) -> float:
        """Share of the tasks with rows that have two keys or more."""
        return sum(self.by_keys[2:]) / self.busy

    @property
    def serious_collisions(self) -> float:
        """Share of the tasks with rows that have three keys or more."""
        return sum(self.by_keys[3:]) / self.busy


def simulate(shape: Shape) -> Mapping[str, Spread]:
    """The spread of each strategy, by name."""
    return {name: strategy(shape) for name, strategy in _STRATEGIES.items()}


def by_column_salted(shape: Shape) -> Spread:
    """REPARTITION(scale x files, partition column, number of the file)."""
    tasks = max(round(shape.total * shape.scale), 1)
    return _mean([_hashed(tasks, shape, keys) for keys in _sets_of_keys(shape)])


def _scattered(shape: Shape) -> Spread:
    """Every task has rows of all partitions, and each row is where it happens to be."""
    by_keys = [0.0] * (CROWDED + 1)
    by_keys[min(shape.partitions, CROWDED)] = shape.total
    return Spread(shape.total, shape.total, tuple(by_keys), shape.total * shape.partitions, 1.0)


def _by_column(shape: Shape) -> Spread:
    """REPARTITION(files, partition column): a partition is one key, however many files it is to have."""
    whole = shape._replace(files=1)
    spreads = [_hashed(shape.total, whole, keys) for keys in _sets_of_keys(whole)]
    mean = _mean(spreads)
    return Spread(mean.tasks, shape.total, mean.by_keys, mean.files, mean.largest * shape.files)


def _by_range(shape: Shape) -> Spread:
    """REPARTITION_BY_RANGE(files, hash of the partition column, any order): bounds are quantiles of a sample."""
    random, tasks = Random(7), shape.total  # noqa: S311
    sample = sorted(random.random() for _ in range(min(_SAMPLED_OF_A_TASK * tasks, _MOST_SAMPLED)))
    inner = [sample[len(sample) * task // tasks] for task in range(1, tasks)]
    # Partitions lie behind each other, each of length one.
    bounds = [bound * shape.partitions for bound in (0.0, *inner, 1.0)]
    keys = [min(int(end), shape.partitions - 1) - int(start) + 1 for start, end in pairwise(bounds)]
    largest = max(end - start for start, end in pairwise(bounds)) * shape.files
    return Spread(tasks, shape.total, _by_keys(keys), sum(keys), largest)


def _exact(shape: Shape) -> Spread:
    """REPARTITION(files, an integer whose hash falls on the file's own task)."""
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
    """Days of several years, each with the numbers of its files."""
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
        # A column of a single value for each partition is a hash of that one alone.
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
