"""Define the request, the project, and the tables that `spark-bucketing advise` could bucket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spark_bucketing.advise.advice import RejectedTable
from spark_bucketing.advise.catalogs import names_of
from spark_bucketing.advise.layout_options import Subject
from spark_bucketing.advise.proposal import is_incremental
from spark_bucketing.advise.requirements import CastKey
from spark_bucketing.advise.table_sizes import TableSize
from spark_bucketing.check.artifacts import CheckRequest
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.check.stub_tables import StubTables
from spark_bucketing.event_log.measured import Measured
from spark_bucketing.plan.whatif import WhatIf
from spark_bucketing.project.manifest import Manifest, Node, table_name
from spark_bucketing.spec import BucketHash

OnProgress = Callable[[str], None]
MIB = 2**20
# This package's materializations, and the materializations of dbt-spark that they can replace.
_BUILT = ("table", "incremental", "bucketed_table", "bucketed_incremental")


@dataclass(frozen=True)
class AdviseRequest:
    """The command's arguments; paths are absolute."""

    check: CheckRequest  # the project, and the options for planning it
    sizes: Path | None = None
    runs: Path | None = None
    assume_size: int | None = None  # assumed size in bytes of tables with unknown size; None to skip these tables
    target_file_size: int = 256 * MIB
    smallest: int = 256 * MIB  # bytes; smaller tables are skipped
    budget: int | None = None  # maximum number of bytes to rewrite
    profile: bool = False  # query the warehouse for column statistics
    explain: str | None = None  # the name of a table
    apply: bool = False  # write the edits
    event_logs: tuple[str, ...] = ()  # paths of Spark event logs


@dataclass(frozen=True)
class ProjectContext:
    """A project with its settings, sizes and number of runs."""

    request: AdviseRequest
    manifest: Manifest
    settings: Settings
    sizes: Mapping[str, TableSize]  # by unique id
    runs: Mapping[str, float] = field(default_factory=dict)  # by name or unique id; empty if not given
    measured: Measured | None = None  # costs and runs from event logs; None without event logs

    def runs_of(self, node: Node) -> float:
        """Return how often a model runs; 1 if unknown."""
        if not self.runs:
            return 1.0
        return next((self.runs[name] for name in names_of(node) if name in self.runs), 0.0)


def cast_columns(found: Sequence[CastKey], tables: Collection[str]) -> list[RejectedTable]:
    """Return columns of eligible tables that could be bucket columns if queries did not cast them."""
    queries: dict[tuple[str, str, str], dict[str, None]] = {}
    for key in found:
        queries.setdefault((key.table, key.column, key.type), {})[f"{key.query} ({key.kind})"] = None
    return [
        RejectedTable(
            table,
            f"cast to {kind} in {', '.join(names)}; Spark hashes the stored values, so store the column with that type",
            (column,),
        )
        for (table, column, kind), names in queries.items()
        if table in tables
    ]


def subjects_of(
    around: ProjectContext, whatif: WhatIf, stub: StubTables
) -> tuple[dict[str, Subject], dict[str, Subject], list[RejectedTable]]:
    """Return the models and the sources that could be bucketed, and the rejected tables."""
    subjects: dict[str, Subject] = {}
    sources: dict[str, Subject] = {}
    left_out: list[RejectedTable] = []
    for unique_id in around.manifest.order:
        node = around.manifest.nodes[unique_id]
        relation = stub.relation(node)
        name = table_name(relation) if relation else ""
        table = whatif.table(name) if name else None
        if table is None:
            continue
        facts = around.sizes.get(unique_id, TableSize())
        given = table.spec.bucket_hash if table.spec else None
        default: BucketHash = "hive" if around.settings.extension else "spark"
        evolves = is_incremental(node) and bool(table.partition_columns) and around.settings.extension
        written = around.runs_of(node) * _written(node, facts)
        subject = Subject(table, facts, written, given or default, evolves)
        if why := _objection(node, subject, around.request.smallest):
            left_out.append(RejectedTable(name, why))
        elif node.resource_type == "source":
            sources[name] = subject
        else:
            subjects[name] = subject
    return subjects, sources, left_out


def _written(node: Node, facts: TableSize) -> float:
    """Return the share of a table that one run writes: one partition of an incremental model, or the whole table."""
    return 1 / max(facts.partitions or 1, 1) if is_incremental(node) and node.config.get("partition_by") else 1.0


def _objection(node: Node, subject: Subject, smallest: int) -> str:
    if node.resource_type != "source" and node.materialized not in _BUILT:
        return f"materialized as {node.materialized}, which has no bucketed counterpart"
    if subject.table.file_format not in ("parquet", "orc"):
        return f"format {subject.table.file_format}; bucketed tables must be Parquet or ORC"
    if subject.facts.size_bytes is None:
        return "unknown size; run dbt docs generate, or pass --sizes or --assume-size"
    if subject.bytes < smallest:
        return "smaller than --smallest"
    if subject.table.partition_columns and subject.facts.partitions is None:
        return "unknown number of partitions; pass --sizes with `partitions`"
    return ""
