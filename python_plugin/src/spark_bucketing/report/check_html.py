"""Write the report of `check` as a self-contained HTML page, which shows the models that read each table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TextIO

from spark_bucketing.check.fixes import required_specs, worse_for
from spark_bucketing.check.results import (
    LEVELS,
    ModelResult,
    Report,
    Verdict,
    alike_findings,
    all_findings,
    open_findings,
    unknown_models,
)
from spark_bucketing.report.formatting import effect, operators_of, place, size, verdict_counts, why_unknown
from spark_bucketing.report.output import pages
from spark_bucketing.units import count


def write_html(report: Report, file: TextIO) -> None:
    """Write the report as an HTML page."""
    page = pages(count, effect, place, size, verdict_counts, why_unknown, worse_for, short_name, zip)
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
        reads=_reads(report),
        levels=LEVELS,
        Verdict=Verdict,
    )
    file.writelines(parts)


def _kind(verdict: Verdict | None) -> str:
    """Return the CSS class that gives a verdict its color."""
    return verdict.value.replace(" ", "-") if verdict else "none"


def _reads(report: Report) -> Mapping[str, Sequence[tuple[ModelResult, Verdict | None]]]:
    """Return the models that read each table or model.

    For each model, also return the worst verdict of the operators that read the table.
    """
    reads = defaultdict[str, list[tuple[ModelResult, Verdict | None]]](list)
    for model in report.models:
        for parent in model.inputs:
            reads[parent.unique_id].append((model, parent.verdict))
    return dict(sorted(reads.items(), key=lambda one: short_name(one[0])))


def short_name(unique_id: str) -> str:
    """Return the short name of a node, as the page displays it."""
    kind, (name, last) = unique_id.split(".")[0], ("", *unique_id.split("."))[-2:]
    # The id of a versioned model ends with its version.
    return f"{name}.{last}" if kind != "source" and re.fullmatch(r"v\w+", last) and unique_id.count(".") > 2 else last
