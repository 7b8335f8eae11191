"""The check's report as one page that needs nothing else: the graph of models, each edge in its verdict's colour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TextIO

from spark_bucketing.check.effects import wanted_specs, worse_for
from spark_bucketing.check.outcome import LEVELS, Found, alike_findings, all_findings, open_findings, unknown_models
from spark_bucketing.check.results import Fix, ModelResult, Report, Verdict, worst
from spark_bucketing.plan.tree import PlanCounts
from spark_bucketing.report.graph import NODE_HEIGHT, NODE_WIDTH, Point, draw
from spark_bucketing.report.words import count, effect, operators_of, place, size, verdict_counts, why_unknown

_CLASSES = {verdict: verdict.value.removesuffix(" on purpose").replace(" ", "-") for verdict in Verdict}
# More nodes than people look at: then only those between which something is bucketed are drawn.
_MOST_NODES = 150
_DULL = (None, Verdict.NOT_BUCKETED, Verdict.BROADCAST)
_GOOD = (Verdict.SHUFFLE_FREE, Verdict.SORT_FREE)
_NOTE = "Each line is a model reading another, in the colour of the worst that happens to its rows there."
_LONGEST_NAME = 25
_SMALLEST = 0.6


def write_html(report: Report, file: TextIO) -> None:
    """Write the page."""
    style, script = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("check.css", "check.js"))
    file.write(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>spark-bucketing check</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
    )
    for part in (_head(report), _graph(report), _unknown(report), _findings(report), _specs(report), _models(report)):
        file.writelines(f"{line}\n" for line in part)
    file.write(f"</main>\n<script>\n{script}</script>\n</body>\n</html>\n")


def _head(report: Report) -> Iterator[str]:
    operators = operators_of(report.models)
    counts = verdict_counts(operators)
    about = " · ".join(f"{key} {value}" for key, value in report.about.items())
    yield f'<h1>Bucketing check</h1>\n<p class="lead">{escape(about)}</p>' if about else "<h1>Bucketing check</h1>"
    yield f'<p class="lead">Planned by Spark: {escape(report.planner)}</p>'
    if report.unfinished:
        names = escape(", ".join(report.unfinished))
        yield f'<p class="card">Interrupted: {count(len(report.unfinished), "query")} not reached: {names}</p>'
    found = open_findings(report)
    moved = sum(each.finding.bytes_shuffled or 0 for each in found)
    accepted = len(alike_findings(each for each in all_findings(report) if each.finding.accepted))
    tiles = [
        (f"{len(report.models):,}", "queries"),
        (f"{len(operators):,}", "joins, aggregates, windows"),
        (f"{len(alike_findings(found)):,}", "findings" + (f", {accepted:,} more accepted" if accepted else "")),
        (f"{len(unknown_models(report)):,}", "could not be checked"),
    ]
    if moved:
        tiles.append((size(moved), "shuffled for them"))
    cells = "".join(f'<div class="card tile"><b>{value}</b><span>{name}</span></div>' for value, name in tiles)
    yield f'<div class="tiles">{cells}</div>'
    if counts:
        stripes = "".join(f'<i class="{_CLASSES[verdict]}" style="flex:{number}"></i>' for verdict, number in counts)
        yield f'<div class="bar">{stripes}</div>'
    numbers = dict(counts)
    entries = "".join(
        f'<span><i class="{_CLASSES[verdict]}"></i>{escape(verdict.value)} {numbers.get(verdict, 0):,}</span>'
        for verdict in Verdict
    )
    yield f'<div class="legend">{entries}</div>'


def _graph(report: Report) -> Iterator[str]:
    models = {model.unique_id: model for model in report.models if model.unique_id}
    edges = {(parent.unique_id, name): parent.verdict for name, model in models.items() for parent in model.inputs}
    names = list(dict.fromkeys([*(parent for parent, _ in edges), *models]))
    if not edges:
        return
    note = _NOTE
    for dull, left in ((_DULL, "buckets matter"), (_GOOD, "rows are moved although there are buckets")):
        if len(names) > _MOST_NODES:
            edges = {edge: verdict for edge, verdict in edges.items() if verdict not in dull}
            ends = {name for edge in edges for name in edge}
            names = [name for name in names if name in ends]
            note = f"{_NOTE} Of {count(len(models), 'model')} those are shown between which {left}."
    # Parents first: sources, then models in the report's order.
    places = {name: place for place, name in enumerate(models)}
    names.sort(key=lambda name: places.get(name, -1))
    drawing = draw(names, edges)
    yield f'<h2>Models</h2>\n<p class="lead">{note} Grey: no table with buckets, or no join and no grouping.</p>'
    width, height = drawing.width + 4, drawing.height + 4
    # As wide as the page, down to where names can still be read; then it scrolls.
    box = f'width="{width:.0f}" height="{height:.0f}" viewBox="-2 -2 {width:.0f} {height:.0f}" '
    box += f'style="min-width:{width * _SMALLEST:.0f}px"'
    yield f'<div class="card graph"><svg {box} role="img" aria-label="Graph of models">'
    for (parent, child), points in sorted(drawing.edges.items(), key=lambda item: edges[item[0]] is not None):
        verdict = edges[parent, child]
        title = f"{_short(parent)} → {_short(child)}: {verdict.value if verdict else 'neither joined nor grouped'}"
        kind = _CLASSES[verdict] if verdict else "none"
        yield f'<path class="{kind}" d="{_curve(points)}"><title>{escape(title)}</title></path>'
    for name, (x, y) in drawing.nodes.items():
        yield _node(name, models.get(name), x, y)
    yield "</svg></div>"


def _node(name: str, model: ModelResult | None, x: float, y: float) -> str:
    label = _short(name)
    shown = label if len(label) <= _LONGEST_NAME else label[: _LONGEST_NAME - 1] + "…"
    verdict = _worst(model) if model else None
    under = name.split(".", 1)[0]
    if model:
        found = len(alike_findings(open_findings(Report((model,)))))
        under = count(len(model.operators), "operator") if model.operators else "no join, no grouping"
        under = "could not be planned" if model.error else under
        under += f", {count(found, 'finding')}" if found else ""
    colour = f' style="fill:var(--{_CLASSES[verdict]});stroke:none"' if verdict else ""
    stripe = f'<rect x="{x}" y="{y}" width="6" height="{NODE_HEIGHT}" rx="3"{colour}/>' if verdict else ""
    node = (
        f'<g class="node {"model" if model else "source"}"><title>{escape(name)}</title>'
        f'<rect class="body" x="{x}" y="{y}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="7"/>{stripe}'
        f'<text x="{x + 15}" y="{y + 19}">{escape(shown)}</text>'
        f'<text class="under" x="{x + 15}" y="{y + 35}">{escape(under)}</text></g>'
    )
    return f'<a href="#{escape(name)}">{node}</a>' if model else node


def _curve(points: Sequence[Point]) -> str:
    (x, y), *rest = points
    path = [f"M{x:.0f},{y:.0f}"]
    for to_x, to_y in rest:
        half = (x + to_x) / 2
        path.append(f"C{half:.0f},{y:.0f} {half:.0f},{to_y:.0f} {to_x:.0f},{to_y:.0f}")
        x, y = to_x, to_y
    return " ".join(path)


def _unknown(report: Report) -> Iterator[str]:
    models = unknown_models(report)
    if models:
        yield "<h2>Could not be checked</h2>"
    for model in models:
        why = why_unknown(model)
        where = f'<code class="where">{escape(model.path)}</code>'
        yield _card("", f"<b>{escape(model.name)}</b>{where}", f"<p>{escape(why)}</p>")


def _findings(report: Report) -> Iterator[str]:
    found = alike_findings(open_findings(report))
    accepted = alike_findings(each for each in all_findings(report) if each.finding.accepted)
    yield f"<h2>{count(len(found), 'finding').capitalize()}</h2>" if found else "<h2>No findings</h2>"
    yield _filters()
    yield from map(_finding, found)
    if accepted:
        yield f"<details><summary>{count(len(accepted), 'finding')} accepted</summary>"
        yield from map(_finding, accepted)
        yield "</details>"


def _filters() -> str:
    def choice(name: str, values: Sequence[tuple[str, str]]) -> str:
        options = "".join(f'<option value="{value}">{escape(text)}</option>' for value, text in values)
        return f'<select name="{name}" aria-label="{name}"><option value="">every {name}</option>{options}</select>'

    verdicts = choice("verdict", [(_CLASSES[verdict], verdict.value) for verdict in Verdict])
    levels = choice("level", [(level, level) for level in LEVELS])
    text = '<input name="text" type="search" placeholder="model, table, reason, ..." aria-label="text">'
    shown = '<button type="reset">all</button><output></output>'
    return f'<form class="filters" hidden>{levels}{verdicts}{text}{shown}</form>'


def _specs(report: Report) -> Iterator[str]:
    wanted = wanted_specs(report.models)
    if wanted:
        yield "<h2>Tables of which several queries want different buckets</h2>"
    for table, specs in wanted.items():
        rows = "".join(
            f"<tr><td><code>{escape(text)}</code></td><td>{escape(', '.join(names))}</td></tr>"
            for text, names in specs.items()
        )
        yield _card("", f"<b>{escape(table)}</b>", f"<table>{rows}</table>")


def _finding(found: Found) -> str:
    finding, operator = found.finding, found.operator
    moved = f"<span>{size(finding.bytes_shuffled)}</span>" if finding.bytes_shuffled else ""
    accepted = f" accepted: {finding.accepted}" if finding.accepted else ""
    what = (
        f"<p>{_pill(operator.verdict)} {operator.kind}: <code>{escape(operator.description)}</code></p>"
        if operator
        else ""
    )
    fixes = "".join(
        f'<div class="fix{" hurts" if worse_for(fix) else ""}"><b>Fix</b> {escape(fix.text)}'
        f"{' → ' + _pill(fix.verdict) + escape(effect(fix)) if operator else ''}{_harm(fix)}</div>"
        for fix in finding.fixes
    )
    messages = "".join(f"<p>{escape(message)}</p>" for message in finding.message.split("\n"))
    where = f'<code class="where">{escape(place(found))}</code>'
    return _card(
        f" finding {finding.level}{' accepted' if finding.accepted else ''}",
        f"<span>{finding.level}{accepted}</span><b>{escape(finding.reason)}</b>{moved}{where}",
        f"{what}{messages}{fixes}",
        f' data-levels="{finding.level}" data-verdicts="{_CLASSES[operator.verdict] if operator else ""}"',
    )


def _card(kinds: str, header: str, body: str, data: str = "") -> str:
    return f'<div class="card named{kinds}"{data}><header>{header}</header>{body}</div>'


def _harm(fix: Fix) -> str:
    """A mark on a fix that makes other queries worse, with what becomes of each."""
    worse = worse_for(fix)
    rows = "".join(
        f"<tr><td>{escape(other.name)}</td><td>{_counts(other.before)}</td>"
        f"<td>{_counts(other.after) if other.after else 'cannot be planned'}</td></tr>"
        for other in fix.others
        if other.name in worse
    )
    mark = f"worse for {count(len(worse), 'other query')}"
    return f"<details><summary><b>{mark}</b></summary><table>{rows}</table></details>" if worse else ""


def _counts(counts: PlanCounts) -> str:
    return f"{count(counts.exchanges, 'Exchange')}, {count(counts.sorts, 'Sort')}"


def _models(report: Report) -> Iterator[str]:
    yield '<h2>Queries</h2>\n<div class="card">'
    for model in report.models:
        pills = " ".join(f"{_pill(verdict)} {number:,}" for verdict, number in verdict_counts(model.operators))
        pills = _pill(Verdict.UNKNOWN) if model.error else pills
        verdicts = " ".join({_CLASSES[op.verdict]: None for op in model.operators})
        verdicts = _CLASSES[Verdict.UNKNOWN] if model.error else verdicts
        levels = " ".join({finding.level: None for op in model.operators for finding in op.findings})
        yield f'<details id="{escape(model.unique_id or model.path)}"'
        yield f' data-verdicts="{verdicts}" data-levels="{levels}"><summary><b>{escape(model.name)}</b>'
        yield f"<code>{escape(model.path)}</code> {pills}</summary>"
        if model.error:
            yield f"<pre>{escape(model.error)}</pre>"
        rows = "".join(
            f"<tr><td>{_pill(operator.verdict)}</td><td>{operator.kind}</td><td><code>{escape(operator.description)}"
            f"</code></td></tr>"
            for operator in model.operators
        )
        yield f"<table>{rows}</table></details>" if rows else "</details>"
    yield "</div>"


def _worst(model: ModelResult) -> Verdict | None:
    if model.error:
        return Verdict.UNKNOWN
    verdict = worst(model.operators)
    return None if verdict in _DULL else verdict


def _pill(verdict: Verdict) -> str:
    return f'<span class="pill {_CLASSES[verdict]}">{escape(verdict.value)}</span>'


def _short(unique_id: str) -> str:
    kind, (name, last) = unique_id.split(".")[0], ("", *unique_id.split("."))[-2:]
    # The last part of a model's id is its version where it has one.
    return f"{name}.{last}" if kind != "source" and re.fullmatch(r"v\w+", last) and unique_id.count(".") > 2 else last
