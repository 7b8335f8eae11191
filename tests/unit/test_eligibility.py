"""Verdicts on plans that a real Spark printed, the reasons' documentation, and findings about a project as a whole."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Iterable
from pathlib import Path

import pytest

from spark_bucketing.eligibility import PROJECT_RULES, RULES, SETTINGS, judge, project_findings, tables_of
from spark_bucketing.eligibility.judging import Judged
from spark_bucketing.eligibility.model import OperatorResult, TableFacts, Verdict
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan import Statistics, parse_plan
from spark_bucketing.spec import BucketHash, BucketSpec

REPOSITORY = Path(__file__).parents[2]
PLANS = Path(__file__).parent / "plans"
COLUMNS = {"k": "int", "v": "bigint", "t": "string", "w": "bigint", "u": "bigint"}
LOADED = {"spark.sql.extensions": EXTENSION_CLASS, "spark.sql.shuffle.partitions": "6"}


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


def results(judged: Iterable[Judged]) -> tuple[OperatorResult, ...]:
    return tuple(found.result for found in judged)


def judged(name: str, settings: dict[str, str], sql: str | None = None) -> tuple[Judged, ...]:
    return judge(parse_plan((PLANS / f"{name}.txt").read_text()), TABLES, settings, sql)


def read(name: str, settings: dict[str, str], sql: str | None = None) -> tuple[OperatorResult, ...]:
    return results(judged(name, settings, sql))


def test_bucket_counts_that_divide_are_a_matter_of_settings() -> None:
    (found,) = judged("bucket_counts", {"spark.sql.shuffle.partitions": "6"})
    join = found.result
    assert join.verdict is Verdict.ONE_SIDED
    assert (join.exchanges, join.sorts, join.tables) == (1, 2, ("d.s8", "d.s16"))
    # Without Spark nothing is tried out, and what is not tried out is no fix.
    assert (join.findings[0].reason, join.findings[0].level, join.findings[0].fixes) == (
        "bucket-merging-off",
        "note",
        (),
    )
    assert join.findings[0].bytes_shuffled == 8000
    changes = found.changes[0]
    assert [change.kind for change in changes] == ["setting", "extension", "bucket_spec", "bucket_spec"]
    assert changes[0].settings == {"spark.sql.bucketing.coalesceBucketsInJoin.enabled": "true"}


def test_bytes_are_of_the_columns_that_are_read_where_spark_tells_them() -> None:
    plan = parse_plan((PLANS / "bucket_counts").with_suffix(".txt").read_text())
    column = next(node for node in plan.walk() if node.table == "d.s8").output or ()
    sizes = Statistics({"d.s8": 8000, "d.s16": 16000}, {column[0].id: ("d.s8", 300)})
    (join,) = results(judge(plan, TABLES, {"spark.sql.shuffle.partitions": "6"}, None, sizes))
    assert join.findings[0].bytes_shuffled == 300


def test_what_a_key_of_another_type_would_take() -> None:
    (join,) = judged("types", {"spark.sql.shuffle.partitions": "6"})
    change = join.changes[0][0]
    assert (change.kind, change.table, change.column_types) == ("column_type", "d.s8", {"k": "bigint"})


def test_the_hive_layout_is_plain_to_stock_spark() -> None:
    (join,) = judged("hive_stock", {"spark.sql.shuffle.partitions": "6"})
    assert {finding.reason for finding in join.result.findings} == {"hive-layout-without-extension"}
    assert join.changes[0][0].settings["spark.sql.extensions"] == EXTENSION_CLASS
    assert join.changes[0][0].planned_settings == {"spark.bucketing.enabled": "true"}


def test_other_engines_operators_are_unknown_and_never_good() -> None:
    text = (PLANS / "bucket_counts.txt").read_text()
    plan = parse_plan(
        re.sub(r"\bSort \(7\)|\(7\) Sort$", lambda found: found[0].replace("Sort", "CometSort"), text, flags=re.M)
    )
    (join,) = results(judge(plan, TABLES, {}))
    assert join.verdict is Verdict.UNKNOWN


def test_keys_that_cannot_be_read_are_unknown() -> None:
    text = (PLANS / "bucket_counts.txt").read_text().replace("Left keys [1]: [k#35]", "Left keys [1]: [f(k#35, a, (b)]")
    (join,) = results(judge(parse_plan(text), TABLES, {}))
    assert join.verdict is Verdict.UNKNOWN


def test_tables_of_a_plan_are_those_of_subqueries_too() -> None:
    assert tables_of(parse_plan((PLANS / "subqueries.txt").read_text())) == ("d.s8", "d.s16", "d.s8b")


def test_what_reads_a_table_that_nobody_could_describe_is_unknown() -> None:
    plan = parse_plan((PLANS / "bucket_counts.txt").read_text())
    for known in ({}, {"d.s8": TABLES["d.s8"]}):
        (join,) = results(judge(plan, known, {}))
        assert (join.verdict, join.findings) == (Verdict.UNKNOWN, ())
        assert "Spark cannot describe d.s16" in join.description
    (join,) = results(judge(plan, {name: facts(name[2:]) for name in ("d.s8", "d.s16")}, {}))
    assert (join.verdict, join.findings) == (Verdict.NOT_BUCKETED, ())


def test_lines_are_those_of_the_clause_with_the_operators_columns() -> None:
    sql = "-- join k\nselect *\nfrom s8\njoin s16\n  on s8.k = s16.k\nwhere t <> 'join' and s8.k > s16.k\n"
    assert {finding.line for finding in read("bucket_counts", {}, sql)[0].findings} == {4}


def test_of_joins_of_the_same_columns_the_line_is_that_which_names_the_table() -> None:
    sql = "select * from s8\njoin plain as o on o.k = s8.k and o.v > s16.u\njoin d.s16 as p on p.k = s8.k"
    assert {finding.line for finding in read("bucket_counts", {}, sql)[0].findings} == {3}


@pytest.mark.parametrize(
    "sql", ["select * from s8 join s16 on s8.k = s16.k\njoin s16 as o on o.k = s8.k", "not ' sql", "select 1"]
)
def test_no_line_rather_than_a_wrong_one(sql: str) -> None:
    assert {finding.line for finding in read("bucket_counts", {}, sql)[0].findings} == {None}


def test_slugs_are_unique_and_name_the_files() -> None:
    slugs = [*(reason.slug for reason in RULES), *(reason.slug for reason in PROJECT_RULES)]
    assert len(slugs) == len(set(slugs))
    assert {reason.slug for reason in RULES} == {
        path.stem.replace("_", "-")
        for path in (REPOSITORY / "python_plugin/src/spark_bucketing/eligibility/reasons").glob("*.py")
        if path.stem != "__init__"
    }


@pytest.mark.parametrize("reason", [*RULES, *PROJECT_RULES], ids=lambda reason: reason.slug)
def test_every_reason_is_documented(reason: object) -> None:
    text = inspect.getdoc(type(reason)) or ""
    assert text.splitlines()[0].endswith(".")
    assert text.index("**Anti-pattern**") < text.index("**Best practice**")


def test_the_page_of_reasons_is_current() -> None:
    script = runpy.run_path(str(REPOSITORY / "scripts" / "write_reasons.py"))
    assert script["TARGET"].read_text() == script["page"](), "run scripts/write_reasons.py"


HIVE = {"orders": BucketSpec(8, ("k",), ("k",), "hive")}
SPARK = {"orders": BucketSpec(8, ("k",), ("k",), "spark")}


@pytest.mark.parametrize(
    ("settings", "version", "specs", "expected"),
    [
        (LOADED, "4.3.0", HIVE, []),
        ({}, "4.3.0", SPARK, []),
        ({}, "4.3.0", HIVE, [("project-without-extension", "warning")]),
        (LOADED | {"spark.bucketing.enabled": "false"}, "4.3.0", HIVE, [("project-without-extension", "warning")]),
        (LOADED, "4.1.3", SPARK, [("spark-returns-wrong-rows", "error")]),
        (LOADED, "4.1.4", SPARK, []),
        (LOADED, "4.2.0", SPARK, [("spark-returns-wrong-rows", "error")]),
        (LOADED, "4.2.1", SPARK, []),
        (LOADED, "4.2.0", {}, []),
        (LOADED, "3.5.4", SPARK, [("spark-too-old", "error")]),
        (LOADED | {"spark.sql.sources.bucketing.enabled": "false"}, "4.3.0", SPARK, [("disabling-setting", "warning")]),
        (LOADED | {"spark.sql.files.maxRecordsPerFile": "10"}, "4.3.0", HIVE, [("disabling-setting", "warning")]),
        (
            LOADED | {"spark.sql.hive.convertMetastoreParquet": "false"},
            "4.3.0",
            HIVE,
            [("disabling-setting", "warning")],
        ),
        (LOADED | {"spark.sql.hive.convertMetastoreParquet": "false"}, "4.3.0", SPARK, []),
    ],
)
def test_a_project_as_a_whole(
    settings: dict[str, str], version: str, specs: dict[str, BucketSpec], expected: list[tuple[str, str]]
) -> None:
    assert [(finding.reason, finding.level) for finding in project_findings(settings, version, specs)] == expected


def test_all_settings_have_names() -> None:
    assert all(name.startswith("spark.") for name in SETTINGS)
