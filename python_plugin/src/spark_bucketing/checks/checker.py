"""Collect the queries to check, and plan and analyze them one after another."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from spark_bucketing.checks.checked_query import Facts, Query, Settings
from spark_bucketing.checks.results import Finding, Found, ModelResult, OperatorResult, Report, map_findings
from spark_bucketing.checks.sql_text import one_statement, source_line
from spark_bucketing.checks.stub_tables import StubTables, created, temporary_functions
from spark_bucketing.checks.verdicts import HypotheticalQuery, with_fixes
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


Task = tuple[Node, bool]
"""A node, and whether to check its query; otherwise, to create its stub table."""


@dataclass
class Checker:
    """Plans and analyzes queries one after another."""

    planner: Planner  # plans the queries
    settings: Settings  # the session's settings, which the reasons use
    facts: Facts  # facts about the session's tables
    stub: StubTables | None = None  # the project's stub tables for an offline check; None for a live check
    limit: TimeLimit = field(default_factory=lambda: TimeLimit(None))  # time limit per query
    project_dir: Path = Path()  # directory of the models' files
    errors: Mapping[str, str] = field(default_factory=dict)  # why nodes have no SQL, by unique id
    queries: list[tuple[ModelResult, HypotheticalQuery]] = field(default_factory=list)

    def run(self, tasks: Sequence[Task], report: Callable[[str], None] = lambda _: None) -> Report:
        """Run the tasks in order until all are complete or the user presses Ctrl-C."""
        results: list[ModelResult] = []
        waiting: list[str] = []
        try:
            for node, is_checked in tasks:
                report(node.name)
                if is_checked:
                    results.append(self.check(node))
                elif self.stub and self.limit.is_free():
                    self.stub.create(node)
        except KeyboardInterrupt:
            # The loop checks queries in order, so the last queries are unfinished.
            waiting = [node.name for node, is_checked in tasks if is_checked][len(results) :]
        return Report(tuple(results), unfinished=tuple(waiting))

    def check(self, node: Node) -> ModelResult:
        """Plan and analyze one query. If planning fails or exceeds the time limit, the result contains an error."""
        table = table_name(node.relation) if node.relation else ""
        result = ModelResult(node.name, node.path, unique_id=node.unique_id or None, table=table)
        if node.language != "sql" or node.sql is None:
            no_sql = f"Model `{node.name}` is a {node.language.capitalize()} model, which has no SQL to plan."
            why = _UNCOMPILED if node.language == "sql" else no_sql
            return result.failed(self.errors.get(node.unique_id) or why)
        functions, text = temporary_functions(node.config), self._text_of(node)
        try:
            sql = self.stub.rewritten(node.sql) if self.stub else node.sql
            with created(self.planner, functions):
                operators, query, plan = self.limit.run(lambda is_late: self._judged(sql, is_late))
        # A query whose plan check cannot analyze must not prevent the check of other models.
        except Exception as error:
            why = self.stub.why(reason_of(error)) if self.stub else reason_of(error)
            if "UNRESOLVED_ROUTINE" in why:
                why += f"\n{_FUNCTIONS}"
            elif "TABLE_OR_VIEW_NOT_FOUND" in why and node.unique_id and self.stub is None:
                why += "\nBuild its parents first (dbt run), or check it with --offline."
            return result.failed(why)

        def with_source(found: Found) -> Finding:
            """Return a copy of the finding whose line refers to the model's file instead of the compiled SQL."""
            line = source_line(sql, found.finding.line, text) if found.finding.line else None
            return replace(found.finding, line=line, source=text.splitlines()[line - 1].strip() if line else "")

        result = map_findings(replace(result, operators=operators, plan=plan), with_source)
        # Other queries are planned again later, without the functions.
        if not functions:
            query.forget()
            self.queries.append((result, query))
        return result

    def _text_of(self, node: Node) -> str:
        """Return the text of a node's file."""
        with suppress(OSError, UnicodeDecodeError):
            # The manifest omits blank lines at the top of the file.
            if node.unique_id:
                return (self.project_dir / node.path).read_text(encoding="utf-8")
        return node.raw_sql

    def _judged(
        self, sql: str, is_late: Callable[[], bool]
    ) -> tuple[tuple[OperatorResult, ...], HypotheticalQuery, tuple[PlanLine, ...]]:
        plan = self.planner.plan(sql)
        query = HypotheticalQuery(self.planner, Query(plan, self.facts.of(plan), self.settings, sql))
        return tuple(with_fixes(query, is_late)), query, tree_lines(plan)


_JINJA = re.compile(r"\{\{|\{%")


def selectable(manifest: Manifest) -> tuple[str, ...]:
    """Return all models and snapshots whose SQL Spark plans as a separate query, parents first."""
    nodes = ((name, manifest.nodes[name]) for name in manifest.order)
    # Spark plans an ephemeral model as part of the models that use it.
    return tuple(name for name, node in nodes if node.resource_type in SELECTED and node.materialized != "ephemeral")


def query_node(name: str, text: str) -> Node:
    """Return a node without a unique id, for a query that belongs to no project."""
    return Node("", name, "file", name, sql=one_statement(text), raw_sql=text)


def file_node(file: Path, project_dir: Path, manifest: Manifest) -> Node:
    """Return a SQL file as a node: that of the project with compiled SQL, or else a query with the file's text."""
    inside = file.is_relative_to(project_dir)
    path = file.relative_to(project_dir).as_posix() if inside else str(file)
    for node in manifest.nodes.values():
        if node.path == path and node.resource_type in ("model", "snapshot", "analysis"):
            return node
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
    return query_node(path, text)


def offline_tasks(checked: Sequence[Node], manifest: Manifest) -> list[Task]:
    """Return all queries, each after the stub tables that it may read; a file outside the project may read all."""
    names = {node.unique_id for node in checked if node.unique_id}
    files = [(node, True) for node in checked if not node.unique_id]
    wanted = set(manifest.nodes) if files else manifest.with_ancestors(names)
    read = {parent for name in wanted for parent in manifest.nodes[name].depends_on}
    tasks: list[Task] = []
    for name in manifest.order:
        node = manifest.nodes[name]
        if name in wanted and node.resource_type != "test":
            tasks += [(node, True)] if name in names else []
            tasks += [(node, False)] if name in read or files else []
    return [*tasks, *files]
