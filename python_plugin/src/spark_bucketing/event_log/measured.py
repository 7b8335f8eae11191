"""Sum the costs of statements in event logs, by run of a dbt node and by table and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from spark_bucketing.event_log.files import ReadCounts, find_logs, read_lines
from spark_bucketing.event_log.plan_costs import Cost, Keys, MeasuredOperator
from spark_bucketing.event_log.statements import Statement, Work, statements
from spark_bucketing.units import count

OnProgress = Callable[[str], None]
AD_HOC = ""
"""The node of statements that dbt did not send."""
Invocation = tuple[str, str]
"""The Spark application, and dbt's id of the invocation or a number."""


@dataclass
class Run:
    """One run of one node: all its statements."""

    started: int  # milliseconds since 1970
    ended: int
    failed: bool = False
    work: Work = field(default_factory=Work)

    @property
    def seconds(self) -> float:
        """Return the seconds from the start of the first statement to the end of the last statement."""
        return (self.ended - self.started) / 1000

    def add(self, statement: Statement) -> None:
        """Add a statement."""
        self.started, self.ended = min(self.started, statement.started), max(self.ended, statement.ended)
        self.failed |= statement.failed
        self.work.add(statement.work)


@dataclass
class Measured:
    """All information in event logs about models and tables."""

    counts: ReadCounts = field(default_factory=ReadCounts)
    runs: dict[str, dict[Invocation, Run]] = field(default_factory=dict)  # by node
    operators: dict[tuple[str, MeasuredOperator], dict[Keys, Cost]] = field(default_factory=dict)  # by node
    bucketed: dict[str, set[str]] = field(default_factory=dict)  # by bucketed table: nodes that read it as bucketed
    writers: dict[str, str] = field(default_factory=dict)  # the node that writes each table
    ad_hoc: int = 0  # number of statements outside dbt that shuffled or sorted

    def runs_of(self, node: str) -> list[Run]:
        """Return the successful runs of a node, with the oldest first."""
        found = [run for run in self.runs.get(node, {}).values() if not run.failed]
        return sorted(found, key=lambda run: run.started)

    def nodes(self) -> list[str]:
        """Return the nodes with successful runs."""
        return sorted(node for node in self.runs if self.runs_of(node))

    @property
    def number_of_runs(self) -> int:
        """Return the number of all runs, including failed runs."""
        return sum(map(len, self.runs.values()))

    @property
    def summary(self) -> str:
        """Summarize the logs that were read, and the data that they lack."""
        read = f"{count(self.counts.files, 'file')}, {count(self.number_of_runs, 'run')} of models"
        return " ".join([f"{read}, {self.ad_hoc:,} other statements that shuffle or sort.", *self.counts.warnings])

    def costs(self, node: str | None = None) -> dict[Keys, Cost]:
        """Return the costs by table and keys, for one node or for all statements."""
        found: dict[Keys, Cost] = {}
        for (name, _), costs in self.operators.items():
            if node is None or name == node:
                for keys, cost in costs.items():
                    found.setdefault(keys, Cost()).add(cost)
        return found


def read_measured(paths: Sequence[str], on_progress: OnProgress = lambda _: None) -> Measured:
    """Read all event logs below these paths.

    Raises:
        EventLogError: a path does not exist, contains no event log, or its codec is not supported.
    """
    found = Measured()
    logs = find_logs(paths)
    total = sum(file.size_bytes for files in logs for file in files)

    def show(of_file: int, size: int) -> None:
        # A file counts as read as soon as reading starts.
        done = found.counts.size_bytes - size + of_file
        on_progress(f"reading event logs {_bar(done / max(total, 1))}")

    for files in logs:
        _add(found, statements(read_lines(files, found.counts, show), found.counts))
    return found


def _bar(share: float, width: int = 30) -> str:
    filled = round(min(share, 1) * width)
    return f"{'━' * filled}{'╌' * (width - filled)} {min(share, 1):4.0%}"


def _add(found: Measured, ended: Iterable[Statement]) -> None:
    """Add the statements of one application.

    If the query comment has no invocation id, a new invocation starts with a dbt statement without a node, such as the
    listing of schemas, if statements with a node precede it.
    """
    number, in_nodes = 0, False
    for statement in ended:
        if statement.by_dbt and not statement.node:
            number, in_nodes = number + in_nodes, False
        in_nodes |= bool(statement.node)
        node = statement.node or (statement.written and f"table.{statement.written}")
        _add_costs(found, node if node else AD_HOC, statement)
        if node:
            invocation = statement.application, statement.invocation or str(number)
            run = Run(statement.started, statement.ended)
            found.runs.setdefault(node, {}).setdefault(invocation, run).add(statement)


def _add_costs(found: Measured, node: str, statement: Statement) -> None:
    if statement.written and node:
        # A model's name is better than a table's, which runs without a query comment have.
        if found.writers.get(statement.written, "table.").startswith("table."):
            found.writers[statement.written] = node
        if statement.writes_buckets:
            found.bucketed.setdefault(statement.written, set())
    for table in statement.bucketed:
        found.bucketed.setdefault(table, set()).add(node)
    found.ad_hoc += bool(statement.operators and node == AD_HOC)
    for operator, costs in statement.operators:
        known = found.operators.setdefault((node, operator), {})
        for keys, cost in costs.items():
            known.setdefault(keys, Cost()).add(cost)
