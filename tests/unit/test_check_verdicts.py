"""Tests of verdicts, findings, fixes and their effects on artificial plans.

The plans contain operators of other engines, reuse exchanges, or have shapes that Spark does not produce in these tests.
"""

from __future__ import annotations

import cProfile
import shlex
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from case_tables import cases
from plan_trees import SETTINGS, broadcast, broadcast_join, built, exchange, join, plan, reused, scan, sort, union

from conftest import REPOSITORY
from spark_bucketing.advice.query_plans import required_layouts
from spark_bucketing.checks.changes import bucket, rewrite_files, rewrite_partitions
from spark_bucketing.checks.checked_query import BucketedScan, Query, Settings
from spark_bucketing.checks.checker import TimeLimit
from spark_bucketing.checks.reasons import EVERY_REASON, REASONS, project_findings
from spark_bucketing.checks.reasons.project import ProjectFacts
from spark_bucketing.checks.results import Finding, Fix, ModelResult, OperatorResult, OtherQuery, Verdict
from spark_bucketing.checks.verdicts import judge, required_specs, serves_all, with_effects, worse_for
from spark_bucketing.errors import PlanError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan.document import PhysicalPlan, PlanCounts, PlanNode, Scan, TableFacts
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.metadata import Column, Partition, Status, TableMetadata
from spark_bucketing.tables.rewrite import rewrite_command

COLUMNS = {"k": "int", "v": "bigint", "t": "string", "w": "bigint", "u": "bigint"}
BUCKETS = {"d.s8": 8, "d.s8b": 8, "d.s16": 16, "d.plain": 0, "ice.d.s8": 0}
TABLES = {
    name: TableFacts(name, COLUMNS, BucketSpec(number, ("k",), ("k",), "spark") if number else None, (), 1000 * number)
    for name, number in BUCKETS.items()
}


def judged(found: PhysicalPlan, tables: dict[str, TableFacts] = TABLES) -> tuple[OperatorResult, ...]:
    return judge(Query(found, tables, Settings(SETTINGS)))


def join_of_counts(tables: dict[str, TableFacts] = TABLES, sort_name: str = "Sort", **of_s8: int) -> OperatorResult:
    """Return the join of tables with different bucket counts."""
    left = sort("k", exchange("k", scan("s8", 1, **of_s8), 16))
    right = sort("k", scan("s16", 11), "sort" if sort_name == "Sort" else "unknown", sort_name)
    (result,) = judged(plan(join("k", "k", left, right)), tables)
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
    result = join_of_counts(tables, sort_name)
    assert (result.verdict, [found.level for found in result.findings]) == (Verdict.UNKNOWN, ["unknown"])
    assert result.description.endswith(f"({why})") and result.description in result.findings[0].message


@cases("plans/verdicts", tree=..., operators=..., said="")
def test_operators_of_a_plan_have_the_expected_verdicts_and_findings(
    tree: list[Any], operators: list[list[str]], said: str
) -> None:
    found = judged(plan(built(tree)))
    assert [
        [f"{one.kind} {one.verdict.value} {one.exchanges} {one.sorts}"]
        + [f"{finding.reason} {finding.bytes_shuffled}" for finding in one.findings]
        for one in found
    ] == operators
    text = "".join(part for one in found for part in (one.description, *(finding.message for finding in one.findings)))
    assert said in text and "ReusedExchange" not in text


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
    assert judged(found) == ()
    # Visiting each operator for each of its readers would take 2**40 steps.
    assert calls(lambda: judged(found)) < 20_000


def test_plans_with_thousands_of_operators_are_judged() -> None:
    chains = {}
    for joins in (50, 100, 800):
        node = scan("s8", 1)
        for first in range(1000, 1000 + 10 * joins, 10):
            node = join("k", "k", node, exchange("k", scan("plain", first)), "LeftSemi")
        chains[joins] = plan(node)
    found = judged(chains[800])
    assert len(found) == 800 and {one.verdict.value for one in found} == {"one-sided"}
    # The time grows with the square of the joins, at most.
    assert calls(lambda: judged(chains[100])) < 4.2 * calls(lambda: judged(chains[50]))


# select x.v, y.v from s8 x join s8 y on x.v = y.v
MOVED = exchange("v", scan("s8", 1, read_bytes=100))
SELF_JOIN = join("v", "v", sort("v", MOVED), sort("v", reused(MOVED, 11)))


def test_reused_exchange_counts_once_and_hides_no_table() -> None:
    (one,) = required_layouts("q", plan(SELF_JOIN))
    of_sides = [(side.table, side.keys, side.shuffled, side.sorted) for side in one.sides]
    assert of_sides == [("d.s8", ("v",), 100, 100), ("d.s8", ("v",), 0, 100)]
    small = broadcast(scan("plain", 11))
    first = broadcast_join("k", "k", scan("s8", 1), small)
    second = broadcast_join("k", "k", scan("s8b", 21), reused(small, 31))
    (one,) = required_layouts("q", plan(join("v", "v", exchange("v", first), exchange("v", second))))
    assert [side.table for side in one.sides] == ["d.s8", "d.s8b"]


def test_slugs_are_unique_and_every_slug_has_cases() -> None:
    slugs = [reason.slug for reason in EVERY_REASON]
    assert len(slugs) == len(set(slugs))
    cases = {path.stem for path in (REPOSITORY / "tests" / "cases").glob("*.yml")} - {"tables", "broadcast"}
    # Cases do not set a number of cores; a separate test covers tables with too few buckets for the cores.
    assert {reason.slug for reason in REASONS} - {"unexplained", "too-few-buckets"} == cases


HIVE = {"orders": BucketSpec(8, ("k",), ("k",), "hive")}
SPARK = {"orders": BucketSpec(8, ("k",), ("k",), "spark")}
LOADED = {"spark.sql.extensions": EXTENSION_CLASS, "spark.sql.shuffle.partitions": "6"}


@cases("project/findings", loaded=True, settings={}, version="4.3.0", layout=None, findings=[])
def test_project_has_the_expected_findings(
    loaded: bool, settings: dict[str, str], version: str, layout: str | None, findings: list[str]
) -> None:
    found = Settings(SETTINGS | (LOADED if loaded else {}) | settings)
    specs = {None: {}, "hive": HIVE, "spark": SPARK}[layout]
    facts = ProjectFacts(found, version, specs)
    assert [f"{one.reason} {one.level}" for one in project_findings(facts)] == findings


def test_sources_without_columns_are_one_finding() -> None:
    facts = ProjectFacts(Settings(LOADED), "4.3.0", {}, tuple(f"source `{name}`" for name in "abcde"), False)
    (finding,) = project_findings(facts)
    assert (finding.reason, finding.level) == ("unknown-columns", "note")
    assert "source `a`, source `b`, source `c` and 2 more" in finding.message and "no catalog.json" in finding.message


def table(column: str, *values: str) -> TableFacts:
    parts = tuple(Partition(f"{column}={value}", (value,), f"file:/t/{value}", Status.NOT_SEALED) for value in values)
    partitions = TableMetadata("db.t", HIVE["orders"], (Column(column, "string"),), parts)
    return TableFacts("db.t", {}, HIVE["orders"], (column,), partitions=partitions)


@pytest.mark.parametrize(
    ("column", "value", "quoted", "predicate"),
    [
        ("ds", "2024-01", "\"ds = '2024-01'\"", "ds = '2024-01'"),
        ("ds", "$HOME", """'ds = '"'"'\\u0024HOME'"'"''""", "ds = '\\u0024HOME'"),
        ("ds", "now!", """'ds = '"'"'now!'"'"''""", "ds = 'now!'"),
        ("a b", "x", """'`a b` = '"'"'x'"'"''""", "`a b` = 'x'"),
    ],
)
def test_rewrite_command_can_be_copied_into_a_shell(column: str, value: str, quoted: str, predicate: str) -> None:
    made = table(column, value, "zzz")
    assert made.partitions is not None
    change = rewrite_partitions(made.partitions, made.partitions.partitions[:1])
    command = f"spark-bucketing table rewrite db.t --where {quoted}"
    rewritten = f"rewrite partition {column}={value} with 8 buckets by (k), sorted by (k), hash hive"
    assert change.text == f"Run `{command}` to {rewritten}."
    assert shlex.split(command)[-1] == change.where == predicate


def test_no_command_ends_with_a_full_stop() -> None:
    assert rewrite_command("db.`a b`", "true") == "spark-bucketing table rewrite 'db.`a b`'"
    whole = TableFacts("db.t", {}, HIVE["orders"])
    scanned = BucketedScan(PlanNode(1, "Scan"), Scan("db.t"), whole, HIVE["orders"], Settings(SETTINGS))
    assert "`dbt run --full-refresh` " in rewrite_files(scanned).text


def test_no_table_is_bucketed_by_its_own_partition_column() -> None:
    for same in (BucketSpec(8, ("ds",), ("ds",), "hive"), BucketSpec(8, ("k",), ("k", "ds"), "hive"), HIVE["orders"]):
        assert bucket(table("ds", "a"), same) == ()
    (change,) = bucket(table("ds", "a"), BucketSpec(16, ("k",), ("k",), "hive"))
    assert change.text == "Bucket db.t with clustered_by=['k'], buckets=16, bucket_hash='hive'."


BY_K, BY_J = (BucketSpec(8, (name,), (name,), "hive") for name in "kj")
TABLE = TableFacts("s.t", {"k": "int", "j": "int"}, BY_K)
FIX = Fix("bucket_spec", "Bucket s.t by j.", table="s.t", spec=BY_J, before=PlanCounts(1, 1))


@dataclass
class FakeQuery:
    """A fake query whose plan has these Exchanges and Sorts, and different numbers after a change of the spec."""

    counts: PlanCounts
    changed: PlanCounts
    tables: dict[str, TableFacts] = field(default_factory=lambda: {"s.t": TABLE})

    def planned(self, changes: Any) -> FakeQuery:
        assert [(change.table, change.spec) for change in changes] == [("s.t", BY_J)]
        return replace(self, counts=self.changed)

    def forget(self) -> None:
        pass


def model(name: str, reason: str = "side-not-bucketed", kind: Any = "join", fix: Fix | None = FIX) -> ModelResult:
    finding = Finding(reason, "", ("s.t",), "warning" if fix else "note", (fix,) if fix else ())
    operator = OperatorResult(kind, "", Verdict.SHUFFLED, ("s.t",), 1, 1, (finding,))
    return ModelResult(name, f"{name}.sql", (operator,), unique_id=f"model.p.{name}")


def effects(first: ModelResult, *others: tuple[int, int]) -> Finding:
    queries: list[Any] = [(first, FakeQuery(PlanCounts(1, 1), PlanCounts()))]
    for i, (before, after) in enumerate(others):
        queries.append((model(f"other{i}", fix=None), FakeQuery(PlanCounts(before), PlanCounts(after))))
    (result,) = with_effects([first], queries)
    return result.operators[0].findings[0]


def test_fix_lists_its_effects_on_other_readers_of_the_table() -> None:
    (fix,) = effects(model("a"), (1, 0), (0, 1), (2, 2)).fixes
    expected = ("other0", PlanCounts(1), PlanCounts(0)), ("other1", PlanCounts(0), PlanCounts(1))
    assert fix.others == tuple(OtherQuery(*one) for one in expected) and worse_for(fix) == ("other1",)
    # A query that Spark can no longer plan is worse.
    lost = replace(FIX, others=(OtherQuery("b", PlanCounts(), None),))
    assert worse_for(lost) == ("b",) and serves_all(lost)
    assert not serves_all(replace(lost, others=lost.others * 2))


@pytest.mark.parametrize(
    ("others", "level"), [((), "warning"), (((0, 1),), "warning"), (((0, 1), (0, 1)), "note"), (((1, 0),), "warning")]
)
def test_grouping_by_too_few_columns_is_a_warning_only_if_the_project_gains(
    others: tuple[tuple[int, int], ...], level: str
) -> None:
    found = effects(model("a", "keys-miss-bucket-column", "aggregate"), *others)
    # With the same number of Exchanges, Sorts decide.
    assert found.level == level and bool(found.fixes) is (level == "warning")
    assert effects(model("a"), *others).level == "warning"


def test_tables_with_conflicting_requirements_are_listed() -> None:
    other = replace(FIX, spec=replace(BY_J, num_buckets=16), others=(OtherQuery("c", PlanCounts(1), PlanCounts()),))
    wanted = {f"clustered_by=['j'], buckets={n}, bucket_hash='hive'": by for n, by in ((16, ("b", "c")), (8, ("a",)))}
    assert required_specs([model("a"), model("b", fix=other)]) == {"s.t": wanted}
    assert required_specs([model("a"), model("b")]) == {}
    # The second change of a fix counts, too.
    second = replace(other, table="s.u", also=(other,))
    assert required_specs([model("a"), model("b", fix=second)])["s.t"].keys() == wanted.keys()


def test_errors_of_a_query_are_raised() -> None:
    assert TimeLimit(10).run(lambda is_late: is_late()) is False
    with pytest.raises(ZeroDivisionError):
        TimeLimit(10).run(lambda _: 1 // 0)


def test_no_query_starts_while_spark_still_runs_a_timed_out_query() -> None:
    limit, ended = TimeLimit(0.1), threading.Event()
    with pytest.raises(PlanError, match=r"longer than 0\.1 s"):
        limit.run(lambda _: ended.wait(60))
    for _ in range(2):
        with pytest.raises(PlanError, match="still busy with an earlier query"):
            limit.run(lambda _: pytest.fail("The task ran at the same time as the abandoned one."))
    ended.set()
    found, deadline = "busy", time.monotonic() + 60
    while found == "busy" and time.monotonic() < deadline:
        with suppress(PlanError):
            found = limit.run(lambda _: "free")
    assert found == "free"
