"""All 22 queries of TPC-H in several layouts: every Exchange and Sort has a reason, and every fix keeps its promise."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from checked import Applied, Checked, apply_fixes, made
from pyspark.sql import SparkSession

from spark_bucketing.check.judge import reads_buckets

FOLDER = Path(__file__).parents[1] / "cases" / "tpch"
QUERIES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("q*.sql"))}
DESCRIBED: dict[str, Any] = yaml.safe_load((FOLDER / "tables.yml").read_text())
STATISTICS = {"spark.sql.autoBroadcastJoinThreshold": "10485760"}
OFF, ON = "false", "true"
# Layout, extension, adaptive execution.
EVERYWHERE = [(layout, on, aqe) for layout in DESCRIBED["layouts"] for on in (OFF, ON) for aqe in (ON, OFF)]
QUICK = {
    ("spark", OFF, ON): ("q03", "q13", "q18"),
    ("hive", ON, ON): ("q02", "q04", "q09"),
    ("mixed", OFF, ON): ("q17", "q18"),
}


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
    if not checked.files_per_bucket:
        checked.create()
    return checked


def _settings(extension: str, aqe: str) -> dict[str, str]:
    return {"spark.bucketing.enabled": extension, "spark.sql.adaptive.enabled": aqe, **STATISTICS}


def unexplained(checked: Checked, sql: str, settings: dict[str, str]) -> list[str]:
    """Exchanges and Sorts on a bucketed table's way that no finding, or only a helpless one, stands for."""
    missing = []
    for judged in checked.judge(sql, settings):
        op = judged.operator
        if not reads_buckets(op, {name: checked.facts(name) for name in judged.result.tables}):
            continue
        there = {node.number for side in op.sides for node in (*side.exchanges, *side.sorts)}
        covered = {number for numbers in judged.explains for number in numbers}
        missing += [f"{judged.result.description}: node {number}" for number in sorted(there - covered)]
        missing += [
            f"{judged.result.description}: {f.reason}" for f in judged.result.findings if f.reason == "unexplained"
        ]
        missing += [
            f"{judged.result.description}: {f.message}"
            for f in judged.result.findings
            if "plans this otherwise" in f.message
        ]
    return missing


@pytest.mark.parametrize(("layout", "extension", "aqe"), QUICK)
def test_selected_queries_are_explained(layouts: dict[str, Checked], layout: str, extension: str, aqe: str) -> None:
    checked = _ready(layouts, layout)
    for query in QUICK[layout, extension, aqe]:
        assert unexplained(checked, QUERIES[query], _settings(extension, aqe)) == []


def test_the_fixes_for_a_selected_query_keep_their_promises(layouts: dict[str, Checked]) -> None:
    applied = list(apply_fixes(_ready(layouts, "mixed"), "q04", QUERIES["q04"], _settings(OFF, ON)))
    assert len(applied) >= 4
    assert [fix for fix in applied if not fix.kept] == []


@pytest.mark.long
@pytest.mark.parametrize(("layout", "extension", "aqe"), EVERYWHERE)
def test_every_exchange_and_sort_has_a_reason(
    layouts: dict[str, Checked], layout: str, extension: str, aqe: str
) -> None:
    checked = _ready(layouts, layout)
    missing = {
        query: found
        for query, sql in QUERIES.items()
        if (found := unexplained(checked, sql, _settings(extension, aqe)))
    }
    assert missing == {}


@pytest.mark.long
@pytest.mark.parametrize(("layout", "extension"), [(layout, on) for layout in DESCRIBED["layouts"] for on in (OFF, ON)])
def test_every_fix_keeps_its_promise(layouts: dict[str, Checked], layout: str, extension: str) -> None:
    checked = _ready(layouts, layout)
    applied: list[Applied] = []
    for query, sql in QUERIES.items():
        applied += apply_fixes(checked, query, sql, _settings(extension, ON))
    broken = [fix for fix in applied if not fix.kept]
    print(f"\n{layout}, extension {extension}: {len(applied) - len(broken)} of {len(applied)} fixes kept their promise")
    print(Counter(f"{fix.reason}: {fix.fix.kind}" for fix in applied))
    assert applied
    assert broken == []
