"""Define the request and the project of `spark-bucketing advise`, and the tables that it could bucket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from spark_bucketing.plan.hypothetical_table import HypotheticalTable
from spark_bucketing.plan.planner import StubPlanner
from spark_bucketing.project.manifest import Manifest, Node, table_name
from spark_bucketing.spec import BucketHash

OnProgress = Callable[[str], None]
MIB = 2**20
# This package's materializations, and the materializations of dbt-spark that they can replace.
# Strategies of bucketed_incremental that stock Spark supports.
_WITHOUT_EXTENSION = ("insert_overwrite", "microbatch")
_BUILT = ("table", "incremental", "bucketed_table", "bucketed_incremental")


@dataclass(frozen=True)
class AdviseRequest:
    """The arguments of the command; all paths are absolute."""

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
    """A project with its settings, table sizes and numbers of runs."""

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
    """Return table columns that could be bucket columns if the queries did not cast them.

    The result covers only the given tables.
    """
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
    around: ProjectContext, planner: StubPlanner, stub: StubTables
) -> tuple[dict[str, Subject], dict[str, Subject], list[RejectedTable]]:
    """Return the models and the sources that could be bucketed, and the tables that were rejected."""
    subjects: dict[str, Subject] = {}
    sources: dict[str, Subject] = {}
    left_out: list[RejectedTable] = []
    relations = {unique_id: stub.relation(around.manifest.nodes[unique_id]) for unique_id in around.manifest.order}
    names = {unique_id: table_name(relation) for unique_id, relation in relations.items() if relation}
    tables = {name: table for name in names.values() if (table := planner.table(name))}
    default = _default_hash(tables.values(), around.settings.extension)
    for unique_id, name in names.items():
        node, table = around.manifest.nodes[unique_id], tables.get(name)
        if table is None:
            continue
        facts = around.sizes.get(unique_id, TableSize())
        given = table.spec.bucket_hash if table.spec else None
        evolves = is_incremental(node) and bool(table.partition_columns) and around.settings.extension
        written = around.runs_of(node) * _written(node, facts)
        subject = Subject(table, facts, written, given or default, evolves)
        if why := _objection(node, subject, around.request.smallest, around.settings.extension):
            # A source that consists of files has a stub table with a made-up name.
            in_files = node.source_name and relations[unique_id] != node.relation
            left_out.append(RejectedTable(f"{node.source_name}.{node.name}" if in_files else name, why))
        elif node.resource_type == "source":
            sources[name] = subject
        else:
            subjects[name] = subject
    return subjects, sources, left_out


def _default_hash(tables: Iterable[HypotheticalTable], extension: bool) -> BucketHash:
    """Return the default hash for tables that are not yet bucketed.

    The default is the most frequent hash of the project's tables in the Hive layout.
    """
    used = Counter(table.spec.bucket_hash for table in tables if table.spec and table.spec.in_hive_layout)
    default: BucketHash = "hive" if extension else "spark"
    return used.most_common(1)[0][0] if used and extension else default


def _written(node: Node, facts: TableSize) -> float:
    """Return the fraction of a table that one run writes.

    For an incremental model, this is one partition, otherwise the whole table.
    """
    return 1 / max(facts.partitions or 1, 1) if is_incremental(node) and node.config.get("partition_by") else 1.0


def _objection(node: Node, subject: Subject, smallest: int, extension: bool) -> str:
    if node.resource_type != "source" and node.materialized not in _BUILT:
        return f"materialized as {node.materialized}, which has no bucketed counterpart"
    strategy = str(node.config.get("incremental_strategy") or "append")
    if is_incremental(node) and strategy not in _WITHOUT_EXTENSION and not extension:
        return f"incremental_strategy={strategy}, which needs the session extension in a bucketed table"
    if subject.table.file_format not in ("parquet", "orc"):
        return f"format {subject.table.file_format}; bucketed tables must be Parquet or ORC"
    if subject.facts.size_bytes is None:
        return "unknown size; run dbt docs generate, or pass --sizes or --assume-size"
    if subject.bytes < smallest:
        return "smaller than --smallest"
    if subject.table.partition_columns and subject.facts.partitions is None:
        return "unknown number of partitions; pass --sizes with `partitions`"
    return ""
