"""Tests that read documents of EXPLAIN BUCKETS from a real Spark, stored in tests/unit/plans, and find their operators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from plan_trees import exchange, grouping, plan, reused, scan, sort, union

from conftest import REPOSITORY
from spark_bucketing.errors import PlanError
from spark_bucketing.plan.document import PhysicalPlan, PlanCounts, PlanNode, read_plan
from spark_bucketing.plan.operators import Operator, find_operators
from spark_bucketing.spec import BucketSpec

FOLDER = Path(__file__).parent / "plans"
TEXTS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.json"))}


def document(name: str) -> PhysicalPlan:
    return read_plan(TEXTS[name])


def operators(found: PhysicalPlan) -> list[Operator]:
    return [op for root in found.roots for op in find_operators(root)]


def node(found: PhysicalPlan, kind: str) -> PlanNode:
    return next(one for one in found.walk() if one.kind == kind)


@pytest.mark.parametrize("name", TEXTS)
def test_document_matches_its_schema(name: str) -> None:
    schema = json.loads((REPOSITORY / "docs" / "reference" / "explain-buckets.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert list(Draft202012Validator(schema).iter_errors(json.loads(TEXTS[name]))) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("two_sided_join", [("aggregate", ["d.a", "d.b"]), ("join", ["d.a", "d.b"])]),
        ("one_sided_join", [("join", ["d.a", "d.plain"])]),
        ("window", [("window", ["d.a"])]),
        ("union_group_by", [("aggregate", ["d.a", "d.b"])]),
        ("broadcast", [("join", ["d.a", "d.small"])]),
        ("subquery", [("join", ["d.a", "d.b"]), ("aggregate", ["d.a"])]),
        ("no_aqe_cte", [("join", ["d.a"]), ("distinct", ["d.a"]), ("aggregate", ["d.a"])]),
        ("insert", []),
    ],
)
def test_partial_and_final_aggregates_are_one_operator(name: str, found: list[tuple[str, list[str]]]) -> None:
    assert [(op.kind, list(op.tables)) for op in operators(document(name))] == found


def test_tables_have_their_columns_specs_and_sizes() -> None:
    found = document("one_sided_join")
    table = found.described["d.a"]
    assert (table.spec, table.files_per_bucket) == (BucketSpec(8, ("k",), ("k",), "hive"), 1)
    assert table.columns == {"k": "bigint", "v": "string", "n": "int"} and found.described["d.plain"].spec is None
    assert found.spark_version == "4.3.0" and found.settings["spark.sql.shuffle.partitions"] == "6"
    assert found.columns["x"] == "string" and found.counts == PlanCounts(1, 1)


def test_shuffle_names_the_table_columns_of_its_keys() -> None:
    found = document("one_sided_join")
    shuffle = node(found, "exchange").shuffle
    assert shuffle is not None
    assert (shuffle.bucket_hash, shuffle.partitions, shuffle.requested) == ("hive", 8, False)
    assert [key.readable for key in shuffle.keys] == ["d.plain.k"]
    # A Filter, an Exchange and a Sort have the columns of their input.
    assert node(found, "sort").output == node(found, "exchange").output != ()


def test_cast_is_traced_to_the_column() -> None:
    (op,) = operators(document("cast_on_key"))
    sources = [side.keys[0].source for side in op.sides if side.keys]
    assert {(source.scan.table, source.cast) for source in sources if source} == {("d.a", ""), ("d.i", "bigint")}


def test_scan_tells_why_it_is_ordinary() -> None:
    scans = {one.scan.table: one.scan for one in document("not_sealed").walk() if one.scan}
    assert (scans["d.a"].bucketed, scans["d.a"].by_extension, scans["d.a"].buckets) == (True, True, 8)
    assert scans["d.u"].code == "not-sealed" and scans["d.u"].words


def test_hypothetical_tables_are_read_through_views() -> None:
    found = document("hypothetical_tables")
    assert set(found.tables) == {"h.t", "h.o"} and found.table_bytes("h.o") is None


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
