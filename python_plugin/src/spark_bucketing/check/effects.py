"""Determine how a fix for one query affects the other queries that read the same table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from spark_bucketing.check.fixes import HypotheticalQuery
from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, OtherQuery, map_findings
from spark_bucketing.plan import PlanCounts

# These limits bound the time: Spark plans each fix of a table once for every reader of the table.
MOST_READERS = 25
MOST_SECONDS = 60.0
# Fixes for these reasons change the bucket columns, which are a compromise between the table's readers.
_CHOICES = ("keys-miss-bucket-column",)
_GROUPINGS = ("aggregate", "distinct", "window")

Queries = Sequence[tuple[ModelResult, HypotheticalQuery]]


def with_effects(results: Iterable[ModelResult], queries: Queries) -> tuple[ModelResult, ...]:
    """Add to each fix its effects on other queries.

    Drop a fix for a grouping if the other queries lose more than this query gains.
    """
    effects = _Effects(queries)
    return tuple(map_findings(result, partial(effects.finding, result)) for result in results)


class _Effects:
    def __init__(self, queries: Queries) -> None:
        self._end = time.monotonic() + MOST_SECONDS
        self._known: dict[tuple[str, str], OtherQuery] = {}
        self._readers: dict[str, list[tuple[ModelResult, HypotheticalQuery]]] = {}
        for result, query in queries:
            for table in query.tables:
                self._readers.setdefault(table, []).append((result, query))

    def finding(self, result: ModelResult, operator: OperatorResult, finding: Finding) -> Finding:
        fixes = tuple(self._fix(result, fix) for fix in finding.fixes)
        if finding.reason in _CHOICES and operator.kind in _GROUPINGS:
            fixes = tuple(fix for fix in fixes if fix.kind != "bucket_spec" or serves_all(fix))
        if finding.fixes and not fixes:
            return replace(finding, level="note", fixes=())
        return replace(finding, fixes=fixes)

    def _fix(self, result: ModelResult, fix: Fix) -> Fix:
        if fix.kind not in ("bucket_spec", "column_type") or fix.table is None:
            return fix
        readers = [reader for reader in self._readers.get(fix.table, ()) if reader[0].key != result.key]
        others = self._others(fix, readers[:MOST_READERS])
        return replace(fix, others=tuple(other for other in others if other.after != other.before))

    def _others(self, fix: Fix, readers: Queries) -> Iterator[OtherQuery]:
        for reader, query in readers:
            key = (fix.text, reader.key)
            if key not in self._known:
                if time.monotonic() > self._end:
                    return
                self._known[key] = self._planned(fix, reader.name, query)
            yield self._known[key]

    def _planned(self, fix: Fix, name: str, query: HypotheticalQuery) -> OtherQuery:
        after = query.planned((fix, *fix.also))
        other = OtherQuery(name, query.counts, after.counts if after else None)
        query.forget()
        return other


def worse_for(fix: Fix) -> tuple[str, ...]:
    """Return the queries that get more Exchanges or Sorts with a fix, or that Spark cannot plan with it."""
    return tuple(other.name for other in fix.others if other.after is None or other.after > other.before)


def serves_all(fix: Fix) -> bool:
    """Return whether a fix reduces the total number of Exchanges over all queries.

    If this number stays the same, return whether the fix reduces the number of Sorts.
    """
    before, after = fix.before, fix.after
    for other in fix.others:
        before, after = before + other.before, after + (other.after or PlanCounts(other.before.exchanges + 1))
    return after < before


def required_specs(results: Iterable[ModelResult]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the tables for which different fixes require different specs.

    For each table and config, the result lists the queries that benefit.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for result in results:
        for operator in result.operators:
            for fix in (fix for finding in operator.findings for fix in finding.fixes):
                better = [other.name for other in fix.others if other.after and other.name not in worse_for(fix)]
                for part in (fix, *fix.also):
                    if part.kind == "bucket_spec" and part.table and part.spec:
                        served = found.setdefault(part.table, {}).setdefault(part.spec.config, [])
                        served += [name for name in (result.name, *better) if name not in served]
    return {
        table: {text: tuple(names) for text, names in sorted(specs.items(), key=lambda item: -len(item[1]))}
        for table, specs in found.items()
        if len(specs) > 1
    }
