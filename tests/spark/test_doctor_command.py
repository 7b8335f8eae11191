"""Tests of `spark-bucketing doctor` on a real session."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
from commands import command
from spark_features import SPARK

from conftest import Project
from spark_bucketing.session import setting

RECORDS = "spark.sql.files.maxRecordsPerFile"


@pytest.mark.usefixtures("extension")
def test_doctor_finds_settings_that_break_buckets(project: Project) -> None:
    result = command(project, "doctor", "--format", "json")
    found = {one["subject"]: one for one in json.loads(result.stdout)["examined"]}
    assert result.exit_code == 0 and {one["state"] for one in found.values()} == {"ok"}, result.output
    spark = found["Spark"]["found"].partition(";")[0]
    assert spark.startswith(".".join(map(str, SPARK)))
    assert found["session extension"]["found"] == f"version {version('spark-bucketing')}, built for Spark {spark}"
    with setting(project.spark, RECORDS, "9"):
        result = command(project, "doctor")
    assert result.exit_code == 1 and f"wrong    {RECORDS}=9: Spark splits a bucket into several files" in result.stdout
    assert f"instead: set {RECORDS}=0, or remove the setting" in result.stdout
