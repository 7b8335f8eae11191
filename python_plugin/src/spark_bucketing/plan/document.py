"""Read the document in which the session extension describes a query's plan: EXPLAIN BUCKETS FORMAT JSON.

docs/reference/explain-buckets.schema.json describes the document. Only this module knows its form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, Literal

from spark_bucketing.errors import PlanError
from spark_bucketing.spec import BucketHash, BucketSpec

OperatorKind = Literal["join", "aggregate", "distinct", "window", "other"]
VERSION = 1


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

    def walk(self) -> Iterator[PlanNode]:
        """Yield this operator and all operators below it, depth first, and a reused operator only once."""
        seen: set[int] = set()
        waiting: list[PlanNode] = [self]
        while waiting:
            node = waiting.pop()
            if node.number not in seen:
                seen.add(node.number)
                yield node
                waiting += reversed(node.children)

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
class DescribedTable:
    """What the metastore and the files tell about a table."""

    name: str
    columns: Mapping[str, str]  # names and Spark SQL types, including partition columns
    partition_columns: tuple[str, ...] = ()
    spec: BucketSpec | None = None
    format: str = "parquet"
    size_bytes: int | None = None
    files_per_bucket: int = 1  # largest number of files that one bucket has in any partition
    is_empty: bool = False  # whether it is known to have no files


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
    described: Mapping[str, DescribedTable] = field(default_factory=dict)  # the tables that scans read, by name
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
    reader = _Reader()
    for found in data["nodes"]:
        reader.read(found)
    nodes = reader.nodes
    tables = (_table(name, found) for name, found in data["tables"].items())
    return PhysicalPlan(
        roots=tuple(nodes[number] for number in data["roots"]),
        nodes=tuple(nodes.values()),
        described={table.name: table for table in tables},
        columns={column["name"]: column["type"] for column in data["output"]},
        settings=data["settings"],
        spark_version=data["spark"],
    )


class _Reader:
    """Reads operators, each after its inputs."""

    def __init__(self) -> None:
        self.nodes: dict[int, PlanNode] = {}

    def read(self, data: Mapping[str, Any]) -> None:
        """Read one operator."""
        children = tuple(self.nodes[number] for number in data["children"])
        self.nodes[data["id"]] = PlanNode(
            number=data["id"],
            operator=data["operator"],
            kind=data["kind"],
            title=data.get("title") or "",
            guess=data.get("guess"),
            children=children,
            columns=partial(self._output, data, children),
            line=data.get("line"),
            join=self._join(data.get("join")),
            aggregate=self._aggregate(data.get("aggregate")),
            window=self._window(data.get("window")),
            shuffle=self._shuffle(data.get("shuffle")),
            sort=self._sort(data.get("sort")),
            scan=_scan(data.get("scan")),
            metrics=data.get("metrics") or {},
        )

    def _output(self, data: Mapping[str, Any], children: tuple[PlanNode, ...]) -> tuple[Expression, ...]:
        if "output" in data:
            return tuple(map(self.expression, data["output"]))
        return children[0].output if len(children) == 1 else ()

    def expression(self, data: Mapping[str, Any]) -> Expression:
        wrapped, cast = not data.get("plain"), data.get("cast") or ""
        sources = (
            Source(self.nodes[found["scan"]], found["column"], found["id"], wrapped, cast)
            for found in data.get("sources") or ()
        )
        text = data["text"] if "text" in data else data["name"]
        return Expression(text, data.get("type") or "", data.get("id"), tuple(sources))

    def _keys(self, data: Mapping[str, Any], name: str = "keys") -> tuple[Expression, ...]:
        return tuple(map(self.expression, data.get(name) or ()))

    def _order(self, data: Mapping[str, Any]) -> tuple[SortOrder, ...]:
        return tuple(
            SortOrder(self.expression(found), found["ascending"], found["nulls_first"])
            for found in data.get("order") or ()
        )

    def _join(self, data: Mapping[str, Any] | None) -> Join | None:
        if data is None:
            return None
        return Join(data["type"], self._keys(data, "left_keys"), self._keys(data, "right_keys"), data.get("build"))

    def _aggregate(self, data: Mapping[str, Any] | None) -> Aggregate | None:
        return None if data is None else Aggregate(self._keys(data), tuple(data.get("modes") or ()))

    def _window(self, data: Mapping[str, Any] | None) -> Window | None:
        return None if data is None else Window(self._keys(data), self._order(data))

    def _sort(self, data: Mapping[str, Any] | None) -> Sort | None:
        return None if data is None else Sort(data["global"], self._order(data))

    def _shuffle(self, data: Mapping[str, Any] | None) -> Shuffle | None:
        if data is None:
            return None
        return Shuffle(
            data["kind"],
            data.get("hash"),
            self._keys(data),
            data.get("partitions"),
            bool(data.get("requested")),
            data.get("text") or "",
        )


def _scan(data: Mapping[str, Any] | None) -> Scan | None:
    if data is None:
        return None
    names = {one.name for one in fields(Scan)}
    known: dict[str, Any] = {name: value for name, value in data.items() if name in names and value is not None}
    known |= {"folders": tuple(data["folders"])} if data.get("folders") is not None else {}
    # A scan without a known format or number of partitions does not have the default ones.
    known = {"format": "", "partitions": None, **known}
    fallback = data.get("fallback") or {}
    return Scan(**known, code=fallback.get("code") or "", words=fallback.get("words") or "")


def spec_data(spec: BucketSpec | None) -> dict[str, Any] | None:
    """Return a bucket spec in the form of the document."""
    if spec is None:
        return None
    return {
        "buckets": spec.num_buckets,
        "columns": list(spec.bucket_columns),
        "sort_columns": list(spec.sort_columns),
        "hash": spec.bucket_hash,
    }


def _table(name: str, data: Mapping[str, Any]) -> DescribedTable:
    spec = data.get("spec")
    return DescribedTable(
        name=name,
        columns={column["name"]: column["type"] for column in data["columns"]},
        partition_columns=tuple(data.get("partition_columns") or ()),
        spec=spec and BucketSpec(spec["buckets"], tuple(spec["columns"]), tuple(spec["sort_columns"]), spec["hash"]),
        format=data.get("format") or "parquet",
        size_bytes=data.get("size_bytes"),
        files_per_bucket=data.get("files_per_bucket") or 1,
        is_empty=bool(data.get("empty")),
    )
