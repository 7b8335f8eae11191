"""Lay out a graph of models in columns, with parents to the left of their children.

A node's column is the length of its longest path from a root. Within columns, the order has few edge crossings
(barycentre method: Sugiyama, Tagawa and Toda, 1981). An edge that spans several columns has a position in each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

NODE_WIDTH, NODE_HEIGHT = 200, 44
_COLUMN_GAP, _ROW_GAP, _BEND_HEIGHT = 84, 16, 14
_SWEEPS = 8

Edge = tuple[str, str]
Point = tuple[float, float]


@dataclass(frozen=True)
class Drawing:
    """Upper left corners of nodes, points of edges from left to right, and the total size, all in pixels."""

    nodes: Mapping[str, Point]
    edges: Mapping[Edge, Sequence[Point]]
    width: float
    height: float


def draw(names: Sequence[str], edges: Collection[Edge]) -> Drawing:
    """Position all nodes and edges; edges are (parent, child) pairs, nodes are sorted parents first, without cycles."""
    column = _columns(names, edges)
    chains = {edge: _chain(edge, column) for edge in edges}
    columns: list[list[str]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for name in names:
        columns[column[name]].append(name)
    for chain in chains.values():
        for place, bend in enumerate(chain[1:-1], column[chain[0]] + 1):
            columns[place].append(bend)
    links = [link for chain in chains.values() for link in pairwise(chain)]
    _untangle(columns, links)
    tops, height = _tops(columns, set(names))
    step = NODE_WIDTH + _COLUMN_GAP
    points = {name: (place * step, tops[name]) for place, members in enumerate(columns) for name in members}
    return Drawing(
        nodes={name: points[name] for name in names},
        edges={edge: _path(chain, points) for edge, chain in chains.items()},
        width=max(len(columns) * step - _COLUMN_GAP, 0),
        height=height,
    )


def _columns(order: Sequence[str], edges: Collection[Edge]) -> dict[str, int]:
    parents: dict[str, list[str]] = {name: [] for name in order}
    for parent, child in edges:
        parents[child].append(parent)
    column: dict[str, int] = {}
    for name in order:
        column[name] = max((column.get(parent, 0) + 1 for parent in parents[name]), default=0)
    # A root stands just before its first child.
    for name in (name for name in order if not parents[name]):
        column[name] = min((column[child] - 1 for parent, child in edges if parent == name), default=0)
    return column


def _chain(edge: Edge, column: Mapping[str, int]) -> list[str]:
    parent, child = edge
    between = range(column[parent] + 1, column[child])
    return [parent, *(f"{parent}\0{child}\0{place}" for place in between), child]


def _untangle(columns: list[list[str]], links: Sequence[tuple[str, str]]) -> None:
    left: dict[str, list[str]] = {}
    right: dict[str, list[str]] = {}
    for start, end in links:
        left.setdefault(end, []).append(start)
        right.setdefault(start, []).append(end)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = left if forward else right
        rows = {name: row for members in columns for row, name in enumerate(members)}
        for members in columns if forward else reversed(columns):

            def centre(name: str, here: dict[str, int] = rows, near: dict[str, list[str]] = neighbours) -> float:
                beside = near.get(name)
                return sum(here[other] for other in beside) / len(beside) if beside else here[name]

            members.sort(key=centre)
            rows.update({name: row for row, name in enumerate(members)})


def _tops(columns: Sequence[Sequence[str]], real: set[str]) -> tuple[dict[str, float], float]:
    heights = [[NODE_HEIGHT if name in real else _BEND_HEIGHT for name in members] for members in columns]
    totals = [sum(members) + _ROW_GAP * max(len(members) - 1, 0) for members in heights]
    height = max(totals, default=0)
    tops: dict[str, float] = {}
    for members, sizes, total in zip(columns, heights, totals, strict=True):
        top = (height - total) / 2
        for name, size in zip(members, sizes, strict=True):
            tops[name] = top
            top += size + _ROW_GAP
    return tops, height


def _path(chain: Sequence[str], points: Mapping[str, Point]) -> list[Point]:
    path: list[Point] = [(points[chain[0]][0] + NODE_WIDTH, points[chain[0]][1] + NODE_HEIGHT / 2)]
    for bend in chain[1:-1]:
        x, y = points[bend]
        path += [(x, y + _BEND_HEIGHT / 2), (x + NODE_WIDTH, y + _BEND_HEIGHT / 2)]
    return [*path, (points[chain[-1]][0], points[chain[-1]][1] + NODE_HEIGHT / 2)]
