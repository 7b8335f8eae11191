"""Add to findings the costs per run that Spark measured in event logs."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from spark_bucketing.check.results import Finding, ModelResult, OperatorResult, Report, map_findings
from spark_bucketing.event_log.measured import Measured
from spark_bucketing.event_log.plan_costs import Cost
from spark_bucketing.units import count


def with_measured_costs(report: Report, measured: Measured) -> Report:
    """Return a copy of the report in which findings state their measured cost per run."""
    return replace(report, models=tuple(_with_costs(model, measured) for model in report.models))


def _with_costs(model: ModelResult, measured: Measured) -> ModelResult:
    # The table identifies the model of a statement without a query comment.
    names = [model.unique_id or "", f"table.{model.table}"]
    # Failed runs with the comment also show that other writes to the table are not runs of the model.
    node = next((name for name in names if name in measured.runs), None)
    return map_findings(model, partial(_with_cost, measured, node)) if node else model


def _with_cost(measured: Measured, node: str, operator: OperatorResult, finding: Finding) -> Finding:
    """Add the measured cost of shuffling and sorting the finding's tables.

    Only keys whose columns occur in the operator's description count.
    """
    total, runs = Cost(), len(measured.runs_of(node))
    # inner join of db.a with db.b on db.a.id = db.b.id
    described = (operator.description.partition(" on ")[2] or operator.description).lower()
    for keys, cost in measured.costs(node).items():
        columns = [column for column in keys.columns if column]
        if keys.table in finding.tables and all(_names(described, column) for column in columns):
            total.add(cost)
    if total == Cost():
        return finding
    mean = Cost(total.shuffle_bytes // runs, total.spill_bytes // runs, total.task_ms / runs)
    return replace(finding, message=f"{finding.message}\nMean cost per run, measured in {count(runs, 'run')}: {mean}.")


def _names(text: str, column: str) -> bool:
    """Return whether a text contains the column's name as a whole word."""
    return re.search(rf"(?<![\w-]){re.escape(column)}(?![\w-])", text) is not None
