"""Tests that parse output of EXPLAIN FORMATTED from a real Spark, stored in tests/unit/plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_bucketing.errors import PlanError
from spark_bucketing.plan import PhysicalPlan, Statistics, parse_plan, parse_statistics
from spark_bucketing.plan.expression_lists import (
    Attribute,
    NamedExpression,
    attribute_of,
    attributes,
    canonical,
    elements,
    named_expression,
)

FOLDER = Path(__file__).parent / "plans"


def plan(name: str) -> PhysicalPlan:
    return parse_plan((FOLDER / f"{name}.txt").read_text())


def test_tree_has_operators_titles_numbers_and_children() -> None:
    join = plan("bucket_counts").roots[0].children[0]
    assert (join.operator, join.title, join.number) == ("SortMergeJoin", "Inner", 8)
    assert [node.number for node in join.walk()] == [8, 4, 3, 2, 1, 7, 6, 5]
    assert [node.table for node in join.walk() if node.table] == ["d.s8", "d.s16"]


def test_initial_plan_of_an_executed_plan_is_ignored() -> None:
    text = """== Physical Plan ==
AdaptiveSparkPlan (7)
+- == Final Plan ==
   ResultQueryStage (4)
   +- * Sort (3)
      +- Exchange (2)
         +- Scan parquet d.t (1)
+- == Initial Plan ==
   Sort (6)
   +- Exchange (5)
      +- Scan parquet d.t (1)
"""
    assert [node.number for node in parse_plan(text).walk()] == [7, 4, 3, 2, 1]


def test_cached_table_can_be_the_whole_plan() -> None:
    """Spark adds the kinds of input and output to a scan of a cached table, after the number."""
    text = """== Physical Plan ==
Scan In-memory table kept (1) (columnarIn=false, columnarOut=true)
   +- InMemoryRelation (2)
         +- HashAggregate (4)
            +- Scan parquet d.t (3)


(1) Scan In-memory table kept
Output [1]: [k#35]
"""
    found = parse_plan(text)
    assert [node.number for node in found.walk()] == [1, 2, 4, 3]
    (root,) = found.roots
    assert (root.title, root.table, found.tables) == ("In-memory table kept", None, ("d.t",))
    assert root.details == {"Output": "[k#35]"}


def test_details_are_read_by_key() -> None:
    join = plan("bucket_counts").roots[0].children[0]
    assert join.expressions("Left keys") == ("k#35",)
    exchange = next(node for node in join.walk() if node.operator == "Exchange")
    assert exchange.shuffle is not None
    assert (exchange.shuffle.kind, exchange.shuffle.keys, exchange.shuffle.partitions) == ("spark", ("#35",), 16)
    assert not exchange.shuffle.requested


def test_shuffles_of_the_extension_and_of_spark_are_distinguished() -> None:
    exchange = next(node for node in plan("hive_and_spark").walk() if node.operator == "Exchange")
    assert exchange.shuffle is not None
    assert exchange.shuffle.kind == "hive"


@pytest.mark.parametrize(("name", "scan"), [("subqueries", 19), ("subqueries_not_adaptive", 21)])
def test_subqueries_are_separate_trees_without_duplicates(name: str, scan: int) -> None:
    # Only the subquery reads this table.
    found = parse_plan((FOLDER / f"{name}.txt").read_text().replace(f"d.s16 ({scan})", f"d.inner ({scan})"))
    _, subquery = found.roots
    assert [node.table for node in subquery.walk() if node.table] == ["d.inner"]
    assert found.tables == ("d.s8", "d.s16", "d.s8b", "d.inner")


def test_every_operator_except_writes_has_an_output() -> None:
    for path in FOLDER.glob("*.txt"):
        if path.stem in ("cost", "insert"):
            continue
        assert [node.number for node in plan(path.stem).walk() if node.output is None] == [], path.stem


def test_odd_names_and_literals_are_parsed() -> None:
    scan = next(node for node in plan("odd_names").walk() if node.table == "d.plain")
    assert [column.name for column in scan.output or ()] == ["k", "p", "ts", "odd, (name"]


def test_ambiguous_list_is_unknown_instead_of_wrong() -> None:
    project = next(node for node in plan("insert").walk() if node.operator == "Project")
    assert project.output is None


def test_line_inside_a_literal_is_not_an_operator() -> None:
    text = (FOLDER / "bucket_counts.txt").read_text().replace("isnotnull(k#35)", "(t#37 = \n\nSort (3)\n)")
    (root,) = parse_plan(text).roots
    assert [node.number for node in root.walk()] == [9, 8, 4, 3, 2, 1, 7, 6, 5]


@pytest.mark.parametrize(
    ("label", "table"),
    [
        ("Scan parquet spark_catalog.d.t", "d.t"),
        ("Scan parquet spark_catalog.d.odd name", "d.odd name"),
        ("Scan parquet ", None),
        ("Scan JDBCRelation((select a.b from c) x) [numPartitions=1]", None),
        ("Scan JDBCRelation(c) [numPartitions=1] spark_catalog.d.t", "d.t"),
        ("BatchScan ice.d.t", "ice.d.t"),
        ("BatchScan parquet file:/a/b.c", None),
    ],
)
def test_tables_are_distinguished_from_other_scan_sources(label: str, table: str | None) -> None:
    assert parse_plan(f"== Physical Plan ==\n{label} (1)\n").roots[0].table == table


@pytest.mark.parametrize("name", ["cv", "spark_catalog.d.cv"])
def test_cached_plan_is_the_child_of_a_scan_without_a_table(name: str) -> None:
    text = (FOLDER / "cached.txt").read_text().replace("table cv", f"table {name}")
    scan = next(node for node in parse_plan(text).walk() if node.title.startswith("In-memory"))
    assert scan.table is None
    assert [node.table for node in scan.walk() if node.table] == ["d.s8"]


def test_reused_exchange_has_the_plan_that_it_reuses() -> None:
    join = next(node for node in plan("reused").walk() if node.operator == "SortMergeJoin")
    reused = next(node for node in join.walk() if node.operator == "ReusedExchange")
    assert [node.table for node in reused.walk() if node.table] == ["d.plain"]
    assert {column.id for column in reused.output or ()}.isdisjoint(
        column.id for column in reused.children[0].output or ()
    )


@pytest.mark.parametrize("text", ["", "== Parsed Logical Plan ==\nnothing", "== Physical Plan ==\n\n"])
def test_text_without_a_plan_is_an_error(text: str) -> None:
    with pytest.raises(PlanError):
        parse_plan(text)


def test_table_sizes_are_read_from_explain_cost() -> None:
    found = parse_statistics((FOLDER / "cost.txt").read_text())
    assert found.tables["d.s16"] == int(1.5 * 1024**3)
    assert parse_statistics("nothing of the kind") == Statistics()


COST = """== Optimized Logical Plan ==
Join Inner, (k#1 = k#4), Statistics(sizeInBytes=8.0 EiB)
:- Project [k#1, concat(t#3, x) AS s#9], Statistics(sizeInBytes=2.0 KiB)
:  +- Filter (isnotnull(k#1) AND (k#1 > scalar-subquery#7 [])), Statistics(sizeInBytes=8.0 KiB)
:     :  +- Aggregate [max(k#11) AS m#12], Statistics(sizeInBytes=16.0 B, rowCount=1)
:     :     +- Relation spark_catalog.d.t[k#11,v#12L,t#13] parquet, Statistics(sizeInBytes=8.0 KiB)
:     +- Relation spark_catalog.d.t[k#1,v#2L,t#3] parquet, Statistics(sizeInBytes=8.0 KiB)
+- Filter isnotnull(k#4), Statistics(sizeInBytes=4.0 KiB)
   +- Relation d.u[k#4,w#5L] parquet, Statistics(sizeInBytes=4.0 KiB, rowCount=7)

== Physical Plan ==
SortMergeJoin [k#1], [k#4], Inner
"""


def test_size_of_each_scan_is_read_up_to_the_first_operator() -> None:
    reads = parse_statistics(COST).reads
    assert reads == {
        **dict.fromkeys((1, 2, 3), 2048),
        **dict.fromkeys((4, 5), 4096),
        **dict.fromkeys((11, 12, 13), 8192),
    }
    huge = parse_statistics(COST.replace("8.0 KiB", "8.0 EiB"))
    assert set(huge.tables) == {"d.u"} and set(huge.reads) == {4, 5}
    # Spark assumes this size for a table of unknown size.
    assert parse_statistics(COST.replace("8.0 KiB", "1024.0 PiB")) == huge


@pytest.mark.parametrize(
    ("text", "number", "found"),
    [
        ("[coalesce(k#1, 0), isnull(k#1)]", 2, ("coalesce(k#1, 0)", "isnull(k#1)")),
        ("[a, (b#1, c#2]", 2, None),
        ("[a)], [(b]", 2, None),
        ("[]", 0, ()),
    ],
)
def test_list_elements_are_split_by_brackets_and_counted(text: str, number: int, found: tuple[str, ...] | None) -> None:
    assert elements(text, number) == found


def test_attribute_names_may_contain_commas() -> None:
    assert attributes("[k#1, odd, (name#2L]", 2) == (Attribute("k", 1), Attribute("odd, (name", 2))
    assert attributes("[k#1, k#2]", 3) is None


def test_only_a_whole_text_is_an_attribute() -> None:
    found = {text: attribute_of(text) for text in ("k#12L", "upper(k#12)", "a#1 = b#2")}
    assert found == {"k#12L": Attribute("k", 12), "upper(k#12)": None, "a#1 = b#2": None}


def test_select_lists_have_names_and_canonical_expressions_do_not() -> None:
    made = NamedExpression(Attribute("kk", 2), "cast(#1 as bigint)")
    assert named_expression("cast(k#1 as bigint) AS kk#2L") == made and named_expression("1") is None
    assert (canonical("k#12L"), canonical("(d.t.k#12 + 1)")) == ("#12", "(#12 + 1)")
