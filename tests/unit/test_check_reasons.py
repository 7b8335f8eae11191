"""Tests of the reasons' documentation, and of findings about a project as a whole."""

from __future__ import annotations

import pytest

from conftest import REPOSITORY
from spark_bucketing.check.reasons import EVERY_REASON, REASONS, project_findings
from spark_bucketing.check.reasons.session_and_versions import ProjectFacts
from spark_bucketing.check.session_settings import Settings
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.spec import BucketSpec


def test_slugs_are_unique_and_every_slug_has_cases() -> None:
    slugs = [reason.slug for reason in EVERY_REASON]
    assert len(slugs) == len(set(slugs))
    cases = {path.stem for path in (REPOSITORY / "tests" / "cases").glob("*.yml")} - {"tables", "broadcast"}
    # Cases do not set a number of cores; a separate test covers tables with too few buckets for the cores.
    assert {reason.slug for reason in REASONS} - {"unexplained", "too-few-buckets"} == cases


HIVE = {"orders": BucketSpec(8, ("k",), ("k",), "hive")}
SPARK = {"orders": BucketSpec(8, ("k",), ("k",), "spark")}
LOADED = {"spark.sql.extensions": EXTENSION_CLASS, "spark.sql.shuffle.partitions": "6"}
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
        (LOADED | {"spark.sql.files.maxRecordsPerFile": "10"}, "4.3.0", HIVE, DISABLING),
        (LOADED | {"spark.sql.hive.convertMetastoreParquet": "false"}, "4.3.0", HIVE, DISABLING),
        (LOADED | {"spark.sql.hive.convertMetastoreParquet": "false"}, "4.3.0", SPARK, []),
    ],
)
def test_project_has_the_expected_findings(
    settings: dict[str, str], version: str, specs: dict[str, BucketSpec], expected: list[tuple[str, str]]
) -> None:
    assert [
        (finding.reason, finding.level)
        for finding in project_findings(ProjectFacts(Settings(settings), version, specs))
    ] == expected
