"""What the metastore knows of the tables of a project, and what a sample of them shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_bucketing.advise.candidates import Subject
from spark_bucketing.advise.sizes import ColumnFacts, SizeFacts
from spark_bucketing.check.facts import described
from spark_bucketing.errors import SparkError
from spark_bucketing.evolution import sql
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.catalog import CatalogTable
from spark_bucketing.project.manifest import Manifest, table_name

# Bytes that are read of a table for each column.
_SAMPLE = 2**30


def live_catalog(planner: Planner, manifest: Manifest) -> Mapping[str, CatalogTable]:
    """Columns and sizes of all tables that are there, by unique id."""
    found = {}
    for node in manifest.nodes.values():
        if not node.relation or node.materialized in ("view", "ephemeral"):
            continue
        quoted = sql.table(table_name(node.relation))
        try:
            facts = described(table_name(node.relation), planner.rows(f"describe table extended {quoted}"))
            size = facts.size_bytes if facts.size_bytes is not None else planner.size_of(quoted)
            partitions = len(planner.rows(f"show partitions {quoted}")) if facts.partition_columns else None
        except SparkError:
            continue
        found[node.unique_id] = CatalogTable(facts.columns, size, partitions)
    return found


def merged(
    manifest: Manifest,
    catalog: Mapping[str, CatalogTable],
    given: Mapping[str, SizeFacts],
    assumed: int | None,
) -> dict[str, SizeFacts]:
    """Sizes by unique id: what the user gives wins, then the metastore or catalog, then what is assumed."""
    found = {}
    for unique_id, node in manifest.nodes.items():
        if not node.relation:
            continue
        names = (unique_id.lower(), table_name(node.relation), f"{node.source_name}.{node.name}".lower(), node.name)
        mine = next((given[name] for name in names if name in given), SizeFacts())
        known = catalog.get(unique_id)
        size = mine.size_bytes if mine.size_bytes is not None else known.size_bytes if known else None
        partitions = mine.partitions if mine.partitions is not None else known.partitions if known else None
        found[unique_id] = replace(mine, size_bytes=assumed if size is None else size, partitions=partitions)
    return found


def column_facts(planner: Planner, subject: Subject, columns: Sequence[str], profile: bool) -> SizeFacts:
    """A table's facts with those of columns: from ANALYZE, or from a sample where that is asked for."""
    known = dict(subject.facts.columns)
    table = sql.table(subject.table.name)
    for column in columns:
        if column in known:
            continue
        try:
            known[column] = _sampled(planner, subject, column) if profile else _analyzed(planner, table, column)
        # A table that is not there yet.
        except SparkError:
            continue
    return replace(subject.facts, columns=known)


def _sampled(planner: Planner, subject: Subject, column: str) -> ColumnFacts:
    percent = min(100, max(1, math.floor(100 * _SAMPLE / max(subject.bytes, 1))))
    table = sql.table(subject.table.name)
    sample = "" if percent == 100 else f" tablesample ({percent} percent) repeatable (1)"
    inner = f"select count(*) as n from {table}{sample} group by {sql.name(column)}"  # noqa: S608 quoted
    distinct, largest, rows = planner.rows(f"select count(*), max(n), sum(n) from ({inner})")[0]  # noqa: S608
    return ColumnFacts(int(distinct), float(largest) / float(rows)) if rows else ColumnFacts()


def _analyzed(planner: Planner, table: str, column: str) -> ColumnFacts:
    rows = planner.rows(f"describe table extended {table} {sql.name(column)}")
    values = {str(row[0]): str(row[1]) for row in rows}
    distinct = values.get("distinct_count", "")
    return ColumnFacts(int(distinct) if distinct.isdecimal() else None)
