"""Tests that check counts an exchange that Spark reuses once, and explains it like any other exchange."""

from __future__ import annotations

import pytest
from plan_texts import exchange, join, plan, scan, sort

from spark_bucketing.advise.requirements import required_layouts
from spark_bucketing.check.checked_query import Query
from spark_bucketing.check.results import OperatorResult
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.check.verdicts import judge
from spark_bucketing.plan import Statistics, parse_plan
from spark_bucketing.spec import BucketSpec

BUCKETED = BucketSpec(8, ("k",), ("k",), "spark")
TABLES = {
    name: TableFacts(name, {"k": "int", "v": "bigint"}, BUCKETED, (), 8000) for name in ("d.s8", "d.s8b", "d.s16")
}


def reused(number: int, of: int, first: int) -> str:
    return f"({number}) ReusedExchange [Reuses operator id: {of}]\nOutput [2]: [k#{first}, v#{first + 1}L]"


def grouping(number: int, key: str, function: str, column: str) -> str:
    return (
        f"({number}) HashAggregate\nInput [2]: [{key}, w#99L]\nKeys [1]: [{key}]\nFunctions [1]: [{function}(1)]\n"
        f"Aggregate Attributes [1]: [{function}(1)#98L]\nResults [2]: [{key}, {column}]"
    )


# select x.v, y.v from s8 x join s8 y on x.v = y.v
SELF_JOIN = plan(
    "SortMergeJoin Inner (6)\n:- Sort (3)\n:  +- Exchange (2)\n:     +- Scan parquet spark_catalog.d.s8 (1)\n"
    "+- Sort (5)\n   +- ReusedExchange (4)",
    scan(1, "s8", 1), exchange(2, "v#2L"), sort(3, "v#2L"), reused(4, 2, 11), sort(5, "v#12L"), join(6, "v#2L", "v#12L"),
)  # fmt: skip
# The upper join reuses an exchange of the lower join.
TWO_JOINS = plan(
    "SortMergeJoin Inner (8)\n:- Exchange (5)\n:  +- SortMergeJoin Inner (4)\n:     :- Exchange (2)\n"
    ":     :  +- Scan parquet spark_catalog.d.s8 (1)\n:     +- Scan parquet spark_catalog.d.s8b (3)\n"
    "+- ReusedExchange (7)",
    scan(1, "s8", 1), exchange(2, "v#2L"), scan(3, "s8b", 11), join(4, "v#2L", "v#12L"), exchange(5, "k#1"),
    reused(7, 2, 21), join(8, "k#1", "v#22L"),
)  # fmt: skip
# with g as (select v, count(*) as n from s8 group by v) select ... from g x join g y: the plan shows the reuse first.
GROUPED_ONCE = plan(
    "SortMergeJoin Inner (8)\n:- HashAggregate (6)\n:  +- ReusedExchange (5)\n+- HashAggregate (4)\n"
    "   +- Exchange (3)\n      +- HashAggregate (2)\n         +- Scan parquet spark_catalog.d.s8 (1)",
    scan(1, "s8", 1), grouping(2, "v#2L", "partial_count", "count#97L"), exchange(3, "v#2L"),
    grouping(4, "v#2L", "count", "count(1)#98L AS n#5L"),
    "(5) ReusedExchange [Reuses operator id: 3]\nOutput [2]: [v#12L, count#96L]",
    grouping(6, "v#12L", "count", "count(1)#98L AS n#15L"), join(8, "v#12L", "v#2L"),
)  # fmt: skip
UNION = plan(
    "SortMergeJoin Inner (9)\n:- Exchange (6)\n:  +- Union (5)\n:     :- Exchange (2)\n"
    ":     :  +- Scan parquet spark_catalog.d.s8 (1)\n:     +- ReusedExchange (3)\n"
    "+- Exchange (8)\n   +- Scan parquet spark_catalog.d.s16 (7)",
    scan(1, "s8", 1), exchange(2, "v#2L"), reused(3, 2, 11), exchange(6, "v#2L"), scan(7, "s16", 21),
    exchange(8, "v#22L"), join(9, "v#2L", "v#22L"),
)  # fmt: skip


def judged(text: str) -> tuple[OperatorResult, ...]:
    return judge(Query(parse_plan(text), TABLES, Settings()))


def short(result: OperatorResult) -> tuple[str, int, int, list[str]]:
    reasons = [finding.reason for finding in result.findings]
    return f"{result.kind} {result.verdict.value}", result.exchanges, result.sorts, reasons


KEYS, BELOW = "keys-miss-bucket-column", "repartitioned-below"
CASES = {
    "one join": (SELF_JOIN, [("join shuffled", 1, 2, [KEYS])]),
    "two joins": (TWO_JOINS, [("join shuffled", 1, 0, [BELOW, KEYS]), ("join one-sided", 1, 0, [KEYS])]),
    "two groupings": (
        GROUPED_ONCE,
        [("join sort-free", 0, 0, []), ("aggregate shuffled", 0, 0, [KEYS]), ("aggregate shuffled", 1, 0, [KEYS])],
    ),
    "a union": (UNION, [("join shuffled", 3, 0, [KEYS, BELOW, KEYS])]),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_reused_exchange_counts_once(text: str, expected: list[tuple[str, int, int, list[str]]]) -> None:
    found = judged(text)
    assert [short(result) for result in found] == expected
    assert sum(result.exchanges for result in found) == parse_plan(text).counts.exchanges
    assert not any("ReusedExchange" in finding.message for result in found for finding in result.findings)


@pytest.mark.parametrize(("text", "bytes_shuffled"), [(SELF_JOIN, [8000]), (GROUPED_ONCE, [0, 8000])])
def test_bytes_of_a_reused_exchange_count_once(text: str, bytes_shuffled: list[int]) -> None:
    assert [finding.bytes_shuffled for result in judged(text) for finding in result.findings] == bytes_shuffled


def test_finding_about_both_inputs_covers_the_sorts_of_both() -> None:
    (result,) = judged(SELF_JOIN)
    assert [finding.explains for finding in result.findings] == [(2, 3, 5)]


def test_avoiding_a_reused_exchange_saves_its_bytes_once() -> None:
    sizes = Statistics({}, {1: ("d.s8", 100)})
    (one,) = required_layouts("q", parse_plan(SELF_JOIN), sizes)
    assert [(side.table, side.keys, side.shuffled, side.sorted) for side in one.sides] == [
        ("d.s8", ("v",), 100, 100), ("d.s8", ("v",), 0, 100),
    ]  # fmt: skip


def test_reused_broadcast_hides_no_table() -> None:
    text = plan(
        "SortMergeJoin Inner (11)\n:- Exchange (5)\n:  +- BroadcastHashJoin Inner BuildRight (4)\n"
        ":     :- Scan parquet spark_catalog.d.s8 (1)\n:     +- BroadcastExchange (3)\n"
        ":        +- Scan parquet spark_catalog.d.plain (2)\n+- Exchange (10)\n"
        "   +- BroadcastHashJoin Inner BuildRight (8)\n      :- Scan parquet spark_catalog.d.s8b (6)\n"
        "      +- ReusedExchange (7)",
        scan(1, "s8", 1), scan(2, "plain", 11), "(3) BroadcastExchange\nInput [2]: [k#11, v#12L]",
        join(4, "k#1", "k#11", name="BroadcastHashJoin"), exchange(5, "v#2L"), scan(6, "s8b", 21), reused(7, 3, 31),
        join(8, "k#21", "k#31", name="BroadcastHashJoin"), exchange(10, "v#22L"), join(11, "v#2L", "v#22L"),
    )  # fmt: skip
    (one,) = required_layouts("q", parse_plan(text), Statistics())
    assert [side.table for side in one.sides] == ["d.s8", "d.s8b"]
