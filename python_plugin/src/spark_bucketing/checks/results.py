"""The results of a check: models, their operators, verdicts and findings; which findings count, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, NamedTuple

from spark_bucketing.checks.sql_text import Rewrite
from spark_bucketing.errors import CLEAN, COULD_NOT_RUN, FINDINGS
from spark_bucketing.plan.document import OperatorKind, PlanCounts, PlanLine
from spark_bucketing.spec import BucketSpec

Level = Literal["error", "warning", "note", "unknown"]
"""`unknown` is the level of a finding about a query or an operator that could not be checked."""
Acceptance = Literal["allow", "baseline", "small"]
#: Inputs below this number of bytes need no buckets. A seed of this size has few rows per bucket.
SMALLEST = 1024**2
FixKind = Literal["setting", "bucket_spec", "column_type", "extension", "rewrite_files", "sql"]


class Verdict(str, Enum):
    """How Spark brings the rows of an operator together, ordered from the best to the worst verdict."""

    SORT_FREE = "sort-free"
    SHUFFLE_FREE = "shuffle-free"
    ONE_SIDED = "one-sided"
    SHUFFLED = "shuffled"
    BROADCAST = "broadcast"
    NOT_BUCKETED = "not bucketed"
    UNKNOWN = "unknown"


# The verdicts that can be compared, from best to worst.
RANKS = {Verdict.SORT_FREE: 0, Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3}
# If several operators read a table, its verdict is the first of these that applies.
_WORST_FIRST = (
    Verdict.SHUFFLED, Verdict.ONE_SIDED, Verdict.UNKNOWN, Verdict.SHUFFLE_FREE, Verdict.SORT_FREE, Verdict.BROADCAST,
    Verdict.NOT_BUCKETED,
)  # fmt: skip


def worst(operators: Iterable[OperatorResult]) -> Verdict | None:
    """Return the worst verdict, or None if there are no operators."""
    return min((operator.verdict for operator in operators), key=_WORST_FIRST.index, default=None)


def worst_first(models: Iterable[ModelResult]) -> list[ModelResult]:
    """Sort models: first those without a plan, then by their worst verdicts."""
    ranks = (*_WORST_FIRST, None)
    return sorted(models, key=lambda model: -1 if model.error else ranks.index(worst(model.operators)))


@dataclass(frozen=True)
class OtherQuery:
    """The effect of a fix on another query of the project that reads the same table."""

    name: str  # name of the model or the file
    before: PlanCounts  # its current Exchanges and Sorts
    after: PlanCounts | None  # Exchanges and Sorts with the fix; None if Spark can no longer plan it


@dataclass(frozen=True)
class Change:
    """A change that may fix a finding. Planning the query with the change shows whether it helps."""

    kind: FixKind  # the kind of change
    text: str  # for users: what to write, and where
    settings: Mapping[str, str] = field(default_factory=dict)  # Spark settings and their values
    table: str | None = None  # for kinds bucket_spec, column_type and rewrite_files: the table to rewrite
    spec: BucketSpec | None = None  # for kind bucket_spec: the new spec
    # New types of the table's columns, by lower-case name.
    column_types: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None  # for kind rewrite_files: a predicate that selects the partitions; empty for all of them
    rewrite: Rewrite | None = field(default=None, repr=False)  # rewrites the SQL of the query
    # Settings that make Spark plan empty tables like the changed ones.
    planned_as_if: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Fix(Change):
    """A change that improves an operator's verdict, either by itself or together with a second change."""

    verdict: Verdict = Verdict.SORT_FREE  # the operator's verdict with the fix
    also: tuple[Fix, ...] = ()  # a second change, without which this one has no effect
    before: PlanCounts = field(default_factory=PlanCounts)  # current Exchanges and Sorts of the whole query
    after: PlanCounts = field(default_factory=PlanCounts)  # Exchanges and Sorts with the fix
    others: tuple[OtherQuery, ...] = ()  # other queries of the project whose plans it changes

    @property
    def sentences(self) -> str:
        """Return the text of this change and of the second one."""
        return " And ".join([self.text, *(f"{one.text[0].lower()}{one.text[1:]}" for one in self.also)])


@dataclass(frozen=True)
class Finding:
    """A problem, such as the cause of an Exchange or a Sort, or a layout that cannot work."""

    reason: str  # slug of the reason, see check.reasons
    message: str  # the problem, with tables, columns and numbers
    tables: tuple[str, ...] = ()  # the affected tables
    level: Level = "warning"
    fixes: tuple[Fix, ...] = ()  # fixes, the cheapest first; empty if there is none
    line: int | None = None  # line in the model's file, starting at 1, if known
    source: str = ""  # the text of that line
    bytes_shuffled: int | None = None  # estimated bytes that Spark shuffles or sorts because of it
    # Why the finding does not fail a run: the model's meta or a baseline accepts it, or the table is small; None
    # if it may fail the run.
    accepted: Acceptance | None = None
    fingerprint: str = ""  # an id that stays the same between runs
    changes: tuple[Change, ...] = field(default=(), repr=False)  # possible changes that have not been tested
    explains: tuple[int, ...] = field(default=(), repr=False)  # numbers of the plan nodes that the finding explains


@dataclass(frozen=True)
class OperatorResult:
    """A join, aggregate, window or distinct in the plan of a model, with its findings."""

    # The kind of operator; "other" for an operator of another engine whose kind is unknown.
    kind: OperatorKind
    description: str  # for users: the kind of join and the keys, with table names if known
    verdict: Verdict  # how Spark brings its rows together
    tables: tuple[str, ...] = ()  # tables that its inputs read, in the plan's order
    # Exchanges between the tables of its inputs (or the operators below) and the operator. Limits that collect rows
    # without an Exchange count too. An Exchange that Spark reuses counts for one operator only.
    exchanges: int = 0
    sorts: int = 0  # Sorts on these paths
    # One for each Exchange or Sort between a bucketed table and the operator; one for an unrecognized operator.
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Parent:
    """A parent of a model in the project's graph, with the verdict on how the model reads it."""

    unique_id: str  # dbt's unique id
    verdict: Verdict | None = None  # the worst verdict of the operators that read its table; None if no operator does


@dataclass(frozen=True)
class ModelResult:
    """A checked model or SQL file."""

    name: str  # name of the model or the file
    path: str  # path of the file, relative to the project directory
    operators: tuple[OperatorResult, ...] = ()  # in the plan's order, from the top
    findings: tuple[Finding, ...] = ()  # one if Spark cannot plan it
    unique_id: str | None = None  # dbt's unique id; None for a SQL file
    table: str = ""  # name of the table that the model builds; empty for a SQL file
    inputs: tuple[Parent, ...] = ()  # its parents, each with the verdict on reading it
    plan: tuple[PlanLine, ...] = field(default=(), repr=False)  # for people: the operators of its plan

    @property
    def key(self) -> str:
        """Return the string that identifies the result."""
        return self.unique_id or self.path

    @property
    def error(self) -> str | None:
        """Return why Spark cannot plan the query, or None if it can."""
        return self.findings[0].message if self.findings else None

    def failed(self, why: str) -> ModelResult:
        """Return the result of a query that could not be planned."""
        return replace(self, findings=(Finding("unplanned", why, level="unknown"),))


@dataclass(frozen=True)
class Report:
    """The results of a complete check."""

    models: tuple[ModelResult, ...]  # the checked queries, in the order of the project's graph
    project: tuple[Finding, ...] = ()  # findings about the project as a whole: versions, settings, the extension
    planner: str = ""  # the planner, "live (session)", "live (thrift)" or "offline", with Spark's version
    unfinished: tuple[str, ...] = ()  # models that an interrupted run did not reach
    # Project directory relative to the working directory; empty if they are the same.
    folder: str = field(default="", repr=False)
    about: Mapping[str, str] = field(default_factory=dict)  # project, target, commit and date, if known


FailOn = Literal["error", "warning", "note", "never"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note", "unknown")


class Found(NamedTuple):
    """A finding with its model and operator; both are None for project findings."""

    finding: Finding
    model: ModelResult | None = None
    operator: OperatorResult | None = None

    @property
    def key(self) -> str:
        """Return the string that identifies the model; empty for project findings."""
        return self.model.key if self.model else ""

    @property
    def is_unknown(self) -> bool:
        """Return whether the finding is about something that could not be checked."""
        return self.finding.level == "unknown"


def all_findings(report: Report) -> Iterator[Found]:
    """Yield all findings: first the project's, then the models' in the order of the report."""
    for finding in report.project:
        yield Found(finding)
    for model in report.models:
        yield from (Found(finding, model) for finding in model.findings)
        for operator in model.operators:
            yield from (Found(finding, model, operator) for finding in operator.findings)


def map_findings(result: ModelResult, change: Callable[[Found], Finding]) -> ModelResult:
    """Return a copy of a result in which a function replaces each finding."""
    operators = (
        replace(operator, findings=tuple(change(Found(finding, result, operator)) for finding in operator.findings))
        for operator in result.operators
    )
    findings = tuple(change(Found(finding, result)) for finding in result.findings)
    return replace(result, operators=tuple(operators), findings=findings)


def map_all_findings(report: Report, change: Callable[[Found], Finding]) -> Report:
    """Return a copy of a report in which a function replaces each finding."""
    project = tuple(change(Found(finding)) for finding in report.project)
    return replace(report, models=tuple(map_findings(model, change) for model in report.models), project=project)


def open_findings(report: Report, unknown: bool = False) -> list[Found]:
    """Return the findings that are not accepted, sorted by bytes (most first), level (worst first) and model.

    With `unknown`, return the findings about what could not be checked instead, in the order of the report.
    """

    def order(found: Found) -> tuple[int, int, str, int]:
        finding, name = found.finding, found.model.name if found.model else ""
        return -(finding.bytes_shuffled or 0), LEVELS.index(finding.level), name, finding.line or 0

    left = [found for found in all_findings(report) if not found.finding.accepted and found.is_unknown is unknown]
    return left if unknown else sorted(left, key=order)


def alike_findings(found: Iterable[Found]) -> list[Found]:
    """Merge findings of one operator with the same reason and fixes, such as the findings of both sides of a join.

    The merged finding has all messages, one per line, and the total number of bytes.
    """
    groups: dict[tuple[object, ...], list[Found]] = {}
    for each in found:
        finding = each.finding
        fixes = tuple(fix.sentences for fix in finding.fixes)
        whose = id(each.operator) if each.operator else id(finding)
        key = (whose, finding.reason, finding.level, finding.accepted, fixes)
        groups.setdefault(key, []).append(each)
    merged = []
    for alike in groups.values():
        messages = dict.fromkeys(each.finding.message for each in alike)
        size = sum(each.finding.bytes_shuffled or 0 for each in alike)
        first = replace(alike[0].finding, message="\n".join(messages), bytes_shuffled=size or None)
        merged.append(alike[0]._replace(finding=first))
    return merged


def exit_code(report: Report, fail_on: FailOn) -> int:
    """Return 0 for no findings, 1 for findings at this level or worse, 2 for an unknown result or an interruption.

    An interruption takes precedence over findings, and findings take precedence over unknown results.
    """
    if report.unfinished:
        return COULD_NOT_RUN
    failing = LEVELS[: LEVELS.index(fail_on) + 1] if fail_on != "never" else ()
    if any(found.finding.level in failing for found in open_findings(report)):
        return FINDINGS
    return COULD_NOT_RUN if open_findings(report, unknown=True) else CLEAN
