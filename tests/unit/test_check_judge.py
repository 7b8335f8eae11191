"""Verdicts, findings, candidates and lines on plans that a real Spark printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_bucketing.check.judge import judge
from spark_bucketing.check.query import Query
from spark_bucketing.check.results import OperatorResult, Verdict
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan import Statistics, parse_plan
from spark_bucketing.spec import BucketHash, BucketSpec

NOTHING = ("", "")
PLANS = Path(__file__).parent / "plans"
COLUMNS = {"k": "int", "v": "bigint", "t": "string", "w": "bigint", "u": "bigint"}


def facts(name: str, buckets: int = 0, bucket_hash: BucketHash = "spark", **types: str) -> TableFacts:
    spec = BucketSpec(buckets, ("k",), ("k",), bucket_hash) if buckets else None
    return TableFacts(f"d.{name}", {**COLUMNS, **types}, spec, size_bytes=1000 * buckets or 7)


TABLES = {
    table.name: table
    for table in (
        facts("s8", 8), facts("s8b", 8), facts("s16", 16), facts("l8", 8, k="bigint"), facts("plain"),
        facts("h8", 8, "hive"), facts("h8b", 8, "hive"),
    )
}  # fmt: skip


def join_of(
    name: str, tables: dict[str, TableFacts] = TABLES, sql: str = "", changed: tuple[str, str] = NOTHING
) -> OperatorResult:
    """The only operator of a plan, in whose text a pattern is replaced."""
    text = re.sub(*changed, (PLANS / f"{name}.txt").read_text(), flags=re.M)
    (join,) = judge(Query(parse_plan(text), tables, Settings({"spark.sql.shuffle.partitions": "6"}), sql))
    return join


def test_bucket_counts_that_divide_are_a_matter_of_settings() -> None:
    join = join_of("bucket_counts")
    assert (join.verdict, join.exchanges, join.sorts) == (Verdict.ONE_SIDED, 1, 2)
    assert join.tables == ("d.s8", "d.s16")
    finding = join.findings[0]
    # Without Spark nothing is tried out, and what is not tried out is no fix.
    assert (finding.reason, finding.level, finding.fixes, finding.bytes_shuffled) == (
        "bucket-merging-off", "note", (), 8000,
    )  # fmt: skip
    candidates = join.findings[0].candidates
    assert [candidate.kind for candidate in candidates] == ["setting", "extension", "bucket_spec", "bucket_spec"]
    assert candidates[0].settings == {"spark.sql.bucketing.coalesceBucketsInJoin.enabled": "true"}


def test_bytes_are_of_the_columns_that_are_read_where_spark_tells_them() -> None:
    plan = parse_plan((PLANS / "bucket_counts.txt").read_text())
    column = next(node for node in plan.walk() if node.table == "d.s8").output or ()
    sizes = Statistics({"d.s8": 8000, "d.s16": 16000}, {column[0].id: ("d.s8", 300)})
    (join,) = judge(Query(plan, TABLES, Settings(), "", sizes))
    assert join.findings[0].bytes_shuffled == 300


def test_a_key_of_another_type_may_be_given_this_one() -> None:
    candidate = join_of("types").findings[0].candidates[0]
    assert (candidate.kind, candidate.table, candidate.column_types) == ("column_type", "d.s8", {"k": "bigint"})


def test_the_hive_layout_is_plain_to_stock_spark() -> None:
    join = join_of("hive_stock")
    assert {finding.reason for finding in join.findings} == {"hive-layout-without-extension"}
    candidate = join.findings[0].candidates[0]
    assert candidate.settings["spark.sql.extensions"] == EXTENSION_CLASS
    assert candidate.planned_settings == {"spark.bucketing.enabled": "true"}


@pytest.mark.parametrize(
    ("tables", "changed", "why"),
    [
        (TABLES, (r"\bSort(?= \(7\)$)|(?<=^\(7\) )Sort$", "CometSort"), "not an operator of Spark's: CometSort"),
        (TABLES, (r"Left keys \[1\]: \[k#35\]", "Left keys [1]: [f(k#35, a, (b)]"), "its keys cannot be read"),
        ({}, NOTHING, "Spark cannot describe d.s16, d.s8"),
        ({"d.s8": TABLES["d.s8"]}, NOTHING, "Spark cannot describe d.s16"),
    ],
)
def test_what_is_not_understood_is_unknown(tables: dict[str, TableFacts], changed: tuple[str, str], why: str) -> None:
    result = join_of("bucket_counts", tables, "", changed)
    assert (result.verdict, result.findings) == (Verdict.UNKNOWN, ())
    assert result.description.endswith(f"({why})")


def test_plain_tables_are_not_bucketed_on_purpose() -> None:
    result = join_of("bucket_counts", {name: facts(name[2:]) for name in ("d.s8", "d.s16")})
    assert (result.verdict, result.findings) == (Verdict.NOT_BUCKETED, ())


def test_tables_of_a_plan_are_those_of_subqueries_too() -> None:
    assert parse_plan((PLANS / "subqueries.txt").read_text()).tables == ("d.s8", "d.s16", "d.s8b")


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("-- join k\nselect *\nfrom s8\njoin s16\n  on s8.k = s16.k\nwhere t <> 'join' and s8.k > s16.k\n", 4),
        ("select * from s8\njoin plain as o on o.k = s8.k and o.v > s16.u\njoin d.s16 as p on p.k = s8.k", 3),
        # No line rather than a wrong one.
        ("select * from s8 join s16 on s8.k = s16.k\njoin s16 as o on o.k = s8.k", None),
        ("not ' sql", None),
        ("select 1", None),
    ],
)
def test_the_line_is_that_of_the_clause_with_the_operator_s_columns_and_table(sql: str, line: int | None) -> None:
    assert {finding.line for finding in join_of("bucket_counts", TABLES, sql).findings} == {line}
