"""Add up the costs of statements in event logs, by run of a dbt node, and by table and keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from spark_bucketing.event_log.log_files import ReadCounts
from spark_bucketing.event_log.plan_costs import UNATTRIBUTED, Cost, Keys, MeasuredOperator
from spark_bucketing.event_log.statements import Statement, Work
from spark_bucketing.units import count

_Value = TypeVar("_Value", MeasuredOperator, Keys)
AD_HOC = ""
"""The node to which statements belong that dbt did not send."""
Invocation = tuple[str, str]
"""The id of the Spark application, and dbt's invocation id, or a number if dbt's id is unknown."""
Operators = dict[MeasuredOperator, dict[Keys, Cost]]
"""The costs of each operator, by table and keys."""


@dataclass
class Run:
    """One run of one dbt node, which consists of all statements of this run."""

    started: int  # milliseconds since 1970
    ended: int
    failed: bool = False
    writes: bool = True  # False for queries of a node without a build, such as `dbt show`
    work: Work = field(default_factory=Work)
    operators: Operators = field(default_factory=dict)
    gaps: int = 0  # gaps in the log before the first statement

    @property
    def counts(self) -> bool:
        """Return whether the run built the node successfully."""
        return self.writes and not self.failed

    @property
    def seconds(self) -> float:
        """Return the seconds between the start of the first statement and the end of the last statement."""
        return (self.ended - self.started) / 1000

    def add(self, statement: Statement) -> None:
        """Add a statement to the run."""
        self.started, self.ended = min(self.started, statement.started), max(self.ended, statement.ended)
        self.failed |= statement.failed or statement.gaps != self.gaps
        self.writes |= statement.write.writes
        self.work.add(statement.work)
        add_operators(self.operators, statement.operators)


@dataclass
class Measured:
    """Everything that the event logs contain about models and tables."""

    counts: ReadCounts = field(default_factory=ReadCounts)
    runs: dict[str, dict[Invocation, Run]] = field(default_factory=dict)  # by node
    ad_hoc_operators: Operators = field(default_factory=dict)  # of statements outside dbt
    bucketed: dict[str, set[str]] = field(default_factory=dict)  # by bucketed table: nodes that read it as bucketed
    # The tables that each node writes, and whether it creates them from a query or writes them into buckets.
    writes: dict[str, dict[str, bool]] = field(default_factory=dict)
    writers: dict[str, str] = field(default_factory=dict)  # by table: the node to which it belongs
    ad_hoc: int = 0  # number of statements outside dbt that shuffled or sorted
    target: str = ""  # the dbt target of the runs, if their query comments contain it

    def add(self, other: Measured) -> None:
        """Add the runs, operators and tables of other statements from the same logs."""
        for node, runs in other.runs.items():
            self.runs.setdefault(node, {}).update(runs)
        for table, nodes in other.bucketed.items():
            self.bucketed.setdefault(table, set()).update(nodes)
        for node, tables in other.writes.items():
            for table, is_built in tables.items():
                self.add_write(node, table, is_built)
        add_operators(self.ad_hoc_operators, other.ad_hoc_operators.items())
        self.ad_hoc += other.ad_hoc

    def add_write(self, node: str, table: str, is_built: bool) -> None:
        """Add a table that a node writes."""
        of_node = self.writes.setdefault(node, {})
        of_node[table] = of_node.get(table, False) or is_built

    def runs_of(self, node: str) -> list[Run]:
        """Return the successful runs of a node, oldest first."""
        found = [run for run in self.runs.get(node, {}).values() if run.counts]
        return sorted(found, key=lambda run: run.started)

    def nodes(self) -> list[str]:
        """Return the nodes that have successful runs."""
        return sorted(node for node in self.runs if self.runs_of(node))

    @property
    def number_of_runs(self) -> int:
        """Return the total number of runs, including failed runs."""
        return sum(run.writes for runs in self.runs.values() for run in runs.values())

    @property
    def summary(self) -> str:
        """Summarize which logs were read, and which data is missing in them."""
        of_target = f" in the target {self.target}" if self.target else ""
        read = f"{count(self.counts.files, 'file')}, {count(self.number_of_runs, 'run')} of models{of_target}"
        return " ".join([f"{read}, {self.ad_hoc:,} other statements that shuffle or sort.", *self.counts.warnings])

    @property
    def operators(self) -> dict[str, Operators]:
        """Return the operators of all successful runs, by node."""
        found = {AD_HOC: self.ad_hoc_operators}
        for node, runs in self.runs.items():
            for run in runs.values():
                if not run.failed:
                    add_operators(found.setdefault(node, {}), run.operators.items())
        return found

    def costs(self, node: str | None = None) -> dict[Keys, Cost]:
        """Return the costs by table and keys.

        With a node, the costs are those of its successful runs. Without a node, they are those of all statements
        outside failed runs.
        """
        found = _sums(self.operators.values() if node is None else (run.operators for run in self.runs_of(node)))
        found.pop(UNATTRIBUTED, None)
        return found

    @property
    def unattributed(self) -> Cost:
        """Return the costs of Exchanges and Sorts that count for no table and key."""
        return _sums(self.operators.values()).get(UNATTRIBUTED, Cost())


def _sums(of_nodes: Iterable[Operators]) -> dict[Keys, Cost]:
    found: dict[Keys, Cost] = {}
    for operators in of_nodes:
        for costs in operators.values():
            _add_keys(found, costs)
    return found


def add_operators(into: Operators, operators: Iterable[tuple[MeasuredOperator, dict[Keys, Cost]]]) -> None:
    """Add the costs of operators."""
    for operator, costs in operators:
        _add_keys(into.setdefault(_shared(operator), {}), costs)


def _add_keys(into: dict[Keys, Cost], costs: dict[Keys, Cost]) -> None:
    for keys, cost in costs.items():
        into.setdefault(_shared(keys), Cost()).add(cost)


@lru_cache(maxsize=100_000)
def _shared(value: _Value) -> _Value:
    """Return the first of several equal values, so that equal values of a node's runs use memory only once."""
    return value
