"""Collect the queries to check, and plan and analyze them one after another."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from spark_bucketing.checks.checked_query import Facts, Query, Settings
from spark_bucketing.checks.results import Finding, ModelResult, OperatorResult, Report, map_findings
from spark_bucketing.checks.sql_text import one_statement, source_line
from spark_bucketing.checks.stub_tables import StubTables, created, temporary_functions
from spark_bucketing.checks.verdicts import HypotheticalQuery, judge, with_fixes
from spark_bucketing.errors import PlanError, ProjectError, reason_of
from spark_bucketing.plan.document import PlanLine, tree_lines
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.dbt import SELECTED
from spark_bucketing.project.manifest import Manifest, Node, table_name

Value = TypeVar("Value")


class TimeLimit:
    """Runs one task at a time with a time limit, after which the caller abandons the task.

    An abandoned task continues in its thread, and uses the session, until Spark responds. No other starts before.
    """

    def __init__(self, seconds: float | None) -> None:
        """Set the time limit for each task in seconds, or None for no limit."""
        self._seconds = seconds
        self._left: Future[Any] | None = None
        self._patience = seconds

    def run(self, work: Callable[[Callable[[], bool]], Value]) -> Value:
        """Run a task, which gets a function that returns whether no further step may start; return its result."""
        if self._seconds is None:
            return work(lambda: False)
        if not self.is_free():
            raise PlanError(
                f"Spark is still busy with an earlier query that exceeded the time limit of {self._seconds:g} s "
                "(--time-limit). Check this query separately with --select."
            )
        end = time.monotonic() + self._seconds / 2
        outcome: Future[Value] = Future()

        def run() -> None:
            try:
                outcome.set_result(work(lambda: time.monotonic() > end))
            except BaseException as error:
                outcome.set_exception(error)

        # Python cannot stop the thread, but a daemon thread does not keep this process alive.
        threading.Thread(target=run, name="query", daemon=True).start()
        if not wait([outcome], self._seconds).done:
            self._left = outcome
            raise PlanError(f"Planning and analyzing the query took longer than {self._seconds:g} s (--time-limit).")
        return outcome.result()

    def is_free(self) -> bool:
        """Return whether no abandoned task is running. The first call waits for it, up to the time limit."""
        if self._left and not wait([self._left], self._patience).done:
            self._patience = 0
            return False
        self._left, self._patience = None, self._seconds
        return True


_UNCOMPILED = (
    "This manifest has no compiled SQL for the model. Create the manifest with `dbt compile`, `run` or `build`, or "
    "omit --manifest."
)
_FUNCTIONS = (
    "If a hook creates the function: `check` runs a pre-hook only if it creates a temporary function and has no Jinja. "
    "Create other functions before the check."
)


@dataclass(frozen=True)
class Subject:
    """A query to check."""

    name: str  # name of the model or the file
    path: str  # path of the file, relative to the project directory
    sql: str | None  # compiled SQL; None if there is none
    raw: str = ""  # text of the file
    unique_id: str | None = None  # dbt's unique id; None for a SQL file
    error: str | None = None  # why the subject has no SQL
    table: str = ""  # name of the table that the model builds
    functions: tuple[str, ...] = ()  # statements that create the temporary functions of its hooks


Task = Subject | Node
"""A query to check, or a node that needs a stub table."""


@dataclass
class Checker:
    """Plans and analyzes queries one after another."""

    planner: Planner  # plans the queries
    settings: Settings  # the session's settings, which the reasons use
    facts: Facts  # facts about the session's tables
    stub: StubTables | None = None  # the project's stub tables for an offline check; None for a live check
    limit: TimeLimit = field(default_factory=lambda: TimeLimit(None))  # time limit per query
    queries: list[tuple[ModelResult, HypotheticalQuery]] = field(default_factory=list)

    def run(self, tasks: Sequence[Task], report: Callable[[str], None] = lambda _: None) -> Report:
        """Run the tasks in order until all are complete or the user presses Ctrl-C."""
        results: list[ModelResult] = []
        waiting: list[str] = []
        try:
            for task in tasks:
                report(task.name)
                if isinstance(task, Subject):
                    results.append(self.check(task))
                elif self.stub and self.limit.is_free():
                    self.stub.create(task)
        except KeyboardInterrupt:
            # The loop checks subjects in order, so the last subjects are unfinished.
            waiting = [task.name for task in tasks if isinstance(task, Subject)][len(results) :]
        return Report(tuple(results), unfinished=tuple(waiting))

    def check(self, subject: Subject) -> ModelResult:
        """Plan and analyze one query. If planning fails or exceeds the time limit, the result contains an error."""
        result = ModelResult(subject.name, subject.path, unique_id=subject.unique_id, table=subject.table)
        if subject.sql is None:
            return result.failed(subject.error or _UNCOMPILED)
        try:
            sql = self.stub.rewritten(subject.sql) if self.stub else subject.sql
            with created(self.planner, subject.functions):
                operators, query, plan = self.limit.run(lambda is_late: self._judged(sql, is_late))
        # A query whose plan check cannot analyze must not prevent the check of other models.
        except Exception as error:
            why = self.stub.why(reason_of(error)) if self.stub else reason_of(error)
            if "UNRESOLVED_ROUTINE" in why:
                why += f"\n{_FUNCTIONS}"
            elif "TABLE_OR_VIEW_NOT_FOUND" in why and subject.unique_id and self.stub is None:
                why += "\nBuild its parents first (dbt run), or check it with --offline."
            return result.failed(why)

        def with_source(_: OperatorResult, found: Finding) -> Finding:
            """Return a copy of the finding whose line refers to the model's file instead of the compiled SQL."""
            line = source_line(sql, found.line, subject.raw) if found.line else None
            return replace(found, line=line, source=subject.raw.splitlines()[line - 1].strip() if line else "")

        result = map_findings(replace(result, operators=operators, plan=plan), with_source)
        # Other queries are planned again later, without the functions.
        if not subject.functions:
            query.forget()
            self.queries.append((result, query))
        return result

    def _judged(
        self, sql: str, is_late: Callable[[], bool]
    ) -> tuple[tuple[OperatorResult, ...], HypotheticalQuery, tuple[PlanLine, ...]]:
        query = planned_query(self.planner, self.facts, self.settings, sql)
        judged = judge(query)
        changed = HypotheticalQuery.of(self.planner, query, judged)
        return tuple(with_fixes(changed, judged, is_late)), changed, tree_lines(query.plan)


def planned_query(planner: Planner, facts: Facts, settings: Settings, sql: str) -> Query:
    """Plan a query, and collect the facts about its tables."""
    plan = planner.plan(sql)
    return Query(plan, facts.of(plan), settings, sql)


_JINJA = re.compile(r"\{\{|\{%")


def selectable(manifest: Manifest) -> tuple[str, ...]:
    """Return all models and snapshots whose SQL Spark plans as a separate query, parents first."""
    nodes = ((name, manifest.nodes[name]) for name in manifest.order)
    # Spark plans an ephemeral model as part of the models that use it.
    return tuple(name for name, node in nodes if node.resource_type in SELECTED and node.materialized != "ephemeral")


def model_subject(node: Node, project_dir: Path, error: str | None = None) -> Subject:
    """Return the query to check for a model, snapshot or analysis."""
    if error is None and node.language != "sql":
        error = f"Model `{node.name}` is a {node.language.capitalize()} model, which has no SQL to plan."
    file = project_dir / node.path
    try:
        # The manifest omits blank lines at the top of the file.
        raw = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raw = node.raw_sql
    sql = node.sql if node.language == "sql" else None
    table = table_name(node.relation) if node.relation else ""
    functions = temporary_functions(node.config)
    return Subject(node.name, node.path, sql, raw, node.unique_id, error, table, functions)


def file_subject(file: Path, project_dir: Path, manifest: Manifest, errors: Mapping[str, str]) -> Subject:
    """Return the query of a SQL file: dbt's compiled SQL if it belongs to the project, else the file's own text."""
    inside = file.is_relative_to(project_dir)
    path = file.relative_to(project_dir).as_posix() if inside else str(file)
    for node in manifest.nodes.values():
        if node.path == path and node.resource_type in ("model", "snapshot", "analysis"):
            return model_subject(node, project_dir, errors.get(node.unique_id))
    expected, instead = "a text file with a query", "check the path and the encoding of the file"
    with ProjectError.replacing((OSError, UnicodeDecodeError), f"The file `{file}` cannot be read.", expected, instead):
        # The file may start with a byte order mark, which Spark would parse as part of a word.
        text = file.read_text(encoding="utf-8-sig")
    if _JINJA.search(text):
        raise ProjectError(
            f"The file `{path}` contains Jinja that dbt does not compile.",
            found=f"a file that is not a model or analysis of the project in `{project_dir}`",
            expected="plain SQL, or a file of the project",
            instead="move the file to a directory of `analysis-paths`",
        )
    return Subject(path, path, one_statement(text), text)


def offline_tasks(subjects: Sequence[Subject], manifest: Manifest) -> list[Task]:
    """Return all queries, each after the stub tables that it may read; a file outside the project may read all."""
    by_id: Mapping[str | None, Subject] = {subject.unique_id: subject for subject in subjects if subject.unique_id}
    files = [subject for subject in dict.fromkeys(subjects) if subject.unique_id not in by_id]
    wanted = set(manifest.nodes) if files else manifest.with_ancestors(str(name) for name in by_id)
    read = {parent for name in wanted for parent in manifest.nodes[name].depends_on}
    tasks: list[Task] = []
    for name in manifest.order:
        node = manifest.nodes[name]
        if name in wanted and node.resource_type != "test":
            tasks += [by_id[name]] if name in by_id else []
            tasks += [node] if name in read or files else []
    return [*tasks, *files]
