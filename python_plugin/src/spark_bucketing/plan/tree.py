"""Describe a plan for people, as the lines of a tree."""

from __future__ import annotations

from typing import NamedTuple

from spark_bucketing.plan.document import PhysicalPlan, PlanNode


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
