"""Reduce the events of one Spark application to its SQL statements, what they cost, and their dbt nodes.

A statement belongs to a node because of dbt's query comment, or because of the table that it writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_bucketing.errors import PlanError
from spark_bucketing.event_log.log_files import EVENT, GAP, ReadCounts
from spark_bucketing.event_log.plan_costs import (
    Accumulators,
    Cost,
    Operators,
    add_operators,
    bucketed_tables,
    plan_costs,
)
from spark_bucketing.plan.document import read_plan

# The keys of the comment, by the field of a statement.
_KEYS = {"node": "node_id", "invocation": "invocation_id", "target": "target_name"}
# (6) Execute InsertIntoHadoopFsRelationCommand, and its lines Input and Arguments
_WRITE = re.compile(
    r"^\(\d+\) (?:Execute )?(\w*(?:Insert|AsSelect)\w*)\n(?:(?:In|Out)put[^\n]*\n)*Arguments: ([^\n]*)", re.M
)
# A plan node that writes a table, also in the formats of other catalogs.
_WRITER = re.compile(rb'"nodeName":"[^"]*(?:Insert|AsSelect|AppendData|Overwrite|ReplaceData|WriteDelta|MergeInto)')
# The first table of these arguments: `spark_catalog`.`db`.`table`, or [Database: db, TableName: table]
_TARGET = re.compile(r"(?:`[^`]+`\.)?`([^`]+)`\.`([^`]+)`|\[Database: ([^,\]]+), TableName: ([^\]]+)\]")
_INTERMEDIATE = re.compile(r"__dbt_(backup|tmp|input|trash)$")
_BUCKETED_WRITE = " buckets, bucket columns: ["
# Nodes that build no table.
NO_MODELS = ("test.", "unit_test.", "operation.")


@dataclass(frozen=True)
class Write:
    """Describe the write of a statement."""

    writes: bool = False  # whether it writes a table, even if the table is unknown
    table: str = ""
    creates: bool = False  # whether it creates the table from a query
    has_buckets: bool = False

    def joined(self, other: Write) -> Write:
        """Return the write of a statement that consists of two parts; the first table that they write counts."""
        first = self if self.table else other
        return Write(self.writes or other.writes, first.table, first.creates, self.has_buckets or other.has_buckets)


def write_of(line: bytes, start: Mapping[str, Any]) -> Write:
    """Return what a statement writes, from the event of its start."""
    matched = _WRITE.search(str(start.get("physicalPlanDescription") or ""))
    if matched is None:
        return Write(_WRITER.search(line) is not None)
    command, arguments = matched.groups()
    return Write(True, _written(arguments), "AsSelect" in command, _BUCKETED_WRITE in arguments)


def _written(arguments: str) -> str:
    matched = _TARGET.search(arguments)
    name = ".".join(part for part in matched.groups() if part) if matched else ""
    return _INTERMEDIATE.sub("", name.lower())


def writers_of(writes: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """Return for each table the node to which it belongs.

    Hooks of a model also write other tables, with the model's query comment. The model's own table has the model's
    name. A model with an alias owns the only table that its runs create from a query or write into buckets.

    Args:
        writes: for each node, the tables that it writes, and whether it creates them or writes them into buckets.
    """
    found: dict[str, str] = {}
    # The names of models come before `table.`.
    for node, tables in sorted(writes.items()):
        if node.startswith(NO_MODELS):
            continue
        # model.package.name, or model.package.name.v2
        own = node.split(".", 2)[-1].lower().replace(".", "_")
        named = [table for table in tables if node == f"table.{table}" or table.rpartition(".")[2] == own]
        built = [table for table, is_built in tables.items() if is_built]
        for table in named or (built if len(built) == 1 else ()):
            found.setdefault(table, node)
    return found


def query_comment(text: str) -> dict[str, Any]:
    """Return the fields of dbt's query comment in a statement or in a job's description: node, invocation and target.

    The result is empty if the text contains no such comment.

    The comment is at the start of a statement, or at its end if the project sets `append: true`. The statement itself
    may contain similar text. A description may consist of the comment only.
    """
    first = text.lstrip().removeprefix("/*").partition("*/")[0]
    end = text.rstrip().removesuffix(";").rstrip()
    last = end.removesuffix("*/").rpartition("/*")[2] if end.endswith("*/") else ""
    comments = map(_object, (first, last))
    comment = next((one for one in comments if one.get("app") == "dbt"), None)
    if comment is None:
        return {}
    return {field: str(comment.get(key) or "") for field, key in _KEYS.items()}


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object at the start of a text, or an empty object."""
    text = text.lstrip()
    try:
        found = json.JSONDecoder().raw_decode(text)[0] if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return dict(found)


# The relevant events, by the start of their lines. Most lines contain other events, such as SparkListenerTaskEnd.
_EVENT = re.compile(
    rb'\{"Event":"(?:org\.apache\.spark\.sql\.(?:execution\.ui|bucketing\.explain)\.)?SparkListener'
    rb'(ApplicationStart|ApplicationEnd|SQLExecutionStart|SQLExecutionEnd|BucketPlan|JobStart|StageCompleted)"'
)
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, PlanError)
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
    invocation: str = ""  # dbt's invocation id, or a number if the query comment does not contain the id
    target: str = ""  # dbt's target, if the query comment contains it
    by_dbt: bool = False
    write: Write = field(default_factory=Write)
    failed: bool = False
    work: Work = field(default_factory=Work)
    operators: Operators = field(default_factory=dict)
    bucketed: set[str] = field(default_factory=set)  # tables that it reads as bucketed
    gaps: int = 0  # gaps in the log before the end of the statement

    def add(self, part: Statement) -> None:
        """Add another execution that the statement started."""
        self.work.add(part.work)
        self.write = self.write.joined(part.write)
        add_operators(self.operators, part.operators)
        self.bucketed |= part.bucketed


@dataclass
class ApplicationEnd:
    """The end of the events of one Spark application in a log."""

    application: str
    events: int
    unfinished: int  # statements without an end
    is_complete: bool  # whether the application itself has ended


@dataclass
class _Execution:
    number: int
    root: int
    statement: Statement
    values: dict[int, int] = field(default_factory=dict)  # accumulators
    run_ms: dict[int, int] = field(default_factory=dict)  # task time of the stages that update them


@dataclass
class _Application:
    counts: ReadCounts
    id: str
    events: int = 0
    is_complete: bool = False
    executions: dict[int, _Execution] = field(default_factory=dict)
    last: _Execution | None = None  # the execution that ended last, whose plan may follow
    stages: dict[int, int] = field(default_factory=dict)  # execution of each stage that has not completed
    gaps: int = 0
    # The number of the current dbt invocation, and whether it has run nodes.
    invocation: int = 0
    in_nodes: bool = False

    def fold(self, event: str, line: bytes) -> Iterator[Statement]:
        """Apply an event, and yield the statement that ended before it, if any."""
        data = json.loads(line)
        if event == "BucketPlan":
            self._plan(data)
            return
        yield from self.flush()
        if event == "SQLExecutionEnd":
            self._end(data)
        elif event == "SQLExecutionStart":
            self._start(data, line)
        elif event == "JobStart":
            self._job(data)
        elif event == "StageCompleted":
            self._stage(data["Stage Info"])
        else:
            self.is_complete = True

    def flush(self) -> Iterator[Statement]:
        """Yield the statement that ended last, or add it to the statement that started it."""
        ended, self.last = self.last, None
        if ended is None:
            return
        parent = self.executions.get(ended.root) if ended.root != ended.number else None
        if parent:
            parent.statement.add(ended.statement)
        else:
            yield ended.statement

    def close(self) -> Iterator[Statement | ApplicationEnd]:
        """Yield the statements without an end as failed, and then the end of the application."""
        yield from self.flush()
        for execution in self.executions.values():
            yield replace(execution.statement, ended=execution.statement.started, failed=True)
        yield ApplicationEnd(self.id, self.events, len(self.executions), self.is_complete)

    def gap(self) -> Iterator[Statement]:
        """Mark all running statements as failed, because some of their events are missing."""
        yield from self.flush()
        self.gaps += 1
        for execution in self.executions.values():
            execution.statement.failed = True

    def _numbered(self, comment: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a query comment with a number in place of a missing invocation id.

        Without this id, the boundary between two dbt invocations is where statements without a node, such as the
        listing of schemas, follow statements with a node.
        """
        if comment and not comment["node"]:
            self.invocation, self.in_nodes = self.invocation + self.in_nodes, False
        self.in_nodes |= bool(comment.get("node"))
        # The target keeps the runs of several targets apart.
        number = f"{self.invocation} {comment.get('target', '')}".strip()
        return {**comment, "invocation": comment.get("invocation") or number}

    def _start(self, data: Any, line: bytes) -> None:
        comment = query_comment(str(data.get("description") or ""))
        fields = {**self._numbered(comment), "by_dbt": bool(comment), "write": write_of(line, data)}
        number, root = int(data["executionId"]), data.get("rootExecutionId")
        statement = Statement(self.id, int(data["time"]), **fields)
        self.executions[number] = _Execution(number, number if root is None else int(root), statement)

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

    def _plan(self, data: Any) -> None:
        execution = self.executions.get(int(data["executionId"]), self.last)
        if execution is None or execution.number != int(data["executionId"]):
            return
        plan = read_plan(data["document"])
        execution.statement.operators = plan_costs(plan, Accumulators(execution.values, execution.run_ms))
        execution.statement.bucketed |= bucketed_tables(plan)

    def _end(self, data: Any) -> None:
        number, ended = int(data["executionId"]), int(data["time"])
        execution = self.executions.pop(number, None)
        if execution is None:
            return
        statement = execution.statement
        statement.ended, statement.gaps = ended, self.gaps
        statement.failed |= bool(data.get("errorMessage"))
        self.stages = {stage: one for stage, one in self.stages.items() if one != number}
        self.last = execution


def _number(value: object) -> int:
    try:
        return max(int(str(value)), 0)
    except ValueError:
        return 0


def _identity(data: Any) -> str:
    # An application can have several attempts. Only copies of its log have the same start.
    parts = (data.get("App ID") or data.get("App Name"), data.get("App Attempt ID"), data.get("Timestamp"))
    return " ".join(str(part) for part in parts if part is not None)


def statements(lines: Iterable[bytes], counts: ReadCounts) -> Iterator[Statement | ApplicationEnd]:
    """Yield the statements of a log when they end, and the end of each application after its statements.

    Statements that never end are yielded as failed. A log usually contains one application.

    The function counts broken lines, and treats each as a gap in the log.
    """
    # If the start of the application is missing, the number of the log distinguishes its runs from those of other logs.
    application = _Application(counts, f"log {counts.files}")
    for line in lines:
        matched = _EVENT.match(line)
        try:
            if matched and matched[1] == b"ApplicationStart":
                identity = _identity(json.loads(line))
                if application.events:
                    yield from application.close()
                    application = _Application(counts, identity)
                application.id = identity
            elif matched:
                yield from application.fold(matched[1].decode(), line)
            elif line == GAP or not (line.startswith(EVENT) and line.endswith((b"}", b"}\n", b"}\r\n"))):
                counts.broken_lines += line != GAP
                yield from application.gap()
        except _BROKEN:
            counts.broken_lines += 1
            yield from application.gap()
        application.events += matched is not None
    yield from application.close()
