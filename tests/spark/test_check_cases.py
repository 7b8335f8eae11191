"""Tests of all cases in tests/cases: the verdicts and reasons on a real Spark, and the verdict after each fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from bucketed_tables import settled
from check_cases import Checked, made
from pyspark.sql import SparkSession

from conftest import all_long_but

FOLDER = Path(__file__).parents[1] / "cases"


@dataclass(frozen=True)
class Case:
    """A query, and the expected result for each of its operators: `join one-sided: reason, reason`."""

    file: str
    name: str
    sql: str
    operators: tuple[str, ...]
    settings: dict[str, str]
    rewritten: str | None

    @property
    def reasons(self) -> set[str]:
        return {reason for text in self.operators for reason in text.partition(": ")[2].split(", ") if reason}


def _cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.yml")):
        if path.stem == "tables":
            continue
        for text in yaml.safe_load(path.read_text()):
            extension = str(text.get("extension", False)).lower()
            settings = {"spark.bucketing.enabled": extension, **text.get("settings", {})}
            yield Case(path.stem, text["name"], text["sql"], tuple(text["operators"]), settings, text.get("rewritten"))


CASES = tuple(_cases())


# A quick run tests only the first case of each file.
FILES = (
    "side-not-bucketed",
    "hive-layout-without-extension",
    "key-types-differ",
    "repartition",
    "scan-ordering-disabled",
)
QUICK = tuple(next(case for case in CASES if case.file == file) for file in FILES)
# It also plans the first case of each reason over hypothetical tables.
FIRST_OF_EACH = tuple({case.file: case for case in reversed(CASES)}.values())


TABLES: dict[str, Any] = yaml.safe_load((FOLDER / "tables.yml").read_text())


def created(spark: SparkSession, database: str, tables: dict[str, Any]) -> Checked:
    checked = Checked(spark, database, {name: made(table) for name, table in tables.items()})
    checked.create()
    return checked


@pytest.fixture(scope="module")
def checked(spark: SparkSession) -> Checked:
    return created(spark, "check_cases", TABLES)


@pytest.fixture(scope="module")
def checked_version_2(spark: SparkSession, request: pytest.FixtureRequest) -> Checked:
    """Create the tables of the cases of this test run with bucketing version 2 instead of version 1."""
    items: list[Any] = [
        item for item in request.session.items if "checked_version_2" in getattr(item, "fixturenames", ())
    ]
    named = {word for item in items for word in re.findall(r"\w+", item.callspec.params["case"].sql)}
    version_2 = {"hive": {"hash": "hive2"}}
    tables = {name: TABLES[name] | version_2.get(TABLES[name].get("hash"), {}) for name in TABLES.keys() & named}
    return created(spark, "check_cases_v2", tables)


def _of_version_1(case: Case) -> bool:
    """Return whether a case reads tables in the Hive layout with the extension, but no table in version 2."""
    hashes = {TABLES[name].get("hash") for name in re.findall(r"\w+", case.sql) if name in TABLES}
    return "hive" in hashes and "hive2" not in hashes


# The check must understand every plan. A separate test covers sessions with many cores.
OTHERWISE = ("unexplained", "too-few-buckets")


def said(checked: Checked, case: Case, aqe: str) -> list[str]:
    """Return the result of `check` in the notation of the cases."""
    found = []
    for result in checked.judge(case.sql, {**case.settings, "spark.sql.adaptive.enabled": aqe}):
        reasons = ", ".join(sorted({finding.reason for finding in result.findings}))
        found.append(f"{result.kind} {result.verdict.value}" + (f": {reasons}" if reasons else ""))
    return found


@pytest.mark.parametrize("aqe", ["true", pytest.param("false", marks=pytest.mark.long)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}: {case.name}")
@pytest.mark.some(40)
def test_check_reports_the_expected_verdicts_and_reasons(checked: Checked, case: Case, aqe: str) -> None:
    assert said(checked, case, aqe) == list(case.operators)


@pytest.mark.parametrize(
    "case", [case for case in CASES if _of_version_1(case)], ids=lambda case: f"{case.file}: {case.name}"
)
@pytest.mark.some(6)
def test_check_reports_the_same_for_bucketing_version_2(checked_version_2: Checked, case: Case) -> None:
    filled = [text.removesuffix(": empty-buckets") for text in case.operators]  # version 2 fills all buckets
    assert said(checked_version_2, case, "true") == filled


# EXPLAIN shows which exchanges Spark reuses only without adaptive execution.
@pytest.mark.parametrize("aqe", ["false", pytest.param("true", marks=pytest.mark.long)])
@pytest.mark.parametrize("case", all_long_but(FIRST_OF_EACH, CASES), ids=lambda case: f"{case.file}: {case.name}")
@pytest.mark.some(10)
def test_hypothetical_tables_that_change_nothing_change_no_plan(checked: Checked, case: Case, aqe: str) -> None:
    live, hypothetical = checked.counts(case.sql, {**case.settings, "spark.sql.adaptive.enabled": aqe})
    assert hypothetical == live


def test_sort_above_an_aggregate_of_buckets_that_one_task_reads_is_explained(checked: Checked) -> None:
    """The aggregate does not need sorted rows, so its scan does not merge the files of several buckets."""
    sql = "select * from (select k, count(*) as n from h8_full group by k) as a join h8b on a.k = h8b.k"
    settings = {"spark.bucketing.enabled": "true", "spark.bucketing.read.partitionBytes": "64MB"}
    expected = ("join shuffle-free: ordering-not-preserved", "aggregate sort-free")
    assert said(checked, Case("", "", sql, expected, settings, None), "true") == list(expected)


def test_table_that_the_reader_of_hive_reads_is_explained(checked: Checked) -> None:
    settings = {"spark.bucketing.enabled": "true", "spark.sql.hive.convertMetastoreParquet": "false"}
    expected = ("aggregate shuffled: unsupported-bucket-column",)
    sql = "select k, count(*) from h8 group by k"
    assert said(checked, Case("", "", sql, expected, settings, None), "true") == list(expected)


TWICE = "select x.n, y.n from grouped x join grouped y on x.v = y.v"
SUBQUERY = "select v from s8 where v > (select max(v) from s8) and v < 2 * (select max(v) from s8)"


@pytest.mark.parametrize(("sql", "aqe"), [(TWICE, "false"), (SUBQUERY, "false")])
def test_cache_or_subquery_read_twice_counts_once(checked: Checked, sql: str, aqe: str) -> None:
    spark = checked.spark
    with settled(spark, {"spark.sql.adaptive.enabled": aqe, "spark.sql.autoBroadcastJoinThreshold": "-1"}):
        spark.sql(f"use {checked.database}")
        spark.sql("cache lazy table grouped as select v, count(*) as n from s8 group by v")
        try:
            plan = checked.planner.plan(sql)
        finally:
            spark.catalog.dropTempView("grouped")
    assert plan.counts.exchanges == 1
