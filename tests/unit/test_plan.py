"""Tests that read documents of EXPLAIN BUCKETS from a real Spark, stored in tests/unit/plans, and find their operators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from plan_trees import exchange, grouping, plan, reused, scan, sort, union
from report_pages import schema_errors

from spark_bucketing.errors import PlanError
from spark_bucketing.plan.document import PhysicalPlan, PlanNode, read_plan
from spark_bucketing.plan.operators import Operator, find_operators
from spark_bucketing.spec import BucketSpec

FOLDER = Path(__file__).parent / "plans"
TEXTS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.json"))}
EXPECTED = yaml.safe_load((FOLDER / "expected.yml").read_text())


def document(name: str) -> PhysicalPlan:
    return read_plan(TEXTS[name])


def operators(found: PhysicalPlan) -> list[Operator]:
    return [op for root in found.roots for op in find_operators(root)]


def node(found: PhysicalPlan, kind: str) -> PlanNode:
    return next(one for one in found.walk() if one.kind == kind)


@pytest.mark.parametrize("name", TEXTS)
def test_document_matches_its_schema_and_has_the_expected_operators_and_scans(name: str) -> None:
    assert schema_errors("explain-buckets.schema.json", json.loads(TEXTS[name])) == []
    found = document(name)
    shuffles = [one.shuffle for one in found.walk() if one.shuffle]
    scans = [one.scan for one in found.walk() if one.scan]
    keys = [key.source for op in operators(found) for side in op.sides for key in side.keys or ()]
    assert EXPECTED[name] == {
        "tables": list(found.tables),
        "operators": [" ".join([op.kind, *op.tables]) for op in operators(found)],
        "casts": sorted({f"{key.scan.table} to {key.cast}" for key in keys if key and key.cast}),
        "counts": [found.counts.exchanges, found.counts.sorts],
        "shuffles": [
            f"{one.bucket_hash} {one.partitions} {[key.readable for key in one.keys]} {one.requested}"
            for one in shuffles
        ],
        "scans": sorted(
            {f"{one.table} {one.buckets if one.bucketed else one.code} {one.by_extension}" for one in scans}
        ),
    }


def test_tables_have_their_columns_and_sizes() -> None:
    found = document("one_sided_join")
    table = found.described["d.a"]
    assert (table.spec, table.files_per_bucket) == (BucketSpec(8, ("k",), ("k",), "hive"), 1)
    assert table.columns == {"k": "bigint", "v": "string", "n": "int"}
    assert found.spark_version == "4.3.0" and found.settings["spark.sql.shuffle.partitions"] == "6"
    assert found.columns["x"] == "string"
    # A Filter, an Exchange and a Sort have the columns of their input.
    assert node(found, "sort").output == node(found, "exchange").output != ()
    assert document("hypothetical_tables").table_bytes("h.o") is None
    # The name of a table in another catalog has the name of the catalog.
    assert plan(union(scan("ice.d.s8", 1), scan("s8b", 11))).tables == ("ice.d.s8", "d.s8b")


def test_reused_exchange_is_read_once() -> None:
    found = document("reused")
    again = node(found, "reused")
    assert {column.id for column in again.output}.isdisjoint(column.id for column in again.children[0].output)
    assert [one.kind for one in found.walk()].count("exchange") == found.counts.exchanges == 1
    (op,) = operators(found)
    assert [side.keys[0].readable for side in op.sides if side.keys] == ["d.a.v", "d.a.v"]


def test_aggregate_over_a_partial_aggregate_with_other_keys_is_separate() -> None:
    inner = grouping("v", "Partial", scan("s8", 1))
    outer = grouping("v", "Final", exchange("v", inner))
    assert len(operators(plan(outer))) == 1
    inner = grouping("v", "Final", scan("s8", 1))
    assert len(operators(plan(grouping("v", "Partial", inner)))) == 2
    distinct = grouping("v", "", exchange("v", grouping("v", "", scan("s8", 1))))
    assert [op.kind for op in operators(plan(distinct))] == ["distinct"]


def test_way_from_a_scan_leads_through_reused_exchanges() -> None:
    moved = exchange("k", scan("s8", 1))
    top = sort("k", union(moved, reused(moved, 11)))
    plan(top)
    assert [one.kind for one in top.way_from(top.scans[0])] == ["exchange", "union", "sort"]
    assert top.way_from(scan("s8", 1)) == ()


def test_document_of_another_version_is_refused() -> None:
    other = json.dumps(json.loads(TEXTS["window"]) | {"version": 2})
    with pytest.raises(PlanError, match=r"does not support[\s\S]*version 2[\s\S]*extension build"):
        read_plan(other)
    for text in ("", "{}", "[]", '{"version": 1}'):
        with pytest.raises(PlanError, match="cannot be read"):
            read_plan(text)
