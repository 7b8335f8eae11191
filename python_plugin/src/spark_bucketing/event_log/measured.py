"""Read event logs, and add up the costs of their statements, by run of a dbt node, and by table and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.log_files import ReadCounts, find_logs, read_lines
from spark_bucketing.event_log.plan_costs import UNATTRIBUTED, Cost, Keys, Operators, add_keys, add_operators
from spark_bucketing.event_log.statements import ApplicationEnd, Statement, Work, statements, writers_of
from spark_bucketing.units import count

OnProgress = Callable[[str], None]
AD_HOC = ""
"""The node to which statements belong that dbt did not send."""
Invocation = tuple[str, str]
"""The id of the Spark application, and dbt's invocation id, or a number if dbt's id is unknown."""


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
        add_operators(self.ad_hoc_operators, other.ad_hoc_operators)
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
                    add_operators(found.setdefault(node, {}), run.operators)
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
            add_keys(found, costs)
    return found


def read_measured(
    paths: Sequence[str], on_progress: OnProgress = lambda _: None, target: str | None = None
) -> Measured:
    """Read all event logs below these paths.

    Of several logs of one application, the one with the most events counts.
    """
    counts = ReadCounts()
    logs = find_logs(paths)
    kept: dict[str, tuple[ApplicationEnd, dict[str, Measured]]] = {}
    for number, files in enumerate(logs, 1):
        on_progress(f"reading event log {number} of {len(logs)}")
        for end, of_targets in _applications(statements(read_lines(files, counts), counts)):
            other = kept.get(end.application)
            counts.copies += other is not None
            if other is None or end.events > other[0].events:
                kept[end.application] = end, of_targets
    if len(counts.without_events) == counts.files:
        raise EventLogError(
            f"No event log was found in {', '.join(f'`{path}`' for path in paths)}.",
            found=f"{count(counts.files, 'file')} without events",
            expected="event logs of Spark, such as the files in spark.eventLog.dir",
        )
    counts.applications, counts.unfinished = len(kept), sum(end.unfinished for end, _ in kept.values())
    return _of_target((of_targets for _, of_targets in kept.values()), counts, target)


def _of_target(applications: Iterable[dict[str, Measured]], counts: ReadCounts, target: str | None) -> Measured:
    """Return the runs of one target, and all statements without a target."""
    of_targets: dict[str, Measured] = {}
    for application in applications:
        for name, measured in application.items():
            of_targets.setdefault(name, Measured()).add(measured)
    names = sorted(filter(None, of_targets))
    if len(names) > 1 and target not in names:
        raise EventLogError(
            "The event logs contain runs of several dbt targets, whose costs may differ.",
            found=", ".join(names),
            expected=f"runs of one target{f', or of {target}' if target else ''}",
            instead=f"choose one of them with --target, such as --target {names[0]}",
        )
    found = Measured(counts, target=target if target in names else "".join(names))
    for name in ("", found.target) if found.target else ("",):
        found.add(of_targets.get(name, Measured()))
    found.writers = writers_of(found.writes)
    return found


@dataclass
class _Application:
    """The statements of one Spark application, by dbt target."""

    of_targets: dict[str, Measured] = field(default_factory=dict)
    gaps: int = 0
    last: Run | None = None
    open: dict[int, Run] = field(default_factory=dict)  # runs that may have more statements

    def add(self, statement: Statement) -> None:
        write = statement.write
        node = statement.node or (f"table.{write.table}" if write.table else AD_HOC)
        found = self.of_targets.setdefault(statement.target if statement.node else "", Measured())
        if write.table:
            found.add_write(node, write.table, write.creates or write.has_buckets)
            if write.has_buckets:
                found.bucketed.setdefault(write.table, set())
        for table in statement.bucketed:
            found.bucketed.setdefault(table, set()).add(node)
        if node:
            self._add_to_run(found.runs.setdefault(node, {}), statement)
            return
        if statement.by_dbt:
            self._close_runs(statement)
        add_operators(found.ad_hoc_operators, statement.operators)
        found.ad_hoc += bool(statement.operators)

    def _add_to_run(self, runs: dict[tuple[str, str], Run], statement: Statement) -> None:
        """Add a statement to its run.

        A gap in the log may hide statements of the runs before and after it, so these runs do not count.
        """
        invocation = statement.application, statement.invocation
        if invocation not in runs:
            self._close_runs(statement)
            runs[invocation] = Run(
                statement.started, statement.ended, writes=statement.write.writes, gaps=statement.gaps
            )
        run = runs[invocation]
        run.add(statement)
        self.open[id(run)] = run
        if statement.gaps > self.gaps:
            self.gaps, run.failed = statement.gaps, True
            if self.last:
                self.last.failed = True
        self.last = run

    def _close_runs(self, statement: Statement) -> None:
        """Mark runs as complete that ended before a statement of another run, because a dbt thread runs one by one."""
        self.open = {key: run for key, run in self.open.items() if run.ended > statement.started}


def _applications(
    items: Iterable[Statement | ApplicationEnd],
) -> Iterator[tuple[ApplicationEnd, dict[str, Measured]]]:
    """Yield the end of each application of a log that has events, and its statements by dbt target."""
    application = _Application()
    for item in items:
        if isinstance(item, Statement):
            application.add(item)
            continue
        # Further statements of these runs may be missing.
        for run in () if item.is_complete else application.open.values():
            run.failed = True
        if item.events:
            yield item, application.of_targets
        application = _Application()
