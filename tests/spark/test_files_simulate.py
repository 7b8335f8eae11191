"""Tests that `files simulate` reproduces the rates in the article on small files, with Spark's hash."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark_bucketing.cli import main
from spark_bucketing.config.schema import KEYS
from spark_bucketing.organize.simulation import Shape, Spread, by_column_salted, simulate

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
