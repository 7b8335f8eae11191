"""Show the results of `make demo` on a screen of 80 columns, and as a picture in an HTML page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demo import Measured

MIB = 2**20
STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
h2{font-size:1rem;margin:1.5rem 0 .25rem}
.bar{display:flex;align-items:center;gap:.5rem;margin:.15rem 0}
.bar b{font-weight:400;width:4.5rem;flex:none}
.bar i{display:block;height:1.1rem;border-radius:2px;background:#9aa3b2}
.bar.bucketed i{background:#3b6fd4}
.bar span{white-space:nowrap}
small{opacity:.75}
"""


def ratio(before: float, after: float) -> str:
    """Return how many times faster or slower the second time is."""
    if after > before * 1.1:
        return f"{after / before:.1f}x slower"
    return f"{before / after:.1f}x" if before > after * 1.1 else "same"


def payback(results: Mapping[str, Mapping[str, Measured]], built: Mapping[str, float]) -> str:
    """Return after how many joins the buckets have saved the time that their build costs."""
    cost = built["bucketed"] - built["plain"]
    join = next(iter(results.values()))
    saved = join["plain"].seconds - join["bucketed"].seconds
    if cost <= 0:
        return "Building with buckets cost no extra time."
    if saved <= 0:
        return f"Building with buckets cost {cost:.0f} s more. In this run, the join did not save time."
    return f"Building with buckets cost {cost:.0f} s more, the time that {cost / saved:.1f} joins save."


def conditions(facts: Mapping[str, Any]) -> list[str]:
    """Say what was compared."""
    rows = ", ".join(f"{count / 1e6:.1f} million {table}" for table, count in facts["rows"].items())
    return [
        f"Rows: {rows}. {facts['cores']} cores, medians of {facts['runs']} runs.",
        f"Before: stock Spark {facts['spark']}, adaptive, without broadcast joins. Same rows.",
        "MERGE: stock Spark writes the table again, as it has no MERGE for Parquet.",
    ]


def screen(results: Mapping[str, Mapping[str, Measured]], facts: Mapping[str, Any]) -> list[str]:
    """Return the lines of the last screen, at most 80 columns wide."""
    lines = [f"{'':30}{'before':>7} {'after':>7}  {'shuffled MiB':>12}  {'sorts':>6}  faster"]
    for name, of in results.items():
        before, after = of["plain"], of["bucketed"]
        shuffled = f"{before.shuffled / MIB:.0f} -> {after.shuffled / MIB:.0f}"
        sorts = "" if before.sorts is None else f"{before.sorts} -> {after.sorts}"
        lines.append(
            f"{name:30}{before.seconds:5.1f} s {after.seconds:5.1f} s  {shuffled:>12}  {sorts:>6}  "
            + ratio(before.seconds, after.seconds)
        )
    built = facts["built"]
    lines.append(
        f"{'Build both tables':30}{built['plain']:5.1f} s {built['bucketed']:5.1f} s  {'':20}  "
        + ratio(built["plain"], built["bucketed"])
    )
    return [
        *lines,
        "",
        payback(results, built),
        *conditions(facts),
        "",
        "Next:",
        "  .demo/report.html                      this table as a picture",
        "  models/history/bucketed_arrivals.sql   the config that makes the difference",
        "  make evolution                         change the buckets without a rewrite",
        "  docs/tutorial/index.md                 build your own in 15 minutes",
        "  docs/how-to/add-to-a-project.md        bucket a model of your project",
    ]


def page(results: Mapping[str, Mapping[str, Measured]], facts: Mapping[str, Any]) -> str:
    """Return a self-contained HTML page with a bar for each time."""
    times = {name: {variant: of[variant].seconds for variant in of} for name, of in results.items()}
    times["Build both tables"] = facts["built"]
    longest = max(max(of.values()) for of in times.values())
    parts = []
    for name, of in times.items():
        parts.append(f"<h2>{html.escape(name)}: {ratio(of['plain'], of['bucketed'])}</h2>")
        for variant, label in (("plain", "plain"), ("bucketed", "bucketed")):
            width = 70 * of[variant] / longest
            shuffled = results[name][variant].shuffled / MIB if name in results else None
            note = "" if shuffled is None else f" <small>{shuffled:,.0f} MiB shuffled</small>"
            parts.append(
                f'<div class="bar {variant}"><b>{label}</b><i style="width:{width:.1f}%"></i>'
                f"<span>{of[variant]:.1f} s{note}</span></div>"
            )
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in (payback(results, facts["built"]), *conditions(facts)))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Buckets in make demo</title><style>{STYLE}</style>"
        f"<h1>Five statements without and with buckets</h1>{''.join(parts)}{notes}</html>\n"
    )
