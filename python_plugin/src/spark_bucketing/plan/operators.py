"""Finds the joins, aggregates and windows of a plan, and the ways from their inputs to them.

An aggregate is one operator, however many nodes Spark makes of it:

    HashAggregate keys=[k], functions=[sum(v)]             the operator's node
    +- Exchange hashpartitioning(k, 200)                   the way
       +- HashAggregate keys=[k], functions=[partial_sum(v)]
          +- Filter                                        the way goes on, down to a scan or another operator
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from spark_bucketing.plan.expression_lists import arguments, canonical, elements, is_balanced, named_expressions
from spark_bucketing.plan.known_operators import GATHERING, OperatorKind, foreign_kind, is_known
from spark_bucketing.plan.tree import AGGREGATES, JOINS, PlanNode

_PARTIAL = re.compile(r"^(?:partial_|merge_)")
_ORDER = re.compile(r" (?:ASC|DESC) NULLS (?:FIRST|LAST)$")
PASSING = ("Exchange", "Sort", "AQEShuffleRead", "ShuffleQueryStage", "ColumnarToRow")


@dataclass(frozen=True, eq=False)
class Side:
    """One input of an operator."""

    # By what the operator wants its rows together, as canonical expressions; None where they cannot be read.
    keys: tuple[str, ...] | None
    texts: tuple[str, ...]  # the same as Spark prints them
    entry: PlanNode  # the uppermost node of the input, below all nodes of the operator itself
    way: tuple[PlanNode, ...]  # nodes from the operator to the next operators or leaves, Exchanges and Sorts among them

    @cached_property
    def exchanges(self) -> tuple[PlanNode, ...]:
        """What moves rows on the way: Exchanges, and limits that gather rows without one."""
        return tuple(node for node in self.way if _moves(node))

    @cached_property
    def sorts(self) -> tuple[PlanNode, ...]:
        """Sorts on the way."""
        return tuple(node for node in self.way if node.operator == "Sort")

    @property
    def local_sorts(self) -> tuple[PlanNode, ...]:
        """Sorts within partitions."""
        return tuple(node for node in self.sorts if not node.is_global_sort)

    @cached_property
    def needed(self) -> PlanNode | None:
        """The Exchange that the operator itself needs, and nothing on the way: the uppermost one by its keys."""
        for node in self.exchanges:
            if node.operator in GATHERING:
                continue
            shuffle = node.shuffle
            if node.operator == "ReusedExchange" or shuffle is None:
                return node
            by_keys = shuffle.kind in ("hash", "hive") or (shuffle.kind == "single" and not self.keys)
            if not shuffle.requested and by_keys:
                return node
        return None


@dataclass(frozen=True, eq=False)
class Operator:
    """A join, aggregate, distinct or window of a plan, or what is not understood."""

    kind: OperatorKind  # what it is
    node: PlanNode  # its uppermost node
    sides: tuple[Side, ...]  # its inputs
    order: tuple[str, ...] = ()  # for a window: its ORDER BY, as Spark prints it

    @property
    def broadcast(self) -> bool:
        """Whether one input is sent to all tasks."""
        return self.node.operator.startswith("Broadcast") and not self.foreign

    @property
    def foreign(self) -> bool:
        """Whether it is no operator that Spark has, so that nothing is known of it."""
        return not is_known(self.node)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables below, each once, in the plan's order."""
        return tuple(dict.fromkeys(table for side in self.sides for table in side.entry.tables))

    @property
    def understood(self) -> bool:
        """Whether keys and ways could be read, and everything on the ways is known."""
        read = not self.foreign and all(side.keys is not None for side in self.sides)
        return read and all(is_known(node) for side in self.sides for node in side.way)

    @property
    def keyless(self) -> bool:
        """Whether it has no keys by which rows could be brought together."""
        return any(side.keys == () for side in self.sides)


def find_operators(root: PlanNode) -> Iterator[Operator]:
    """The operators of a tree, from the top.

    What is not known is an operator of its own where it is a join, an aggregate or a window by its name, or on no way
    to an operator; on a way, that operator is not understood.
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
    """Whether a node is one of an operator."""
    own = node.operator in JOINS or node.operator in AGGREGATES or node.operator == "Window"
    return own or foreign_kind(node) is not None


def _moves(node: PlanNode) -> bool:
    if node.operator == "ReusedExchange":
        # What was broadcast once is not moved again.
        return not any(child.operator == "BroadcastExchange" for child in node.children)
    return node.operator == "Exchange" or node.operator in GATHERING


def _way(entry: PlanNode) -> Iterator[PlanNode]:
    seen: set[int] = set()
    waiting = [entry]
    while waiting:
        node = waiting.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        # The way ends at the next operator; one that is not understood makes the way so, too.
        if not is_operator(node) or not is_known(node):
            yield node
        if not is_operator(node):
            waiting += reversed(node.children)


def _foreign(node: PlanNode) -> Operator:
    sides = tuple(Side(None, (), child, tuple(_way(child))) for child in node.children)
    return Operator(foreign_kind(node) or "other", node, sides)


def _join(node: PlanNode) -> Operator:
    sides = []
    for child, name in zip(node.children, ("Left keys", "Right keys"), strict=True):
        texts = node.expressions(name)
        keys = None if texts is None else tuple(canonical(text) for text in texts)
        sides.append(Side(keys, texts or (), child, tuple(_way(child))))
    return Operator("join", node, tuple(sides))


def _key_ids(node: PlanNode) -> tuple[int, ...] | None:
    found = named_expressions(node.expressions("Keys") or ())
    return None if found is None else tuple(sorted(item.attribute.id for item in found))


def _chain(top: PlanNode) -> list[PlanNode]:
    """The nodes of one aggregate, with what lies between them, from the top."""
    chain, pending, below = [top], [], top.children[0]
    while True:
        if below.operator in PASSING and below.children:
            pending.append(below)
            below = below.children[0]
            continue
        if below.operator not in AGGREGATES or not _is_part(below, chain[-1]):
            return chain
        chain += [*pending, below]
        pending, below = [], below.children[0]


def _is_part(below: PlanNode, above: PlanNode) -> bool:
    """Whether the lower one begins what the upper one ends: the same keys, and partial functions."""
    lower, upper = below.expressions("Functions"), above.expressions("Functions")
    if lower is None or upper is None or _key_ids(below) is None or _key_ids(below) != _key_ids(above):
        return False
    return all(_PARTIAL.match(function) for function in lower) if lower else not upper


def _aggregate(chain: list[PlanNode]) -> Operator:
    top, bottom = chain[0], chain[-1]
    texts = bottom.expressions("Keys")
    found = named_expressions(texts)
    keys = None if found is None else tuple(item.attribute.key for item in found)
    below = bottom.children[0]
    way = (*(node for node in chain[1:] if node.operator not in AGGREGATES), *_way(below))
    functions = [node.expressions("Functions") for node in chain if node.operator in AGGREGATES]
    kind: OperatorKind = "distinct" if keys and all(found == () for found in functions) else "aggregate"
    return Operator(kind, top, (Side(keys, texts or (), below, way),))


def _window(node: PlanNode) -> Operator:
    # The functions, then what they are partitioned by and in which order; a list without elements is not printed.
    text = node.details.get("Arguments", "")
    lists = [elements(part, None) for part in arguments(text)[1:]]
    ordered = [found for found in lists if found and all(_ORDER.search(element) for element in found)]
    others = [found for found in lists if found not in ordered]
    partition, order = (others or [()])[0], (ordered or [()])[0]
    # A bracket in a literal hides where the lists begin.
    if len(others) > 1 or len(ordered) > 1 or not is_balanced(text):
        partition = None
    keys = None if partition is None else tuple(canonical(text) for text in partition if text)
    side = Side(keys, partition or (), node.children[0], tuple(_way(node.children[0])))
    return Operator("window", node, (side,), order or ())
