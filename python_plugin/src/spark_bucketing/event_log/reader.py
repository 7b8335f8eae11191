"""Read event logs, and add up their statements by run of a dbt node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.attribution import writers_of
from spark_bucketing.event_log.log_files import ReadCounts, find_logs, read_lines
from spark_bucketing.event_log.measured import AD_HOC, Measured, Run, add_operators
from spark_bucketing.event_log.statements import ApplicationEnd, Statement, statements
from spark_bucketing.units import count

OnProgress = Callable[[str], None]


def read_measured(
    paths: Sequence[str], on_progress: OnProgress = lambda _: None, target: str | None = None
) -> Measured:
    """Read all event logs below these paths.

    Of several logs of one application, the one with the most events counts.

    Args:
        paths: event logs, or directories of event logs.
        on_progress: called with a progress bar.
        target: the dbt target whose runs count, if the logs contain runs of several targets.

    Raises:
        EventLogError: a path does not exist, the files contain no event, their codec is not supported, or the logs
            contain runs of several other targets.
    """
    counts = ReadCounts()
    logs = find_logs(paths)
    total = sum(file.size_bytes for files in logs for file in files)

    def show(of_file: int, size: int) -> None:
        # A file counts as read as soon as reading starts.
        done = counts.size_bytes - size + of_file
        on_progress(f"reading event logs {_bar(done / max(total, 1))}")

    kept: dict[str, tuple[ApplicationEnd, dict[str, Measured]]] = {}
    for files in logs:
        for end, of_targets in _applications(statements(read_lines(files, counts, show), counts)):
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


def _bar(share: float, width: int = 30) -> str:
    filled = round(min(share, 1) * width)
    return f"{'━' * filled}{'╌' * (width - filled)} {min(share, 1):4.0%}"


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
