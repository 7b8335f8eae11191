"""Tests of verdicts, findings, changes and lines, on plans from a real Spark and on a few artificial plans.

The artificial plans contain operators of other engines, or have shapes that Spark does not produce in these tests.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from counting import calls
from plan_texts import exchange, join, plan, scan, sort

from spark_bucketing.check.checked_query import Query
from spark_bucketing.check.results import OperatorResult, Verdict
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.check.verdicts import judge
from spark_bucketing.plan import Statistics, parse_plan
from spark_bucketing.spec import BucketSpec

NOTHING = ("", "")
PLANS = Path(__file__).parent / "plans"
COLUMNS = {"k": "int", "v": "bigint", "t": "string", "w": "bigint", "u": "bigint"}


BUCKETS = {"d.s8": 8, "d.s8b": 8, "d.s16": 16, "d.plain": 0, "ice.d.s8": 0}
TABLES = {
    name: TableFacts(name, COLUMNS, BucketSpec(number, ("k",), ("k",), "spark") if number else None, (), 1000 * number)
    for name, number in BUCKETS.items()
}


def join_of(
    name: str, tables: dict[str, TableFacts] = TABLES, sql: str = "", changed: tuple[str, str] = NOTHING
) -> OperatorResult:
    """Return the only operator of a plan, after replacing a pattern in the plan's text."""
    text = re.sub(*changed, (PLANS / f"{name}.txt").read_text(), flags=re.M)
    (join,) = judge(Query(parse_plan(text), tables, Settings({"spark.sql.shuffle.partitions": "6"}), sql))
    return join


def test_multiples_of_bucket_counts_depend_on_settings() -> None:
    join = join_of("bucket_counts")
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
    plan = parse_plan((PLANS / "bucket_counts.txt").read_text())
    column = next(node for node in plan.walk() if node.table == "d.s8").output or ()
    sizes = Statistics({"d.s8": 8000, "d.s16": 16000}, {column[0].id: ("d.s8", 300)})
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
    result = join_of("bucket_counts", tables, "", changed)
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
    assert {finding.line for finding in join_of("bucket_counts", TABLES, sql).findings} == {line}


def judged(text: str, sql: str = "") -> list[OperatorResult]:
    return list(judge(Query(parse_plan(text), TABLES, Settings(), sql)))


def join_over(name: str) -> str:
    return plan(
        f"SortMergeJoin Inner (5)\n:- {name} (2)\n:  +- Scan parquet spark_catalog.d.s8 (1)\n"
        "+- Scan parquet spark_catalog.d.s8b (3)",
        scan(1, "s8", 1), f"(2) {name}\nInput [2]: [k#1, v#2L]\nArguments: hashpartitioning(k#1, 200)",
        scan(3, "s8b", 11), join(5, "k#1", "k#11"),
    )  # fmt: skip


MOVING = ("PhotonShuffleMapStage", "PhotonShuffle", "MyRepartition", "MergingSessions", "FlatMapGroupsInArrow")
KEEPING = ("Filter", "CometColumnarToRow", "AQEShuffleRead", "CollectMetrics")
COMET = plan(
    "* CometColumnarToRow (6)\n+- CometSortMergeJoin Inner (5)\n   :- CometExchange (2)\n"
    "   :  +- CometScan parquet spark_catalog.d.s8 (1)\n   +- CometScan parquet spark_catalog.d.s8b (4)"
)
WINDOW = plan(
    "Window (2)\n+- Scan parquet spark_catalog.d.s8 (1)",
    scan(1, "s8", 1),
    "(2) Window\nInput [2]: [k#1, v#2L]\nArguments: [lag(t#3, -1, :() windowspecdefinition(v#2L, k#1 ASC NULLS FIRST) "
    "AS n#5], [v#2L], [k#1 ASC NULLS FIRST]",
)
CASES = {
    **{f"{name} is unknown on a path": (join_over(name), ["join unknown"]) for name in MOVING},
    **{f"{name} moves nothing": (join_over(name), ["join sort-free"]) for name in KEEPING},
    "another engine's join": (COMET, ["join unknown"]),
    "another engine's stage": (
        plan("NativeStage (2)\n+- Scan parquet spark_catalog.d.s8 (1)", scan(1, "s8", 1)), ["other unknown"],
    ),
    "a partial aggregate of another engine": (
        plan(
            "HashAggregate (3)\n+- CometHashAggregate (2)\n   +- Scan parquet spark_catalog.d.s8 (1)",
            scan(1, "s8", 1),
            "(3) HashAggregate\nInput [1]: [k#1]\nKeys [1]: [k#1]\nFunctions: []\nAggregate Attributes: []\n"
            "Results [1]: [k#1]",
        ),
        ["distinct unknown", "aggregate unknown"],
    ),
    "a join with split skewed partitions": (
        plan(
            "SortMergeJoin(skew=true) Inner (5)\n:- Exchange (2)\n:  +- Scan parquet spark_catalog.d.s8 (1)\n"
            "+- Scan parquet spark_catalog.d.s8b (3)",
            scan(1, "s8", 1), exchange(2, "k#1"), scan(3, "s8b", 11),
            join(5, "k#1", "k#11", name="SortMergeJoin(skew=true)"),
        ),
        ["join one-sided"],
    ),
    "a reused broadcast is not a shuffle": (
        plan(
            "Union (9)\n:- BroadcastHashJoin Inner BuildRight (4)\n:  :- Scan parquet spark_catalog.d.s8 (1)\n"
            ":  +- BroadcastExchange (3)\n:     +- Scan parquet spark_catalog.d.plain (2)\n"
            "+- BroadcastHashJoin Inner BuildRight (7)\n   :- Scan parquet spark_catalog.d.s8b (5)\n"
            "   +- ReusedExchange (6)",
            scan(1, "s8", 1), scan(2, "plain", 11), "(3) BroadcastExchange\nInput [2]: [k#11, v#12L]",
            join(4, "k#1", "k#11", name="BroadcastHashJoin"), scan(5, "s8b", 21),
            "(6) ReusedExchange [Reuses operator id: 3]\nOutput [2]: [k#31, v#32L]",
            join(7, "k#21", "k#31", name="BroadcastHashJoin"),
        ),
        ["join broadcast"] * 2,
    ),
    "a window with a bracket in a literal": (WINDOW, ["window unknown"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "verdicts"), CASES.values(), ids=CASES)
def test_unrecognized_operator_is_unknown_instead_of_omitted_or_good(text: str, verdicts: list[str]) -> None:
    found = judged(text)
    assert [f"{result.kind} {result.verdict.value}" for result in found] == verdicts
    # Without a shuffle, check counts no Exchanges. If an operator is unknown, check gives no reasons.
    assert not any(result.exchanges for result in found if result.verdict.value in ("sort-free", "broadcast"))
    assert not any(result.findings for result in found if result.verdict.value != "one-sided")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (COMET, "Inner (not a Spark operator: CometExchange, CometScan, CometSortMergeJoin)"),
        (WINDOW, "(its keys cannot be parsed)"),
    ],
)
def test_description_states_why_an_operator_is_unknown(text: str, why: str) -> None:
    assert judged(text)[0].description.endswith(why)


@pytest.mark.parametrize("name", ["TakeOrderedAndProject", "CollectLimit"])
def test_limit_that_collects_rows_without_an_exchange_is_a_shuffle(name: str) -> None:
    text = plan(
        f"HashAggregate (3)\n+- {name} (2)\n   +- Scan parquet spark_catalog.d.s8 (1)",
        scan(1, "s8", 1), f"(2) {name}\nInput [2]: [k#1, v#2L]\nArguments: 10, [v#2L ASC NULLS FIRST], [k#1, v#2L]",
        "(3) HashAggregate\nInput [2]: [k#1, v#2L]\nKeys [1]: [k#1]\nFunctions [1]: [count(1)]\n"
        "Aggregate Attributes [1]: [count(1)#7L]\nResults [2]: [k#1, count(1)#7L AS n#8L]",
    )  # fmt: skip
    (group,) = judged(text)
    assert (group.verdict.value, group.exchanges) == ("shuffled", 1)
    assert [finding.reason for finding in group.findings] == ["repartitioned-below"]
    assert "LIMIT collects the rows in one partition" in group.findings[0].message


def test_table_of_another_catalog_is_not_confused_with_a_table_of_the_session() -> None:
    text = plan(
        "SortMergeJoin Inner (5)\n:- Exchange (2)\n:  +- BatchScan ice.d.s8 (1)\n+- Scan parquet spark_catalog.d.s8b (3)",
        "(1) BatchScan ice.d.s8\nOutput [2]: [k#1, v#2L]", exchange(2, "k#1"), scan(3, "s8b", 11), join(5, "k#1", "k#11"),
    )  # fmt: skip
    assert parse_plan(text).tables == ("ice.d.s8", "d.s8b")
    (found,) = judged(text)
    assert [finding.reason for finding in found.findings] == ["side-not-bucketed"]


def test_join_without_a_clause_does_not_get_another_join_s_line() -> None:
    text = plan(
        "SortMergeJoin Inner (9)\n:- SortMergeJoin LeftSemi (5)\n:  :- Scan parquet spark_catalog.d.s8 (1)\n"
        ":  +- Sort (4)\n:     +- Exchange (3)\n:        +- Scan parquet spark_catalog.d.plain (2)\n"
        "+- Sort (8)\n   +- Exchange (7)\n      +- Scan parquet spark_catalog.d.s16 (6)",
        scan(1, "s8", 1), scan(2, "plain", 11), exchange(3, "k#11"), sort(4, "k#11"), join(5, "k#1", "k#11", "LeftSemi"),
        scan(6, "s16", 21), exchange(7, "k#21"), sort(8, "k#21"), join(9, "k#1", "k#21"),
    )  # fmt: skip
    sql = "select *\nfrom s8\njoin s16\n  on s8.k = s16.k\nwhere s8.k in (select k from plain)\n"
    findings = [finding for result in judged(text, sql) for finding in result.findings]
    assert findings and {finding.line for finding in findings} == {None}


def test_nested_reused_exchanges_are_visited_once() -> None:
    levels = 40
    tree, details = [f"Scan parquet spark_catalog.d.s8 ({4 * levels + 1})"], [scan(4 * levels + 1, "s8", 1)]
    for level in range(levels):
        top, left, right = 4 * level + 1, 4 * level + 2, 4 * level + 3
        inner = [("   " if i else "+- ") + line for i, line in enumerate(tree)]
        tree = [
            f"Union ({top})",
            f":- Exchange ({left})",
            *(":  " + line for line in inner),
            f"+- ReusedExchange ({right})",
        ]
        details += [
            exchange(left, "k#1"),
            f"({right}) ReusedExchange [Reuses operator id: {left}]\nOutput [2]: [k#{100 * level}, v#{100 * level + 1}L]",
        ]
    found = parse_plan(plan("\n".join(tree), *details))
    assert sum(1 for _ in found.walk()) == 3 * levels + 1
    query = Query(found, TABLES, Settings())
    assert judge(query) == ()
    # Visiting each operator for each of its readers would take 2**40 steps.
    assert calls(lambda: judge(query)) < 20_000


def chain(joins: int) -> str:
    """Return a left-deep plan that joins many tables."""
    details, lines, key, number = [scan(1, "s8", 1)], ["Scan parquet spark_catalog.d.s8 (1)"], "k#1", 1
    for i in range(joins):
        right, moved, top, first = number + 1, number + 2, number + 3, 1000 + 10 * i
        lines = [
            f"SortMergeJoin Inner ({top})",
            *((":- " if j == 0 else ":  ") + line for j, line in enumerate(lines)),
            f"+- Exchange ({moved})",
            f"   +- Scan parquet spark_catalog.d.plain ({right})",
        ]
        details += [scan(right, "plain", first), exchange(moved, f"k#{first}"), join(top, key, f"k#{first}")]
        number = top
    return plan("\n".join(lines), *details)


def judged_chain(joins: int) -> tuple[OperatorResult, ...]:
    sql = "select * from s8" + "".join(f"\njoin plain p{i} on s8.k = p{i}.k" for i in range(joins))
    return judge(Query(parse_plan(chain(joins)), TABLES, Settings(), sql))


def test_plans_with_thousands_of_operators_are_judged() -> None:
    found = judged_chain(800)
    assert len(found) == 800 and {one.verdict.value for one in found} == {"one-sided"}
    # The time grows with the square of the joins, at most.
    assert calls(lambda: judged_chain(100)) < 4.2 * calls(lambda: judged_chain(50))
