"""What the check finds out: models, their operators, a verdict for each, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from spark_bucketing.evolution.model import Table
from spark_bucketing.spec import BucketSpec

OperatorKind = Literal["join", "aggregate", "distinct", "window", "other"]
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


@dataclass(frozen=True)
class TableFacts:
    """What is known of a table that a plan reads, beside the plan itself.

    Args:
        name: qualified name as Spark prints it: schema.table, or with the catalog before it when that is another one.
        columns: column names and their Spark SQL types, lower case.
        spec: how the metastore says it is bucketed; None for a plain table.
        partition_columns: names of the partition columns.
        size_bytes: of all files, where statistics or the warehouse know.
        files_per_bucket: most files that a bucket of a partition has; None where nobody looked (offline).
        partitions: the specs of its partitions, where these differ from the table's or may do so.
        file_format: parquet, orc and so on.
    """

    name: str
    columns: Mapping[str, str]
    spec: BucketSpec | None = None
    partition_columns: tuple[str, ...] = ()
    size_bytes: int | None = None
    files_per_bucket: int | None = None
    partitions: Table | None = None
    file_format: str = "parquet"


@dataclass(frozen=True)
class PlanCounts:
    """Exchanges and Sorts of a whole plan."""

    exchanges: int = 0
    sorts: int = 0

    def __add__(self, other: PlanCounts) -> PlanCounts:
        return PlanCounts(self.exchanges + other.exchanges, self.sorts + other.sorts)


@dataclass(frozen=True)
class OtherQuery:
    """What a fix does to another query of the project that reads the table.

    Args:
        name: the model's, or the file's.
        before: its Exchanges and Sorts.
        after: the same with the fix; None where Spark cannot plan it any more.
    """

    name: str
    before: PlanCounts
    after: PlanCounts | None


@dataclass(frozen=True)
class Fix:
    """What, applied alone, changes an operator's verdict: one change, or one that takes another with it.

    Args:
        kind: what is to be changed.
        text: for the user: what to write, and where.
        settings: for kind setting: Spark settings and their values.
        table: for kinds bucket_spec, column_type and rewrite_files: which table.
        spec: for kind bucket_spec: what its spec should be.
        column_types: for kind column_type: columns and the types that they should have.
        promises: the best verdict that the operator has afterwards.
        also: a further change without which this one is of no use; the text says both.
        where: for kind rewrite_files: a predicate that selects the partitions, where these are not all.
        before: Exchanges and Sorts of the whole query.
        after: the same with the fix.
        others: other queries of the project whose plans it changes.
    """

    kind: FixKind
    text: str
    promises: Verdict
    settings: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    spec: BucketSpec | None = None
    column_types: Mapping[str, str] = field(default_factory=dict)
    also: tuple[Fix, ...] = ()
    where: str | None = None
    before: PlanCounts = PlanCounts()
    after: PlanCounts = PlanCounts()
    others: tuple[OtherQuery, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing that stands in the way: the cause of an Exchange or a Sort, or of a layout that cannot work.

    Args:
        reason: slug of the reason, one of eligibility.RULES or of the project's warnings.
        message: what was found, with tables, columns and numbers.
        tables: tables that it concerns.
        level: error, warning or note.
        fixes: changes, the cheapest first; empty where nothing can be done.
        line: line of the model's file, from 1, where it could be mapped back.
        bytes_shuffled: estimate of what is moved or sorted for it.
        accepted: what accepts it, so that it fails no run: the model's meta or a baseline; None when nothing does.
    """

    reason: str
    message: str
    tables: tuple[str, ...] = ()
    level: Level = "warning"
    fixes: tuple[Fix, ...] = ()
    line: int | None = None
    bytes_shuffled: int | None = None
    accepted: Acceptance | None = None


@dataclass(frozen=True)
class OperatorResult:
    """A join, aggregate, window or distinct of a model's plan, and what was found about it.

    Args:
        kind: what it is; other for an operator of another engine whose kind is not known, and which is unknown.
        description: for the user: the kind of join, and the keys, with the names of tables where they are known.
        verdict: how its rows come together.
        tables: tables that its inputs read, in the plan's order.
        exchanges: Exchanges on the ways from its inputs' tables (or the operators below) to it, and limits that gather
            rows without one.
        sorts: Sorts on these ways.
        findings: one for each Exchange or Sort on a bucketed table's way.
        accepted: what accepts that it was not understood; None when nothing does.
    """

    kind: OperatorKind
    description: str
    verdict: Verdict
    tables: tuple[str, ...] = ()
    exchanges: int = 0
    sorts: int = 0
    findings: tuple[Finding, ...] = ()
    accepted: Acceptance | None = None


@dataclass(frozen=True)
class Input:
    """A parent of a model in the project's graph, and what happens to its rows there.

    Args:
        unique_id: dbt's.
        verdict: the worst one of the operators that read its table; None where no operator does.
    """

    unique_id: str
    verdict: Verdict | None = None


@dataclass(frozen=True)
class ModelResult:
    """A model, or a file of SQL, as it was checked.

    Args:
        name: the model's name, or the file's.
        path: its file, relative to the project's folder.
        operators: in the plan's order, from the top.
        error: why it could not be planned, in Spark's own words; None when it was.
        unique_id: dbt's; None for a file of SQL.
        depends_on: unique ids of its parents.
        inputs: the same parents, each with the verdict on the way from it.
        accepted: what accepts that it could not be planned; None when nothing does.
    """

    name: str
    path: str
    operators: tuple[OperatorResult, ...] = ()
    error: str | None = None
    unique_id: str | None = None
    depends_on: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    accepted: Acceptance | None = None


@dataclass(frozen=True)
class Report:
    """All of a run.

    Args:
        models: what was checked, in the order of the project's graph.
        project: findings about the project as a whole: versions, settings, the extension.
        planner: what answered: "live (session)", "live (thrift)" or "offline", with Spark's version.
        unfinished: models that were not reached, when the run was interrupted.
        folder: the project's, relative to the folder where the check ran; empty when it is the same.
        about: project, target, commit and date, as far as they are known.
    """

    models: tuple[ModelResult, ...]
    project: tuple[Finding, ...] = ()
    planner: str = ""
    unfinished: tuple[str, ...] = ()
    folder: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
