"""Write the report of check as a self-contained HTML page with a graph of models, colored by verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from spark_bucketing.check.effects import required_specs, worse_for
from spark_bucketing.check.outcome import LEVELS, alike_findings, all_findings, open_findings, unknown_models
from spark_bucketing.check.results import ModelResult, Report, Verdict, worst
from spark_bucketing.report.formatting import effect, operators_of, place, size, verdict_counts, why_unknown
from spark_bucketing.report.graph import NODE_HEIGHT, NODE_WIDTH, Point, draw
from spark_bucketing.report.output import pages
from spark_bucketing.units import count

# Above this number of nodes, only models on edges with bucketed tables are drawn.
_MOST_NODES = 150
_DULL = (None, Verdict.NOT_BUCKETED, Verdict.BROADCAST)
_GOOD = (Verdict.SHUFFLE_FREE, Verdict.SORT_FREE)
_NOTE = "Each line is a model that reads another one, in the color of the worst verdict on that read."


def write_html(report: Report, file: TextIO) -> None:
    """Write the page."""
    page = pages(count, effect, place, size, verdict_counts, why_unknown, worse_for, zip)
    page.filters["kind"] = _kind
    found = open_findings(report)
    parts = page.get_template("check.html").generate(
        report=report,
        operators=operators_of(report.models),
        found=alike_findings(found),
        accepted=alike_findings(each for each in all_findings(report) if each.finding.accepted),
        moved=sum(each.finding.bytes_shuffled or 0 for each in found),
        unknown=unknown_models(report),
        wanted=required_specs(report.models),
        graph=_graph(report),
        levels=LEVELS,
        Verdict=Verdict,
    )
    file.writelines(parts)


def _kind(verdict: Verdict | None) -> str:
    """Return the CSS class for a verdict's color."""
    return verdict.value.replace(" ", "-") if verdict else "none"


def _graph(report: Report) -> dict[str, Any] | None:
    """Return the graph of models; None if no model reads another one."""
    models = {model.unique_id: model for model in report.models if model.unique_id}
    edges = {(parent.unique_id, name): parent.verdict for name, model in models.items() for parent in model.inputs}
    names = list(dict.fromkeys([*(parent for parent, _ in edges), *models]))
    if not edges:
        return None
    note = _NOTE
    for dull, left in ((_DULL, "bucketing matters"), (_GOOD, "bucketed tables are shuffled")):
        if len(names) > _MOST_NODES:
            edges = {edge: verdict for edge, verdict in edges.items() if verdict not in dull}
            ends = {name for edge in edges for name in edge}
            names = [name for name in names if name in ends]
            note = f"{_NOTE} Only models where {left} are shown ({count(len(models), 'model')} in total)."
    # Parents first: sources, then models in the order of the report.
    places = {name: place for place, name in enumerate(models)}
    names.sort(key=lambda name: places.get(name, -1))
    drawing = draw(names, edges)
    lines = sorted(drawing.edges.items(), key=lambda item: edges[item[0]] is not None)
    return {
        "note": note,
        "size": (round(drawing.width + 4), round(drawing.height + 4)),
        "edges": [(edges[edge], *map(short_name, edge), " ".join(curve(points))) for edge, points in lines],
        "nodes": [(name, short_name(name), *_about(name, models.get(name)), *at) for name, at in drawing.nodes.items()],
        "node_size": (NODE_WIDTH, NODE_HEIGHT),
    }


def _about(name: str, model: ModelResult | None) -> tuple[str, Verdict | None]:
    """Return the line under a node's name, and the verdict that determines its color."""
    if model is None:
        return name.partition(".")[0], None
    what = count(len(model.operators), "operator") if model.operators else "no join or grouping"
    what = "not planned" if model.error else what
    found = len(alike_findings(open_findings(Report((model,)))))
    verdict = Verdict.UNKNOWN if model.error else worst(model.operators)
    return what + (f", {count(found, 'finding')}" if found else ""), None if verdict in _DULL else verdict


def curve(points: Sequence[Point]) -> Iterator[str]:
    """Draw an edge as parts of an SVG path."""
    (x, y), *rest = points
    yield f"M{x:.0f},{y:.0f}"
    for to_x, to_y in rest:
        half = (x + to_x) / 2
        yield f"C{half:.0f},{y:.0f} {half:.0f},{to_y:.0f} {to_x:.0f},{to_y:.0f}"
        x, y = to_x, to_y


def short_name(unique_id: str) -> str:
    """Return the display name of a node."""
    kind, (name, last) = unique_id.split(".")[0], ("", *unique_id.split("."))[-2:]
    # The id of a versioned model ends with its version.
    return f"{name}.{last}" if kind != "source" and re.fullmatch(r"v\w+", last) and unique_id.count(".") > 2 else last
