"""What the check finds out: models, their operators, a verdict for each, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from spark_bucketing.check.sql_text import Rewrite
from spark_bucketing.plan.known_operators import OperatorKind
from spark_bucketing.plan.tree import PlanCounts
from spark_bucketing.spec import BucketSpec

Level = Literal["error", "warning", "note"]
Acceptance = Literal["allow", "baseline"]
FixKind = Literal["setting", "bucket_spec", "column_type", "extension", "rewrite_files", "sql"]


class Verdict(str, Enum):
    """How Spark brings the rows of an operator together, best first."""

    SORT_FREE = "sort-free"
    SHUFFLE_FREE = "shuffle-free"
    ONE_SIDED = "one-sided"
    SHUFFLED = "shuffled"
    BROADCAST = "broadcast"
    NOT_BUCKETED = "not bucketed on purpose"
    UNKNOWN = "unknown"


# Of several operators that read a table, the one that a graph shows for it.
_WORST_FIRST = (
    Verdict.SHUFFLED, Verdict.ONE_SIDED, Verdict.UNKNOWN, Verdict.SHUFFLE_FREE, Verdict.SORT_FREE, Verdict.BROADCAST,
    Verdict.NOT_BUCKETED,
)  # fmt: skip


def worst(operators: Iterable[OperatorResult]) -> Verdict | None:
    """The verdict that matters most; None where there is no operator."""
    return min((operator.verdict for operator in operators), key=_WORST_FIRST.index, default=None)


@dataclass(frozen=True)
class OtherQuery:
    """What a fix does to another query of the project that reads the table."""

    name: str  # the model's, or the file's
    before: PlanCounts  # its Exchanges and Sorts
    after: PlanCounts | None  # the same with the fix; None where Spark cannot plan it any more


@dataclass(frozen=True)
class Candidate:
    """Something that could be done about a finding; whether it helps is found out by planning with it."""

    kind: FixKind  # what is to be changed
    text: str  # for the user: what to write, and where
    settings: Mapping[str, str] = field(default_factory=dict)  # Spark settings and their values
    table: str | None = None  # for kinds bucket_spec, column_type and rewrite_files: which table is written anew
    spec: BucketSpec | None = None  # for kind bucket_spec: what its spec should be
    # Columns of the table and the types that they should have, by lower-case names.
    column_types: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None  # for kind rewrite_files: a predicate that selects the partitions, where these are not all
    rewrite: Rewrite | None = None  # makes other SQL of the query
    # Settings by which empty tables are planned as the changed ones will be.
    planned_as_if: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fix(Candidate):
    """What, applied alone, changes an operator's verdict: one change, or one that takes another with it."""

    verdict: Verdict = Verdict.SORT_FREE  # that the operator has afterwards
    also: tuple[Fix, ...] = ()  # a further change without which this one is of no use; the text has both
    before: PlanCounts = field(default_factory=PlanCounts)  # Exchanges and Sorts of the whole query
    after: PlanCounts = field(default_factory=PlanCounts)  # the same with the fix
    others: tuple[OtherQuery, ...] = ()  # other queries of the project whose plans it changes


@dataclass(frozen=True)
class Finding:
    """One thing that stands in the way: the cause of an Exchange or a Sort, or of a layout that cannot work."""

    reason: str  # slug of the reason, one of check.reasons
    message: str  # what was found, with tables, columns and numbers
    tables: tuple[str, ...] = ()  # tables that it concerns
    level: Level = "warning"  # error, warning or note
    fixes: tuple[Fix, ...] = ()  # changes, the cheapest first; empty where nothing can be done
    line: int | None = None  # line of the model's file, from 1, where it could be mapped back
    source: str = ""  # the text of that line
    bytes_shuffled: int | None = None  # estimate of what is moved or sorted for it
    # What accepts it, so that it fails no run: the model's meta or a baseline; None when nothing does.
    accepted: Acceptance | None = None
    candidates: tuple[Candidate, ...] = ()  # what could be changed, as long as nobody has tried it out
    explains: tuple[int, ...] = ()  # numbers of the plan's nodes that it stands for


@dataclass(frozen=True)
class OperatorResult:
    """A join, aggregate, window or distinct of a model's plan, and what was found about it."""

    # What it is; other for an operator of another engine whose kind is not known, and which is unknown.
    kind: OperatorKind
    description: str  # for the user: the kind of join, and the keys, with the names of tables where they are known
    verdict: Verdict  # how its rows come together
    tables: tuple[str, ...] = ()  # tables that its inputs read, in the plan's order
    # Exchanges on the ways from its inputs' tables (or the operators below) to it, and limits that gather rows
    # without one
    exchanges: int = 0
    sorts: int = 0  # Sorts on these ways
    findings: tuple[Finding, ...] = ()  # one for each Exchange or Sort on a bucketed table's way
    accepted: Acceptance | None = None  # what accepts that it was not understood; None when nothing does


@dataclass(frozen=True)
class Parent:
    """A parent of a model in the project's graph, and what happens to its rows there."""

    unique_id: str  # dbt's
    verdict: Verdict | None = None  # the worst one of the operators that read its table; None where no operator does


@dataclass(frozen=True)
class ModelResult:
    """A model, or a file of SQL, as it was checked."""

    name: str  # the model's name, or the file's
    path: str  # its file, relative to the project's folder
    operators: tuple[OperatorResult, ...] = ()  # in the plan's order, from the top
    error: str | None = None  # why it could not be planned, in Spark's own words; None when it was
    unique_id: str | None = None  # dbt's; None for a file of SQL
    inputs: tuple[Parent, ...] = ()  # its parents, each with the verdict on the way from it
    accepted: Acceptance | None = None  # what accepts that it could not be planned; None when nothing does

    @property
    def key(self) -> str:
        """By which it is identified."""
        return self.unique_id or self.path


@dataclass(frozen=True)
class Report:
    """All of a run."""

    models: tuple[ModelResult, ...]  # what was checked, in the order of the project's graph
    project: tuple[Finding, ...] = ()  # findings about the project as a whole: versions, settings, the extension
    planner: str = ""  # what answered: "live (session)", "live (thrift)" or "offline", with Spark's version
    unfinished: tuple[str, ...] = ()  # models that were not reached, when the run was interrupted
    folder: str = ""  # the project's, relative to the folder where the check ran; empty when it is the same
    about: Mapping[str, str] = field(default_factory=dict)  # project, target, commit and date, as far as they are known


def map_findings(result: ModelResult, change: Callable[[OperatorResult, Finding], Finding]) -> ModelResult:
    """A result with each finding changed; the function gets its operator, too."""
    operators = (
        replace(operator, findings=tuple(change(operator, found) for found in operator.findings))
        for operator in result.operators
    )
    return replace(result, operators=tuple(operators))
