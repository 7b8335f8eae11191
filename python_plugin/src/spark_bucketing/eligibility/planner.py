"""A model of Spark's planner: what a plan would shuffle and sort, if settings and tables were such and such.

It takes the plan's operators as Spark chose them, forgets the Exchanges and Sorts that Spark put between them, and puts
them in anew, after Spark's EnsureRequirements. With settings and tables as they are, the outcome has to be the plan at
hand; where it isn't, the model does not understand something, and nothing is promised (see Verdicts).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_bucketing.eligibility.joining import join_inputs, usable
from spark_bucketing.eligibility.layout import Hashed, Layout, ascending, ordered_by
from spark_bucketing.eligibility.lineage import key_in, names_above
from spark_bucketing.eligibility.operators import Operator, Side, find_operators
from spark_bucketing.eligibility.world import World, bucket_read
from spark_bucketing.plan import Node, Plan
from spark_bucketing.plan.lists import canonical

_PASSING = (
    "Exchange", "Sort", "Filter", "ColumnarToRow", "RowToColumnar", "BucketCheck", "BucketDrain", "BucketDrainInput",
    "AdaptiveSparkPlan", "LocalLimit", "WindowGroupLimit", "Generate", "InputAdapter", "WholeStageCodegen", "Sample",
    "BroadcastExchange", "ArrowEvalPython", "BatchEvalPython", "InMemoryRelation", "CollectMetrics", "AQEShuffleRead",
)  # fmt: skip
_SINGLE = ("GlobalLimit", "TakeOrderedAndProject", "CollectLimit", "CollectTail")
_LAYOUT_OF_LEFT = ("LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin", "LeftSingle")


@dataclass(frozen=True)
class Outcome:
    """What an operator does to its inputs, one place for each of them."""

    shuffled: tuple[bool, ...]
    sorted: tuple[bool, ...]


class Planner:
    """One plan under one set of settings and tables.

    Args:
        plan: the plan.
        world: settings and tables.
    """

    def __init__(self, plan: Plan, world: World) -> None:
        self.world = world
        self.operators = {op.node.number: op for root in plan.roots for op in find_operators(root)}
        self.outcomes: dict[int, Outcome] = {}
        self.inputs: dict[tuple[int, int], Layout] = {}
        self._layouts: dict[int, Layout] = {}
        for root in plan.roots:
            self.layout(root)

    def layout(self, node: Node) -> Layout:
        """How the rows of an operator's output lie."""
        if node.number not in self._layouts:
            self._layouts[node.number] = self._layout(node)
        return self._layouts[node.number]

    def keys(self, op: Operator, side: Side) -> tuple[str, ...]:
        """The keys of an operator's input, without the casts that other types make needless."""
        unwrapped = op.node.number in self.world.unwrapped
        return tuple(dict.fromkeys(key_in(key, side.entry, self.world, unwrapped) for key in side.keys or ()))

    def _layout(self, node: Node) -> Layout:
        operator = self.operators.get(node.number)
        if operator is not None:
            return self._operator(operator)
        if node.table or not node.children:
            return self._scan(node)
        if node.number in self.world.skipped:
            return self.layout(node.children[0])
        if node.operator in ("Union", "BucketUnion"):
            return self._union(node)
        below = self.layout(node.children[0])
        if node.operator == "Exchange" and node.shuffle and node.shuffle.requested:
            kind = {"hash": "spark", "hive": "hive"}.get(node.shuffle.kind)
            made = Hashed(kind, node.shuffle.keys, node.shuffle.partitions or 0) if kind else None
            return Layout((made,) if made else (), node.shuffle.kind == "single")
        if node.is_global_sort:
            return Layout()
        if node.operator in ("Project", "ReusedExchange"):
            return below.renamed(names_above(node, self.world))
        if node.operator in _SINGLE:
            return Layout(single=True)
        return below if node.operator in _PASSING else Layout()

    def _scan(self, node: Node) -> Layout:
        if node.operator == "Scan" and node.title.startswith("In-memory") and node.children:
            return Layout()
        read = bucket_read(node, self.world) if node.table else None
        if read is None:
            return Layout()
        hashed = Hashed(read.bucket_hash, tuple(column.key for column in read.columns), read.buckets, node.table)
        return Layout((hashed,), order=ordered_by([column.key for column in read.order]))

    def _union(self, node: Node) -> Layout:
        """Inputs that are spread alike: the extension unites their buckets, and so does Spark, without filters."""
        branches = [
            self.layout(child).renamed(names_above(node, self.world, i)) for i, child in enumerate(node.children)
        ]
        first, rest = branches[0], branches[1:]
        alike = tuple(
            hashed
            for hashed in first.hashed
            if all(any(_alike(hashed, other) for other in branch.hashed) for branch in rest)
        )
        read = [self.world.extension_reads(h.table) for branch in branches for h in branch.hashed]
        if any(read) and self.world.on("spark.bucketing.union.enabled") and all(h.table for h in alike):
            ordered = all(branch.order == first.order for branch in rest)
            merged = ordered and self.world.number("spark.bucketing.read.mergeFiles") > 1
            return Layout(tuple(replace(hashed, direct=False) for hashed in alike), order=first.order if merged else ())
        if any(read):
            return Layout()
        filtered = any(part.operator == "Filter" for child in node.children for part in child.walk())
        if filtered or not self.world.on("spark.sql.unionOutputPartitioning"):
            return Layout()
        return Layout(tuple(replace(hashed, direct=False, table=None) for hashed in alike))

    def _operator(self, op: Operator) -> Layout:
        for i, side in enumerate(op.sides):
            self.inputs[op.node.number, i] = self.layout(side.entry)
        if op.foreign:
            self.outcomes[op.node.number] = Outcome(tuple(False for _ in op.sides), tuple(False for _ in op.sides))
            return Layout()
        if op.kind != "join":
            return self._grouping(op)
        if op.broadcast or op.keyless or any(side.keys is None for side in op.sides):
            return self._unshuffled_join(op)
        return self._join(op)

    def _grouping(self, op: Operator) -> Layout:
        side, world = op.sides[0], self.world
        below = self.layout(side.entry)
        keys = self.keys(op, side)
        shuffled = not below.gathers(keys)
        if op.kind == "window":
            moved = _by_hash(keys, world) if shuffled else below
            order = [*(ascending(key) for key in keys), *(canonical_order(text) for text in op.order)]
            sorts = not moved.is_ordered(order)
            self.outcomes[op.node.number] = Outcome((shuffled,), (sorts,))
            return replace(moved, order=tuple(frozenset({key}) for key in order)) if sorts else moved
        moved = _by_hash(keys, world) if shuffled else below
        wanted = [ascending(key) for key in keys]
        sorts = op.node.operator == "SortAggregate" and bool(side.sorts) and not moved.is_ordered(wanted)
        self.outcomes[op.node.number] = Outcome((shuffled,), (sorts,))
        keeps = bool(keys) and moved.is_ordered(wanted) and world.on("spark.sql.execution.replaceHashWithSortAgg")
        kept = moved if keeps else moved.unordered()
        return kept.renamed(names_above(op.node, world)).indirect()

    def _unshuffled_join(self, op: Operator) -> Layout:
        self.outcomes[op.node.number] = Outcome((False, False), (False, False))
        if not op.broadcast:
            return Layout()
        streamed = op.sides[0] if "BuildRight" in op.node.title else op.sides[1]
        return self.layout(streamed.entry).indirect()

    def _join(self, op: Operator) -> Layout:
        sides = op.sides
        keys = (self._join_keys(op, 0), self._join_keys(op, 1))
        below = (self.layout(sides[0].entry), self.layout(sides[1].entry))
        joined = join_inputs(below[0], below[1], keys, self.world)
        wanted = reordered(keys, joined.layouts, self.world)
        sorts = op.node.operator == "SortMergeJoin"
        order = tuple([ascending(key) for key in side] for side in wanted)
        sorted_ = tuple(sorts and not layout.is_ordered(by) for layout, by in zip(joined.layouts, order, strict=True))
        self.outcomes[op.node.number] = Outcome(joined.shuffled, sorted_)
        after = tuple(
            replace(layout, order=tuple(frozenset({key}) for key in by)) if again else layout
            for layout, by, again in zip(joined.layouts, order, sorted_, strict=True)
        )
        return _joined_layout(op, (after[0], after[1]), order).indirect()

    def _join_keys(self, op: Operator, place: int) -> tuple[str, ...]:
        # Both sides keep their pairs, so doubles stay.
        unwrapped = op.node.number in self.world.unwrapped
        sides = [[key_in(key, side.entry, self.world, unwrapped) for key in side.keys or ()] for side in op.sides]
        pairs = list(zip(*sides, strict=True))
        # What compares NULLs as well are two keys for each column.
        return tuple(pair[place] for pair in (dict.fromkeys(pairs) if unwrapped else pairs))


def canonical_order(text: str) -> str:
    """An element of ORDER BY with attributes named by their ids."""
    for ending in (" ASC NULLS FIRST", " DESC NULLS LAST", " ASC NULLS LAST", " DESC NULLS FIRST"):
        if text.endswith(ending):
            return canonical(text.removesuffix(ending)) + ending
    return canonical(text)


def reordered(
    keys: tuple[tuple[str, ...], tuple[str, ...]], layouts: tuple[Layout, Layout], world: World
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both sides' keys in the order in which one side is hashed, as Spark's reorderJoinKeys does."""
    for place in (0, 1):
        for found in usable(layouts[place], keys[place], world):
            if sorted(found.hashed.keys) == sorted(keys[place]):
                order = [keys[place].index(column) for column in found.hashed.keys]
                return tuple(keys[0][i] for i in order), tuple(keys[1][i] for i in order)
    return keys


def _alike(left: Hashed, right: Hashed) -> bool:
    return (left.kind, left.keys, left.partitions) == (right.kind, right.keys, right.partitions)


def _by_hash(keys: tuple[str, ...], world: World) -> Layout:
    if not keys:
        return Layout(single=True)
    return Layout((Hashed("spark", keys, world.number("spark.sql.shuffle.partitions")),))


def _joined_layout(op: Operator, sides: tuple[Layout, Layout], order: tuple[list[str], ...]) -> Layout:
    left, right = sides
    kind = op.node.join_type
    streamed = right if "BuildLeft" in op.node.title else left
    if kind.startswith(("Inner", "Cross")):
        equal = {a: frozenset({a, b}) for a, b in zip(*order, strict=True)}
        equal |= {b: frozenset({a, b}) for a, b in zip(*order, strict=True)}
        kept = streamed.order if op.node.operator == "ShuffledHashJoin" else left.order
        places = tuple(frozenset[str]().union(*(equal.get(key, frozenset({key})) for key in place)) for place in kept)
        return Layout((*left.hashed, *right.hashed), left.single or right.single, places)
    if kind.startswith(_LAYOUT_OF_LEFT):
        return left
    return right if kind.startswith("RightOuter") else Layout()
