"""Read the document in which the session extension describes a query's plan: EXPLAIN BUCKETS FORMAT JSON.

docs/reference/explain-buckets.schema.json describes the document. Only this module knows its form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spark_bucketing.errors import PlanError
from spark_bucketing.spec import BucketHash, BucketSpec

if TYPE_CHECKING:
    from spark_bucketing.tables.metadata import TableMetadata

OperatorKind = Literal["join", "aggregate", "distinct", "window", "other"]
VERSION = 1
PLANNED_FORMATS = ("parquet", "orc", "csv", "json", "text")


@dataclass(frozen=True)
class Source:
    """The table column from which a value comes."""

    scan: PlanNode  # the scan of its table
    column: str  # the name of the column
    id: int  # Spark's id of the column in this scan
    wrapped: bool = False  # whether the value is an expression over the column, rather than the column itself
    cast: str = ""  # the target type, if the expression is only a cast of the column


@dataclass(frozen=True)
class Expression:
    """A column in an operator's output, or a value that an operator computes from its input."""

    text: str  # the name of the column, or the expression without ids
    type: str = ""  # Spark SQL type
    id: int | None = None  # Spark's id if the value is a column
    sources: tuple[Source, ...] = ()  # all table columns that it comes from; empty if any of them cannot be traced

    @property
    def source(self) -> Source | None:
        """Return the only table column from which the value comes, or None without such a column."""
        return self.sources[0] if len(self.sources) == 1 else None

    @property
    def readable(self) -> str:
        """Return the value in the form that messages show: a table column, or an expression."""
        source = self.source
        return f"{source.scan.table}.{source.column}" if source and not source.wrapped else self.text


@dataclass(frozen=True)
class SortOrder:
    """An element of a sort order."""

    value: Expression
    ascending: bool = True
    nulls_first: bool = True

    @property
    def is_of_files(self) -> bool:
        """Return whether the rows of sorted files have this order."""
        return self.ascending and self.nulls_first

    def __str__(self) -> str:
        """Return the element as in ORDER BY, where only the default order of NULLs is omitted."""
        return self.value.text + ("" if self.ascending else " DESC")


@dataclass(frozen=True)
class Join:
    """The properties of a join."""

    type: str  # such as Inner or LeftOuter
    left_keys: tuple[Expression, ...] = ()
    right_keys: tuple[Expression, ...] = ()
    build: str | None = None  # left or right: the side that a hash join builds or broadcasts


@dataclass(frozen=True)
class Aggregate:
    """The properties of one node of an aggregate."""

    keys: tuple[Expression, ...] = ()
    modes: tuple[str, ...] = ()  # for each function: Partial, PartialMerge, Final or Complete

    @property
    def is_partial(self) -> bool:
        """Return whether another node completes all functions."""
        return all(mode in ("Partial", "PartialMerge") for mode in self.modes)


@dataclass(frozen=True)
class Window:
    """The properties of a window."""

    keys: tuple[Expression, ...] = ()
    order: tuple[SortOrder, ...] = ()


@dataclass(frozen=True)
class Shuffle:
    """The partitioning that an Exchange gives its rows."""

    kind: str  # hash, range, round robin, single, or unknown
    bucket_hash: BucketHash | None = None  # the hash function of a hash partitioning
    keys: tuple[Expression, ...] = ()  # the keys of a hash partitioning
    partitions: int | None = None  # number of partitions
    requested: bool = False  # whether a hint or REPARTITION requested it, instead of an operator
    text: str = ""  # the partitioning and its origin, as Spark names them


@dataclass(frozen=True)
class Sort:
    """The properties of a Sort."""

    is_global: bool = False
    order: tuple[SortOrder, ...] = ()


@dataclass(frozen=True)
class Scan:
    """How a scan reads a table."""

    table: str  # schema and name; with the catalog, unless it is Spark's own
    format: str = "parquet"  # file format; hive for Hive's own reader
    bucketed: bool | None = None  # whether the scan is bucketed; None for a table that is not bucketed for Spark
    by_extension: bool = False  # whether the extension, not stock Spark, reads the buckets
    buckets: int | None = None  # number of buckets as read
    sorted: bool = False  # whether the rows of each bucket are in the order of the sort columns
    read: str = ""  # how the extension reads the buckets, in the words of EXPLAIN
    code: str = ""  # the code of the reason for an ordinary scan
    words: str = ""  # the reason for an ordinary scan in words
    partitions: int | None = 1  # number of partitions that Spark selects during planning, if known
    all_partitions: bool = False  # whether no filter removes a partition
    folders: tuple[str, ...] | None = None  # directories of these partitions, if they matter
    table_bytes: int | None = None  # size of the selected partitions, if Spark knows it
    read_bytes: int | None = None  # size of the rows and columns that reach the first operator above the scan


@dataclass(eq=False)
class PlanNode:
    """An operator of the plan."""

    number: int  # its number, unique in the plan
    operator: str  # its name, such as SortMergeJoin
    kind: str = "other"  # what it does; unknown for an operator of another engine
    title: str = ""  # the text after the name, for people
    guess: OperatorKind | None = None  # for an unknown operator: what its name suggests
    children: tuple[PlanNode, ...] = ()  # its inputs; for a reused Exchange, this Exchange
    # Its output columns, or a function that reads them on demand, because most of them are never needed.
    columns: tuple[Expression, ...] | Callable[[], tuple[Expression, ...]] = ()
    line: int | None = None  # line of its clause in the query, starting at 1, if known
    join: Join | None = None
    aggregate: Aggregate | None = None
    window: Window | None = None
    shuffle: Shuffle | None = None
    sort: Sort | None = None
    scan: Scan | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)  # in an event log: ids of the accumulators of metrics

    @cached_property
    def output(self) -> tuple[Expression, ...]:
        """Return the operator's output columns."""
        return self.columns() if callable(self.columns) else self.columns

    @property
    def is_known(self) -> bool:
        """Return whether the extension knows how the operator changes its rows."""
        return self.kind != "unknown"

    @property
    def table(self) -> str | None:
        """Return the table that a scan reads, or None for other operators."""
        return self.scan.table if self.scan else None

    @property
    def is_global_sort(self) -> bool:
        """Return whether this is a Sort of all rows, such as the Sort for an ORDER BY."""
        return self.sort is not None and self.sort.is_global

    @property
    def join_type(self) -> str:
        """Return the join type, such as Inner or LeftOuter, or an empty string for other operators."""
        return self.join.type if self.join else ""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """Return the node's children, with the reused Exchange in place of a ReusedExchange."""
        return tuple(
            child.children[0] if child.kind == "reused" and child.children else child for child in self.children
        )

    def walk(self, enters: Callable[[PlanNode], bool] = lambda _: True) -> Iterator[PlanNode]:
        """Yield this operator and all operators below it, depth first, and a reused operator only once.

        The operators below an operator are left out if `enters` returns false for it.
        """
        seen: set[int] = set()
        waiting: list[PlanNode] = [self]
        while waiting:
            node = waiting.pop()
            if node.number not in seen:
                seen.add(node.number)
                yield node
                waiting += reversed(node.children) if enters(node) else ()

    @cached_property
    def scans(self) -> tuple[PlanNode, ...]:
        """Return the table scans below this node, or the node itself if it is a scan."""
        return tuple(node for node in self.walk() if node.scan)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the distinct tables that the scans below this node read."""
        return tuple(dict.fromkeys(node.table for node in self.scans if node.table))

    def way_from(self, scan: PlanNode) -> tuple[PlanNode, ...]:
        """Return the nodes from a scan up to this one, or nothing if the scan is not below this node."""
        above: dict[int, PlanNode | None] = {}
        # Do not recurse, because plans may be deep and have reused parts.
        waiting: list[tuple[PlanNode, PlanNode | None]] = [(self, None)]
        while waiting and scan.number not in above:
            node, parent = waiting.pop()
            if node.number not in above:
                above[node.number] = parent
                waiting += ((child, node) for child in reversed(node.children))
        way, found = [], above.get(scan.number)
        while found:
            way.append(found)
            found = above[found.number]
        return tuple(way)


@dataclass(frozen=True)
class TableFacts:
    """What the planner knows about a table, or assumes about a hypothetical one, whose files have no content.

    If the partitions have different specs, the spec is the one with which a single query can read all of them.
    """

    name: str  # schema.table
    columns: Mapping[str, str] = field(hash=False)  # names and Spark SQL types, including partition columns
    spec: BucketSpec | None = None
    partition_columns: tuple[str, ...] = ()
    size_bytes: int | None = None  # total size, which affects broadcasts; a hypothetical table without it is large
    # Whether Spark knows the size before it lists the files. Without statistics, Spark does not know the size when it
    # scans all partitions of a table.
    knows_size: bool = True
    file_format: str = "parquet"  # parquet, orc, csv, json or text; other formats are planned as unbucketed parquet
    # The most files of one bucket in any partition, each sorted separately.
    files_per_bucket: int = 1
    empty_buckets: int = 0  # number of buckets that are known to have no file in any partition
    is_empty: bool = False  # whether it is known to have no files
    partitions: TableMetadata | None = None  # the specs of its partitions, if they may differ from the table's

    def retyped(self, types: Mapping[str, str]) -> TableFacts:
        """Return a copy in which some columns have other types; the keys are column names in lower case."""
        return replace(self, columns={name: types.get(name.lower(), kind) for name, kind in self.columns.items()})

    def as_data(self) -> dict[str, Any]:
        """Return the table in the form in which EXPLAIN BUCKETS ASSUMING takes it."""
        spec = self.spec and {
            "buckets": self.spec.num_buckets,
            "columns": list(self.spec.bucket_columns),
            "sort_columns": list(self.spec.sort_columns),
            "hash": self.spec.bucket_hash,
        }
        return {
            "name": self.name,
            "columns": [{"name": name, "type": kind} for name, kind in self.columns.items()],
            "partition_columns": list(self.partition_columns),
            "spec": spec,
            "size_bytes": self.size_bytes,
            "size_known": self.knows_size,
            "format": self.file_format if self.file_format in PLANNED_FORMATS else "parquet",
            "files_per_bucket": self.files_per_bucket,
        }


@dataclass(frozen=True, order=True)
class PlanCounts:
    """The numbers of Exchanges and Sorts in a plan. A comparison compares the Exchanges first, and then the Sorts."""

    exchanges: int = 0
    sorts: int = 0

    def __add__(self, other: PlanCounts) -> PlanCounts:
        return PlanCounts(self.exchanges + other.exchanges, self.sorts + other.sorts)


@dataclass(frozen=True)
class PhysicalPlan:
    """The plan of a query: its tree, the trees of its subqueries, and all operators, with children before parents."""

    roots: tuple[PlanNode, ...]  # the query's own tree, and then the trees of its subqueries
    nodes: tuple[PlanNode, ...]
    described: Mapping[str, TableFacts] = field(default_factory=dict)  # the tables that scans read, by name
    columns: Mapping[str, str] = field(default_factory=dict)  # names and types of the query's result columns
    settings: Mapping[str, str] = field(default_factory=dict)  # settings with which Spark planned the query
    spark_version: str = ""

    def walk(self) -> Iterator[PlanNode]:
        """Yield all operators of the query and its subqueries."""
        for root in self.roots:
            yield from root.walk()

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the distinct tables that the query reads, as `schema.table`, in the order of the plan."""
        return tuple(dict.fromkeys(table for root in self.roots for table in root.tables))

    def table_bytes(self, table: str) -> int | None:
        """Return the size of the table's partitions that the query selects, or None if Spark does not know it."""
        # Several scans may read different partitions of one table.
        sizes = (node.scan.table_bytes for node in self.walk() if node.scan and node.scan.table == table)
        return max((size for size in sizes if size is not None), default=None)

    @cached_property
    def counts(self) -> PlanCounts:
        """Return the numbers of Exchanges and Sorts in the plan."""
        kinds = [node.kind for node in self.walk()]
        return PlanCounts(kinds.count("exchange"), kinds.count("sort"))


def read_plan(text: str) -> PhysicalPlan:
    """Read the document."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise PlanError(
                "This version of spark-bucketing does not support the session's extension.",
                found=f"version {data['version']} of the document of EXPLAIN BUCKETS",
                expected=f"version {VERSION}",
                instead="build the extension with this version: `spark-bucketing extension build`",
            )
        return _plan(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise PlanError("The document of EXPLAIN BUCKETS cannot be read.", found=why) from error


def _plan(data: Mapping[str, Any]) -> PhysicalPlan:
    nodes: dict[int, PlanNode] = {}
    for found in data["nodes"]:
        nodes[found["id"]] = _node(found, nodes)
    return PhysicalPlan(
        roots=tuple(nodes[number] for number in data["roots"]),
        nodes=tuple(nodes.values()),
        described={name: _table(name, found) for name, found in data["tables"].items()},
        columns={column["name"]: column["type"] for column in data["output"]},
        settings=data["settings"],
        spark_version=data["spark"],
    )


_PROPERTIES: Mapping[str, Any] = {
    "join": Join, "aggregate": Aggregate, "window": Window, "shuffle": Shuffle, "sort": Sort, "scan": Scan,
}  # fmt: skip
# The names of fields in the document, if they differ.
_NAMES = {"is_global": "global", "bucket_hash": "hash"}


def _node(data: Mapping[str, Any], nodes: Mapping[int, PlanNode]) -> PlanNode:
    """Return an operator from the document, whose inputs are among the given operators."""
    children = tuple(nodes[number] for number in data["children"])

    def expression(found: Mapping[str, Any]) -> Expression:
        wrapped, cast = not found.get("plain"), found.get("cast") or ""
        sources = (
            Source(nodes[one["scan"]], one["column"], one["id"], wrapped, cast) for one in found.get("sources") or ()
        )
        text = found["text"] if "text" in found else found["name"]
        return Expression(text, found.get("type") or "", found.get("id"), tuple(sources))

    def value_of(name: str, value: Any) -> Any:
        if name.endswith("keys"):
            return tuple(map(expression, value))
        if name == "order":
            return tuple(SortOrder(expression(one), one["ascending"], one["nulls_first"]) for one in value)
        return tuple(value) if isinstance(value, list) else value

    def properties(name: str, values: Mapping[str, Any]) -> Any:
        if name == "scan":
            # A scan without a known format or number of partitions does not have the default ones.
            values = {**values, "format": values.get("format") or "", **(values.get("fallback") or {})}
        given = {one.name: values.get(_NAMES.get(one.name, one.name)) for one in fields(_PROPERTIES[name])}
        known = {key: value_of(key, value) for key, value in given.items() if value is not None or key == "partitions"}
        return _PROPERTIES[name](**known)

    def output() -> tuple[Expression, ...]:
        if "output" in data:
            return tuple(map(expression, data["output"]))
        return children[0].output if len(children) == 1 else ()

    return PlanNode(
        number=data["id"],
        operator=data["operator"],
        kind=data["kind"],
        title=data.get("title") or "",
        guess=data.get("guess"),
        children=children,
        columns=output,
        line=data.get("line"),
        metrics=data.get("metrics") or {},
        **{name: properties(name, data[name]) for name in _PROPERTIES if data.get(name) is not None},
    )


def _table(name: str, data: Mapping[str, Any]) -> TableFacts:
    spec = data.get("spec")
    return TableFacts(
        name=name,
        columns={column["name"].lower(): column["type"] for column in data["columns"]},
        partition_columns=tuple(map(str.lower, data.get("partition_columns") or ())),
        spec=spec and BucketSpec(spec["buckets"], tuple(spec["columns"]), tuple(spec["sort_columns"]), spec["hash"]),
        file_format=data.get("format") or "parquet",
        size_bytes=data.get("size_bytes"),
        files_per_bucket=data.get("files_per_bucket") or 1,
        empty_buckets=data.get("empty_buckets") or 0,
        is_empty=bool(data.get("empty")),
    )


class PlanLine(NamedTuple):
    """One operator of the tree."""

    depth: int
    text: str
    kind: str  # of the PlanNode, or `bucketed` for a bucketed scan


def tree_lines(plan: PhysicalPlan) -> tuple[PlanLine, ...]:
    """Return the operators of a query and its subqueries, each above its inputs.

    Only the inputs of an operator with several inputs are indented, so that deep plans stay narrow.
    """
    lines = []
    # Do not recurse, because plans may be deep.
    waiting = [(0, "Subquery: " if place else "", root) for place, root in enumerate(plan.roots)][::-1]
    while waiting:
        depth, before, node = waiting.pop()
        kind = "bucketed" if node.scan and node.scan.bucketed else node.kind
        lines.append(PlanLine(depth, before + _text(node), kind))
        inner = depth + (len(node.children) > 1)
        start = "+- " if inner > depth else " " * min(3 * depth, 3)
        # The operators below a reused Exchange are already in the tree.
        inputs = () if node.kind == "reused" else node.children
        waiting += [(inner, start, child) for child in reversed(inputs)]
    return tuple(lines)


def _text(node: PlanNode) -> str:
    """Describe an operator by its name, its keys and its partitioning or order."""
    parts = [node.operator, node.title]
    if node.join:
        keys = zip(node.join.left_keys, node.join.right_keys, strict=False)
        parts += [" and ".join(f"{left.readable} = {right.readable}" for left, right in keys)]
    if grouped := node.aggregate or node.window:
        parts += ["by " + ", ".join(key.readable for key in grouped.keys)] if grouped.keys else []
    if node.scan:
        parts += [f"({why})" if (why := node.scan.read or node.scan.code) else ""]
    parts += [node.shuffle.text if node.shuffle else "", ", ".join(map(str, node.sort.order)) if node.sort else ""]
    return " ".join(filter(None, parts))
