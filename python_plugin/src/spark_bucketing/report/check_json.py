"""The check's report as JSON, in the form of docs/check.schema.json."""

from __future__ import annotations

from typing import Any, TextIO

from spark_bucketing.check.acceptance import fingerprint, model_key
from spark_bucketing.check.effects import wanted_specs
from spark_bucketing.eligibility.model import Finding, Fix, ModelResult, OperatorResult, PlanCounts, Report
from spark_bucketing.report import output

# Raised when something that was there is gone or means something else; what is new leaves it as it is.
SCHEMA_VERSION = 1


def write_json(report: Report, file: TextIO) -> None:
    """Write the report."""
    output.write_json(as_data(report), file)


def as_data(report: Report) -> dict[str, Any]:
    """The report in the types of JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "planner": report.planner,
        "models": [_model(model) for model in report.models],
        "project": [_finding("", None, finding) for finding in report.project],
        "unfinished": list(report.unfinished),
        "about": dict(report.about),
        "wanted_specs": [
            {"table": table, "specs": [{"config": text, "serves": list(names)} for text, names in specs.items()]}
            for table, specs in wanted_specs(report.models).items()
        ],
    }


def _model(model: ModelResult) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": model.path,
        "unique_id": model.unique_id,
        "error": model.error,
        "accepted": model.accepted,
        "inputs": [
            {"unique_id": parent.unique_id, "verdict": parent.verdict.value if parent.verdict else None}
            for parent in model.inputs
        ],
        "operators": [_operator(model, operator) for operator in model.operators],
    }


def _operator(model: ModelResult, operator: OperatorResult) -> dict[str, Any]:
    return {
        "kind": operator.kind,
        "description": operator.description,
        "verdict": operator.verdict.value,
        "tables": list(operator.tables),
        "exchanges": operator.exchanges,
        "sorts": operator.sorts,
        "accepted": operator.accepted,
        "findings": [_finding(model_key(model), operator, finding) for finding in operator.findings],
    }


def _finding(model: str, operator: OperatorResult | None, finding: Finding) -> dict[str, Any]:
    return {
        "reason": finding.reason,
        "level": finding.level,
        "message": finding.message,
        "tables": list(finding.tables),
        "line": finding.line,
        "bytes_shuffled": finding.bytes_shuffled,
        "accepted": finding.accepted,
        "fingerprint": fingerprint(model, operator, finding),
        "fixes": [_fix(fix) for fix in finding.fixes],
    }


def _fix(fix: Fix) -> dict[str, Any]:
    spec = fix.spec
    return {
        "kind": fix.kind,
        "text": fix.text,
        "promises": fix.promises.value,
        "settings": dict(fix.settings),
        "table": fix.table,
        "spec": None
        if spec is None
        else {
            "num_buckets": spec.num_buckets,
            "bucket_columns": list(spec.bucket_columns),
            "sort_columns": list(spec.sort_columns),
            "bucket_hash": spec.bucket_hash,
        },
        "column_types": dict(fix.column_types),
        "where": fix.where,
        "also": [_fix(further) for further in fix.also],
        "before": _counts(fix.before),
        "after": _counts(fix.after),
        "others": [
            {
                "name": other.name,
                "before": _counts(other.before),
                "after": _counts(other.after) if other.after else None,
            }
            for other in fix.others
        ],
    }


def _counts(counts: PlanCounts) -> dict[str, int]:
    return {"exchanges": counts.exchanges, "sorts": counts.sorts}
