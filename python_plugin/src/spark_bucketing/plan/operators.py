"""Find the joins, aggregates and windows of a plan, and for each of their inputs the path to the operator.

An aggregate counts as one operator, even if Spark plans it as several nodes:

    HashAggregate keys=[k], functions=[sum(v)]             the operator's node
    +- Exchange hashpartitioning(k, 200)                   the path
       +- HashAggregate keys=[k], functions=[partial_sum(v)]
          +- Filter                                        the path continues down to a scan or another operator
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from spark_bucketing.plan.expression_lists import arguments, canonical, elements, is_balanced, named_expressions
from spark_bucketing.plan.known_operators import GATHERING, OperatorKind, foreign_kind, is_known
from spark_bucketing.plan.tree import AGGREGATES, JOINS, REUSED, PlanNode

_PARTIAL = re.compile(r"^(?:partial_|merge_)")
_ORDER = re.compile(r" (?:ASC|DESC) NULLS (?:FIRST|LAST)$")
PASSING = ("Exchange", REUSED, "Sort", "AQEShuffleRead", "ShuffleQueryStage", "ColumnarToRow")


@dataclass(frozen=True, eq=False)
class Side:
    """One input of an operator."""

    # The keys, as canonical expressions; the operator requires rows with equal keys in one partition. None if the keys
    # cannot be parsed.
    keys: tuple[str, ...] | None
    texts: tuple[str, ...]  # the same keys as Spark prints them
    entry: PlanNode  # the uppermost node of the input, below all nodes of the operator itself
    # Nodes from the operator to the next operators or leaves, including Exchanges and Sorts, also reused ones.
    way: tuple[PlanNode, ...]
    # Numbers of the nodes that Spark runs for this input; the others are below a ReusedExchange.
    own: frozenset[int]

    @cached_property
    def exchanges(self) -> tuple[PlanNode, ...]:
        """Return the Exchanges on the path, and the limits that collect all rows in one task."""
        return tuple(node for node in self.way if node.operator in ("Exchange", *GATHERING))

    @cached_property
    def sorts(self) -> tuple[PlanNode, ...]:
        """Return the Sorts on the path."""
        return tuple(node for node in self.way if node.operator == "Sort")

    @property
    def local_sorts(self) -> tuple[PlanNode, ...]:
        """Return the Sorts on the path that sort rows within each partition."""
        return tuple(node for node in self.sorts if not node.is_global_sort)

    @cached_property
    def needed(self) -> PlanNode | None:
        """Return the Exchange that the operator itself requires: the uppermost Exchange by the operator's keys."""
        for node in self.exchanges:
            if node.operator in GATHERING:
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
    order: tuple[str, ...] = ()  # for a window: its ORDER BY, as Spark prints it

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
        return not is_known(self.node)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the distinct tables below the operator, in the order in which they occur in the plan."""
        return tuple(dict.fromkeys(table for side in self.sides for table in side.entry.tables))

    @property
    def understood(self) -> bool:
        """Return whether the operator's keys could be parsed, and all nodes on its paths are known."""
        read = not self.foreign and all(side.keys is not None for side in self.sides)
        return read and all(is_known(node) for side in self.sides for node in side.way)

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
        if node.operator in JOINS:
            op = _join(node)
        elif node.operator in AGGREGATES:
            chain = _chain(node)
            inside.update(part.number for part in chain if part.operator in AGGREGATES)
            op = _aggregate(chain)
        elif node.operator == "Window":
            op = _window(node)
        elif not is_known(node):
            op = _foreign(node)
        if op:
            inside.update(part.number for side in op.sides for part in side.way if not is_operator(part))
            yield op


def is_operator(node: PlanNode) -> bool:
    """Return whether a node belongs to an operator."""
    own = node.operator in JOINS or node.operator in AGGREGATES or node.operator == "Window"
    return own or foreign_kind(node) is not None


def _side(
    keys: tuple[str, ...] | None, texts: tuple[str, ...], entry: PlanNode, before: tuple[PlanNode, ...] = ()
) -> Side:
    """Return an input of an operator.

    For an aggregate, the path starts with `before`, the nodes between the partial and the final aggregate.
    """
    way = (*before, *_way(entry))
    own = [node.number for node in takewhile(_is_run, before)]
    if len(own) == len(before):
        own += [node.number for node in _way(entry, _is_run)]
    return Side(keys, texts, entry, way, frozenset(own))


def _is_run(node: PlanNode) -> bool:
    """Return whether Spark runs the subtree below a node for this node, rather than reusing an earlier result."""
    return node.operator != REUSED


def _way(entry: PlanNode, follows: Callable[[PlanNode], bool] = lambda _: True) -> Iterator[PlanNode]:
    seen: set[int] = set()
    waiting = [entry]
    while waiting:
        node = waiting.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        # The path ends at the next operator. An unrecognized operator belongs to the path, so that the path is
        # unrecognized, too.
        if not is_operator(node) or not is_known(node):
            yield node
        if not is_operator(node) and follows(node):
            waiting += reversed(node.children)


def _foreign(node: PlanNode) -> Operator:
    sides = tuple(_side(None, (), child) for child in node.children)
    return Operator(foreign_kind(node) or "other", node, sides)


def _join(node: PlanNode) -> Operator:
    sides = []
    for child, name in zip(node.children, ("Left keys", "Right keys"), strict=True):
        texts = node.expressions(name)
        keys = None if texts is None else tuple(canonical(text) for text in texts)
        sides.append(_side(keys, texts or (), child))
    return Operator("join", node, tuple(sides))


def _chain(top: PlanNode) -> list[PlanNode]:
    """Return the nodes that together form one aggregate, and the nodes between them, from the top."""
    chain, pending, below = [top], [], top.children[0]
    # The columns of a reused exchange have different ids where Spark reads the exchange again.
    ids: dict[int, int] = {}
    while True:
        if below.operator in PASSING and below.children:
            if below.operator == REUSED:
                made = below.children[0].output or ()
                ids |= {own.id: there.id for own, there in zip(below.output or (), made, strict=False)}
            pending.append(below)
            below = below.children[0]
            continue
        if below.operator not in AGGREGATES or not _is_part(below, chain[-1], ids):
            return chain
        chain += [*pending, below]
        pending, below, ids = [], below.children[0], {}


def _is_part(below: PlanNode, above: PlanNode, ids: Mapping[int, int]) -> bool:
    """Return whether the lower node is the partial aggregate of the upper node.

    A partial aggregate has the same keys as the final aggregate, and partial versions of its functions. `ids` maps
    column ids at the upper node to the ids of the same columns at the lower node, if the two differ.
    """
    lower, upper = below.expressions("Functions"), above.expressions("Functions")
    keys, upper_keys = (named_expressions(node.expressions("Keys") or ()) for node in (below, above))
    if lower is None or upper is None or keys is None or upper_keys is None:
        return False
    wanted = sorted(ids.get(key.attribute.id, key.attribute.id) for key in upper_keys)
    if sorted(key.attribute.id for key in keys) != wanted:
        return False
    return all(_PARTIAL.match(function) for function in lower) if lower else not upper


def _aggregate(chain: list[PlanNode]) -> Operator:
    top, bottom = chain[0], chain[-1]
    texts = bottom.expressions("Keys")
    found = named_expressions(texts)
    keys = None if found is None else tuple(item.attribute.key for item in found)
    below = bottom.children[0]
    between = tuple(node for node in chain[1:] if node.operator not in AGGREGATES)
    functions = [node.expressions("Functions") for node in chain if node.operator in AGGREGATES]
    kind: OperatorKind = "distinct" if keys and all(found == () for found in functions) else "aggregate"
    return Operator(kind, top, (_side(keys, texts or (), below, between),))


def _window(node: PlanNode) -> Operator:
    # Functions, PARTITION BY and ORDER BY, in this order; Spark omits an empty list.
    text = node.details.get("Arguments", "")
    lists = [elements(part, None) for part in arguments(text)[1:]]
    ordered = [found for found in lists if found and all(_ORDER.search(element) for element in found)]
    others = [found for found in lists if found not in ordered]
    partition, order = (others or [()])[0], (ordered or [()])[0]
    # A bracket in a literal hides where the lists start.
    if len(others) > 1 or len(ordered) > 1 or not is_balanced(text):
        partition = None
    keys = None if partition is None else tuple(canonical(text) for text in partition if text)
    return Operator("window", node, (_side(keys, partition or (), node.children[0]),), order or ())
