"""Tests with TPC-H's 22 queries in several layouts that every Exchange and Sort has a reason, and every fix works."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_cases import Applied, Checked, apply_fixes, made
from pyspark.sql import SparkSession

from spark_bucketing.checks.verdicts import reads_buckets

FOLDER = Path(__file__).parents[1] / "cases" / "tpch"
QUERIES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("q*.sql"))}
DESCRIBED: dict[str, Any] = yaml.safe_load((FOLDER / "tables.yml").read_text())
STATISTICS = {"spark.sql.autoBroadcastJoinThreshold": "10485760"}
OFF, ON = "false", "true"
ALL = [
    pytest.param(*case, QUERIES, marks=pytest.mark.long) for case in product(DESCRIBED["layouts"], (OFF, ON), (ON, OFF))
]
# Layout, extension, adaptive execution, queries.
EVERYWHERE = [
    pytest.param("spark", OFF, ON, ("q03", "q13", "q18"), marks=pytest.mark.long),
    ("hive", ON, ON, ("q02", "q04", "q09")),
    ("mixed", OFF, ON, ("q17", "q18")),
    *ALL,
]
FIXED = [
    ("mixed", OFF, ("q04",)),
    # The extension, not stock Spark, reads empty tables in the Spark layout.
    ("mixed", ON, ("q02",)),
    *((*case, QUERIES) for case in product(DESCRIBED["layouts"], (OFF, ON))),
]


def _tables(layout: str) -> dict[str, Any]:
    how = DESCRIBED["layouts"][layout]
    found = {}
    for name, table in DESCRIBED["tables"].items():
        column, buckets = how["buckets"].get(name, (None, 0))
        spec = {"by": [column], "buckets": buckets, "hash": how["hash"]} if column else {}
        found[name] = made({**table, **spec})
    return found


@pytest.fixture(scope="module")
def layouts(spark: SparkSession) -> dict[str, Checked]:
    return {layout: Checked(spark, f"tpch_{layout}", _tables(layout)) for layout in DESCRIBED["layouts"]}


def _ready(layouts: dict[str, Checked], layout: str) -> Checked:
    checked = layouts[layout]
    if not checked.spark.catalog.databaseExists(checked.database):
        checked.create()
    return checked


def _settings(extension: str, aqe: str) -> dict[str, str]:
    return {"spark.bucketing.enabled": extension, "spark.sql.adaptive.enabled": aqe, **STATISTICS}


def unexplained(checked: Checked, sql: str, settings: dict[str, str]) -> list[str]:
    """Return the exchanges and sorts above bucketed tables that no finding explains with a known reason."""
    missing = []
    judged = checked.judge(sql, settings)
    assert checked.query
    for result, op in zip(judged, checked.query.operators.values(), strict=True):
        if not reads_buckets(op, checked.query.tables):
            continue
        there = {node.number for side in op.sides for node in (*side.exchanges, *side.sorts)}
        covered = {number for finding in result.findings for number in finding.explains}
        missing += [f"{result.description}: node {number}" for number in sorted(there - covered)]
        helpless = [found for found in result.findings if found.reason == "unexplained"]
        missing += [f"{result.description}: {f.reason}, {f.message}" for f in helpless]
    return missing


@pytest.mark.parametrize(("layout", "extension", "aqe", "queries"), EVERYWHERE)
@pytest.mark.long
def test_every_exchange_and_sort_has_a_reason(
    layouts: dict[str, Checked], layout: str, extension: str, aqe: str, queries: Collection[str]
) -> None:
    checked, settings = _ready(layouts, layout), _settings(extension, aqe)
    found = {query: unexplained(checked, QUERIES[query], settings) for query in queries}
    assert {query: missing for query, missing in found.items() if missing} == {}


# With 4 buckets in each task, q18 sorts its groups of lineitem. The real tables have no files, so their tasks have nothing to sort.
SORTED_IF_EMPTY = {("mixed", ON): {"q18"}}


@pytest.mark.parametrize(("layout", "extension", "aqe", "queries"), [("hive", ON, OFF, ("q02", "q11", "q21")), *ALL])
def test_hypothetical_tables_that_change_nothing_change_no_plan(
    layouts: dict[str, Checked], layout: str, extension: str, aqe: str, queries: Collection[str]
) -> None:
    checked, settings = _ready(layouts, layout), _settings(extension, aqe)
    compared = [query for query in queries if query not in SORTED_IF_EMPTY.get((layout, extension), ())]
    counts = {query: checked.counts(QUERIES[query], settings) for query in compared}
    assert {query: found for query, found in counts.items() if found[0] != found[1]} == {}


@pytest.mark.parametrize(("layout", "extension", "queries"), FIXED)
@pytest.mark.long
def test_every_fix_changes_the_verdict_as_promised(
    layouts: dict[str, Checked], layout: str, extension: str, queries: Collection[str]
) -> None:
    checked = _ready(layouts, layout)
    applied: list[Applied] = []
    for query in queries:
        applied += apply_fixes(checked, query, QUERIES[query], _settings(extension, ON))
    broken = [fix for fix in applied if not fix.kept]
    print(f"\n{layout}, extension {extension}: {len(applied) - len(broken)} of {len(applied)} fixes kept their promise")
    print(Counter(f"{fix.reason}: {fix.fix.kind}" for fix in applied))
    assert len(applied) >= 4
    assert broken == []
