"""Define the request of `spark-bucketing advise`, the tables that it could bucket, and their sizes, values and runs.

The user states sizes, values and runs in files. Other sizes come from the metastore, column statistics from ANALYZE or
from a sample, and other runs from event logs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing import sql
from spark_bucketing.advice.advice import MeasuredKeys, ProposedSpec, RejectedTable
from spark_bucketing.advice.query_plans import CastKey, RequiredLayout, Requirement
from spark_bucketing.checks.checked_query import Settings
from spark_bucketing.checks.project import CheckRequest
from spark_bucketing.checks.stub_tables import StubTables
from spark_bucketing.errors import ProjectError, SparkError
from spark_bucketing.event_log.measured import Measured
from spark_bucketing.event_log.plan_costs import Cost, TableKeys
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node, table_name
from spark_bucketing.spec import HASHES, BucketHash, BucketSpec, described_sections
from spark_bucketing.units import parse_size

# dbt commands that build models; results of other commands, such as compile, do not count as runs.
_BUILDING = (None, "run", "build", "retry")


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics about a column's values."""

    distinct: int | None = None  # number of distinct values
    largest: float | None = None  # share of the rows that have the most frequent value, from 0 to 1


@dataclass(frozen=True)
class TableSize:
    """The known facts about a table's size."""

    size_bytes: int | None = None
    partitions: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)  # by column name in lower case


def read_sizes(path: Path) -> Mapping[str, TableSize]:
    """Read table sizes. The keys are names of models, sources (source.table) or tables (schema.table)."""
    with ProjectError.replacing(
        (AttributeError, TypeError, ValueError),
        f"The file `{path}` contains invalid sizes.",
        "for each model or table, its bytes, or a mapping with bytes, partitions and columns",
        '{"orders": "120GiB", "clicks": {"bytes": "2TiB", "partitions": 365, '
        '"columns": {"user_id": {"distinct": 1000000, "largest": 0.001}}}}',
    ):
        return _once((str(name).lower(), _facts(entry)) for name, entry in _read(path).items())


def read_runs(path: Path) -> Mapping[str, float]:
    """Read how often each model ran, from a mapping, or from one or a directory of dbt's run_results.json."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    counted: Counter[str] = Counter()
    with ProjectError.replacing(
        (AttributeError, KeyError, TypeError, ValueError),
        f"The file `{path}` contains invalid numbers of runs.",
        "dbt's `run_results.json`, a directory of such files, or a mapping of models to numbers",
        '{"orders": 24, "daily_report": 1}',
    ):
        for file in files:
            data = _read(file)
            if "results" in data:
                built = (data.get("args") or {}).get("which") in _BUILDING
                counted.update(one["unique_id"] for one in data["results"] if built and one.get("status") == "success")
            elif not path.is_dir():
                counted.update({str(name): float(number) for name, number in data.items()})
        if not counted or any(not 0 <= number < inf for number in counted.values()):
            raise ValueError("a number of runs that is negative or not a number" if counted else "no run of any model")
    return {name.lower(): float(number) for name, number in counted.items()}


def _read(path: Path) -> dict[str, Any]:
    kinds, instead = (OSError, ValueError, yaml.YAMLError), "check the path and the content of the file"
    with ProjectError.replacing(kinds, f"The file `{path}` cannot be read.", "a JSON or YAML file", instead):
        text = path.read_text(encoding="utf-8")
        is_json = path.suffix == ".json"
        data = json.loads(text, object_pairs_hook=_once) if is_json else yaml.load(text, _Loader)  # noqa: S506  (safe)
    if not isinstance(data, dict):
        raise ProjectError(
            f"The file `{path}` does not contain a mapping.",
            found=type(data).__name__,
            expected="a mapping of names to values",
            instead='write the values as in `{"orders": 24}`',
        )
    return data


def _once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Build a mapping, and reject duplicate keys, because a later entry would silently override an earlier one."""
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate name {name}")
        found[name] = value
    return found


class _Loader(yaml.SafeLoader):
    """A loader that rejects duplicate keys."""


_Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: _once(loader.construct_pairs(node, deep=True)))


def _facts(entry: Any) -> TableSize:
    if not isinstance(entry, dict):
        return TableSize(parse_size(entry))
    _refuse_other_keys(entry, {"bytes", "partitions", "columns"})
    size = parse_size(entry["bytes"]) if "bytes" in entry else None
    columns = {str(name).lower(): _column(one) for name, one in (entry.get("columns") or {}).items()}
    return TableSize(size, _whole(entry, "partitions"), columns)


def _column(entry: Any) -> ColumnStatistics:
    if not isinstance(entry, dict):
        raise ValueError(f"{entry!r} for a column")
    _refuse_other_keys(entry, {"distinct", "largest"})
    largest = float(entry["largest"]) if "largest" in entry else None
    if largest is not None and not 0 <= largest <= 1:
        raise ValueError(f"largest: {entry['largest']!r} is not a share from 0 to 1")
    return ColumnStatistics(_whole(entry, "distinct"), largest)


def _whole(entry: Mapping[str, Any], key: str) -> int | None:
    """Return the value of a key as an integer, or None if the key is missing."""
    if key not in entry:
        return None
    number = float(entry[key])
    if not 0 <= number < inf or number != int(number):
        raise ValueError(f"{key}: {entry[key]!r} is not a whole number")
    return int(number)


def _refuse_other_keys(entry: Mapping[str, Any], known: set[str]) -> None:
    if unknown := set(entry) - known:
        raise ValueError(f"{min(map(str, unknown))!r}")


_KINDS = ("join", "aggregate", "window")


def measured_runs(measured: Measured, nodes: Mapping[str, str]) -> dict[str, float]:
    """Return how often each model ran, by unique id, or nothing if the logs contain no run of any model."""
    found: dict[str, float] = {}
    known, commented = ({node.lower() for node in some} for some in (nodes.values(), measured.runs))
    for node in measured.nodes():
        name = nodes.get(node.removeprefix("table."), node).lower()
        # Where runs have a model's query comment, other statements that write its table are not runs of the model.
        if name in known and (name == node.lower() or name not in commented):
            found[name] = found.get(name, 0) + len(measured.runs_of(node))
    # Other tools write sources.
    return {} if all(name.startswith("source.") for name in found) else found


def unplanned_layouts(measured: Measured, models: Collection[str]) -> tuple[RequiredLayout, ...]:
    """Return the requirements of statements that are not models of the project, such as queries of BI tools."""
    return tuple(
        RequiredLayout(node or "ad-hoc query", operator.kind, sides, united=operator.kind != "join" and len(sides) > 1)
        for node, operators in measured.operators.items()
        if node not in models
        for operator, costs in operators.items()
        if operator.kind in _KINDS
        if (
            sides := tuple(_requirement(keys, cost, operator.kind) for keys, cost in costs.items() if any(keys.columns))
        )
        and len(sides) <= 2
    )


def _requirement(keys: TableKeys, cost: Cost, kind: str) -> Requirement:
    # A join and a window sort the rows that they shuffle.
    ordered = float(cost.shuffle_bytes) if kind != "aggregate" else 0.0
    order = tuple(column for column in keys.columns if column) if ordered else ()
    return Requirement(keys.table, keys.columns, float(cost.shuffle_bytes), ordered, order)


def ranked(measured: Measured) -> tuple[MeasuredKeys, ...]:
    """Return all tables and keys, first those with the most shuffle bytes, then spilled bytes, then task time."""
    sums: dict[tuple[str, tuple[str, ...]], Cost] = {}
    for keys, cost in measured.costs().items():
        columns = tuple(dict.fromkeys(column for column in keys.columns if column))
        sums.setdefault((keys.table, columns), Cost()).add(cost)
    found = [MeasuredKeys(table, columns, cost) for (table, columns), cost in sums.items()]
    return tuple(
        sorted(found, key=lambda one: (-one.cost.shuffle_bytes, -one.cost.spill_bytes, -one.cost.task_ms, one.table))
    )


def with_costs(changes: Iterable[ProposedSpec], found: Collection[MeasuredKeys]) -> tuple[ProposedSpec, ...]:
    """Add to each change the measured costs of all keys that contain all of its bucket columns."""
    measured = []
    for change in changes:
        total = Cost()
        for one in found:
            if one.table == change.table and set(change.after.bucket_columns) <= set(one.columns):
                total.add(one.cost)
        measured.append(replace(change, measured=total))
    return tuple(measured)


@dataclass(frozen=True)
class AdvisedTable:
    """A table that could be bucketed."""

    table: TableFacts  # with its current spec
    facts: TableSize
    written: float = 1.0  # bytes written over all runs, as a multiple of the table's size
    bucket_hash: BucketHash = "hive"
    evolves: bool = False  # whether old partitions keep their layout when the table gets a Hive layout

    def rewritten(self, spec: BucketSpec | None) -> int:
        """Return how many bytes the next run rewrites if the table gets this spec."""
        return 0 if self.evolves_to(spec) or spec == self.table.spec else self.bytes

    def evolves_to(self, spec: BucketSpec | None) -> bool:
        """Return whether old partitions keep their bucket specs if the table gets this spec."""
        return self.evolves and spec is not None and spec.in_hive_layout

    @property
    def bytes(self) -> int:
        """Return the total size of the files in bytes."""
        return self.facts.size_bytes or 0

    @property
    def per_partition(self) -> float:
        """Return the mean size of a partition in bytes, or the table's size if it is not partitioned."""
        return self.bytes / max(self.facts.partitions or 1, 1) if self.table.partition_columns else self.bytes


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
# Strategies of bucketed_incremental that stock Spark supports.
_WITHOUT_EXTENSION = ("insert_overwrite", "microbatch")
# This package's materializations, and the materializations of dbt-spark that they can replace.
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
    around: ProjectContext, planner: Planner, stub: StubTables
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
        evolves = node.is_incremental and bool(table.partition_columns) and around.settings.extension
        # One run of an incremental model writes one partition.
        by_partition = node.is_incremental and node.config.get("partition_by")
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
    if node.is_incremental and strategy not in _WITHOUT_EXTENSION and not extension:
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
