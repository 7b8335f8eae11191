"""Collect the facts about the tables of plans, and the bucket specs of partitions once per table."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.check.scans import TableFacts, objection
from spark_bucketing.errors import SparkError
from spark_bucketing.plan import PhysicalPlan
from spark_bucketing.plan.document import DescribedTable
from spark_bucketing.plan.planner import Planner
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import in_lower_case, partition_of
from spark_bucketing.table.model import Column, Table


class Facts:
    """The facts about the tables of all plans so far."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._known: dict[str, TableFacts] = {}
        self._partitions: dict[str, Table | None] = {}

    def of(self, plan: PhysicalPlan) -> dict[str, TableFacts]:
        """Return the facts by table name, with the specs of the partitions of each table that has an ordinary scan.

        If the metastore does not know the size of a table, it is the size with which Spark plans the query.
        """
        found = {name: facts_of(plan.described[name]) for name in plan.tables if name in plan.described}
        self._known |= found
        ordinary = {node.scan.table for node in plan.walk() if node.scan and objection(node.scan)}
        for name in ordinary & found.keys():
            found[name] = replace(found[name], partitions=self._partitions_of(found[name]))
        unknown = {name: facts for name, facts in found.items() if facts.size_bytes is None}
        return found | {name: replace(facts, size_bytes=plan.table_bytes(name)) for name, facts in unknown.items()}

    def known(self) -> tuple[TableFacts, ...]:
        """Return the facts about all tables that were described so far."""
        return tuple(self._known.values())

    def _partitions_of(self, facts: TableFacts) -> Table | None:
        """Return the bucket specs of a table's partitions, for which Spark lists their files."""
        if facts.partition_columns and facts.name not in self._partitions:
            self._partitions[facts.name] = self._read_partitions(facts)
        return self._partitions.get(facts.name)

    def _read_partitions(self, facts: TableFacts) -> Table | None:
        try:
            found = self._planner.rows(sql.bucket_specs(facts.name))
        except SparkError:
            return None
        rows = (dict(zip(sql.SPEC_COLUMNS, row, strict=True)) for row in found)
        columns = tuple(Column(name, facts.columns.get(name, "string")) for name in facts.partition_columns)
        return Table(facts.name, in_lower_case(facts.spec), columns, tuple(map(partition_of, rows)))


def facts_of(table: DescribedTable) -> TableFacts:
    """Return the facts about a table that the document describes."""
    return TableFacts(
        name=table.name,
        columns={name.lower(): kind for name, kind in table.columns.items()},
        spec=table.spec,
        partition_columns=tuple(map(str.lower, table.partition_columns)),
        size_bytes=table.size_bytes,
        file_format=table.format,
        files_per_bucket=table.files_per_bucket,
        is_empty=table.is_empty,
    )
