"""Add up the costs of statements in event logs, by run of a dbt node, and by table and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.files import ReadCounts, find_logs, read_lines
from spark_bucketing.event_log.plan_costs import Cost, Keys, MeasuredOperator
from spark_bucketing.event_log.statements import Statement, Work, statements
from spark_bucketing.units import count

_Value = TypeVar("_Value", MeasuredOperator, Keys)
OnProgress = Callable[[str], None]
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
        self.writes |= statement.writes
        self.work.add(statement.work)
        _add_operators(self.operators, statement.operators)


@dataclass
class Measured:
    """Everything that the event logs contain about models and tables."""

    counts: ReadCounts = field(default_factory=ReadCounts)
    runs: dict[str, dict[Invocation, Run]] = field(default_factory=dict)  # by node
    ad_hoc_operators: Operators = field(default_factory=dict)  # of statements outside dbt
    bucketed: dict[str, set[str]] = field(default_factory=dict)  # by bucketed table: nodes that read it as bucketed
    writers: dict[str, str] = field(default_factory=dict)  # the node that writes each table
    ad_hoc: int = 0  # number of statements outside dbt that shuffled or sorted
    target: str = ""  # the dbt target of the runs, if their query comments contain it

    def add(self, other: Measured) -> None:
        """Add the runs, operators and tables of other statements from the same logs."""
        for node, runs in other.runs.items():
            self.runs.setdefault(node, {}).update(runs)
        for table, nodes in other.bucketed.items():
            self.bucketed.setdefault(table, set()).update(nodes)
        _add_operators(self.ad_hoc_operators, other.ad_hoc_operators.items())
        self.writers |= other.writers
        self.ad_hoc += other.ad_hoc

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
                    _add_operators(found.setdefault(node, {}), run.operators.items())
        return found

    def costs(self, node: str | None = None) -> dict[Keys, Cost]:
        """Return the costs by table and keys.

        The costs are those of a node's successful runs or, without a node, those of all statements outside failed runs.
        """
        if node is None:
            every = list(self.operators.values())
        elif node == AD_HOC:
            every = [self.ad_hoc_operators]
        else:
            every = [run.operators for run in self.runs_of(node)]
        found: dict[Keys, Cost] = {}
        for operators in every:
            for costs in operators.values():
                _add_keys(found, costs)
        return found


def _add_operators(into: Operators, operators: Iterable[tuple[MeasuredOperator, dict[Keys, Cost]]]) -> None:
    for operator, costs in operators:
        _add_keys(into.setdefault(_shared(operator), {}), costs)


def _add_keys(into: dict[Keys, Cost], costs: dict[Keys, Cost]) -> None:
    for keys, cost in costs.items():
        into.setdefault(_shared(keys), Cost()).add(cost)


@lru_cache(maxsize=100_000)
def _shared(value: _Value) -> _Value:
    """Return the first of several equal values, so that equal values of a node's runs use memory only once."""
    return value


def read_measured(
    paths: Sequence[str], on_progress: OnProgress = lambda _: None, target: str | None = None
) -> Measured:
    """Read all event logs below these paths.

    Args:
        paths: event logs, or directories of event logs.
        on_progress: called with a progress bar.
        target: the dbt target whose runs count, if the logs contain runs of several targets.

    Raises:
        EventLogError: a path does not exist, contains no event log, its codec is not supported, or the logs contain
            runs of several other targets.
    """
    counts = ReadCounts()
    of_targets: dict[str, Measured] = {}
    logs = find_logs(paths)
    total = sum(file.size_bytes for files in logs for file in files)

    def show(of_file: int, size: int) -> None:
        # A file counts as read as soon as reading starts.
        done = counts.size_bytes - size + of_file
        on_progress(f"reading event logs {_bar(done / max(total, 1))}")

    for files in logs:
        _add(of_targets, statements(read_lines(files, counts, show), counts))
    return _of_target(of_targets, counts, target)


def _of_target(of_targets: Mapping[str, Measured], counts: ReadCounts, target: str | None) -> Measured:
    """Return the runs of one target, and all statements without a target."""
    names = sorted(filter(None, of_targets))
    if len(names) > 1 and target not in names:
        raise EventLogError(
            "The event logs contain runs of several dbt targets, whose costs may differ.\n"
            f"  found:    {', '.join(names)}\n"
            f"  expected: runs of one target{f', or of {target}' if target else ''}\n"
            f"  instead:  choose one of them with --target, such as --target {names[0]}"
        )
    found = Measured(counts, target=target if target in names else "".join(names))
    for name in ("", found.target) if found.target else ("",):
        found.add(of_targets.get(name, Measured()))
    return found


def _bar(share: float, width: int = 30) -> str:
    filled = round(min(share, 1) * width)
    return f"{'━' * filled}{'╌' * (width - filled)} {min(share, 1):4.0%}"


def _add(of_targets: dict[str, Measured], ended: Iterable[Statement]) -> None:
    """Add the statements of one Spark application, by dbt target.

    A query comment may lack dbt's invocation id. Without this id, the boundary between two dbt invocations is where
    statements without a node, such as the listing of schemas, follow statements with a node.

    A gap in the log may contain statements of the runs before and after it, so these runs fail.
    """
    number, in_nodes, gaps = 0, False, 0
    last: Run | None = None
    for statement in ended:
        if statement.by_dbt and not statement.node:
            number, in_nodes = number + in_nodes, False
        in_nodes |= bool(statement.node)
        node = statement.node or (statement.written and f"table.{statement.written}")
        found = of_targets.setdefault(statement.target if statement.node else "", Measured())
        _add_tables(found, node if node else AD_HOC, statement)
        if node:
            invocation = statement.application, statement.invocation or str(number)
            run = Run(statement.started, statement.ended, writes=statement.writes, gaps=statement.gaps)
            run = found.runs.setdefault(node, {}).setdefault(invocation, run)
            run.add(statement)
            if statement.gaps > gaps:
                gaps, run.failed = statement.gaps, True
                if last:
                    last.failed = True
            last = run
        else:
            _add_operators(found.ad_hoc_operators, statement.operators)
            found.ad_hoc += bool(statement.operators)


def _add_tables(found: Measured, node: str, statement: Statement) -> None:
    if statement.written and node:
        # A model's name is better than a table's, which runs without a query comment have.
        if found.writers.get(statement.written, "table.").startswith("table."):
            found.writers[statement.written] = node
        if statement.writes_buckets:
            found.bucketed.setdefault(statement.written, set())
    for table in statement.bucketed:
        found.bucketed.setdefault(table, set()).add(node)
