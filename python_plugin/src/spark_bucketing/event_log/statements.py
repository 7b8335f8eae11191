"""Reduce the events of one Spark application to its SQL statements and what they cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from spark_bucketing.event_log.files import GAP, ReadCounts
from spark_bucketing.event_log.plan_costs import (
    Accumulators,
    Cost,
    Keys,
    MeasuredOperator,
    bucketed_tables,
    operator_costs,
    plan_nodes,
)
from spark_bucketing.event_log.query_comment import comment_fields, comment_of_line, query_comment
from spark_bucketing.event_log.unions import add_results

# The relevant events, by the start of their lines. Most lines contain other events, such as SparkListenerTaskEnd.
_EVENT = re.compile(
    rb'\{"Event":"(?:org\.apache\.spark\.sql\.execution\.ui\.)?SparkListener'
    rb"(ApplicationStart|SQLExecutionStart|SQLExecutionEnd|SQLAdaptiveExecutionUpdate|JobStart|StageCompleted)\""
)
_EXECUTION = re.compile(rb'"executionId":(\d+)')
_NAMED = re.compile(rb'"(?:executionId|rootExecutionId|spark\.sql\.execution\.id)":"?(\d+)\b')
_STAGE = re.compile(rb'"Stage ID":(\d+)\b')
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
# (6) Execute InsertIntoHadoopFsRelationCommand, and its lines Input and Arguments
_WRITE = re.compile(
    r"^\(\d+\) (?:Execute )?\w*(?:Insert|AsSelect)\w*\n(?:(?:In|Out)put[^\n]*\n)*Arguments: ([^\n]*)", re.M
)
# The plan nodes that write tables, also in the formats of other catalogs.
_WRITERS = re.compile(r"Insert|AsSelect|AppendData|Overwrite|ReplaceData|WriteDelta|MergeInto")
# The first table of these arguments: `spark_catalog`.`db`.`table`, or [Database: db, TableName: table]
_TARGET = re.compile(r"(?:`[^`]+`\.)?`([^`]+)`\.`([^`]+)`|\[Database: ([^,\]]+), TableName: ([^\]]+)\]")
_INTERMEDIATE = re.compile(r"__dbt_(backup|staged|build|merged|tmp|input|plan|trash)$")
_BUCKETED_WRITE = " buckets, bucket columns: ["
_RUN_TIME, _SHUFFLED, _SPILLED, _OUTPUT = (
    f"internal.metrics.{name}"
    for name in ("executorRunTime", "shuffle.write.bytesWritten", "memoryBytesSpilled", "output.bytesWritten")
)


@dataclass
class Work(Cost):
    """The total cost of all tasks of a statement."""

    write_ms: int = 0  # run time of the tasks in stages that write files


@dataclass
class Statement:
    """A finished SQL statement, including other executions that it started."""

    application: str
    started: int  # milliseconds since 1970
    ended: int = 0
    node: str = ""  # dbt's unique id, from the query comment
    invocation: str = ""  # dbt's invocation id, if the query comment contains it
    target: str = ""  # dbt's target, if the query comment contains it
    by_dbt: bool = False
    writes: bool = False  # whether it writes a table, even if the table is unknown
    written: str = ""  # the table that it writes
    failed: bool = False
    work: Work = field(default_factory=Work)
    operators: list[tuple[MeasuredOperator, dict[Keys, Cost]]] = field(default_factory=list)
    bucketed: set[str] = field(default_factory=set)  # tables that it reads as bucketed
    writes_buckets: bool = False
    gaps: int = 0  # gaps in the log before the end of the statement


@dataclass
class _Execution:
    root: int
    statement: Statement
    start: Any  # the event with the first plan
    update: bytes = b""  # the last line that changes the plan
    values: dict[int, int] = field(default_factory=dict)  # accumulators
    run_ms: dict[int, int] = field(default_factory=dict)  # task time of the stages that update them


@dataclass
class _Application:
    counts: ReadCounts
    id: str
    is_copy: bool = False  # whether another log has the same application
    executions: dict[int, _Execution] = field(default_factory=dict)
    stages: dict[int, int] = field(default_factory=dict)  # execution of each stage that has not completed
    lost: set[int] = field(default_factory=set)  # executions whose start may be a broken line
    gaps: int = 0

    def fold(self, event: str, line: bytes) -> Statement | None:
        """Apply an event, and return the statement that ended with it, if any."""
        if event == "SQLAdaptiveExecutionUpdate":
            # Only the last plan counts, so the code parses it at the end.
            number = _EXECUTION.search(line)
            if number is None:
                raise ValueError
            if int(number[1]) in self.executions:
                self.executions[int(number[1])].update = line
            return None
        data = json.loads(line)
        if event == "SQLExecutionEnd":
            return self._end(data)
        if event == "SQLExecutionStart":
            self._start(data)
        elif event == "JobStart":
            self._job(data)
        elif event == "StageCompleted":
            self._stage(data["Stage Info"])
        else:
            self._application(data)
        return None

    def _application(self, data: Any) -> None:
        # An application can have several attempts. Only copies of its log have the same start.
        parts = (data.get("App ID") or data.get("App Name"), data.get("App Attempt ID"), data.get("Timestamp"))
        found = " ".join(str(part) for part in parts if part is not None)
        self.is_copy = found != self.id and found in self.counts.applications
        self.id = found
        self.counts.applications.add(found)

    def broken(self, line: bytes) -> Statement | None:
        """Count a broken line, and mark the statements to which it belongs as failed.

        Returns: a failed statement if the line is the start of a statement.
        """
        self.counts.broken_lines += 1
        named = {int(number) for number in _NAMED.findall(line)}
        named |= {self.stages.get(int(number), -1) for number in _STAGE.findall(line)}
        of = named & self.executions.keys()
        self.lost |= named - of
        found = comment_fields(comment_of_line(line))
        if found["node"] and not of:
            return Statement(self.id, 0, **found, failed=True)
        # It may belong to each running statement.
        for number in of or self.executions:
            self._fail(self.executions[number])
        return None

    def gap(self) -> None:
        """Mark all running statements as failed, because some of their events are missing."""
        self.gaps += 1
        for execution in self.executions.values():
            self._fail(execution)

    def _fail(self, execution: _Execution) -> None:
        execution.statement.failed = True
        if execution.root in self.executions:
            self.executions[execution.root].statement.failed = True

    def _start(self, data: Any) -> None:
        comment = query_comment(str(data.get("description") or ""))
        write = _WRITE.search(str(data.get("physicalPlanDescription") or ""))
        arguments = write[1] if write else ""
        writes = any(_WRITERS.search(one["nodeName"]) for one in plan_nodes(data["sparkPlanInfo"]))
        statement = Statement(
            self.id,
            int(data["time"]),
            **comment_fields(comment),
            by_dbt=bool(comment),
            writes=writes or write is not None,
            written=_written(arguments),
            writes_buckets=_BUCKETED_WRITE in arguments,
        )
        number = int(data["executionId"])
        root = data.get("rootExecutionId")
        execution = _Execution(number if root is None else int(root), statement, data)
        self.executions[number] = execution
        statement.failed = execution.root in self.lost

    def _job(self, data: Any) -> None:
        execution = (data.get("Properties") or {}).get("spark.sql.execution.id")
        if execution is not None:
            for stage in data["Stage IDs"]:
                # A later job also lists the stages whose shuffle files it reuses.
                self.stages.setdefault(int(stage), int(execution))

    def _stage(self, data: Any) -> None:
        execution = self.executions.get(self.stages.get(int(data["Stage ID"]), -1))
        if execution is None:
            return
        values = data["Accumulables"]
        named = {one["Name"]: _number(one.get("Value")) for one in values if "Name" in one}
        shuffled, spilled, time = (named.get(name, 0) for name in (_SHUFFLED, _SPILLED, _RUN_TIME))
        execution.statement.work.add(Work(shuffled, spilled, time, time if named.get(_OUTPUT) else 0))
        # The value of a plan's metric includes earlier stages.
        metrics = {int(one["ID"]): _number(one.get("Value")) for one in values if one.get("Metadata") == "sql"}
        execution.values |= metrics
        execution.run_ms |= {number: execution.run_ms.get(number, 0) + time for number in metrics}

    def _end(self, data: Any) -> Statement | None:
        number, ended = int(data["executionId"]), int(data["time"])
        execution = self.executions.pop(number, None)
        if execution is None:
            return None
        statement = execution.statement
        statement.ended, statement.gaps = ended, self.gaps
        statement.failed |= bool(data.get("errorMessage"))
        try:
            last = json.loads(execution.update) if execution.update else execution.start
            plan = last["sparkPlanInfo"]
            add_results(plan, str(last.get("physicalPlanDescription") or ""))
            statement.operators += operator_costs(plan, Accumulators(execution.values, execution.run_ms))
            statement.bucketed |= bucketed_tables(plan)
        except _BROKEN:
            self.counts.broken_lines += 1
            self._fail(execution)
        self.stages = {stage: one for stage, one in self.stages.items() if one != number}
        parent = self.executions.get(execution.root) if execution.root != number else None
        if parent is None:
            return statement
        _merge(parent.statement, statement)
        return None


def _merge(into: Statement, part: Statement) -> None:
    into.work.add(part.work)
    into.writes |= part.writes
    into.written = into.written or part.written
    into.operators += part.operators
    into.bucketed |= part.bucketed
    into.writes_buckets |= part.writes_buckets


def _written(arguments: str) -> str:
    """Return the table that a command writes."""
    matched = _TARGET.search(arguments)
    name = ".".join(part for part in matched.groups() if part) if matched else ""
    return _INTERMEDIATE.sub("", name.lower())


def _number(value: object) -> int:
    try:
        return max(int(str(value)), 0)
    except ValueError:
        return 0


def statements(lines: Iterable[bytes], counts: ReadCounts) -> Iterator[Statement]:
    """Yield the statements of one application when they end.

    Statements that never end are yielded as failed.

    The function counts broken lines. The function skips the log of an application for which another log has already
    been read.
    """
    # If the start of the application is missing, the number of the log distinguishes its runs from those of other logs.
    application = _Application(counts, f"log {counts.files}")
    for line in lines:
        if line == GAP:
            application.gap()
            continue
        matched = _EVENT.match(line)
        try:
            if matched:
                ended = application.fold(matched[1].decode(), line)
            elif line.startswith(b'{"Event":') and line.endswith((b"}\n", b"}\r\n")):
                continue
            else:
                ended = application.broken(line)
        except _BROKEN:
            ended = application.broken(line)
        if application.is_copy:
            counts.copies += 1
            return
        if ended:
            yield ended
    counts.unfinished += len(application.executions)
    # Their runs are incomplete.
    for execution in application.executions.values():
        yield replace(execution.statement, ended=execution.statement.started, failed=True)
