"""Collect table sizes from the metastore, and column statistics from ANALYZE or from a sample."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from spark_bucketing.advise.layout_options import Subject
from spark_bucketing.advise.table_sizes import ColumnStatistics, TableSize
from spark_bucketing.errors import ProjectError, SparkError
from spark_bucketing.plan import PhysicalPlan
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.catalog import CatalogTable
from spark_bucketing.project.manifest import Manifest, Node, table_name
from spark_bucketing.spec import Description
from spark_bucketing.table import sql

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
            size = table.size_bytes if table.size_bytes is not None else _planned_size(planner, quoted, plan)
            partitions = len(planner.rows(f"show partitions {quoted}")) if table.partition_columns else None
        except SparkError:
            continue
        columns = {column.lower(): kind for column, kind in table.columns.items()}
        found[node.unique_id] = CatalogTable(columns, size, partitions)
    return found


def _planned_size(planner: Planner, quoted: str, plan: PhysicalPlan) -> int | None:
    """Return how many bytes Spark expects a full scan to read.

    Planning the scan makes Spark list the table's files.
    """
    (name, table), *_ = plan.described.items()
    if table.partition_columns:
        # Spark lists only the files of selected partitions, so select all of them.
        condition = f"{sql.name(table.partition_columns[0])} is not null"
        plan = planner.plan(f"select * from {quoted} where {condition}")  # noqa: S608 quoted
    return plan.table_bytes(name)


def joined_catalogs(
    there: Mapping[str, CatalogTable], documented: Mapping[str, CatalogTable]
) -> Mapping[str, CatalogTable]:
    """Combine two catalogs.

    Values from the warehouse take precedence over values from the generated docs.
    """
    known = {
        name: replace(table, size_bytes=documented[name].size_bytes)
        for name, table in there.items()
        if table.size_bytes is None and name in documented
    }
    return {**documented, **there, **known}


def merged(
    manifest: Manifest,
    catalog: Mapping[str, CatalogTable],
    given: Mapping[str, TableSize],
    assumed: int | None,
) -> dict[str, TableSize]:
    """Return table sizes by unique id: the size that the user gives, else the known size, else the assumed size.

    Known sizes come from the metastore or from the catalog.
    """
    found = {}
    for unique_id, node in manifest.nodes.items():
        if not node.relation:
            continue
        mine = next((given[name] for name in names_of(node) if name in given), TableSize())
        known = catalog.get(unique_id)
        size = mine.size_bytes if mine.size_bytes is not None else known.size_bytes if known else None
        partitions = mine.partitions if mine.partitions is not None else known.partitions if known else None
        found[unique_id] = replace(mine, size_bytes=assumed if size is None else size, partitions=partitions)
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
    """Reject a file from the user if it names unknown tables, because these entries would have no effect.

    Raises:
        ProjectError: the file contains such a name.
    """
    if unknown := unknown_names(manifest, given):
        near = get_close_matches(unknown[0].lower(), sorted(_names(manifest)), 1)
        raise ProjectError(
            f"The file `{path}` contains names that do not exist in the project.",
            found=", ".join(unknown[:5]),
            expected="names of models, of sources (`source.table`) or of tables (`schema.table`)",
            instead=near[0] if near else "remove them",
        )


def column_facts(planner: Planner, subject: Subject, columns: Sequence[str], profile: bool) -> TableSize:
    """Return a table's size and its column statistics, from ANALYZE or, if profiling is on, from a sample."""
    known = dict(subject.facts.columns)
    table = sql.table(subject.table.name)
    try:
        rows = None if profile else _rows_of(planner, table)
    except SparkError:
        return subject.facts
    for column in columns:
        if column in known:
            continue
        try:
            known[column] = _sampled(planner, subject, column) if profile else _analyzed(planner, table, column, rows)
        # The table does not exist yet.
        except SparkError:
            continue
    return replace(subject.facts, columns=known)


def _sampled(planner: Planner, subject: Subject, column: str) -> ColumnStatistics:
    percent = min(100.0, max(_LEAST_PERCENT, 100 * _SAMPLE / max(subject.bytes, 1)))
    table = sql.table(subject.table.name)
    sample = "" if percent == 100 else f" tablesample ({percent:.4f} percent) repeatable (1)"
    inner = f"select count(*) as n from {table}{sample} group by {sql.name(column)}"  # noqa: S608 quoted
    distinct, largest, rows = planner.rows(f"select count(*), max(n), sum(n) from ({inner})")[0]  # noqa: S608
    return ColumnStatistics(int(distinct), float(largest) / float(rows)) if rows else ColumnStatistics()


def _analyzed(planner: Planner, table: str, column: str, rows: int | None) -> ColumnStatistics:
    """Return the statistics that ANALYZE stored for a column, if any.

    A histogram reveals frequent values.
    """
    found = [(str(row[0]), str(row[1])) for row in planner.rows(f"describe table extended {table} {sql.name(column)}")]
    values = dict(found)
    distinct, nulls = (_number(values.get(what, "")) for what in ("distinct_count", "num_nulls"))
    shares = [nulls / rows] if nulls and rows else []
    # A bin of an equi-height histogram contains a single value if its bounds are equal.
    bins = [_BIN.match(text) for name, text in found if name.startswith("bin_")]
    ends = [one["lower"] for one in bins if one and one["lower"] == one["upper"]]
    present = 1 - sum(shares)
    shares += [number / len(bins) * present for number in Counter(ends).values()]
    known = shares or (bins and distinct)
    return ColumnStatistics(distinct, max(shares, default=0.0) if known else None)


def _rows_of(planner: Planner, table: str) -> int | None:
    """Return the number of rows that ANALYZE stored for a table."""
    details = Description.of(planner.rows(f"describe table extended {table}")).details
    found = _ROWS.search(details.get("Statistics", ""))
    return int(found[1]) if found else None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
