"""Define a query to check: its plan, its session settings, and how its scans read the buckets of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from spark_bucketing.checks.session_settings import BUCKETING, ORDERING, Settings
from spark_bucketing.errors import SparkError
from spark_bucketing.plan.document import PhysicalPlan, PlanNode, Scan, TableFacts
from spark_bucketing.plan.operators import Operator, find_operators
from spark_bucketing.plan.planner import Planner
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables import sql
from spark_bucketing.tables.metadata import in_lower_case, partition_of
from spark_bucketing.tables.model import Column, Partition, Table, one_spelling

# Codes that give the reason for an ordinary scan; with other codes, the query does not need buckets.
SEAL_CODES = ("not-sealed", "seal-stale", "seal-unreadable", "columns-changed", "files-missing")
MIXED_CODES = ("mixed-specs",)
TASK_CODES = ("too-few-buckets",)
COLUMN_CODES = (
    "unsupported-column", "ambiguous-column",
    "positional-columns", "field-ids", "unsupported-reader",
)  # fmt: skip


def objection(scan: Scan) -> str:
    """Return the ordinary-scan code if its cause rules out a useful bucketed scan, or an empty string otherwise."""
    return scan.code if scan.code in (*SEAL_CODES, *MIXED_CODES, *COLUMN_CODES, *TASK_CODES) else ""


@dataclass(frozen=True)
class BucketedScan:
    """A scan of a table that is bucketed according to its metadata."""

    node: PlanNode  # the scan's node in the plan
    scan: Scan  # how Spark reads the table
    facts: TableFacts  # facts about the table
    spec: BucketSpec  # the table's spec
    settings: Settings  # the session's settings

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.facts.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the bucket columns in lower case."""
        return tuple(name.lower() for name in self.spec.bucket_columns)

    @property
    def by_hive_reader(self) -> bool:
        """Return whether Spark does not use its own file readers, but the reader of Hive, which ignores buckets."""
        return self.scan.format == "hive"

    @property
    def by_extension(self) -> bool:
        """Return whether the extension, not stock Spark, reads the table or would read it."""
        return self.settings.extension and (self.scan.by_extension or not self.scan.bucketed)

    @property
    def left_to_stock(self) -> bool:
        """Return whether stock Spark reads the table although the extension is enabled.

        Stock Spark reads unsealed tables in the Spark layout.

        A table without files needs no seal: the extension reads it if an operator uses its buckets.
        """
        stock = bool(self.scan.bucketed) and not self.scan.by_extension
        return stock and self.settings.extension and self.spec.bucket_hash == "spark" and not self.facts.is_empty

    @cached_property
    def readable(self) -> bool:
        """Return whether Spark can read the table's buckets, according to the plan and the metastore."""
        if self.scan.bucketed:
            return True
        if objection(self.scan) or not self.settings.on(BUCKETING):
            return False
        # Spark's own readers for these formats support buckets, but Hive's reader does not.
        known = self.settings.extension and self.scan.format in ("parquet", "orc")
        read = {column.text.lower() for column in self.node.output}
        return (known or not self.spec.in_hive_layout) and read.issuperset(self.columns)

    @property
    def ordered(self) -> bool:
        """Return whether Spark reads the rows of each bucket in the order of the table's sort columns."""
        if not self.spec.sort_columns or not self.readable:
            return False
        if self.scan.by_extension:
            return self.scan.sorted
        return self.settings.on(ORDERING) and self.files == 1

    @property
    def partitions_read(self) -> int:
        """Return how many partitions the scan reads.

        Without known partitions, for example in an offline check, this is 2 for a partitioned table.
        """
        if not self.facts.partition_columns:
            return 1
        return 2 if self.scan.partitions is None else self.scan.partitions

    @property
    def files(self) -> int:
        """Return the largest number of files that the scan reads for any bucket."""
        return self.facts.files_per_bucket * self.partitions_read


def selected_partitions(scan: Scan, table: Table) -> tuple[Partition, ...]:
    """Return the partitions that Spark selects for a scan during planning, or all partitions if they are unknown."""
    if scan.folders is None:
        return table.partitions
    wanted = {one_spelling(folder) for folder in scan.folders}
    found = {partition.name: one_spelling(partition.location) for partition in table.partitions}
    # An unmatched directory has an unexpected name.
    if not wanted <= set(found.values()):
        return table.partitions
    return tuple(partition for partition in table.partitions if found[partition.name] in wanted)


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
        found = {name: plan.described[name] for name in plan.tables if name in plan.described}
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


@dataclass(frozen=True)
class Query:
    """A plan, with the facts from which `check` derives verdicts and reasons."""

    plan: PhysicalPlan  # Spark's plan of the query
    # Facts about the tables that the query reads (PhysicalPlan.tables), by schema and name.
    tables: Mapping[str, TableFacts]
    settings: Settings  # the session's settings
    sql: str = ""  # the query's text
    functions: tuple[str, ...] = ()  # statements that create the temporary functions that it may call

    @cached_property
    def operators(self) -> Mapping[int, Operator]:
        """Return the joins, aggregates and windows by node number, in order from the top of the plan."""
        return {op.node.number: op for root in self.plan.roots for op in find_operators(root)}

    def bucketed(self, node: PlanNode) -> BucketedScan | None:
        """Return a scan as a bucketed scan if the table is bucketed according to its metadata, or None otherwise."""
        facts = self.tables.get(node.table or "")
        if node.scan is None or facts is None or facts.spec is None:
            return None
        return BucketedScan(node, node.scan, facts, facts.spec, self.settings)
