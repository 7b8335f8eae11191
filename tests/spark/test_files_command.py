"""Tests that `files plan` predicts the files of a run, and that `files simulate` reproduces an article."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import Any

import pytest
from click.testing import CliRunner
from commands import command
from pyspark.sql import SparkSession
from test_organized_table import SKEWED, TABLE, rows_of_files

from conftest import Project
from spark_bucketing.cli import main
from spark_bucketing.config.schema import KEYS
from spark_bucketing.organize.simulation import Shape, Spread, by_column_salted, simulate


def plan_files(project: Project, *arguments: str) -> dict[str, Any]:
    result = command(project, "files", "plan", *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)
    return data


@pytest.mark.parametrize(
    "sizes",
    [
        [{"rows_per_file": 60}, {"target_file_size": "1KiB"}],
        pytest.param([{"num_files": 9}, {"files_per_partition": 18}], marks=pytest.mark.long),
    ],
    ids=["size of a file", "number of files"],
)
def test_plan_predicts_the_files_of_a_run(project: Project, sizes: list[dict[str, Any]]) -> None:
    for size in sizes:
        project.keeps_artifacts = True
        project.model("m", SKEWED, **TABLE, partition_by=["ds"], **size)
        if "target_file_size" in size:
            result = command(
                project, "files", "plan", "m", "--manifest", str(project.folder / "target" / "manifest.json")
            )
            assert result.exit_code == 0
        plan = plan_files(project, "m")
        project.dbt("run")
        found = {key: len(files) for key, files in rows_of_files(project, "m", "ds").items()}
        assert {one["values"]["ds"]: one["files"] for one in plan["partitions"]} == found, size
        assert (plan["files"], plan["rows"], plan["setting"]) == (sum(found.values()), 900, next(iter(size)))
    assert plan["measured"]["rows"] == 900 and plan["bytes"] == plan["measured"]["bytes"]


def test_plan_explains_the_numbers_of_files_of_any_model(project: Project) -> None:
    project.model("m", SKEWED + "-- the end", materialized="table", partition_by="ds")
    said = command(project, "files", "plan", "m", "--target-file-size", "1KiB", "--bytes-per-row", "8").output
    assert "m: 9 files for 900 rows in 3 partitions, about 7.0 KiB" in said
    assert "target_file_size = 1.0 KiB, set by a command option" in said
    assert "bytes per row: 8, from --bytes-per-row" in said and "rows per file: 128" in said
    lines = {" ".join(line.split()) for line in said.splitlines()}
    assert {"a b 700 6 117 936 bytes", "null 183 2 92 736 bytes"} <= lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m"], "Model `m` has an invalid `target_file_size`"),
        (["m", "--num-files", "2", "--rows-per-file", "3"], "rows_per_file and num_files"),
        (["m", "--target-file-size", "1MiB"], "--bytes-per-row"),
        (["nope", "--num-files", "2"], "The project has no model `nope`"),
        (["broken", "--num-files", "2"], "nowhere"),
    ],
)
@pytest.mark.some(2)
def test_model_that_cannot_be_planned_gets_an_error(project: Project, arguments: list[str], message: str) -> None:
    project.model("m", "select 1 as k", materialized="view")
    project.model("broken", "select * from nowhere", materialized="table")
    result = command(project, "files", "plan", *arguments)
    assert result.exit_code == 2 and message in result.output and "Traceback" not in result.output


@pytest.mark.long
def test_plan_of_a_table_with_ranges_predicts_the_files_of_a_run(project: Project) -> None:
    """NULLs in the range column have a separate file; '' and NULL in an implicit partition column are different."""
    rows = "select if(id < 300, null, id) as o, if(id % 3 = 0, '', if(id % 3 = 1, null, 'x')) as s from range(600)"
    config = {**TABLE, "range_by": "o", "implicit_partition_by": "s", "rows_per_file": 30}
    project.model("m", rows, **config)
    plan = plan_files(project, "m")
    project.dbt("run")
    assert (
        plan["files"] == 15 and len([path for path in project.files("m") if path.parts[0] != "_file_statistics"]) == 15
    )
    project.model("n", rows, **{**config, "rows_per_file": None}, range_boundaries_from="m")
    result = command(project, "files", "plan", "n")
    assert (
        result.exit_code == 2 and "`range_boundaries_from`" in result.output and "--target-file-size" in result.output
    )


# Tests of `files simulate`, with Spark's hash.

YEAR = Shape(365, 5)
SCALES = [0.25, 0.5, 1, 2, 3, 5, 10]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Callable[[str], Sequence[Mapping[str, Any]]]:
    return lambda query: [row.asDict() for row in spark.sql(query).collect()]


@pytest.fixture(scope="module")
def year(rows: Callable[[str], Sequence[Mapping[str, Any]]]) -> Mapping[str, Spread]:
    """Return a year of daily partitions with five files each, as in the article."""
    return simulate(YEAR, rows)


def test_rates_at_scale_one_match_the_article(year: Mapping[str, Spread]) -> None:
    salted = year["by_column_salted"]
    assert salted.efficiency == pytest.approx(0.632, abs=0.006)
    assert salted.collisions == pytest.approx(0.418, abs=0.006)
    assert salted.serious_collisions == pytest.approx(0.127, abs=0.006)
    # Some tasks have several times the expected number of rows, up to eight times in the article.
    assert 5 < salted.largest < 9


def test_rates_follow_the_distribution_at_any_scale(rows: Callable[[str], Sequence[Mapping[str, Any]]]) -> None:
    for scale, spread in by_column_salted(YEAR, SCALES, rows).items():
        mean = 1 / scale
        none, one, two = (exp(-mean) * factor for factor in (1, mean, mean**2 / 2))
        assert spread.efficiency == pytest.approx(scale * (1 - none), abs=0.01)
        assert spread.collisions == pytest.approx(1 - one / (1 - none), abs=0.012)
        assert spread.serious_collisions == pytest.approx(1 - (one + two) / (1 - none), abs=0.012)


def test_exact_strategy_has_no_collision_and_no_idle_task(year: Mapping[str, Spread]) -> None:
    exact = year["exact"]
    assert (exact.efficiency, exact.collisions, exact.files, exact.largest, exact.tasks) == (1, 0, 1825, 1, 1825)


def test_other_strategies_match_the_article(year: Mapping[str, Spread]) -> None:
    assert set(year) == set(KEYS["file_strategy"].choices)
    for scattered in (year["coalesce"], year["repartition"]):
        assert (scattered.efficiency, scattered.files) == (1, 1825 * 365)
    # One file per partition, so at most 365 of 1,825 tasks have rows.
    assert year["by_column"].files == 365 and year["by_column"].efficiency < 0.2 and year["by_column"].largest >= 10
    # Each distinct hash adds at most one file at a range boundary.
    assert 1825 < year["by_range"].files <= 1825 + 365 and year["by_range"].efficiency == 1


def test_single_file_needs_a_single_task(rows: Callable[[str], Sequence[Mapping[str, Any]]]) -> None:
    for spread in simulate(Shape(1, 1), rows).values():
        found = (spread.tasks, spread.files, spread.efficiency, spread.collisions, spread.largest)
        assert found == (1, 1, 1, 0, 1)


def test_command_reproduces_the_article(spark: SparkSession) -> None:
    text = CliRunner().invoke(main, ["files", "simulate", "--partitions", "365", "--files", "5", "--scale", "1"])
    assert text.exit_code == 0, text.output
    table = text.output.partition("by_column_salted with other scales")
    lines = {words[0]: words for line in "".join(table[::2]).splitlines() if (words := line.split())}
    assert lines["by_column_salted"][1:5] == ["1,825", "63.4%", "41.4%", "12.5%"]
    bars = {name: words[-1] for name, words in lines.items() if set(words[-1]) <= set("·█▓▒░")}
    assert bars["exact"] == "█" * 40
    # 36.6% of the tasks are idle; 37% have one file, 18% two, 6% three and 2% more.
    assert bars["by_column_salted"] == "·" * 15 + "█" * 15 + "▓" * 7 + "▒" * 2 + "░"
    assert all(len(bar) == 40 for bar in bars.values()) and bars["2"].count("·") == 24


def test_command_writes_json(spark: SparkSession) -> None:
    arguments = ["files", "simulate", "--partitions", "3", "--files", "1", "--scale", "4", "--format", "json"]
    data = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert data["strategies"]["exact"]["efficiency"] == 1 and data["partitions"] == 3
    assert [one["scale"] for one in data["by_column_salted"]] == sorted([*SCALES, 4])
    for one in data["by_column_salted"]:
        assert sum(one["tasks_by_files"]) == pytest.approx(one["tasks"])
