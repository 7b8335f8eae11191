"""Write the advice as a self-contained HTML page with the graph of models before and after."""

from __future__ import annotations

from typing import Any, TextIO

from spark_bucketing.advise.advice import Advice, QueryProof
from spark_bucketing.edits import unified_diff
from spark_bucketing.report.advise_text import bytes_text, proof_text, spec_text
from spark_bucketing.report.check_html import curve, short_name
from spark_bucketing.report.formatting import size
from spark_bucketing.report.graph import NODE_HEIGHT, NODE_WIDTH, draw
from spark_bucketing.report.output import pages
from spark_bucketing.units import count

_MOST_NODES = 150


def write_html(advice: Advice, file: TextIO) -> None:
    """Write the page."""
    template = pages(count, size, bytes_text, spec_text, proof_text).get_template("advise.html")
    graphs = [(when, graph) for when in ("before", "after") if (graph := _graph(advice, when))]
    file.write(template.render(advice=advice, graphs=graphs, diff=unified_diff(advice.edits)) + "\n")


def _graph(advice: Advice, when: str) -> dict[str, Any] | None:
    """Draw the models colored by their number of Exchanges; in large projects, draw only changed models."""
    proofs = {one.unique_id: one for one in advice.proof}
    changed = {change.unique_id: change for change in advice.changes}
    if len(proofs) > _MOST_NODES:
        moved = {name for name, one in proofs.items() if one.before != one.after}
        proofs = {name: one for name, one in proofs.items() if name in moved or name in changed}
    order = list(proofs)[:_MOST_NODES]
    edges = {(parent, name) for name in order for parent in proofs[name].parents if parent in order}
    if not edges:
        return None
    drawing = draw(order, sorted(edges))
    nodes = []
    for name, at in drawing.nodes.items():
        change = changed.get(name)
        spec = (change.before if when == "before" else change.after) if change else None
        nodes.append(
            (
                short_name(name),
                _about(proofs[name], when),
                spec_text(spec) if spec else "",
                _kind(proofs[name], when),
                *at,
            )
        )
    return {
        "size": (round(drawing.width + 4), round(drawing.height + 4)),
        "node_size": (NODE_WIDTH, NODE_HEIGHT),
        "edges": [" ".join(curve(points)) for points in drawing.edges.values()],
        "nodes": nodes,
    }


def _about(one: QueryProof, when: str) -> str:
    planned = getattr(one, when)
    return f"{count(planned.counts.exchanges, 'Exchange')}, {bytes_text(planned.bytes)}" if planned else "not planned"


def _kind(one: QueryProof, when: str) -> str:
    planned = getattr(one, when)
    if planned is None:
        return "unknown"
    if when == "after" and one.is_worse:
        return "worse"
    if when == "after" and one.gain > 0:
        return "better"
    return "moves" if planned.counts.exchanges else "still"
