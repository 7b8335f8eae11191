"""Write the HTML pages of all reports about samples."""

from __future__ import annotations

from dataclasses import replace

from report_pages import written
from sample_report import JOINED, LATER, REPORT

from conftest import REPOSITORY
from spark_bucketing.advice.advice import Advice, PlanSizes, ProposedSpec, QueryProof, RejectedTable, Suggestion
from spark_bucketing.advice.report import write_html as write_advice
from spark_bucketing.checks.report import write_html as write_check
from spark_bucketing.event_log.measured import read_measured
from spark_bucketing.event_log.report import compare
from spark_bucketing.event_log.report import write_html as write_comparison
from spark_bucketing.plan.document import read_plan, tree_lines
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.file_statistics import FileStats, Organized
from spark_bucketing.tables.metadata import Column, TableMetadata
from spark_bucketing.tables.overview import DataFile, Overview
from spark_bucketing.tables.report import write_overviews

GIB = 2**30
SPEC = BucketSpec(8, ("k",), ("k",), "hive")
ADVICE = Advice(
    changes=(ProposedSpec("model.p.t", "t", "s.t", None, SPEC, {"buckets": 8}, GIB, GIB, "each run", 9 * 10**9, 2 * 10**9, ("q by j",)),),
    proof=(
        QueryProof("better", "model.p.better", 2.0, PlanSizes(2, 2, 8 * 10**9, 8 * 10**9), PlanSizes(), parents=("model.p.worse",)),
        QueryProof("worse", "model.p.worse", 1.0, PlanSizes(), PlanSizes(1, 1, 10**6)),
        QueryProof("lost", "model.p.lost", 1.0, None, None, "Spark says <no>"),
    ),
    left_out=(RejectedTable("s.u", "it is small"), RejectedTable("s.t", "too few values", ("j",))),
    suggestions=(Suggestion("raw.s", SPEC, 10**9),),
    planner="offline",
    about={"project": "p", "target": "p.dev"},
)  # fmt: skip

# Three buckets of 300 are empty.
CLICKS = replace(SPEC, num_buckets=300)
FILES = tuple(DataFile(f"/clicks/{bucket:05}_0", 1000 + bucket, 4096 + bucket) for bucket in range(3, 300))
DAYS = tuple(
    FileStats(f"{day}.parquet", 1024, 9, "covered", None, f"2024-01-{day:02}", f"2024-01-{day + 1:02}", 0)
    for day in range(1, 30)
)


def organized(values: tuple[FileStats, ...], kind: str = "date") -> Overview:
    """Return a table that is organized by a column of this type."""
    table = TableMetadata("shop.events", None, (), all_columns=(Column("day", kind),))
    return Overview(table, organized=Organized(table, "day", ()), statistics=values)


def pages() -> dict[str, str]:
    """Return the page of each command."""
    plan = read_plan((REPOSITORY / "tests" / "unit" / "plans" / "hypothetical_tables.json").read_text())
    planned = (replace(JOINED, plan=tree_lines(plan)), replace(LATER, plan=tree_lines(plan) * 3))
    log = read_measured([str(REPOSITORY / "tests" / "cases" / "event_logs" / "tpch_plain.gz")])
    table = TableMetadata("shop.clicks", CLICKS, ())
    overviews = [Overview(table, CLICKS, FILES), organized(DAYS), organized(DAYS, "string")]
    return {
        "check": written(write_check, replace(REPORT, models=(*REPORT.models, *planned))),
        "advise": written(write_advice, ADVICE),
        "report": written(write_comparison, compare(log, log)),
        "table": written(lambda found, file: write_overviews("shop", found, "html", file), overviews),
    }
