"""What the project's own files add to findings: configs that are not built yet, and tables that no config is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from spark_bucketing.check.reasons.phrases import buckets
from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, Verdict, map_findings
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.project.manifest import Manifest, Node, table_name
from spark_bucketing.spec import BucketSpec

_TABLES = ("bucket_spec", "column_type", "rewrite_files")
_ADVICE = {
    "seed": "is a seed, which dbt does not bucket: read it in a model that is, and join that.",
    "snapshot": "is a snapshot, which dbt does not bucket: read it in a model that is, and join that.",
    "source": "is a source: it is for those who write it, or for a model that reads it and is joined instead.",
}


def with_configured(
    results: Iterable[ModelResult], specs: Mapping[str, BucketSpec], known: Iterable[TableFacts]
) -> tuple[ModelResult, ...]:
    """Results with a note where the model of a plain table is configured with buckets, and not built so yet.

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


def with_owners(
    results: Iterable[ModelResult], manifest: Manifest, relation: Callable[[Node], str | None]
) -> tuple[ModelResult, ...]:
    """Results with a note in fixes where a table is no model's, so that no config can be given to it.

    Args:
        results: of a run.
        manifest: the project's.
        relation: what a node's table is called in the plans.
    """
    kinds = {
        table_name(name): node.resource_type
        for node in manifest.nodes.values()
        if node.resource_type in _ADVICE and (name := relation(node))
    }

    def advised(_: ModelResult, __: OperatorResult, finding: Finding) -> Finding:
        return replace(finding, fixes=tuple(_fix(fix, kinds) for fix in finding.fixes))

    return map_findings(results, advised)


def _fix(fix: Fix, kinds: Mapping[str, str]) -> Fix:
    text = fix.text
    for table in dict.fromkeys(part.table for part in (fix, *fix.also) if part.kind in _TABLES and part.table):
        if kind := kinds.get(table_name(table)):
            text += f" {table} {_ADVICE[kind]}"
    return replace(fix, text=text)
