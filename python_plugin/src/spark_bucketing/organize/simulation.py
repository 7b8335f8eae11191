"""Simulate how each file strategy distributes the rows of equal partitions over tasks, using hashes computed by Spark.

Every partition gets the same number of files, and all files have the same size. A *key* is a pair of a partition and a
file number. Ideally, each task writes the rows of one key. A task with the rows of several keys takes longer, and a
task without any key is idle. "On Spark, Hive, and Small Files" (Airbnb, 2018) defines the three rates, and all
strategies except `exact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

# Rates are means over this number of key sets, because a single set may be an outlier.
_SETS = 20
# spark.sql.execution.rangeExchange.sampleSizePerPartition, and the limit of RangePartitioner.
_SAMPLED_OF_A_TASK, _MOST_SAMPLED = 100, 1_000_000
# The chart combines tasks with this many keys or more.
CROWDED = 4
# The keys are days over several years, each with its file numbers.
_LOADS = """
select tasks, {numbers}, avg(files) as files, avg(largest) as largest
from (
  select tasks, key_set, {counts}, sum(files) as files, max(keys) as largest
  from (
    select tasks, key_set, pmod(hash({hashed}), tasks) as task, count(*) as keys, count(distinct day) as files
    from (
      select id div {partitions} as key_set, cast(date_add(date'2000-01-01', cast(id as int)) as string) as day
      from range({partitions} * {sets})
    )
    cross join (select id as number from range({files}))
    cross join (select explode(array({tasks})) as tasks)
    group by tasks, key_set, task
  )
  group by tasks, key_set
)
group by tasks
"""

Rows = Callable[[str], Sequence[Mapping[str, Any]]]
"""Runs a query on Spark, and returns its rows as mappings by column name."""


class Shape(NamedTuple):
    """The number of partitions and files in the table to write."""

    partitions: int
    files: int  # number of files per partition
    scale: float = 1.0  # tasks per file with by_column_salted

    @property
    def total(self) -> int:
        """Return the total number of files of the table."""
        return self.partitions * self.files


@dataclass(frozen=True)
class Spread:
    """How many keys, files and rows the tasks have.

    The values are means over several sets of keys.
    """

    tasks: int
    wanted: int  # number of planned files
    by_keys: tuple[float, ...]  # number of tasks by number of keys; the last counts CROWDED or more
    files: float  # number of written files
    largest: float  # rows of the largest task divided by rows of a planned file

    @property
    def busy(self) -> float:
        """Return the number of tasks that have rows."""
        return self.tasks - self.by_keys[0]

    @property
    def efficiency(self) -> float:
        """Return the number of tasks that have rows, divided by the number of planned files."""
        return self.busy / self.wanted

    @property
    def collisions(self) -> float:
        """Return the fraction of the tasks with rows that have two or more keys."""
        return sum(self.by_keys[2:]) / self.busy

    @property
    def serious_collisions(self) -> float:
        """Return the fraction of the tasks with rows that have three or more keys."""
        return sum(self.by_keys[3:]) / self.busy


def simulate(shape: Shape, rows: Rows) -> Mapping[str, Spread]:
    """Simulate all strategies, and return the results by the strategies' names."""
    return {
        "coalesce": _scattered(shape),
        "repartition": _scattered(shape),
        "by_column": _by_column(shape, rows),
        "by_column_salted": by_column_salted(shape, [shape.scale], rows)[shape.scale],
        "by_range": _by_range(shape),
        "exact": _exact(shape, rows),
    }


def by_column_salted(shape: Shape, scales: Sequence[float], rows: Rows) -> Mapping[float, Spread]:
    """Simulate REPARTITION(scale x files, partition column, file number) at several scales."""
    tasks = {scale: max(round(shape.total * scale), 1) for scale in scales}
    spreads = _hashed(shape, sorted(set(tasks.values())), rows)
    return {scale: spreads[tasks[scale]] for scale in scales}


def _scattered(shape: Shape) -> Spread:
    """Simulate tasks that each have some rows of every partition."""
    by_keys = [0.0] * (CROWDED + 1)
    by_keys[min(shape.partitions, CROWDED)] = shape.total
    return Spread(shape.total, shape.total, tuple(by_keys), shape.total * shape.partitions, 1.0)


def _by_column(shape: Shape, rows: Rows) -> Spread:
    """Simulate REPARTITION(files, partition column), which makes each partition a single key."""
    mean = _hashed(shape._replace(files=1), [shape.total], rows)[shape.total]
    return Spread(mean.tasks, shape.total, mean.by_keys, mean.files, mean.largest * shape.files)


def _by_range(shape: Shape) -> Spread:
    """Simulate REPARTITION_BY_RANGE(files, hash of the partition column, row number).

    Spark takes the range boundaries from the quantiles of a sample.
    """
    random, tasks = Random(7), shape.total  # noqa: S311
    sample = sorted(random.random() for _ in range(min(_SAMPLED_OF_A_TASK * tasks, _MOST_SAMPLED)))
    inner = [sample[len(sample) * task // tasks] for task in range(1, tasks)]
    # Each partition has length one on a common axis.
    bounds = [bound * shape.partitions for bound in (0.0, *inner, 1.0)]
    keys = [min(int(end), shape.partitions - 1) - int(start) + 1 for start, end in pairwise(bounds)]
    numbers = Counter(min(number, CROWDED) for number in keys)
    largest = max(end - start for start, end in pairwise(bounds)) * shape.files
    return Spread(tasks, shape.total, tuple(float(numbers[n]) for n in range(CROWDED + 1)), sum(keys), largest)


def _exact(shape: Shape, rows: Rows) -> Spread:
    """Simulate REPARTITION(files, key).

    Each task has one integer key, as with the macro shuffle_keys.
    """
    tasks = shape.total
    hashed = f"pmod(hash(cast(id as int)), {tasks})"
    found = int(rows(f"select count(distinct {hashed}) as tasks from range({40 * tasks})")[0]["tasks"])  # noqa: S608
    return Spread(tasks, tasks, (tasks - found, found, *[0.0] * (CROWDED - 1)), found, 1.0)


def _hashed(shape: Shape, tasks: Sequence[int], rows: Rows) -> Mapping[int, Spread]:
    """For each number of tasks, return how the keys are distributed over the tasks."""
    crowd = [f"count_if(keys {'>=' if number == CROWDED else '='} {number})" for number in range(1, CROWDED + 1)]
    query = _LOADS.format(
        numbers=", ".join(f"avg(n{number}) as n{number}" for number in range(CROWDED + 1)),
        counts=", ".join(f"{text} as n{number}" for number, text in enumerate(["tasks - count(*)", *crowd])),
        # With one file per partition, Spark hashes only the partition column.
        hashed="day, number" if shape.files > 1 else "day",
        partitions=shape.partitions,
        sets=_SETS,
        files=shape.files,
        tasks=", ".join(map(str, tasks)),
    )
    return {
        row["tasks"]: Spread(
            row["tasks"],
            shape.total,
            tuple(row[f"n{number}"] for number in range(CROWDED + 1)),
            row["files"],
            row["largest"],
        )
        for row in rows(query)
    }
