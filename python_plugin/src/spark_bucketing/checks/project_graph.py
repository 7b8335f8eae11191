"""Add facts from the project's graph to the results.

The facts are the verdicts between models, and the owners of the tables that fixes change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from spark_bucketing.checks.reasons.reason import buckets
from spark_bucketing.checks.results import Fix, ModelResult, OperatorResult, Parent, Verdict, map_findings, worst
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.project.manifest import Manifest, Node, table_name
from spark_bucketing.spec import BucketSpec

_TABLES = ("bucket_spec", "column_type", "rewrite_files")
_ADVICE = {
    "seed": "is a seed, which dbt cannot bucket. Build a bucketed model that reads it, and join that model.",
    "snapshot": "is a snapshot, which dbt cannot bucket. Build a bucketed model that reads it, and join that model.",
    "source": "is a source. Its owner must change it. Alternatively, build a bucketed model that reads it, and join "
    "that model.",
}


def with_configured(
    results: Iterable[ModelResult], specs: Mapping[str, BucketSpec], known: Iterable[TableFacts]
) -> tuple[ModelResult, ...]:
    """Add a note to the results for each table that has buckets in its config but was built without them."""
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


def with_graph(
    results: Iterable[ModelResult],
    manifest: Manifest,
    relation: Callable[[Node], str | None],
    configured: Mapping[str, BucketSpec],
) -> Iterator[ModelResult]:
    """Add to each result the verdicts on reading its parents, and notes to fixes.

    A fix gets a note if no dbt config controls its table. If the config already has the bucket spec of a fix, the fix
    is to run dbt.
    """
    tables = _tables_behind(manifest, relation)
    others = {name: node.resource_type for name, node in manifest.nodes.items() if node.resource_type in _ADVICE}
    kinds = {table: kind for name, kind in others.items() for table in tables[name]}
    models = {table_name(relation(node) or ""): node.name for node in manifest.nodes.values()}
    owned = partial(_owned, kinds=kinds, configured=configured, models=models)
    for result in results:
        parents = manifest.nodes[result.unique_id].depends_on if result.unique_id else ()
        inputs = tuple(Parent(parent, worst(_readers(result, tables.get(parent, frozenset())))) for parent in parents)
        yield map_findings(
            replace(result, inputs=inputs), lambda _, found: replace(found, fixes=tuple(map(owned, found.fixes)))
        )


def _owned(fix: Fix, kinds: Mapping[str, str], configured: Mapping[str, BucketSpec], models: Mapping[str, str]) -> Fix:
    text = fix.text
    for part in (fix, *fix.also):
        name = table_name(part.table or "")
        if part.kind == "bucket_spec" and part.spec and _has(configured.get(name), part.spec) and name in models:
            proposed = re.compile(rf"bucket {re.escape(f'{part.table} with {part.spec.config}')}\.", re.IGNORECASE)
            run = (
                f"Run `dbt run --full-refresh --select {models[name]}` to build {part.table}, whose config already has "
                f"{buckets(part.spec)}."
            )
            text = proposed.sub(run.replace("\\", r"\\"), text)
    for table in dict.fromkeys(part.table for part in (fix, *fix.also) if part.kind in _TABLES and part.table):
        if kind := kinds.get(table_name(table)):
            text += f" {table} {_ADVICE[kind]}"
    return replace(fix, text=text)


def _has(configured: BucketSpec | None, spec: BucketSpec) -> bool:
    """Return whether a configured bucket spec has the buckets of another spec, and at least its sort order."""
    if configured is None:
        return False
    here, there = (
        (one.num_buckets, one.bucket_hash, [name.lower() for name in one.bucket_columns]) for one in (configured, spec)
    )
    order, wanted = ([name.lower() for name in one.sort_columns] for one in (configured, spec))
    return here == there and order[: len(wanted)] == wanted


def _readers(result: ModelResult, tables: frozenset[str]) -> list[OperatorResult]:
    return [operator for operator in result.operators if tables & set(_names(operator.tables))]


def _names(tables: Iterable[str]) -> Iterator[str]:
    for table in tables:
        yield table.lower()
        # dbt omits the name of the session catalog, which may differ from Spark's default.
        yield ".".join(table.lower().split(".")[-2:])


def _tables_behind(manifest: Manifest, relation: Callable[[Node], str | None]) -> Mapping[str, frozenset[str]]:
    """Return the tables that a plan shows for each node: its table, or the tables below a view or ephemeral model."""
    tables: dict[str, frozenset[str]] = {}
    for unique_id in manifest.order:
        node = manifest.nodes[unique_id]
        if node.materialized in ("view", "ephemeral"):
            tables[unique_id] = frozenset().union(*(tables.get(parent, ()) for parent in node.depends_on))
        else:
            named = relation(node)
            tables[unique_id] = frozenset([table_name(named)] if named else [])
    return tables
