"""Tests of the reasons' documentation, of findings about a project as a whole, and of commands in suggested changes."""

from __future__ import annotations

import re
import shlex

import pytest
from plan_trees import SETTINGS

from conftest import REPOSITORY
from spark_bucketing.checks.changes import bucket, rewrite_files, rewrite_partitions
from spark_bucketing.checks.checked_query import BucketedScan, Settings
from spark_bucketing.checks.reasons import EVERY_REASON, REASONS, project_findings
from spark_bucketing.checks.reasons.project import ProjectFacts
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan.document import PlanNode, Scan, TableFacts
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.model import Column, Partition, Status, TableMetadata
from spark_bucketing.tables.partition_predicates import rewrite_command


def test_slugs_are_unique_and_every_slug_has_cases() -> None:
    slugs = [reason.slug for reason in EVERY_REASON]
    assert len(slugs) == len(set(slugs))
    cases = {path.stem for path in (REPOSITORY / "tests" / "cases").glob("*.yml")} - {"tables", "broadcast"}
    # Cases do not set a number of cores; a separate test covers tables with too few buckets for the cores.
    assert {reason.slug for reason in REASONS} - {"unexplained", "too-few-buckets"} == cases


HIVE = {"orders": BucketSpec(8, ("k",), ("k",), "hive")}
SPARK = {"orders": BucketSpec(8, ("k",), ("k",), "spark")}
LOADED = {"spark.sql.extensions": EXTENSION_CLASS, "spark.sql.shuffle.partitions": "6"}
CAPPED = {"spark.sql.files.maxRecordsPerFile": "10"}
WITHOUT = [("extension-not-loaded", "warning")]
WRONG = [("incorrect-results-bug", "error")]
DISABLING = [("incompatible-setting", "warning")]


@pytest.mark.parametrize(
    ("settings", "version", "specs", "expected"),
    [
        (LOADED, "4.3.0", HIVE, []),
        ({}, "4.3.0", SPARK, []),
        ({}, "4.3.0", HIVE, WITHOUT),
        (LOADED | {"spark.bucketing.enabled": "false"}, "4.3.0", HIVE, WITHOUT),
        (LOADED, "4.1.3", SPARK, WRONG),
        (LOADED, "4.1.4", SPARK, []),
        (LOADED, "4.2.0", SPARK, WRONG),
        (LOADED, "4.2.1", SPARK, []),
        (LOADED, "4.2.0", {}, []),
        (LOADED, "3.4.4", SPARK, [("unsupported-spark-version", "error")]),
        (LOADED | {"spark.sql.sources.bucketing.enabled": "false"}, "4.3.0", SPARK, DISABLING),
        (LOADED | {"spark.sql.sources.bucketing.enabled": "false"}, "4.3.0", {}, []),
        (LOADED | CAPPED, "4.3.0", HIVE, []),
        (LOADED | CAPPED | {"spark.bucketing.write.distribute": "false"}, "4.3.0", HIVE, DISABLING),
        (CAPPED, "4.3.0", SPARK, DISABLING),
        (LOADED | {"spark.sql.hive.convertMetastoreParquet": "false"}, "4.3.0", HIVE, DISABLING),
        (LOADED | {"spark.sql.hive.convertMetastoreParquet": "false"}, "4.3.0", SPARK, []),
    ],
)
def test_project_has_the_expected_findings(
    settings: dict[str, str], version: str, specs: dict[str, BucketSpec], expected: list[tuple[str, str]]
) -> None:
    assert [
        (finding.reason, finding.level)
        for finding in project_findings(ProjectFacts(Settings(SETTINGS | settings), version, specs))
    ] == expected


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
    assert (
        change.text
        == f"Run `{command}` to rewrite partition {column}={value} with 8 buckets by (k), sorted by (k), hash hive."
    )
    assert shlex.split(command)[-1] == change.where == predicate


def test_no_command_ends_with_a_full_stop() -> None:
    assert rewrite_command("db.`a b`", "true") == "spark-bucketing table rewrite 'db.`a b`'"
    whole = TableFacts("db.t", {}, HIVE["orders"])
    text = rewrite_files(
        BucketedScan(PlanNode(1, "Scan"), Scan("db.t"), whole, HIVE["orders"], Settings(SETTINGS))
    ).text
    assert re.search(r"`dbt run --full-refresh` ", text)


def test_no_table_is_bucketed_by_its_own_partition_column() -> None:
    assert bucket(table("ds", "a"), BucketSpec(8, ("ds",), ("ds",), "hive")) == ()
    assert bucket(table("ds", "a"), BucketSpec(8, ("k",), ("k", "ds"), "hive")) == ()
    assert bucket(table("ds", "a"), HIVE["orders"]) == ()
    (change,) = bucket(table("ds", "a"), BucketSpec(16, ("k",), ("k",), "hive"))
    assert change.text == "Bucket db.t with clustered_by=['k'], buckets=16, bucket_hash='hive'."
