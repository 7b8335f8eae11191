"""Tests of verdicts, findings and changes on artificial plans.

The plans contain operators of other engines, reuse exchanges, or have shapes that Spark does not produce in these tests.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import pytest
from plan_trees import (
    SETTINGS,
    broadcast,
    broadcast_join,
    exchange,
    grouping,
    join,
    op,
    plan,
    reused,
    scan,
    sort,
    union,
)

from spark_bucketing.advice.requirements import required_layouts
from spark_bucketing.checks.checked_query import Query, Settings
from spark_bucketing.checks.results import OperatorResult, Verdict
from spark_bucketing.checks.verdicts import judge
from spark_bucketing.plan.document import PhysicalPlan, PlanNode, TableFacts
from spark_bucketing.spec import BucketSpec

COLUMNS = {"k": "int", "v": "bigint", "t": "string", "w": "bigint", "u": "bigint"}
BUCKETS = {"d.s8": 8, "d.s8b": 8, "d.s16": 16, "d.plain": 0, "ice.d.s8": 0}
TABLES = {
    name: TableFacts(name, COLUMNS, BucketSpec(number, ("k",), ("k",), "spark") if number else None, (), 1000 * number)
    for name, number in BUCKETS.items()
}


def join_of_counts(
    tables: dict[str, TableFacts] = TABLES, read_bytes: int | None = None, sort_name: str = "Sort"
) -> OperatorResult:
    """Return the join of tables with different bucket counts."""
    left = sort("k", exchange("k", scan("s8", 1, read_bytes=read_bytes), 16))
    kind = "sort" if sort_name == "Sort" else "unknown"
    found = plan(join("k", "k", left, sort("k", scan("s16", 11), kind, sort_name)))
    (result,) = judge(Query(found, tables, Settings(SETTINGS)))
    return result


def test_multiples_of_bucket_counts_depend_on_settings() -> None:
    join = join_of_counts()
    assert (join.verdict, join.exchanges, join.sorts) == (Verdict.ONE_SIDED, 1, 2)
    assert join.tables == ("d.s8", "d.s16")
    finding = join.findings[0]
    # Without Spark, check cannot test changes, and untested changes are not fixes.
    assert (finding.reason, finding.level, finding.fixes, finding.bytes_shuffled) == (
        "bucket-coalescing-disabled", "note", (), 8000,
    )  # fmt: skip
    assert [found.tables for found in join.findings] == [("d.s8", "d.s16"), ("d.s16",)]
    changes = finding.changes
    assert [change.kind for change in changes] == ["setting", "extension", "bucket_spec", "bucket_spec"]
    assert changes[0].settings == {"spark.sql.bucketing.coalesceBucketsInJoin.enabled": "true"}
    # Bytes count only the columns that the query reads.
    assert join_of_counts(read_bytes=300).findings[0].bytes_shuffled == 300


@pytest.mark.parametrize(
    ("tables", "sort_name", "why"),
    [
        (TABLES, "CometSort", "not a Spark operator: CometSort"),
        ({}, "Sort", "Spark cannot describe d.s16, d.s8"),
        ({"d.s8": TABLES["d.s8"]}, "Sort", "Spark cannot describe d.s16"),
    ],
)
def test_unrecognized_operator_is_unknown(tables: dict[str, TableFacts], sort_name: str, why: str) -> None:
    result = join_of_counts(tables, sort_name=sort_name)
    assert (result.verdict, result.findings) == (Verdict.UNKNOWN, ())
    assert result.description.endswith(f"({why})")


def judged(found: PhysicalPlan) -> list[OperatorResult]:
    return list(judge(Query(found, TABLES, Settings(SETTINGS))))


def join_over(name: str, kind: str) -> PhysicalPlan:
    return plan(join("k", "k", op(name, scan("s8", 1), kind=kind), scan("s8b", 11)))


LEFT, RIGHT = (op(f"CometScan parquet d.{name}", output=scan(name, 1).output) for name in ("s8", "s8b"))
COMET = op("CometSortMergeJoin Inner", op("CometExchange", LEFT), RIGHT, guess="join")
PARTIAL = op("CometHashAggregate", scan("s8", 1), guess="aggregate")
SKEWED = join("k", "k", exchange("k", scan("s8", 1)), scan("s8b", 11))
SMALL = broadcast(scan("plain", 11))
FIRST = broadcast_join("k", "k", scan("s8", 1), SMALL)
SECOND = broadcast_join("k", "k", scan("s8b", 21), reused(SMALL, 31))
CASES = {
    "an unknown operator on a path": (join_over("PhotonShuffle", "unknown"), ["join unknown"]),
    "a known operator on a path": (join_over("CometColumnarToRow", "other"), ["join sort-free"]),
    "another engine's join": (plan(op("CometColumnarToRow", COMET, kind="other")), ["join unknown"]),
    "another engine's stage": (plan(op("NativeStage", scan("s8", 1))), ["other unknown"]),
    "another engine's partial aggregate": (plan(grouping("k", "", PARTIAL)), ["distinct unknown", "aggregate unknown"]),
    "a shuffled side": (plan(SKEWED), ["join one-sided"]),
    "a reused broadcast is not a shuffle": (plan(union(FIRST, SECOND)), ["join broadcast"] * 2),
}


@pytest.mark.parametrize(("tree", "verdicts"), CASES.values(), ids=CASES)
def test_unrecognized_operator_is_unknown_instead_of_omitted_or_good(tree: PhysicalPlan, verdicts: list[str]) -> None:
    found = judged(tree)
    assert [f"{result.kind} {result.verdict.value}" for result in found] == verdicts
    # Without a shuffle, check counts no Exchanges. If an operator is unknown, check gives no reasons.
    assert not any(result.exchanges for result in found if result.verdict.value in ("sort-free", "broadcast"))
    assert not any(result.findings for result in found if result.verdict.value != "one-sided")


def test_description_names_all_operators_of_another_engine() -> None:
    names = "CometExchange, CometScan, CometSortMergeJoin"
    assert judged(plan(COMET))[0].description.endswith(f"Inner (not a Spark operator: {names})")


@pytest.mark.parametrize("name", ["TakeOrderedAndProject", "CollectLimit"])
def test_limit_that_collects_rows_without_an_exchange_is_a_shuffle(name: str) -> None:
    limit = op(name, scan("s8", 1), kind="gather")
    (group,) = judged(plan(grouping("k", "Complete", limit)))
    assert (group.verdict.value, group.exchanges) == ("shuffled", 1)
    assert [finding.reason for finding in group.findings] == ["repartitioned-below"]
    assert "LIMIT collects the rows in one partition" in group.findings[0].message


def test_table_of_another_catalog_is_not_confused_with_a_table_of_the_session() -> None:
    tree = plan(join("k", "k", exchange("k", scan("ice.d.s8", 1)), scan("s8b", 11)))
    assert tree.tables == ("ice.d.s8", "d.s8b")
    (found,) = judged(tree)
    assert [finding.reason for finding in found.findings] == ["side-not-bucketed"]


def test_finding_has_the_line_of_its_operator_and_covers_the_sorts_of_both_inputs() -> None:
    tree = join("k", "k", exchange("k", scan("plain", 1)), scan("s8b", 11))
    tree.line = 4
    assert [finding.line for result in judged(plan(tree)) for finding in result.findings] == [4]
    (result,) = judged(plan(SELF_JOIN))
    left, right = SELF_JOIN.children
    assert [finding.explains for finding in result.findings] == [(MOVED.number, left.number, right.number)]


def calls(function: Callable[[], object]) -> int:
    """Return the number of function calls inside a function, which does not depend on the speed of a machine."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return sum(entry.callcount for entry in profile.getstats())


def test_nested_reused_exchanges_are_visited_once() -> None:
    levels = 40
    node = scan("s8", 1)
    for level in range(levels):
        moved = exchange("k", node)
        node = union(moved, reused(moved, 100 * level))
    found = plan(node)
    assert sum(1 for _ in found.walk()) == 3 * levels + 1
    query = Query(found, TABLES, Settings(SETTINGS))
    assert judge(query) == ()
    # Visiting each operator for each of its readers would take 2**40 steps.
    assert calls(lambda: judge(query)) < 20_000


def chain(joins: int) -> PhysicalPlan:
    """Return a left-deep plan that joins many tables."""
    node = scan("s8", 1)
    for first in range(1000, 1000 + 10 * joins, 10):
        node = join("k", "k", node, exchange("k", scan("plain", first)), "LeftSemi")
    return plan(node)


def test_plans_with_thousands_of_operators_are_judged() -> None:
    found = judged(chain(800))
    assert len(found) == 800 and {one.verdict.value for one in found} == {"one-sided"}
    long, short_one = chain(100), chain(50)
    # The time grows with the square of the joins, at most.
    assert calls(lambda: judged(long)) < 4.2 * calls(lambda: judged(short_one))


# select x.v, y.v from s8 x join s8 y on x.v = y.v
MOVED = exchange("v", scan("s8", 1))
SELF_JOIN = join("v", "v", sort("v", MOVED), sort("v", reused(MOVED, 11)))


def two_joins() -> PlanNode:
    """The upper join reuses an exchange of the lower join."""
    moved = exchange("v", scan("s8", 1))
    lower = join("v", "v", moved, scan("s8b", 11))
    return join("k", "v", exchange("k", lower), reused(moved, 21))


def grouped_once() -> PlanNode:
    """with g as (select v, count(*) as n from s8 group by v) select ... from g x join g y; the reuse comes first."""
    counted = exchange("v", grouping("v", "Partial", scan("s8", 1)))
    return join("v", "v", grouping("v", "Final", reused(counted, 12)), grouping("v", "Final", counted))


def united() -> PlanNode:
    moved = exchange("v", scan("s8", 1))
    both = exchange("v", union(moved, reused(moved, 11)))
    return join("v", "v", both, exchange("v", scan("s16", 21)))


def short(result: OperatorResult) -> tuple[str, int, int, list[str]]:
    reasons = [finding.reason for finding in result.findings]
    return f"{result.kind} {result.verdict.value}", result.exchanges, result.sorts, reasons


KEYS, BELOW = "keys-miss-bucket-column", "repartitioned-below"
REUSING = {
    "one join": (plan(SELF_JOIN), [("join shuffled", 1, 2, [KEYS])]),
    "two joins": (plan(two_joins()), [("join shuffled", 1, 0, [BELOW, KEYS]), ("join one-sided", 1, 0, [KEYS])]),
    "two groupings": (
        plan(grouped_once()),
        [("join sort-free", 0, 0, []), ("aggregate shuffled", 0, 0, [KEYS]), ("aggregate shuffled", 1, 0, [KEYS])],
    ),
    "a union": (plan(united()), [("join shuffled", 3, 0, [KEYS, BELOW, KEYS])]),
}


@pytest.mark.parametrize(("tree", "expected"), REUSING.values(), ids=REUSING)
def test_reused_exchange_counts_once(tree: PhysicalPlan, expected: list[tuple[str, int, int, list[str]]]) -> None:
    found = judged(tree)
    assert [short(result) for result in found] == expected
    assert sum(result.exchanges for result in found) == tree.counts.exchanges
    assert not any("ReusedExchange" in finding.message for result in found for finding in result.findings)


@pytest.mark.parametrize(("tree", "bytes_shuffled"), [(plan(SELF_JOIN), [8000]), (plan(grouped_once()), [0, 8000])])
def test_bytes_of_a_reused_exchange_count_once(tree: PhysicalPlan, bytes_shuffled: list[int]) -> None:
    assert [finding.bytes_shuffled for result in judged(tree) for finding in result.findings] == bytes_shuffled


def test_avoiding_a_reused_exchange_saves_its_bytes_once() -> None:
    moved = exchange("v", scan("s8", 1, read_bytes=100))
    (one,) = required_layouts("q", plan(join("v", "v", sort("v", moved), sort("v", reused(moved, 11)))))
    assert [(side.table, side.keys, side.shuffled, side.sorted) for side in one.sides] == [
        ("d.s8", ("v",), 100, 100), ("d.s8", ("v",), 0, 100),
    ]  # fmt: skip


def test_reused_broadcast_hides_no_table() -> None:
    (one,) = required_layouts("q", plan(join("v", "v", exchange("v", FIRST), exchange("v", SECOND))))
    assert [side.table for side in one.sides] == ["d.s8", "d.s8b"]
