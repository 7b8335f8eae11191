"""Tests of verdicts, findings, changes and lines, on plans from a real Spark and on artificial plans.

The artificial plans contain operators of other engines, reuse exchanges, or have shapes that Spark does not produce in
these tests.
"""

from __future__ import annotations

import cProfile
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from plan_texts import Op, broadcast, broadcast_join, exchange, grouping, join, plan, reused, scan, sort

from spark_bucketing.advise.requirements import required_layouts
from spark_bucketing.check.checked_query import Query
from spark_bucketing.check.results import OperatorResult, Verdict
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.check.verdicts import judge
from spark_bucketing.plan import Statistics, parse_plan
from spark_bucketing.spec import BucketSpec

NOTHING = ("", "")
COUNTS = (Path(__file__).parent / "plans" / "bucket_counts.txt").read_text()
COLUMNS = {"k": "int", "v": "bigint", "t": "string", "w": "bigint", "u": "bigint"}
BUCKETS = {"d.s8": 8, "d.s8b": 8, "d.s16": 16, "d.plain": 0, "ice.d.s8": 0}
TABLES = {
    name: TableFacts(name, COLUMNS, BucketSpec(number, ("k",), ("k",), "spark") if number else None, (), 1000 * number)
    for name, number in BUCKETS.items()
}


def join_of_counts(
    tables: dict[str, TableFacts] = TABLES, sql: str = "", changed: tuple[str, str] = NOTHING
) -> OperatorResult:
    """Return the join of tables with different bucket counts, after replacing a pattern in the plan's text."""
    text = re.sub(*changed, COUNTS, flags=re.M)
    (join,) = judge(Query(parse_plan(text), tables, Settings({"spark.sql.shuffle.partitions": "6"}), sql))
    return join


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


def test_bytes_count_only_the_columns_that_the_query_reads() -> None:
    plan = parse_plan(COUNTS)
    column = next(node for node in plan.walk() if node.table == "d.s8").output or ()
    sizes = Statistics({"d.s8": 8000, "d.s16": 16000}, {column[0].id: 300})
    (join,) = judge(Query(plan, TABLES, Settings(), "", sizes))
    assert join.findings[0].bytes_shuffled == 300


@pytest.mark.parametrize(
    ("tables", "changed", "why"),
    [
        (TABLES, (r"\bSort(?= \(7\)$)|(?<=^\(7\) )Sort$", "CometSort"), "not a Spark operator: CometSort"),
        (TABLES, (r"Left keys \[1\]: \[k#35\]", "Left keys [1]: [f(k#35, a, (b)]"), "its keys cannot be parsed"),
        ({}, NOTHING, "Spark cannot describe d.s16, d.s8"),
        ({"d.s8": TABLES["d.s8"]}, NOTHING, "Spark cannot describe d.s16"),
    ],
)
def test_unrecognized_operator_is_unknown(tables: dict[str, TableFacts], changed: tuple[str, str], why: str) -> None:
    result = join_of_counts(tables, "", changed)
    assert (result.verdict, result.findings) == (Verdict.UNKNOWN, ())
    assert result.description.endswith(f"({why})")


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("-- join k\nselect *\nfrom s8\njoin s16\n  on s8.k = s16.k\nwhere t <> 'join' and s8.k > s16.k\n", 4),
        ("select * from s8\njoin plain as o on o.k = s8.k and o.v > s16.u\njoin d.s16 as p on p.k = s8.k", 3),
        # No line is better than a wrong one.
        ("select * from s8 join s16 on s8.k = s16.k\njoin s16 as o on o.k = s8.k", None),
        ("not ' sql", None),
        ("select 1", None),
    ],
)
def test_finding_has_the_line_of_the_clause_with_its_columns_and_table(sql: str, line: int | None) -> None:
    assert {finding.line for finding in join_of_counts(TABLES, sql).findings} == {line}


def judged(text: str, sql: str = "") -> list[OperatorResult]:
    return list(judge(Query(parse_plan(text), TABLES, Settings(), sql)))


def join_over(name: str) -> str:
    left = Op(name, "Input [2]: [k#1, v#2L]\nArguments: hashpartitioning(k#1, 200)", (scan("s8", 1),))
    return plan(join("k#1", "k#11", left, scan("s8b", 11)))


MOVING = ("PhotonShuffleMapStage", "PhotonShuffle", "MyRepartition", "MergingSessions", "FlatMapGroupsInArrow")
KEEPING = ("Filter", "CometColumnarToRow", "AQEShuffleRead", "CollectMetrics")
LEFT, RIGHT = (Op(f"CometScan parquet spark_catalog.d.{name}") for name in ("s8", "s8b"))
COMET_JOIN = Op("CometSortMergeJoin Inner", inputs=(Op("CometExchange", inputs=(LEFT,)), RIGHT))
COMET = plan(Op("CometColumnarToRow", inputs=(COMET_JOIN,)))
ARGUMENTS = "[lag(t#3, -1, :() windowspecdefinition(v#2L, k#1 ASC NULLS FIRST) AS n#5], [v#2L], [k#1 ASC NULLS FIRST]"
WINDOW = Op("Window", f"Input [2]: [k#1, v#2L]\nArguments: {ARGUMENTS}", (scan("s8", 1),))
PARTIAL = Op("CometHashAggregate", inputs=(scan("s8", 1),))
DISTINCT = Op("HashAggregate", "Keys [1]: [k#1]\nFunctions: []\nResults [1]: [k#1]", (PARTIAL,))
SKEWED = join("k#1", "k#11", exchange("k#1", scan("s8", 1)), scan("s8b", 11), name="SortMergeJoin(skew=true)")
SMALL = broadcast(scan("plain", 11))
FIRST = broadcast_join("k#1", "k#11", scan("s8", 1), SMALL)
SECOND = broadcast_join("k#21", "k#31", scan("s8b", 21), reused(SMALL, 31))
CASES = {
    **{f"{name} is unknown on a path": (join_over(name), ["join unknown"]) for name in MOVING},
    **{f"{name} moves nothing": (join_over(name), ["join sort-free"]) for name in KEEPING},
    "another engine's join": (COMET, ["join unknown"]),
    "another engine's stage": (plan(Op("NativeStage", inputs=(scan("s8", 1),))), ["other unknown"]),
    "a partial aggregate of another engine": (plan(DISTINCT), ["distinct unknown", "aggregate unknown"]),
    "a join with split skewed partitions": (plan(SKEWED), ["join one-sided"]),
    "a reused broadcast is not a shuffle": (plan(Op("Union", inputs=(FIRST, SECOND))), ["join broadcast"] * 2),
    "a window with a bracket in a literal": (plan(WINDOW), ["window unknown"]),
}


@pytest.mark.parametrize(("text", "verdicts"), CASES.values(), ids=CASES)
def test_unrecognized_operator_is_unknown_instead_of_omitted_or_good(text: str, verdicts: list[str]) -> None:
    found = judged(text)
    assert [f"{result.kind} {result.verdict.value}" for result in found] == verdicts
    # Without a shuffle, check counts no Exchanges. If an operator is unknown, check gives no reasons.
    assert not any(result.exchanges for result in found if result.verdict.value in ("sort-free", "broadcast"))
    assert not any(result.findings for result in found if result.verdict.value != "one-sided")


def test_description_names_all_operators_of_another_engine() -> None:
    names = "CometExchange, CometScan, CometSortMergeJoin"
    assert judged(COMET)[0].description.endswith(f"Inner (not a Spark operator: {names})")


@pytest.mark.parametrize("name", ["TakeOrderedAndProject", "CollectLimit"])
def test_limit_that_collects_rows_without_an_exchange_is_a_shuffle(name: str) -> None:
    limit = Op(name, "Input [2]: [k#1, v#2L]\nArguments: 10, [v#2L ASC NULLS FIRST], [k#1, v#2L]", (scan("s8", 1),))
    (group,) = judged(plan(grouping("k#1", "count", "count(1)#98L AS n#8L", limit)))
    assert (group.verdict.value, group.exchanges) == ("shuffled", 1)
    assert [finding.reason for finding in group.findings] == ["repartitioned-below"]
    assert "LIMIT collects the rows in one partition" in group.findings[0].message


def test_table_of_another_catalog_is_not_confused_with_a_table_of_the_session() -> None:
    other = Op("BatchScan ice.d.s8", "Output [2]: [k#1, v#2L]")
    text = plan(join("k#1", "k#11", exchange("k#1", other), scan("s8b", 11)))
    assert parse_plan(text).tables == ("ice.d.s8", "d.s8b")
    (found,) = judged(text)
    assert [finding.reason for finding in found.findings] == ["side-not-bucketed"]


def test_join_without_a_clause_does_not_get_another_join_s_line() -> None:
    in_plain = sort("k#11", exchange("k#11", scan("plain", 11)))
    semi = join("k#1", "k#11", scan("s8", 1), in_plain, "LeftSemi")
    text = plan(join("k#1", "k#21", semi, sort("k#21", exchange("k#21", scan("s16", 21)))))
    sql = "select *\nfrom s8\njoin s16\n  on s8.k = s16.k\nwhere s8.k in (select k from plain)\n"
    findings = [finding for result in judged(text, sql) for finding in result.findings]
    assert findings and {finding.line for finding in findings} == {None}


def test_scan_of_another_engine_does_not_affect_the_lines_of_other_operators() -> None:
    moved = join("k#1", "k#11", exchange("k#1", scan("plain", 1)), scan("s8b", 11))
    sql = "select * from plain\njoin s8b on plain.k = s8b.k union all select * from s8"
    found, _ = judged(plan(Op("Union", inputs=(moved, LEFT))), sql)
    assert [finding.line for finding in found.findings] == [2]


def calls(function: Callable[[], object]) -> int:
    """Return the number of function calls inside a function, which does not depend on the speed of a machine."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return sum(entry.callcount for entry in profile.getstats())


def test_nested_reused_exchanges_are_visited_once() -> None:
    levels = 40
    node = scan("s8", 1)
    for level in range(levels):
        moved = exchange("k#1", node)
        node = Op("Union", inputs=(moved, reused(moved, 100 * level)))
    found = parse_plan(plan(node))
    assert sum(1 for _ in found.walk()) == 3 * levels + 1
    query = Query(found, TABLES, Settings())
    assert judge(query) == ()
    # Visiting each operator for each of its readers would take 2**40 steps.
    assert calls(lambda: judge(query)) < 20_000


def chain(joins: int) -> str:
    """Return a left-deep plan that joins many tables."""
    node = scan("s8", 1)
    for first in range(1000, 1000 + 10 * joins, 10):
        node = join("k#1", f"k#{first}", node, exchange(f"k#{first}", scan("plain", first)))
    return plan(node)


def judged_chain(joins: int) -> tuple[OperatorResult, ...]:
    sql = "select * from s8" + "".join(f"\njoin plain p{i} on s8.k = p{i}.k" for i in range(joins))
    return judge(Query(parse_plan(chain(joins)), TABLES, Settings(), sql))


def test_plans_with_thousands_of_operators_are_judged() -> None:
    found = judged_chain(800)
    assert len(found) == 800 and {one.verdict.value for one in found} == {"one-sided"}
    # The time grows with the square of the joins, at most.
    assert calls(lambda: judged_chain(100)) < 4.2 * calls(lambda: judged_chain(50))


# select x.v, y.v from s8 x join s8 y on x.v = y.v
MOVED = exchange("v#2L", scan("s8", 1))
SELF_JOIN = plan(join("v#2L", "v#12L", sort("v#2L", MOVED), sort("v#12L", reused(MOVED, 11))))
# The upper join reuses an exchange of the lower join.
LOWER = join("v#2L", "v#12L", MOVED, scan("s8b", 11))
TWO_JOINS = plan(join("k#1", "v#22L", exchange("k#1", LOWER), reused(MOVED, 21)))
# with g as (select v, count(*) as n from s8 group by v) select ... from g x join g y: the plan shows the reuse first.
COUNTED = exchange("v#2L", grouping("v#2L", "partial_count", "count#97L", scan("s8", 1)))
GROUPED = grouping("v#2L", "count", "count(1)#98L AS n#5L", COUNTED)
AGAIN = grouping("v#12L", "count", "count(1)#98L AS n#15L", reused(COUNTED, 12, "v#{}L, count#96L"))
GROUPED_ONCE = plan(join("v#12L", "v#2L", AGAIN, GROUPED))
BOTH = exchange("v#2L", Op("Union", inputs=(MOVED, reused(MOVED, 11))))
UNION = plan(join("v#2L", "v#22L", BOTH, exchange("v#22L", scan("s16", 21))))


def short(result: OperatorResult) -> tuple[str, int, int, list[str]]:
    reasons = [finding.reason for finding in result.findings]
    return f"{result.kind} {result.verdict.value}", result.exchanges, result.sorts, reasons


KEYS, BELOW = "keys-miss-bucket-column", "repartitioned-below"
REUSING = {
    "one join": (SELF_JOIN, [("join shuffled", 1, 2, [KEYS])]),
    "two joins": (TWO_JOINS, [("join shuffled", 1, 0, [BELOW, KEYS]), ("join one-sided", 1, 0, [KEYS])]),
    "two groupings": (
        GROUPED_ONCE,
        [("join sort-free", 0, 0, []), ("aggregate shuffled", 0, 0, [KEYS]), ("aggregate shuffled", 1, 0, [KEYS])],
    ),
    "a union": (UNION, [("join shuffled", 3, 0, [KEYS, BELOW, KEYS])]),
}


@pytest.mark.parametrize(("text", "expected"), REUSING.values(), ids=REUSING)
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
    sizes = Statistics({}, {1: 100})
    (one,) = required_layouts("q", parse_plan(SELF_JOIN), sizes)
    assert [(side.table, side.keys, side.shuffled, side.sorted) for side in one.sides] == [
        ("d.s8", ("v",), 100, 100), ("d.s8", ("v",), 0, 100),
    ]  # fmt: skip


def test_reused_broadcast_hides_no_table() -> None:
    text = plan(join("v#2L", "v#22L", exchange("v#2L", FIRST), exchange("v#22L", SECOND)))
    (one,) = required_layouts("q", parse_plan(text), Statistics())
    assert [side.table for side in one.sides] == ["d.s8", "d.s8b"]
