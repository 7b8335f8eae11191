"""Define a query to check: its session settings, its plan, its scans of bucketed tables, its Exchanges and Sorts.

The analysis of an Exchange or a Sort determines the partitioning and the ordering of the operator's input. It follows
the given plan from a scan up to the operator. Alternative plans come only from Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from spark_bucketing import sql
from spark_bucketing.checks.results import SMALLEST
from spark_bucketing.errors import SparkError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan.document import Expression, PhysicalPlan, PlanNode, Scan, Source, TableFacts
from spark_bucketing.plan.operators import Operator, Side, find_operators
from spark_bucketing.plan.planner import Planner
from spark_bucketing.spec import BucketHash, BucketSpec
from spark_bucketing.tables.metadata import Column, Partition, TableMetadata, in_lower_case, one_spelling, partition_of


class Setting:
    """The names of the settings that decide whether Spark uses buckets."""

    EXTENSIONS = "spark.sql.extensions"
    SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
    BUCKETING = "spark.sql.sources.bucketing.enabled"
    ORDERING = "spark.sql.legacy.bucketedTableScan.outputOrdering"
    COALESCE = "spark.sql.bucketing.coalesceBucketsInJoin.enabled"
    COALESCE_RATIO = "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio"
    ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
    RECORDS_PER_FILE = "spark.sql.files.maxRecordsPerFile"
    CONVERT_PARQUET = "spark.sql.hive.convertMetastoreParquet"
    CONVERT_ORC = "spark.sql.hive.convertMetastoreOrc"
    ENABLED = "spark.bucketing.enabled"
    DISTRIBUTE = "spark.bucketing.write.distribute"
    MERGE_FILES = "spark.bucketing.read.mergeFiles"
    SPARK_LAYOUT = "spark.bucketing.read.sparkLayout"
    ALIGNMENT = "spark.bucketing.join.alignment"
    UNION = "spark.bucketing.union.enabled"


@dataclass(frozen=True)
class Settings:
    """The values of settings by name, as the document of a plan states them, including default values."""

    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Return the value of a setting, or an empty string if the session does not have the setting."""
        return self.values.get(name, "")

    def on(self, name: str) -> bool:
        """Return whether a setting is true."""
        return self.get(name).strip().lower() == "true"

    def changed(self, values: Mapping[str, str]) -> Settings:
        """Return a copy in which these settings have other values."""
        return Settings({**self.values, **values})

    @property
    def loaded(self) -> bool:
        """Return whether the session has loaded the extension, even if it is disabled."""
        return EXTENSION_CLASS in [name.strip() for name in self.get(Setting.EXTENSIONS).split(",")]

    @property
    def extension(self) -> bool:
        """Return whether the session has loaded the extension, and it is enabled."""
        return self.loaded and self.on(Setting.ENABLED)


# The reason for each code of an ordinary scan. With other codes, the query does not need buckets.
REASON_OF_CODE: Mapping[str, str] = {
    "mixed-bucket-specs": "mixed-bucket-specs",
    **dict.fromkeys(
        ("unsupported-column", "ambiguous-column", "positional-columns", "field-ids", "unsupported-reader"),
        "unsupported-bucket-column",
    ),
    **dict.fromkeys(("not-sealed", "seal-stale", "seal-unreadable", "columns-changed", "files-missing"), "not-sealed"),
    "too-few-buckets": "too-few-buckets",
}


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
        if self.scan.code in REASON_OF_CODE or not self.settings.on(Setting.BUCKETING):
            return False
        # Spark's own readers for these formats support buckets, but Hive's reader does not.
        known = self.settings.extension and self.scan.format in ("parquet", "orc")
        read = {column.text.lower() for column in self.node.output}
        return (known or not self.spec.in_hive_layout) and read.issuperset(self.columns)

    @property
    def has_uneven_buckets(self) -> bool:
        """Return whether many of the buckets that Spark reads are empty, because of Hive's version 1 hash.

        With a uniform hash, a quarter of the buckets is empty only if there are hardly more keys than buckets.
        """
        many = 4 * self.facts.empty_buckets >= self.spec.num_buckets and (self.facts.size_bytes or 0) >= SMALLEST
        return many and self.spec.bucket_hash == "hive" and bool(self.scan.bucketed)

    @property
    def ordered(self) -> bool:
        """Return whether Spark reads the rows of each bucket in the order of the table's sort columns."""
        if not self.spec.sort_columns or not self.readable:
            return False
        if self.scan.by_extension:
            return self.scan.sorted
        return self.settings.on(Setting.ORDERING) and self.files == 1

    @property
    def partitions_read(self) -> int:
        """Return how many partitions the scan reads; 2 if a partitioned table's are unknown."""
        if not self.facts.partition_columns:
            return 1
        return 2 if self.scan.partitions is None else self.scan.partitions

    @property
    def files(self) -> int:
        """Return the largest number of files that the scan reads for any bucket."""
        return self.facts.files_per_bucket * self.partitions_read


def selected_partitions(scan: Scan, table: TableMetadata) -> tuple[Partition, ...]:
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
        self._partitions: dict[str, TableMetadata | None] = {}

    def of(self, plan: PhysicalPlan) -> dict[str, TableFacts]:
        """Return the facts by table name, with the specs of the partitions of each table that has an ordinary scan.

        If the metastore does not know the size of a table, it is the size with which Spark plans the query.
        """
        found = {name: plan.described[name] for name in plan.tables if name in plan.described}
        self._known |= found
        ordinary = {node.scan.table for node in plan.walk() if node.scan and node.scan.code in REASON_OF_CODE}
        for name in ordinary & found.keys():
            found[name] = replace(found[name], partitions=self._partitions_of(found[name]))
        unknown = {name: facts for name, facts in found.items() if facts.size_bytes is None}
        return found | {name: replace(facts, size_bytes=plan.table_bytes(name)) for name, facts in unknown.items()}

    def known(self) -> tuple[TableFacts, ...]:
        """Return the facts about all tables that were described so far."""
        return tuple(self._known.values())

    def _partitions_of(self, facts: TableFacts) -> TableMetadata | None:
        """Return the bucket specs of a table's partitions, for which Spark lists their files."""
        if facts.partition_columns and facts.name not in self._partitions:
            self._partitions[facts.name] = None
            columns = tuple(Column(name, facts.columns.get(name, "string")) for name in facts.partition_columns)
            with suppress(SparkError):
                found = tuple(map(partition_of, self._planner.rows(sql.bucket_specs(facts.name))))
                table = TableMetadata(facts.name, in_lower_case(facts.spec), columns, found)
                self._partitions[facts.name] = table
        return self._partitions.get(facts.name)


@dataclass(frozen=True)
class Query:
    """A plan, with the facts from which `check` derives verdicts and reasons."""

    plan: PhysicalPlan  # Spark's plan of the query
    # Facts about the tables that the query reads (PhysicalPlan.tables), by schema and name.
    tables: Mapping[str, TableFacts]
    settings: Settings  # the session's settings
    sql: str = ""  # the query's text

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


class Topic:
    """What to explain."""

    EXCHANGE = "Exchange"  # that the operator requires
    EXCHANGE_BELOW = "Exchange below"  # the Exchange that the operator requires
    SORT = "Sort"  # within partitions
    JOIN = "Join"  # without keys
    BUCKETS = "buckets"  # of a table whose buckets the operator uses
    END = "end"  # the nodes above all operators


# Operators that redistribute rows, operators with unordered output, and joins that preserve the partitioning of their
# left or right input.
_SPREADING = (
    "Union", "Expand", "Coalesce", "CartesianProduct", "GlobalLimit", "TakeOrderedAndProject", "CollectLimit",
    "CollectTail", "InMemoryRelation", "InMemoryTableScan",
)  # fmt: skip
_DISORDERING = ("HashAggregate", "ObjectHashAggregate", "ShuffledHashJoin", "Exchange")
_KEEPING_LEFT = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle")
_KEEPING_RIGHT = ("Inner", "Cross", "RightOuter")


@dataclass(frozen=True)
class Partitioning:
    """The partitioning of rows by a hash of some of an operator's keys."""

    kind: BucketHash  # hash of the keys
    places: tuple[frozenset[int], ...]  # for each hashed column, the positions of the keys that are this column
    number: int  # number of partitions
    table: str | None = None  # the bucketed table; None if an Exchange partitioned the rows


@dataclass(frozen=True, eq=False)
class ExchangeOrSort:
    """An Exchange or a Sort, and its position in the plan."""

    query: Query  # the query
    op: Operator  # the operator above it
    place: int  # index of the operator's input
    node: PlanNode  # the Exchange or Sort; for a join without keys, the join itself
    about: str = Topic.EXCHANGE  # what to explain
    explains: tuple[int, ...] = ()  # numbers of the nodes that this explanation covers

    @property
    def side(self) -> Side:
        """Return the operator's input that contains this Exchange or Sort."""
        return self.op.sides[self.place]

    @property
    def is_reused(self) -> bool:
        """Return whether Spark runs the Exchange for another operator, and this operator only reuses its output."""
        ways = (node.number for side in self.op.sides for node in side.way)
        return self.node.number not in self.op.own and self.node.number in ways

    @cached_property
    def other(self) -> ExchangeOrSort | None:
        """Return the corresponding Exchange or Sort on the other side of a join."""
        return None if len(self.op.sides) < 2 else ExchangeOrSort(self.query, self.op, 1 - self.place, self.node)

    @cached_property
    def keys(self) -> tuple[Expression, ...]:
        """Return the operator's keys, over the columns of this input."""
        return self.side.keys or ()

    @cached_property
    def sources(self) -> tuple[Source | None, ...]:
        """Return the origin of each key."""
        return tuple(key.source for key in self.keys)

    @cached_property
    def columns(self) -> tuple[Source, ...]:
        """Return the table columns that are keys themselves, or from which Spark computes keys."""
        return tuple(source for key in self.keys for source in key.sources)

    @cached_property
    def table(self) -> BucketedScan | None:
        """Return the bucketed table from which the keys come, or else the first one below the operator."""
        scans = (*(source.scan for source in self.columns), *self.side.entry.scans)
        found = [table for scan in scans if (table := self.query.bucketed(scan))]
        matching = [table for table in found if set(table.columns) & self.names_of(table.node)]
        return next(iter(matching or found), None)

    @property
    def read(self) -> BucketedScan | None:
        """Return the table if Spark can read its buckets, or None otherwise."""
        return self.table if self.table and self.table.readable else None

    @cached_property
    def partitionings(self) -> tuple[Partitioning, ...]:
        """Return the partitionings of the input by hashes of the operator's keys, starting with the table's scan."""
        scans = [self.table.node] if self.table else []
        scans += [source.scan for source in self.sources if source]
        found = (self._partitioning(scan) for scan in {scan.number: scan for scan in scans}.values())
        return tuple(dict.fromkeys(one for one in found if one))

    @property
    def lost_at(self) -> PlanNode | None:
        """Return the lowest node above the table's scan that does not preserve the buckets, or None if all nodes do."""
        return self.first_above(("Exchange",))

    def first_above(self, operators: tuple[str, ...] = _DISORDERING) -> PlanNode | None:
        """Return the lowest of these operators, by default those that lose the order, above the table's scan."""
        if self.table is None:
            return None
        above = self._upwards(self.table.node)
        return next((node for below, node in above if node.operator in operators or not _keeps(node, below)), None)

    @cached_property
    def closest(self) -> tuple[Partitioning, Partitioning] | None:
        """Return partitionings of both sides by the same keys, even with other hashes and numbers."""
        if self.other is None:
            return None
        for here, there in itertools.product(self.partitionings, self.other.partitionings):
            if len(here.places) == len(there.places) and all(map(frozenset.__and__, here.places, there.places)):
                return here, there
        return None

    @property
    def key_texts(self) -> tuple[str, ...]:
        """Return the keys in the form that messages show."""
        return tuple(key.readable for key in self.keys)

    def order_columns(self) -> tuple[str, ...] | None:
        """Return the sort columns that the operator requires, or None if files cannot have this order."""
        if self.table is None or not all(order.is_of_files for order in self.op.order):
            return None
        found = [key.source for key in (*self.keys, *(order.value for order in self.op.order))]
        scan = self.table.node.number
        plain = [key.column.lower() for key in found if key and not key.wrapped and key.scan.number == scan]
        return tuple(dict.fromkeys(plain)) if len(plain) == len(found) else None

    def plain_columns(self) -> tuple[str, tuple[str, ...]] | None:
        """Return the table and its key columns if every key is a column of the same table, not an expression."""
        plain = [source for source in self.sources if source and not source.wrapped]
        scans = {source.scan.number: source.scan.table for source in plain}
        table = next(iter(scans.values()), None)
        if len(plain) != len(self.sources) or len(scans) != 1 or table is None or table not in self.query.tables:
            return None
        return table, tuple(source.column.lower() for source in plain)

    def names_of(self, scan: PlanNode) -> set[str]:
        """Return the names of those columns of this scan from which Spark computes the keys."""
        return {source.column.lower() for source in self.columns if source.scan.number == scan.number}

    def _partitioning(self, scan: PlanNode) -> Partitioning | None:
        found = self._of_buckets(scan)
        for below, node in self._upwards(scan):
            if node.operator == "Exchange":
                found = self._of_shuffle(node)
            elif not _keeps(node, below):
                found = None
        return found

    def _of_buckets(self, scan: PlanNode) -> Partitioning | None:
        table = self.query.bucketed(scan)
        if table is None or not table.readable:
            return None
        ids = {column.text.lower(): column.id for column in scan.output}
        places = tuple(self._places(scan, ids.get(name)) for name in table.columns)
        return Partitioning(table.spec.bucket_hash, places, table.spec.num_buckets, table.name) if all(places) else None

    def _of_shuffle(self, exchange: PlanNode) -> Partitioning | None:
        shuffle = exchange.shuffle
        if shuffle is None or shuffle.bucket_hash is None or not shuffle.partitions:
            return None
        keys = [key.source for key in shuffle.keys]
        places = tuple(self._places(key.scan, key.id) if key and not key.wrapped else () for key in keys)
        if not places or not all(places):
            return None
        return Partitioning(shuffle.bucket_hash, tuple(map(frozenset, places)), shuffle.partitions)

    def _places(self, scan: PlanNode, column: int | None) -> frozenset[int]:
        """Return the positions of those operator keys that are this column of a scan."""
        return frozenset(
            place
            for place, source in enumerate(self.sources)
            if source and not source.wrapped and (source.scan.number, source.id) == (scan.number, column)
        )

    def _upwards(self, scan: PlanNode) -> Iterator[tuple[PlanNode, PlanNode]]:
        """Yield the nodes from a scan up to the operator, without its required Exchange, each with the one below it."""
        below = scan
        for node in self.side.entry.way_from(scan):
            if node is not self.side.needed:
                yield below, node
            below = node


def _keeps(node: PlanNode, below: PlanNode) -> bool:
    """Return whether a node preserves the partitioning of its input and the columns that define it."""
    if node.operator in _SPREADING:
        return False
    if node.join is None or len(node.children) < 2:
        return True
    left = node.children[0] is below
    if node.operator.startswith("Broadcast"):
        return left is (node.join.build == "right")
    return node.join_type.startswith(_KEEPING_LEFT if left else _KEEPING_RIGHT)
