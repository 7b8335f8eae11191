"""Tables that are configured with buckets, and that the warehouse has without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spark_bucketing.check.reasons.phrases import buckets
from spark_bucketing.check.results import ModelResult, OperatorResult, Verdict
from spark_bucketing.check.table_facts import TableFacts
from spark_bucketing.project.manifest import table_name
from spark_bucketing.spec import BucketSpec


def with_configured(
    results: Iterable[ModelResult], specs: Mapping[str, BucketSpec], known: Iterable[TableFacts]
) -> tuple[ModelResult, ...]:
    """Results that say of plain tables that their models are configured with buckets, and not built so yet.

    Args:
        results: of a run.
        specs: by the models' configs, by table.
        known: what the warehouse has.
    """
    plain = {facts.name for facts in known if facts.spec is None}
    unbuilt = {name: specs[table_name(name)] for name in plain if table_name(name) in specs}
    return tuple(
        replace(result, operators=tuple(_operator(operator, unbuilt) for operator in result.operators))
        for result in results
    )


def _operator(operator: OperatorResult, unbuilt: Mapping[str, BucketSpec]) -> OperatorResult:
    texts = [f"{name} is configured with {buckets(unbuilt[name])}" for name in operator.tables if name in unbuilt]
    if not texts:
        return operator
    note = f"{' and '.join(texts)}, not built yet"
    if operator.verdict is Verdict.NOT_BUCKETED:
        return replace(operator, description=f"{operator.description} ({note})")
    findings = tuple(replace(found, message=f"{found.message} ({note}.)") for found in operator.findings)
    return replace(operator, findings=findings)
