"""Find the joins, aggregates and windows of a plan, and for each of their inputs the path to the operator.

An aggregate counts as one operator, even if Spark plans it as several nodes:

    HashAggregate keys=[k], functions=[sum(v)]             the operator's node
    +- Exchange hashpartitioning(k, 200)                   the path
       +- HashAggregate keys=[k], functions=[partial_sum(v)]
          +- Filter                                        the path continues down to a scan or another operator
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from spark_bucketing.plan.document import Aggregate, Expression, OperatorKind, PlanNode, SortOrder, Source

_PASSING = ("exchange", "reused", "sort")
# Nodes whose output has another partitioning than their input, so that buckets below them cannot avoid a shuffle.
_BREAKS = ("exchange", "broadcast", "reused")


@dataclass(frozen=True, eq=False)
class Side:
    """One input of an operator."""

    # The operator requires rows with equal keys in one partition. None if the operator is not recognized.
    keys: tuple[Expression, ...] | None
    entry: PlanNode  # the uppermost node of the input, below all nodes of the operator itself
    # Nodes from the operator to the next operators or leaves, including Exchanges and Sorts, also reused ones.
    way: tuple[PlanNode, ...]
    # Numbers of the nodes that Spark runs for this input; the others are below a ReusedExchange.
    own: frozenset[int]

    @cached_property
    def exchanges(self) -> tuple[PlanNode, ...]:
        """Return the Exchanges on the path, and the limits that collect all rows in one task."""
        return tuple(node for node in self.way if node.kind in ("exchange", "gather"))

    @cached_property
    def sorts(self) -> tuple[PlanNode, ...]:
        """Return the Sorts on the path."""
        return tuple(node for node in self.way if node.kind == "sort")

    @property
    def local_sorts(self) -> tuple[PlanNode, ...]:
        """Return the Sorts on the path that sort rows within each partition."""
        return tuple(node for node in self.sorts if not node.is_global_sort)

    @cached_property
    def needed(self) -> PlanNode | None:
        """Return the Exchange that the operator itself requires: the uppermost Exchange by the operator's keys."""
        for node in self.exchanges:
            if node.kind == "gather":
                continue
            shuffle = node.shuffle
            if shuffle is None:
                return node
            by_keys = shuffle.bucket_hash is not None or (shuffle.kind == "single" and not self.keys)
            if not shuffle.requested and by_keys:
                return node
        return None


@dataclass(frozen=True, eq=False)
class Operator:
    """A join, aggregate, distinct or window in a plan, or an operator that is not recognized."""

    kind: OperatorKind  # the kind of operator
    node: PlanNode  # its uppermost node
    sides: tuple[Side, ...]  # its inputs
    order: tuple[SortOrder, ...] = ()  # for a window: its ORDER BY
    line: int | None = None  # line of its clause in the query, starting at 1, if known

    @cached_property
    def own(self) -> frozenset[int]:
        """Return the numbers of those nodes on the operator's paths that Spark runs for this operator itself."""
        return frozenset[int]().union(*(side.own for side in self.sides))

    @property
    def broadcast(self) -> bool:
        """Return whether Spark broadcasts one of the inputs."""
        return self.node.operator.startswith("Broadcast") and not self.foreign

    @property
    def foreign(self) -> bool:
        """Return whether this operator belongs to another engine, so that its effect is unknown."""
        return not self.node.is_known

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the distinct tables below the operator, in the order in which they occur in the plan."""
        return tuple(dict.fromkeys(table for side in self.sides for table in side.entry.tables))

    @property
    def understood(self) -> bool:
        """Return whether the operator and all nodes on its paths are known."""
        return not self.foreign and all(node.is_known for side in self.sides for node in side.way)

    @property
    def keyless(self) -> bool:
        """Return whether the operator has no keys for partitioning its rows."""
        return any(side.keys == () for side in self.sides)


def find_operators(root: PlanNode) -> Iterator[Operator]:
    """Yield the operators of a tree, starting at the top.

    An unknown node counts as an operator in two cases: its name suggests a join, an aggregate or a window, or it is not
    on the path of any operator. An operator with an unknown node on one of its paths is not recognized.
    """
    inside: set[int] = set()
    for node in root.walk():
        if node.number in inside:
            continue
        op: Operator | None = None
        if node.join:
            keys = (node.join.left_keys, node.join.right_keys)
            sides = tuple(_side(by, child) for by, child in zip(keys, node.children, strict=True))
            op = Operator("join", node, sides, line=node.line)
        elif node.aggregate:
            chain = _chain(node)
            inside.update(part.number for part in chain if part.aggregate)
            parts = [part.aggregate for part in chain if part.aggregate]
            has_functions = any(part.modes for part in parts)
            kind: OperatorKind = "distinct" if parts[-1].keys and not has_functions else "aggregate"
            between = tuple(part for part in chain[1:] if not part.aggregate)
            side = _side(parts[-1].keys, chain[-1].children[0], between)
            op = Operator(kind, node, (side,), line=next((part.line for part in chain if part.line), None))
        elif node.window:
            op = Operator("window", node, (_side(node.window.keys, node.children[0]),), node.window.order, node.line)
        elif not node.is_known:
            op = Operator(node.guess or "other", node, tuple(_side(None, child) for child in node.children))
        if op:
            inside.update(part.number for side in op.sides for part in side.way if not is_operator(part))
            yield op


def is_operator(node: PlanNode) -> bool:
    """Return whether a node belongs to an operator."""
    return bool(node.join or node.aggregate or node.window or node.guess)


def _side(keys: tuple[Expression, ...] | None, entry: PlanNode, before: tuple[PlanNode, ...] = ()) -> Side:
    """Return an input, whose path starts with the nodes between the partial and the final aggregate."""
    way = (*before, *_way(entry))
    own = [node.number for node in takewhile(_is_run, before)]
    if len(own) == len(before):
        own += [node.number for node in _way(entry, _is_run)]
    return Side(keys, entry, way, frozenset(own))


def _is_run(node: PlanNode) -> bool:
    """Return whether Spark runs the subtree below a node for this node, rather than reusing an earlier result."""
    return node.kind != "reused"


def _way(entry: PlanNode, follows: Callable[[PlanNode], bool] = lambda _: True) -> Iterator[PlanNode]:
    # The path ends at the next operator. An unrecognized operator belongs to the path, so that the path is
    # unrecognized, too.
    below = entry.walk(lambda node: not is_operator(node) and follows(node))
    return (node for node in below if not is_operator(node) or not node.is_known)


def _chain(top: PlanNode) -> list[PlanNode]:
    """Return the nodes that together form one aggregate, and the nodes between them, from the top."""
    chain, pending, below = [top], [], top.children[0]
    while True:
        # Such a node only moves or orders the rows of its input.
        if below.children and (below.kind in _PASSING or below.operator == "ColumnarToRow"):
            pending.append(below)
        elif below.aggregate and chain[-1].aggregate and _is_part(below.aggregate, chain[-1].aggregate):
            chain += [*pending, below]
            pending = []
        else:
            return chain
        below = below.children[0]


def _is_part(below: Aggregate, above: Aggregate) -> bool:
    """Return whether the lower node is the partial aggregate of the upper node, with the same keys and functions."""
    # Keys that the lower node computes have other texts, and the columns of a reused exchange have other ids.
    own, theirs = (({key.id for key in part.keys}, {key.text for key in part.keys}) for part in (below, above))
    same_keys = len(below.keys) == len(above.keys) and (own[0] == theirs[0] or own[1] == theirs[1])
    return same_keys and (below.is_partial if below.modes else not above.modes)


@dataclass(frozen=True)
class TableInput:
    """Rows that come from one table without a shuffle in between: an operator's input, or an input of a UNION below."""

    entry: PlanNode  # the uppermost node of these rows
    table: str | None  # the table; None if the rows come from several tables or from none
    keys: tuple[Expression | None, ...]  # the operator's keys, over the columns of the entry
    columns: tuple[str | None, ...]  # for each key, the table's column; None if the key is not one of its columns


def table_inputs(entries: Sequence[PlanNode], keys: Sequence[Expression | None]) -> list[TableInput]:
    """Return the tables whose rows reach an operator through these nodes; several tables only below a UNION.

    Broadcast joins pass the rows of the side that is not broadcast, and the keys of the other side are equal.
    """
    nodes = [node for entry in entries for node in entry.walk(_passes_tables)]
    unions = [node for node in nodes if node.kind == "union"]
    scans = {node.number: node for node in nodes if node.scan}
    same: dict[Source, Source] = {}
    for node in filter(_passes_tables, nodes):
        same |= _broadcast_columns(node)
    origins = [_origin(key, same, scans) for key in keys]
    columns = [one if one and one.scan.number in scans else None for one in origins]
    if scans or not unions:
        tables = {one.scan.table for one in columns if one} or {scan.table for scan in scans.values()}
        names = tuple(one.column.lower() if one else None for one in columns)
        return [TableInput(entries[0], tables.pop() if len(tables) == 1 else None, tuple(keys), names)]
    found = []
    for union in unions:
        places = [_place(union, key) for key in keys]
        for branch in union.children:
            output = branch.output
            of_branch = [output[place] if place is not None and place < len(output) else None for place in places]
            found += table_inputs([branch], of_branch)
    return found


def _passes_tables(node: PlanNode) -> bool:
    """Return whether rows of tables below a node reach the nodes above it without a shuffle, except through a UNION."""
    is_shuffled_join = "join" in (node.kind, node.guess) and not node.operator.startswith("Broadcast")
    return not (node.kind in (*_BREAKS, "union") or node.operator == "Expand" or is_shuffled_join)


def _column(value: Expression | None) -> Source | None:
    """Return the column that a value consists of, or None for an expression, which buckets cannot serve."""
    source = value.source if value else None
    return source if source and not source.wrapped and source.scan.scan else None


def _origin(value: Expression | None, same: Mapping[Source, Source], scans: Collection[int]) -> Source | None:
    """Return the column of a value, or the equal column of a scan that the rows come from."""
    column = _column(value)
    for _ in same:
        if column is None or column.scan.number in scans or column not in same:
            break
        column = same[column]
    return column


def _broadcast_columns(node: PlanNode) -> dict[Source, Source]:
    """Return for each key of the broadcast side of an inner join the equal key of the other side."""
    join = node.join
    if join is None or join.type != "Inner" or not join.build:
        return {}
    built, streamed = join.left_keys, join.right_keys
    if join.build == "right":
        built, streamed = streamed, built
    pairs = ((_column(one), _column(other)) for one, other in zip(built, streamed, strict=True))
    return {one: other for one, other in pairs if one and other}


def _place(union: PlanNode, key: Expression | None) -> int | None:
    """Return the position of a key in the output of a UNION, whose sources are those of its first branch."""
    same_id = [place for place, one in enumerate(union.output) if key and one.id == key.id]
    column = _column(key)
    places = same_id or [place for place, one in enumerate(union.output) if column and _column(one) == column]
    return places[0] if same_id or len(places) == 1 else None
