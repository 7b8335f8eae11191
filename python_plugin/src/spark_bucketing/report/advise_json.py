"""Write the result of `advise` as JSON that follows docs/reference/advise.schema.json."""

from __future__ import annotations

from typing import Any, TextIO

from spark_bucketing.advise.advice import Advice, Change, Explanation, QueryProof
from spark_bucketing.advise.requirements import Planned
from spark_bucketing.edits import unified_diff
from spark_bucketing.plan.tree import PlanCounts
from spark_bucketing.report import output
from spark_bucketing.report.formatting import spec_data


def write_json(advice: Advice, file: TextIO) -> None:
    """Write the complete result of `advise`."""
    output.write_json(advice_data(advice), file)


def advice_data(advice: Advice) -> dict[str, Any]:
    """Convert the result of `advise` to JSON types."""
    return {
        "version": 1,
        "about": dict(advice.about),
        "planner": advice.planner,
        "worse": [one.unique_id for one in advice.worse],
        "total": {
            "models": len(advice.proof),
            "planned": sum(1 for one in advice.proof if one.before and one.after),
            "before": {**_counts(advice.counts("before")), "bytes": round(advice.bytes("before"))},
            "after": {**_counts(advice.counts("after")), "bytes": round(advice.bytes("after"))},
            "write_bytes": round(advice.write_cost),
        },
        "changes": [_change(change) for change in advice.changes],
        "models": [_proof(one) for one in advice.proof],
        "sources": [
            {"table": one.table, "spec": spec_data(one.spec), "gain_bytes": round(one.gain)}
            for one in advice.suggestions
        ],
        "left_out": [{"table": one.table, "keys": list(one.keys), "reason": one.reason} for one in advice.left_out],
        "explained": _explained(advice.explained) if advice.explained else None,
        "measured": [{"table": one.table, "columns": list(one.columns), **vars(one.cost)} for one in advice.measured],
        "unattributed": vars(advice.unattributed) if advice.unattributed else None,
        "event_logs": advice.event_logs,
        "applied": advice.applied,
        "diff": unified_diff(advice.edits),
        "refusals": [{"model": one.model, "reason": one.reason, "instead": one.instead} for one in advice.refusals],
    }


def _counts(counts: PlanCounts) -> dict[str, int]:
    return {"exchanges": counts.exchanges, "sorts": counts.sorts}


def _planned(planned: Planned | None) -> dict[str, int] | None:
    if planned is None:
        return None
    return {**_counts(planned.counts), "shuffled_bytes": round(planned.shuffled), "sorted_bytes": round(planned.sorted)}


def _proof(one: QueryProof) -> dict[str, Any]:
    return {
        "model": one.model,
        "unique_id": one.unique_id,
        "runs": one.runs,
        "before": _planned(one.before),
        "after": _planned(one.after),
        "error": one.error or None,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "model": change.model,
        "unique_id": change.unique_id,
        "table": change.table,
        "before": spec_data(change.before),
        "after": spec_data(change.after),
        "config": dict(change.config),
        "bytes": change.size_bytes,
        "rewritten_bytes": change.rewritten_bytes,
        "how": change.how,
        "gain_bytes": round(change.gain),
        "write_bytes": round(change.write_cost),
        "lost": list(change.lost),
        "measured": vars(change.measured) if change.measured else None,
    }


def _explained(found: Explanation) -> dict[str, Any]:
    return {
        "table": found.table,
        "candidates": [
            {
                "spec": spec_data(one.spec),
                "alone_bytes": round(one.alone),
                "beside_bytes": round(one.beside),
                "verdict": one.verdict,
                "serves": list(one.serves),
            }
            for one in found.candidates
        ],
        "left_out": [{"keys": list(one.keys), "reason": one.reason} for one in found.left_out],
    }
