"""Fold the events of one Spark application into its SQL statements and their costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spark_bucketing.event_log.files import ReadCounts
from spark_bucketing.event_log.plan_costs import Cost, Keys, MeasuredOperator, bucketed_tables, operator_costs

# The events that matter, by the start of their lines. Most lines are of other events, such as SparkListenerTaskEnd.
_EVENT = re.compile(
    rb'\{"Event":"(?:org\.apache\.spark\.sql\.execution\.ui\.)?SparkListener'
    rb"(ApplicationStart|SQLExecutionStart|SQLExecutionEnd|SQLAdaptiveExecutionUpdate|JobStart|StageCompleted)\""
)
_EXECUTION = re.compile(rb'"executionId":(\d+)')
# The command that writes names its table: `spark_catalog`.`db`.`table`
_WRITE = re.compile(r"(?:Insert|AsSelect)\w*.*?Arguments: [^\n]*?(`[^`\n]+`(?:\.`[^`\n]+`)+)", re.S)
_INTERMEDIATE = re.compile(r"__dbt_(backup|build|staged|tmp|input|plan|files|touched|trash)$")
_COMMENT = re.compile(r'"app": "dbt"')
_NODE, _INVOCATION = re.compile(r'"node_id": "([^"]+)"'), re.compile(r'"invocation_id": "([^"]+)"')
_METRICS = {
    "internal.metrics.executorRunTime": "task_ms",
    "internal.metrics.shuffle.write.bytesWritten": "shuffle_bytes",
    "internal.metrics.memoryBytesSpilled": "spill_bytes",
}
_OUTPUT = "internal.metrics.output.bytesWritten"


@dataclass
class Statement:
    """A SQL statement that ended, including the executions that it started."""

    application: str
    started: int  # milliseconds since 1970
    ended: int = 0
    node: str = ""  # dbt's unique id, from the query comment
    invocation: str = ""  # dbt's invocation id, if the query comment has it
    by_dbt: bool = False
    written: str = ""  # the table that it writes
    failed: bool = False
    task_ms: int = 0  # run time of all tasks
    shuffle_bytes: int = 0  # bytes that tasks wrote for shuffles
    spill_bytes: int = 0  # bytes of rows in memory that tasks spilled
    write_ms: int = 0  # run time of the tasks in stages that write files
    operators: list[tuple[MeasuredOperator, dict[Keys, Cost]]] = field(default_factory=list)
    bucketed: set[str] = field(default_factory=set)  # tables that it reads as bucketed


@dataclass
class _Execution:
    root: int
    statement: Statement
    plan: Any  # the first plan
    update: bytes = b""  # the last line that changes the plan
    values: dict[int, int] = field(default_factory=dict)  # accumulators


@dataclass
class _Application:
    counts: ReadCounts
    id: str = ""
    executions: dict[int, _Execution] = field(default_factory=dict)
    stages: dict[int, int] = field(default_factory=dict)  # execution of each stage that has not completed

    def fold(self, event: str, line: bytes) -> Statement | None:
        """Apply an event, and return the statement that it ends."""
        if event == "SQLAdaptiveExecutionUpdate":
            # Only the last plan counts, so parse it at the end.
            number = _EXECUTION.search(line)
            if number and int(number[1]) in self.executions:
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
            self.id = str(data.get("App ID") or data.get("App Name") or "")
            self.counts.applications.add(self.id)
        return None

    def _start(self, data: Any) -> None:
        about = str(data.get("description") or "")
        node, invocation = _NODE.search(about), _INVOCATION.search(about)
        statement = Statement(
            self.id,
            int(data["time"]),
            node=node[1] if node else "",
            invocation=invocation[1] if invocation else "",
            by_dbt=_COMMENT.search(about) is not None,
            written=_written(str(data.get("physicalPlanDescription") or "")),
        )
        number = int(data["executionId"])
        root = data.get("rootExecutionId")
        self.executions[number] = _Execution(number if root is None else int(root), statement, data["sparkPlanInfo"])

    def _job(self, data: Any) -> None:
        execution = (data.get("Properties") or {}).get("spark.sql.execution.id")
        if execution is not None:
            for stage in data["Stage IDs"]:
                # A later job lists the stages whose shuffle files it reuses.
                self.stages.setdefault(int(stage), int(execution))

    def _stage(self, data: Any) -> None:
        execution = self.executions.get(self.stages.get(int(data["Stage ID"]), -1))
        if execution is None:
            return
        statement, values = execution.statement, data["Accumulables"]
        named = {one["Name"]: _number(one.get("Value")) for one in values if "Name" in one}
        for name, attribute in _METRICS.items():
            setattr(statement, attribute, getattr(statement, attribute) + named.get(name, 0))
        if named.get(_OUTPUT):
            statement.write_ms += named.get("internal.metrics.executorRunTime", 0)
        # The value of a plan's metric includes earlier stages.
        execution.values |= {
            int(one["ID"]): _number(one.get("Value")) for one in values if one.get("Metadata") == "sql"
        }

    def _end(self, data: Any) -> Statement | None:
        number = int(data["executionId"])
        execution = self.executions.pop(number, None)
        if execution is None:
            return None
        statement = execution.statement
        plan = json.loads(execution.update)["sparkPlanInfo"] if execution.update else execution.plan
        statement.operators += operator_costs(plan, execution.values)
        statement.bucketed |= bucketed_tables(plan)
        statement.ended = int(data["time"])
        statement.failed |= bool(data.get("errorMessage"))
        self.stages = {stage: one for stage, one in self.stages.items() if one != number}
        parent = self.executions.get(execution.root) if execution.root != number else None
        if parent is None:
            return statement
        _merge(parent.statement, statement)
        return None


def _merge(into: Statement, part: Statement) -> None:
    for name in ("task_ms", "shuffle_bytes", "spill_bytes", "write_ms"):
        setattr(into, name, getattr(into, name) + getattr(part, name))
    into.written = into.written or part.written
    into.operators += part.operators
    into.bucketed |= part.bucketed


def _written(plan: str) -> str:
    matched = _WRITE.search(plan)
    if not matched:
        return ""
    return _INTERMEDIATE.sub("", matched[1].replace("`", "").lower().removeprefix("spark_catalog."))


def _number(value: object) -> int:
    try:
        return max(int(str(value)), 0)
    except ValueError:
        return 0


def statements(lines: Iterable[bytes], counts: ReadCounts) -> Iterator[Statement]:
    """Yield the statements of one application when they end; count broken lines and statements without an end."""
    application = _Application(counts)
    for line in lines:
        matched = _EVENT.match(line)
        if not matched:
            counts.broken_lines += not line.startswith(b'{"Event":')
            continue
        try:
            ended = application.fold(matched[1].decode(), line)
        except (ValueError, KeyError, TypeError, AttributeError):
            counts.broken_lines += 1
            continue
        if ended:
            yield ended
    counts.unfinished += len(application.executions)
