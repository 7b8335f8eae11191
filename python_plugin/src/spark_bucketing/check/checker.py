"""Run the check: plan and analyze the queries one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.check.checked_query import Query
from spark_bucketing.check.fixes import HypotheticalQuery, with_fixes
from spark_bucketing.check.hook_functions import created
from spark_bucketing.check.results import Finding, ModelResult, OperatorResult, Report, map_findings
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.check.source_lines import source_line
from spark_bucketing.check.stub_tables import StubTables
from spark_bucketing.check.table_facts import Facts
from spark_bucketing.check.time_limit import TimeLimit
from spark_bucketing.check.verdicts import judge
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.manifest import Node

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
        """Plan and analyze one query.

        If planning fails or exceeds the time limit, the result contains an error.
        """
        result = ModelResult(subject.name, subject.path, unique_id=subject.unique_id, table=subject.table)
        if subject.sql is None:
            return replace(result, error=subject.error or _UNCOMPILED)
        try:
            sql = self.stub.rewritten(subject.sql) if self.stub else subject.sql
            with created(self.planner, subject.functions):
                operators, query = self.limit.run(lambda is_late: self._judged(sql, is_late))
        except BucketingError as error:
            why = self.stub.why(str(error)) if self.stub else str(error)
            return replace(result, error=_hinted(why, subject, live=self.stub is None))
        # A query whose plan check cannot analyze must not prevent the check of other models.
        except Exception as error:
            bug = f"{type(error).__name__}: {error}"
            why = f"A bug in spark-bucketing prevented the analysis of the query's plan: {bug}"
            return replace(result, error=why)
        result = map_findings(
            replace(result, operators=operators), lambda _, found: _with_source(found, sql, subject.raw)
        )
        # Other queries are planned again later, without the functions.
        if not subject.functions:
            query.forget()
            self.queries.append((result, query))
        return result

    def _judged(self, sql: str, is_late: Callable[[], bool]) -> tuple[tuple[OperatorResult, ...], HypotheticalQuery]:
        query = planned_query(self.planner, self.facts, self.settings, sql)
        judged = judge(query)
        changed = HypotheticalQuery.of(self.planner, query, judged)
        return tuple(with_fixes(changed, judged, is_late)), changed


def planned_query(planner: Planner, facts: Facts, settings: Settings, sql: str) -> Query:
    """Plan a query, and collect the facts about its tables.

    Raises:
        SparkError: Spark cannot plan the query.
        PlanError: the plan cannot be read.
    """
    plan = planner.plan(sql)
    return Query(plan, facts.of(plan), settings, sql)


def _with_source(found: Finding, sql: str, raw: str) -> Finding:
    """Return a copy of the finding whose line refers to the model's file instead of the compiled SQL."""
    line = source_line(sql, found.line, raw) if found.line else None
    return replace(found, line=line, source=raw.splitlines()[line - 1].strip() if line else "")


def _hinted(error: str, subject: Subject, live: bool) -> str:
    if "UNRESOLVED_ROUTINE" in error:
        return f"{error}\n{_FUNCTIONS}"
    missing = "TABLE_OR_VIEW_NOT_FOUND" in error and subject.unique_id and live
    return f"{error}\nBuild its parents first (dbt run), or check it with --offline." if missing else error
