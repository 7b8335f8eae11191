"""Generate the output of EXPLAIN FORMATTED for a tree of operators."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, eq=False)
class Op:
    """An operator: its text in the tree, its details without the heading, its inputs, and the exchange that it reuses."""

    label: str
    details: str = ""
    inputs: tuple[Op, ...] = ()
    reuses: Op | None = None

    @property
    def heading(self) -> str:
        return self.label if "Scan" in self.label else self.label.split()[0]


def plan(root: Op) -> str:
    """Return the text of a plan, whose operators are numbered from the bottom."""
    # Do not recurse, because plans may be deep.
    ops, waiting = [], [root]
    while waiting:
        ops.append(waiting.pop())
        waiting += ops[-1].inputs
    numbers = {op: number for number, op in enumerate(reversed(ops), 1)}
    tree, below = [], [(root, "", "")]
    while below:
        op, first, others = below.pop()
        tree.append(f"{first}{op.label} ({numbers[op]})")
        for child in reversed(op.inputs):
            start, rest = ("+- ", "   ") if child is op.inputs[-1] else (":- ", ":  ")
            below.append((child, others + start, others + rest))
    details = []
    for op, number in numbers.items():
        reuses = f" [Reuses operator id: {numbers[op.reuses]}]" if op.reuses else ""
        details.append(f"({number}) {op.heading}{reuses}\n{op.details}")
    return "\n".join(["== Physical Plan ==", *tree, "", "", "\n\n".join(details), ""])


def scan(table: str, first: int) -> Op:
    details = f"Output [2]: [k#{first}, v#{first + 1}L]\nBucketed: true\nLocation: InMemoryFileIndex [file:/x]"
    return Op(f"Scan parquet spark_catalog.d.{table}", details)


def exchange(key: str, below: Op) -> Op:
    arguments = f"hashpartitioning({key}, 8), ENSURE_REQUIREMENTS, [plan_id=1]"
    return Op("Exchange", f"Input [2]: [{key}, w#99L]\nArguments: {arguments}", (below,))


def broadcast(below: Op) -> Op:
    return Op("BroadcastExchange", "Input [2]: [k#11, v#12L]", (below,))


def reused(exchange: Op, first: int, columns: str = "k#{}, v#{}L") -> Op:
    return Op("ReusedExchange", f"Output [2]: [{columns.format(first, first + 1)}]", reuses=exchange)


def sort(key: str, below: Op) -> Op:
    return Op("Sort", f"Input [2]: [{key}, w#99L]\nArguments: [{key} ASC NULLS FIRST], false, 0", (below,))


def grouping(key: str, function: str, column: str, below: Op) -> Op:
    details = f"Keys [1]: [{key}]\nFunctions [1]: [{function}(1)]\nResults [2]: [{key}, {column}]"
    return Op("HashAggregate", details, (below,))


def join(left_key: str, right_key: str, left: Op, right: Op, kind: str = "Inner", name: str = "SortMergeJoin") -> Op:
    keys = f"Left keys [1]: [{left_key}]\nRight keys [1]: [{right_key}]"
    return Op(f"{name} {kind}", f"{keys}\nJoin type: {kind}\nJoin condition: None", (left, right))


def broadcast_join(left_key: str, right_key: str, left: Op, right: Op) -> Op:
    return replace(join(left_key, right_key, left, right), label="BroadcastHashJoin Inner BuildRight")
