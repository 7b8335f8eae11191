"""Read event logs, and add up the costs of their statements, by run of a dbt node, and by table and keys.

A statement belongs to a node because of dbt's query comment, or because of the table that it writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_bucketing.errors import EventLogError, PlanError
from spark_bucketing.event_log.log_files import EVENT, GAP, ReadCounts, find_logs, read_lines
from spark_bucketing.event_log.plan_costs import (
    UNATTRIBUTED,
    Accumulators,
    Cost,
    Operators,
    TableKeys,
    add_keys,
    add_operators,
    bucketed_tables,
    plan_costs,
)
from spark_bucketing.plan.document import read_plan
from spark_bucketing.units import count, size

OnProgress = Callable[[str], None]
AD_HOC = ""
"""The node to which statements belong that dbt did not send."""
Invocation = tuple[str, str]
"""The id of the Spark application, and dbt's invocation id, or a number if dbt's id is unknown."""


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


def write_of(line: bytes, start: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a statement about what it writes, from the event of its start."""
    matched = _WRITE.search(str(start.get("physicalPlanDescription") or ""))
    if matched is None:
        return {"writes": _WRITER.search(line) is not None}
    command, arguments = matched.groups()
    target = _TARGET.search(arguments)
    name = ".".join(part for part in target.groups() if part) if target else ""
    table, has_buckets = _INTERMEDIATE.sub("", name.lower()), _BUCKETED_WRITE in arguments
    return {"writes": True, "table": table, "creates": "AsSelect" in command, "has_buckets": has_buckets}


def writers_of(writes: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """Return for each table the node to which it belongs, from the tables that nodes write, and whether they build.

    Hooks of a model also write other tables, with the model's query comment. The model's own table has the model's
    name. A model with an alias owns the only table that its runs build: create from a query or write into buckets.
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
    """Return the node, the invocation and the target in dbt's query comment, or nothing without such a comment.

    The comment is at the start of a statement or a job's description, or at its end if the project sets `append: true`.
    The statement itself may contain similar text.
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
class Run:
    """One run of one dbt node, which consists of all statements of this run."""

    started: int  # milliseconds since 1970
    ended: int
    failed: bool = False
    writes: bool = True  # False for queries of a node without a build, such as `dbt show`
    work: Work = field(default_factory=Work)
    operators: Operators = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Return whether the run built the node successfully."""
        return self.writes and not self.failed

    @property
    def seconds(self) -> float:
        """Return the seconds between the start of the first statement and the end of the last statement."""
        return (self.ended - self.started) / 1000

    def add_costs(self, part: Run) -> None:
        """Add the work and the operators of a part of the run."""
        self.writes |= part.writes
        self.work.add(part.work)
        add_operators(self.operators, part.operators)


@dataclass
class Statement(Run):
    """A finished SQL statement, including other executions that it started."""

    invocation: Invocation = ("", "")
    node: str = ""  # dbt's unique id from the query comment, else `table.` and the table that it writes, else AD_HOC
    target: str = ""  # dbt's target, if the query comment contains it and a node
    by_dbt: bool = False
    writes: bool = False  # whether it writes a table, even if the table is unknown
    table: str = ""  # the table that it writes, if known
    creates: bool = False  # whether it creates the table from a query
    has_buckets: bool = False  # whether it writes into buckets
    bucketed: set[str] = field(default_factory=set)  # tables that it reads as bucketed
    gaps: int = 0  # gaps in the log before the end of the statement
    number: int = 0  # of the execution
    root: int = 0  # number of the execution that started it, or its own
    values: dict[int, int] = field(default_factory=dict)  # accumulators
    run_ms: dict[int, int] = field(default_factory=dict)  # task time of the stages that update them

    def add(self, part: Statement) -> None:
        """Add another execution that the statement started."""
        self.add_costs(part)
        # The first table that the parts write counts.
        if not self.table:
            self.table, self.creates = part.table, part.creates
        self.has_buckets |= part.has_buckets
        self.bucketed |= part.bucketed


@dataclass
class Measured:
    """Everything that the event logs contain about models and tables."""

    counts: ReadCounts = field(default_factory=ReadCounts)
    runs: dict[str, dict[Invocation, Run]] = field(default_factory=dict)  # by node
    ad_hoc_operators: Operators = field(default_factory=dict)  # of statements outside dbt
    bucketed: dict[str, set[str]] = field(default_factory=dict)  # by bucketed table: nodes that read it as bucketed
    writers: dict[str, str] = field(default_factory=dict)  # by table: the node to which it belongs
    ad_hoc: int = 0  # number of statements outside dbt that shuffled or sorted
    target: str = ""  # the dbt target of the runs, if their query comments contain it

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
        files = f"{count(self.counts.files, 'file')}, {size(self.counts.size_bytes)}"
        runs = f"{count(self.number_of_runs, 'run')} of models{of_target}"
        others = f"{count(self.ad_hoc, 'other statement')} with a shuffle or sort."
        return " ".join([f"{files}, {runs}, {others}", *self.counts.warnings])

    @property
    def operators(self) -> dict[str, Operators]:
        """Return the operators of all successful runs, by node."""
        found = {AD_HOC: self.ad_hoc_operators}
        for node, runs in self.runs.items():
            for run in runs.values():
                if not run.failed:
                    add_operators(found.setdefault(node, {}), run.operators)
        return found

    def costs(self, node: str | None = None) -> dict[TableKeys, Cost]:
        """Return the costs by table and keys, of a node's successful runs or of all that did not fail."""
        found = _sums(self.operators.values() if node is None else (run.operators for run in self.runs_of(node)))
        found.pop(UNATTRIBUTED, None)
        return found

    @property
    def unattributed(self) -> Cost:
        """Return the costs of Exchanges and Sorts that count for no table and key."""
        return _sums(self.operators.values()).get(UNATTRIBUTED, Cost())


def _sums(parts: Iterable[Operators]) -> dict[TableKeys, Cost]:
    found: dict[TableKeys, Cost] = {}
    for operators in parts:
        for costs in operators.values():
            add_keys(found, costs)
    return found


@dataclass
class _Application:
    """A Spark application in a log."""

    id: str
    statements: list[Statement] = field(default_factory=list)  # in the order in which they ended
    events: int = 0
    is_complete: bool = False  # whether the application itself has ended
    running: dict[int, Statement] = field(default_factory=dict)  # by number
    ended: Statement | None = None  # the statement that ended last, whose plan may follow
    stages: dict[int, int] = field(default_factory=dict)  # execution of each stage that has not completed
    gaps: int = 0
    # The number of the current dbt invocation, and whether it has run nodes.
    invocation: int = 0
    in_nodes: bool = False

    def fold(self, event: str, line: bytes) -> None:
        """Apply an event."""
        data = json.loads(line)
        if event == "BucketPlan":
            self._plan(data)
            return
        self._flush()
        if event == "SQLExecutionEnd":
            self._end(data)
        elif event == "SQLExecutionStart":
            number, root, time = int(data["executionId"]), data.get("rootExecutionId"), int(data["time"])
            fields = {**self._fields(query_comment(str(data.get("description") or ""))), **write_of(line, data)}
            root = number if root is None else int(root)
            self.running[number] = Statement(time, time, number=number, root=root, **fields)
        elif event == "JobStart":
            execution = (data.get("Properties") or {}).get("spark.sql.execution.id")
            # A later job also lists the stages whose shuffle files it reuses.
            if execution is not None:
                self.stages = {int(stage): int(execution) for stage in data["Stage IDs"]} | self.stages
        elif event == "StageCompleted":
            self._stage(data["Stage Info"])
        else:
            self.is_complete = True

    def gap(self) -> None:
        """Mark all running statements as failed, because some of their events are missing."""
        self._flush()
        self.gaps += 1
        for statement in self.running.values():
            statement.failed = True

    def close(self) -> _Application:
        """Add the statements without an end as failed."""
        self._flush()
        for statement in self.running.values():
            statement.failed = True
            self._add(statement)
        return self

    def _flush(self) -> None:
        """Add the statement that ended last, or add it to the statement that started it."""
        ended, self.ended = self.ended, None
        if ended is None:
            return
        # A later plan cannot belong to the statement, so nothing needs these numbers, of which there are many.
        ended.values, ended.run_ms = {}, {}
        if ended.root != ended.number and ended.root in self.running:
            self.running[ended.root].add(ended)
        else:
            self._add(ended)

    def _add(self, statement: Statement) -> None:
        if not statement.node:
            statement.node, statement.target = f"table.{statement.table}" if statement.table else AD_HOC, ""
        self.statements.append(statement)

    def _fields(self, comment: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a query comment with a number in place of a missing invocation id.

        Without this id, the boundary between two dbt invocations is where statements without a node, such as the
        listing of schemas, follow statements with a node.
        """
        if comment and not comment["node"]:
            self.invocation, self.in_nodes = self.invocation + self.in_nodes, False
        self.in_nodes |= bool(comment.get("node"))
        # The target keeps the runs of several targets apart.
        number = f"{self.invocation} {comment.get('target', '')}".strip()
        invocation = self.id, comment.get("invocation") or number
        return {**comment, "invocation": invocation, "by_dbt": bool(comment)}

    def _stage(self, data: Any) -> None:
        statement = self.running.get(self.stages.get(int(data["Stage ID"]), -1))
        if statement is None:
            return
        values = data["Accumulables"]
        named = {one["Name"]: _number(one.get("Value")) for one in values if "Name" in one}
        shuffled, spilled, time = (named.get(name, 0) for name in (_SHUFFLED, _SPILLED, _RUN_TIME))
        statement.work.add(Work(shuffled, spilled, time, time if named.get(_OUTPUT) else 0))
        # The value of a plan's metric includes earlier stages.
        metrics = {int(one["ID"]): _number(one.get("Value")) for one in values if one.get("Metadata") == "sql"}
        statement.values |= metrics
        statement.run_ms |= {number: statement.run_ms.get(number, 0) + time for number in metrics}

    def _plan(self, data: Any) -> None:
        statement = self.running.get(int(data["executionId"]), self.ended)
        if statement is None or statement.number != int(data["executionId"]):
            return
        plan = read_plan(data["document"])
        statement.operators = plan_costs(plan, Accumulators(statement.values, statement.run_ms))
        statement.bucketed |= bucketed_tables(plan)

    def _end(self, data: Any) -> None:
        number, ended = int(data["executionId"]), int(data["time"])
        self.ended = statement = self.running.pop(number, None)
        if statement:
            statement.ended, statement.gaps = ended, self.gaps
            statement.failed |= bool(data.get("errorMessage"))
            self.stages = {stage: one for stage, one in self.stages.items() if one != number}


def _number(value: object) -> int:
    try:
        return max(int(str(value)), 0)
    except ValueError:
        return 0


def _applications(lines: Iterable[bytes], counts: ReadCounts) -> Iterator[_Application]:
    """Yield the applications of a log, usually one; a broken line counts as a gap in the log."""
    # If the start of the application is missing, the number of the log distinguishes its runs from those of other logs.
    application = _Application(f"log {counts.files}")
    for line in lines:
        matched = _EVENT.match(line)
        try:
            if matched and matched[1] == b"ApplicationStart":
                data = json.loads(line)
                # An application can have several attempts. Only copies of its log have the same start.
                parts = (data.get("App ID") or data.get("App Name"), data.get("App Attempt ID"), data.get("Timestamp"))
                identity = " ".join(str(part) for part in parts if part is not None)
                if application.events:
                    yield application.close()
                    application = _Application(identity)
                application.id = identity
            elif matched:
                application.fold(matched[1].decode(), line)
            elif line == GAP or not (line.startswith(EVENT) and line.endswith((b"}", b"}\n", b"}\r\n"))):
                counts.broken_lines += line != GAP
                application.gap()
        except _BROKEN:
            counts.broken_lines += 1
            application.gap()
        application.events += matched is not None
    if application.close().events:
        yield application


def read_measured(
    paths: Sequence[str], on_progress: OnProgress = lambda _: None, target: str | None = None
) -> Measured:
    """Read all event logs below these paths; of several logs of one application, the longest counts."""
    counts = ReadCounts()
    logs = find_logs(paths)
    kept: dict[str, _Application] = {}
    for number, files in enumerate(logs, 1):
        on_progress(f"reading event log {number} of {len(logs)}")
        for application in _applications(read_lines(files, counts), counts):
            other = kept.get(application.id)
            counts.copies += other is not None
            if other is None or application.events > other.events:
                kept[application.id] = application
    if len(counts.without_events) == counts.files:
        raise EventLogError(
            f"No event log was found in {', '.join(f'`{path}`' for path in paths)}.",
            found=f"{count(counts.files, 'file')} without events",
            expected="event logs of Spark, such as the files in spark.eventLog.dir",
        )
    counts.applications, counts.unfinished = len(kept), sum(len(one.running) for one in kept.values())
    for application in kept.values():
        _fail_incomplete(application)
    return _measured([one for application in kept.values() for one in application.statements], counts, target)


def _fail_incomplete(application: _Application) -> None:
    """Mark statements as failed whose runs may lack others: next to a gap, or at the end of an incomplete log."""
    previous: Statement | None = None
    last: dict[tuple[str, Invocation], Statement] = {}  # of each run
    unfinished: set[tuple[str, Invocation]] = set()
    for statement in application.statements:
        run = statement.node, statement.invocation
        if statement.by_dbt if statement.node == AD_HOC else run not in last:
            # A dbt thread runs one node after another.
            unfinished = {one for one in unfinished if last[one].ended > statement.started}
        if statement.node == AD_HOC:
            continue
        if statement.gaps > (previous.gaps if previous else 0):
            for neighbor in filter(None, (previous, statement)):
                neighbor.failed = True
        previous = last[run] = statement
        unfinished.add(run)
    for run in () if application.is_complete else unfinished:
        last[run].failed = True


def _measured(statements: Sequence[Statement], counts: ReadCounts, target: str | None) -> Measured:
    """Return the runs of one target, and the costs of all statements without a target."""
    targets = sorted({statement.target for statement in statements} - {""})
    if len(targets) > 1 and target not in targets:
        raise EventLogError(
            "The event logs contain runs of several dbt targets, whose costs may differ.",
            found=", ".join(targets),
            expected=f"runs of one target{f', or of {target}' if target else ''}",
            instead=f"choose one of them with --target, such as --target {targets[0]}",
        )
    found = Measured(counts, target=target if target in targets else "".join(targets))
    runs: dict[tuple[str, Invocation], list[Statement]] = {}
    writes: dict[str, dict[str, bool]] = {}
    for statement in sorted(statements, key=lambda one: one.target):
        node, table = statement.node, statement.table
        if statement.target not in ("", found.target):
            continue
        if table:
            tables = writes.setdefault(node, {})
            tables[table] = tables.get(table, False) or statement.creates or statement.has_buckets
            if statement.has_buckets:
                found.bucketed.setdefault(table, set())
        for name in statement.bucketed:
            found.bucketed.setdefault(name, set()).add(node)
        if node == AD_HOC:
            add_operators(found.ad_hoc_operators, statement.operators)
            found.ad_hoc += bool(statement.operators)
        else:
            runs.setdefault((node, statement.invocation), []).append(statement)
    for (node, invocation), parts in runs.items():
        found.runs.setdefault(node, {})[invocation] = _run(parts)
    found.writers = writers_of(writes)
    return found


def _run(statements: Sequence[Statement]) -> Run:
    has_gap = len({one.gaps for one in statements}) > 1
    run = Run(min(one.started for one in statements), max(one.ended for one in statements), has_gap, writes=False)
    for statement in statements:
        run.failed |= statement.failed
        run.add_costs(statement)
    return run
