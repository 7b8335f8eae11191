"""Where on the way from a scan to an operator the buckets, or their order, get lost."""

from __future__ import annotations

from collections.abc import Iterator

from spark_bucketing.eligibility.steps import Step
from spark_bucketing.plan import Node


def _path(node: Node, scan: Node) -> list[Node]:
    """The nodes from an operator's input down to a scan; empty when it is not below."""
    above: dict[int, Node] = {}
    for place in node.walk():
        for child in place.children:
            above.setdefault(child.number, place)
    found = next((place for place in node.walk() if place.number == scan.number), None)
    path: list[Node] = []
    while found is not None:
        path.insert(0, found)
        found = above.get(found.number) if found is not node else None
    return path


def _upwards(step: Step) -> Iterator[Node]:
    if step.scan is not None:
        yield from reversed(_path(step.side.entry, step.scan))


def broken_at(step: Step) -> Node | None:
    """The lowest node above the scan where the scan's buckets are lost; None when they reach the operator."""
    table = step.scan.table if step.scan else None
    for node in _upwards(step):
        if not any(hashed.table == table for hashed in step.planner.layout(node).hashed):
            return node
    return None


def disordered_at(step: Step) -> Node | None:
    """The lowest node above the scan whose rows are in no order; None when the order reaches the operator."""
    return next((node for node in _upwards(step) if not step.planner.layout(node).order), None)
