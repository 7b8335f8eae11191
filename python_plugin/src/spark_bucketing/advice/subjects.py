"""Define the request and the project of `spark-bucketing advise`, the tables that it could bucket, and their sizes.

Sizes come from the metastore, and column statistics from ANALYZE or from a sample.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from spark_bucketing import sql
from spark_bucketing.advice.advice import RejectedTable
from spark_bucketing.advice.layout_options import AdvisedTable
from spark_bucketing.advice.proposal import is_incremental
from spark_bucketing.advice.requirements import CastKey
from spark_bucketing.advice.workload import ColumnStatistics, TableSize
from spark_bucketing.checks.checked_query import Settings
from spark_bucketing.checks.project import CheckRequest
from spark_bucketing.checks.stub_tables import StubTables
from spark_bucketing.errors import ProjectError, SparkError
from spark_bucketing.event_log.measured import Measured
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner, StubPlanner
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node, table_name
from spark_bucketing.spec import HASHES, BucketHash, described_sections

# Bytes to sample for the statistics of one column.
_SAMPLE = 2**30
_LEAST_PERCENT = 0.01
_ROWS = re.compile(r"(\d+) rows")
# lower_bound: 1.0, upper_bound: 7.0, distinct_count: 5
_BIN = re.compile(r"lower_bound: (?P<lower>[^,]+), upper_bound: (?P<upper>[^,]+),")


def live_catalog(planner: Planner, manifest: Manifest) -> Mapping[str, CatalogTable]:
    """Return the columns and sizes of all existing tables, by unique id."""
    found = {}
    for node in manifest.nodes.values():
        if not node.relation or node.materialized in ("view", "ephemeral"):
            continue
        name = table_name(node.relation)
        quoted = sql.table(name)
        try:
            plan = planner.plan(f"select * from {quoted}")  # noqa: S608 quoted
            table = next(iter(plan.described.values()), None)
            if table is None:
                continue
            size = table.size_bytes
            if size is None and table.partition_columns:
                # Spark lists only the files of selected partitions, so select all of them.
                condition = f"{sql.name(table.partition_columns[0])} is not null"
                plan = planner.plan(f"select * from {quoted} where {condition}")  # noqa: S608 quoted
            size = plan.table_bytes(table.name) if size is None else size
            partitions = len(planner.rows(f"show partitions {quoted}")) if table.partition_columns else None
        except SparkError:
            continue
        found[node.unique_id] = CatalogTable(table.columns, size, partitions)
    return found


def table_sizes(
    manifest: Manifest,
    given: Mapping[str, TableSize],
    catalogs: Sequence[Mapping[str, CatalogTable]],
    assumed: int | None,
) -> dict[str, TableSize]:
    """Return table sizes by unique id: given by the user, else from the first catalog that knows them, else assumed."""
    found = {}
    for unique_id, node in manifest.nodes.items():
        if node.relation:
            mine = next((given[name] for name in names_of(node) if name in given), TableSize())
            known: list[TableSize | CatalogTable] = [mine, *(one[unique_id] for one in catalogs if unique_id in one)]
            sizes = (one.size_bytes for one in known if one.size_bytes is not None)
            partitions = (one.partitions for one in known if one.partitions is not None)
            found[unique_id] = replace(mine, size_bytes=next(sizes, assumed), partitions=next(partitions, None))
    return found


def names_of(node: Node) -> tuple[str, ...]:
    """Return all names that may refer to a model or source, in lower case."""
    table = table_name(node.relation) if node.relation else node.name.lower()
    return (node.unique_id.lower(), table, f"{node.source_name}.{node.name}".lower(), node.name.lower())


def unknown_names(manifest: Manifest, given: Iterable[str]) -> list[str]:
    """Return the names that match no model, source or table of the project."""
    known = _names(manifest)
    return [name for name in given if name.lower() not in known]


def _names(manifest: Manifest) -> set[str]:
    return {name for node in manifest.nodes.values() for name in names_of(node)}


def refuse_unknown(manifest: Manifest, path: Path | None, given: Iterable[str]) -> None:
    """Reject a file from the user if it names unknown tables, because these entries would have no effect."""
    if unknown := unknown_names(manifest, given):
        near = get_close_matches(unknown[0].lower(), sorted(_names(manifest)), 1)
        raise ProjectError(
            f"The file `{path}` contains names that do not exist in the project.",
            found=", ".join(unknown[:5]),
            expected="names of models, of sources (`source.table`) or of tables (`schema.table`)",
            instead=near[0] if near else "remove them",
        )


def column_facts(planner: Planner, subject: AdvisedTable, columns: Sequence[str], profile: bool) -> TableSize:
    """Return a table's size and its column statistics, from ANALYZE or, if profiling is on, from a sample."""
    known = dict(subject.facts.columns)
    table = sql.table(subject.table.name)
    try:
        _, _, details = described_sections(planner.rows(f"describe table extended {table}") if not profile else ())
    except SparkError:
        return subject.facts
    analyzed = _ROWS.search(details.get("Statistics", ""))
    rows = int(analyzed[1]) if analyzed else None
    for column in columns:
        if column in known:
            continue
        try:
            known[column] = _sampled(planner, subject, column) if profile else _analyzed(planner, table, column, rows)
        # The table does not exist yet.
        except SparkError:
            continue
    return replace(subject.facts, columns=known)


def _sampled(planner: Planner, subject: AdvisedTable, column: str) -> ColumnStatistics:
    percent = min(100.0, max(_LEAST_PERCENT, 100 * _SAMPLE / max(subject.bytes, 1)))
    table = sql.table(subject.table.name)
    sample = "" if percent == 100 else f" tablesample ({percent:.4f} percent) repeatable (1)"
    inner = f"select count(*) as n from {table}{sample} group by {sql.name(column)}"  # noqa: S608 quoted
    (row,) = planner.rows(f"select count(*) as different, max(n) as most, sum(n) as total from ({inner})")  # noqa: S608
    if not row["total"]:
        return ColumnStatistics()
    return ColumnStatistics(int(row["different"]), float(row["most"]) / float(row["total"]))


def _analyzed(planner: Planner, table: str, column: str, rows: int | None) -> ColumnStatistics:
    """Return the statistics that ANALYZE stored for a column, if any. A histogram reveals frequent values."""
    rows_of_column = planner.rows(f"describe table extended {table} {sql.name(column)}")
    found = [(str(row["info_name"]), str(row["info_value"])) for row in rows_of_column]
    values = dict(found)
    texts = (values.get(what, "") for what in ("distinct_count", "num_nulls"))
    distinct, nulls = (int(text) if text.isdecimal() else None for text in texts)
    shares = [nulls / rows] if nulls and rows else []
    # A bin of an equi-height histogram contains a single value if its bounds are equal.
    bins = [_BIN.match(text) for name, text in found if name.startswith("bin_")]
    ends = [one["lower"] for one in bins if one and one["lower"] == one["upper"]]
    present = 1 - sum(shares)
    shares += [number / len(bins) * present for number in Counter(ends).values()]
    known = shares or (bins and distinct)
    return ColumnStatistics(distinct, max(shares, default=0.0) if known else None)


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
    max_rewrite: int | None = None  # maximum number of bytes to rewrite
    profile: bool = False  # query the warehouse for column statistics
    explain: str | None = None  # the name of a table
    apply: bool = False  # write the edits
    costly: bool = False  # also return specs that save shuffles and sorts, but less than they cost
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


def cast_columns(queries: Mapping[CastKey, Iterable[str]], tables: Collection[str]) -> list[RejectedTable]:
    """Return the columns of these tables that could be bucket columns if the queries did not cast them."""
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
) -> tuple[dict[str, AdvisedTable], dict[str, AdvisedTable], list[RejectedTable]]:
    """Return the models and the sources that could be bucketed, and the tables that were rejected."""
    subjects: dict[str, AdvisedTable] = {}
    sources: dict[str, AdvisedTable] = {}
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
        named = node.config.get("bucket_hash")
        given = table.spec.bucket_hash if table.spec else named if named in HASHES else None
        evolves = is_incremental(node) and bool(table.partition_columns) and around.settings.extension
        # One run of an incremental model writes one partition.
        by_partition = is_incremental(node) and node.config.get("partition_by")
        written = around.runs_of(node) / (max(facts.partitions or 1, 1) if by_partition else 1)
        subject = AdvisedTable(table, facts, written, given or default, evolves)
        if why := _objection(node, subject, around.request.smallest, around.settings.extension):
            # A source that consists of files has a stub table with a made-up name.
            in_files = node.source_name and relations[unique_id] != node.relation
            left_out.append(RejectedTable(f"{node.source_name}.{node.name}" if in_files else name, why))
        elif node.resource_type == "source":
            sources[name] = subject
        else:
            subjects[name] = subject
    return subjects, sources, left_out


def _default_hash(tables: Iterable[TableFacts], extension: bool) -> BucketHash:
    """Return the most frequent hash of the project's tables in the Hive layout, for tables without buckets.

    Without such tables, it is bucketing version 2. Version 1 hashes an integer to itself, so that keys with a pattern
    fill few buckets.
    """
    used = Counter(table.spec.bucket_hash for table in tables if table.spec and table.spec.in_hive_layout)
    default: BucketHash = "hive2" if extension else "spark"
    return used.most_common(1)[0][0] if used and extension else default


def _objection(node: Node, subject: AdvisedTable, smallest: int, extension: bool) -> str:
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
