"""What of a fix is not the config of a model: tables of seeds, snapshots and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, map_findings
from spark_bucketing.project.manifest import Manifest, Node, table_name

_TABLES = ("bucket_spec", "column_type", "rewrite_files")
_ADVICE = {
    "seed": "is a seed, which dbt does not bucket: read it in a model that is, and join that.",
    "snapshot": "is a snapshot, which dbt does not bucket: read it in a model that is, and join that.",
    "source": "is a source: it is for those who write it, or for a model that reads it and is joined instead.",
}


def with_owners(
    results: Iterable[ModelResult], manifest: Manifest, relation: Callable[[Node], str | None]
) -> tuple[ModelResult, ...]:
    """Results whose fixes say so where a table is no model's, so that no config can be given to it.

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
