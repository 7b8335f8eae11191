"""Tests that file counts and the effects of strategies match the figures in the article, and Spark's hash."""

from __future__ import annotations

import json
from fractions import Fraction
from math import exp

import pytest
from click.testing import CliRunner, Result

from spark_bucketing.cli import main
from spark_bucketing.config.schema import KEYS
from spark_bucketing.errors import ProjectError
from spark_bucketing.organize.file_counts import FileCount, files_of_partitions
from spark_bucketing.organize.file_plan import file_config
from spark_bucketing.organize.murmur3 import hash_of, hash_of_int, shuffle_keys, task_of
from spark_bucketing.organize.simulation import Shape, Spread, by_column_salted, simulate

YEAR = Shape(365, 5)


@pytest.fixture(scope="module")
def year() -> dict[str, Spread]:
    """Return a year of daily partitions with five files each, as in the article."""
    return dict(simulate(YEAR))


def test_hash_matches_spark() -> None:
    assert [hash_of(text) for text in ("", "abc", "é")] == [142593372, 1322437556, 2119106806]
    assert (hash_of_int(5), hash_of(5)) == (1023896466, 1607884268)
    assert hash_of(None, "abc", None) == hash_of("abc") and hash_of(None) == 42


@pytest.mark.parametrize("tasks", [1, 2, 7, 64, 365, 1825])
def test_each_task_has_its_own_key(tasks: int) -> None:
    assert [task_of(key, tasks) for key in shuffle_keys(tasks)] == list(range(tasks))


def test_rates_at_scale_one_match_the_article(year: dict[str, Spread]) -> None:
    salted = year["by_column_salted"]
    assert salted.efficiency == pytest.approx(0.632, abs=0.006)
    assert salted.collisions == pytest.approx(0.418, abs=0.006)
    assert salted.serious_collisions == pytest.approx(0.127, abs=0.006)
    # Some tasks have several times the expected number of rows, up to eight times in the article.
    assert 5 < salted.largest < 9


@pytest.mark.parametrize("scale", [0.25, 0.5, 1, 2, 3, 5, 10])
def test_rates_follow_the_distribution_at_any_scale(scale: float) -> None:
    spread, mean = by_column_salted(YEAR._replace(scale=scale)), 1 / scale
    none, one, two = (exp(-mean) * factor for factor in (1, mean, mean**2 / 2))
    assert spread.efficiency == pytest.approx(scale * (1 - none), abs=0.01)
    assert spread.collisions == pytest.approx(1 - one / (1 - none), abs=0.012)
    assert spread.serious_collisions == pytest.approx(1 - (one + two) / (1 - none), abs=0.012)


def test_exact_strategy_has_no_collision_and_no_idle_task(year: dict[str, Spread]) -> None:
    exact = year["exact"]
    assert (exact.efficiency, exact.collisions, exact.files, exact.largest, exact.tasks) == (1, 0, 1825, 1, 1825)


def test_other_strategies_match_the_article(year: dict[str, Spread]) -> None:
    for scattered in (year["coalesce"], year["repartition"]):
        assert (scattered.efficiency, scattered.files) == (1, 1825 * 365)
    # One file per partition, so at most 365 of 1,825 tasks have rows.
    assert year["by_column"].files == 365 and year["by_column"].efficiency < 0.2 and year["by_column"].largest >= 10
    # Each distinct hash adds at most one file at a range boundary.
    assert 1825 < year["by_range"].files <= 1825 + 365 and year["by_range"].efficiency == 1


@pytest.mark.parametrize("name", ["coalesce", "repartition", "by_column", "by_column_salted", "by_range", "exact"])
def test_single_file_needs_a_single_task(name: str) -> None:
    spread = simulate(Shape(1, 1))[name]
    assert (spread.tasks, spread.files, spread.efficiency, spread.collisions, spread.largest) == (1, 1, 1, 0, 1)


@pytest.mark.parametrize(
    ("setting", "value", "bytes_per_row", "files"),
    [
        ("rows_per_file", 60, None, [12, 4, 1]),
        ("rows_per_file", 10**9, None, [1, 1, 1]),
        ("rows_per_file", 1, None, [700, 183, 17]),
        ("target_file_size", 1000, Fraction(10), [7, 2, 1]),
        ("target_file_size", 5, Fraction(10), [700, 183, 17]),
        # Integer division rounds up: 3 rows have 10 bytes.
        ("target_file_size", 100, Fraction(10, 3), [24, 7, 1]),
        ("num_files", 9, None, [7, 2, 1]),
        ("files_per_partition", 20, None, [20, 20, 17]),
    ],
)
def test_file_count_depends_on_the_rows_of_each_partition(
    setting: str, value: int, bytes_per_row: Fraction | None, files: list[int]
) -> None:
    assert files_of_partitions(FileCount(setting, value), [700, 183, 17], bytes_per_row) == files


def test_every_strategy_is_simulated(year: dict[str, Spread]) -> None:
    assert set(year) == set(KEYS["file_strategy"].choices)


def test_table_without_partitions_has_no_files() -> None:
    assert files_of_partitions(FileCount("num_files", 4), []) == []
    with pytest.raises(ValueError, match="unknown"):
        files_of_partitions(FileCount("target_file_size", 4), [1])


@pytest.mark.parametrize(
    ("given", "partition_by", "message"),
    [
        ({}, ["p"], "found:    none of rows_per_file"),
        ({"num_files": 1, "target_file_size": 2}, ["p"], "found:    target_file_size and num_files"),
        ({"num_files": 0}, [], "an integer from 1 to 100,000"),
        ({"num_files": "8"}, [], "instead:  num_files=8"),
        ({"num_files": 100_001}, [], "an integer from 1 to 100,000"),
        ({"target_file_size": "128MB"}, [], "instead:  target_file_size='128MiB'"),
        ({"files_per_partition": 3}, [], "instead:  num_files=3"),
    ],
)
def test_invalid_file_count_is_an_error_that_names_the_model(
    given: dict[str, object], partition_by: list[str], message: str
) -> None:
    with pytest.raises(ProjectError, match="of model 'm'") as error:
        file_config({"partition_by": partition_by, **given}, {}, "m")
    assert message in str(error.value)


def test_options_override_the_number_of_files_of_any_model() -> None:
    config = {"clustered_by": ["k"], "buckets": "x", "num_files": 3, "materialized": "table", "file_format": "delta"}
    planned = file_config(config, {"target_file_size": 7}, "m")
    assert (planned["target_file_size"], planned["num_files"], planned["file_strategy"]) == (7, None, "exact")


def simulated(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["files", "simulate", *arguments])


def test_command_reproduces_the_article() -> None:
    arguments = ("--partitions", "365", "--files", "5", "--scale", "1")
    text = simulated(*arguments)
    assert text.exit_code == 0
    line = next(line for line in text.output.splitlines() if line.startswith("by_column_salted "))
    assert line.split()[1:5] == ["1,825", "63.4%", "41.4%", "12.5%"]
    data = json.loads(simulated(*arguments, "--format", "json").output)
    assert data["strategies"]["exact"]["efficiency"] == 1 and data["partitions"] == 365
    assert [one["scale"] for one in data["by_column_salted"]] == [0.25, 0.5, 1, 2, 3, 5, 10]


def test_invalid_scale_is_rejected() -> None:
    result = simulated("--scale", "nan")
    assert result.exit_code == 2 and "0.01 to 100" in result.output


def test_chart_shows_all_tasks_in_proportion() -> None:
    lines = [line.split() for line in simulated().output.splitlines()]
    bars = {words[0]: words[-1] for words in lines if words and set(words[-1]) <= set("·█▓▒░")}
    assert bars["exact"] == "█" * 40
    # 36.6% of the tasks are idle; 37% have one file, 18% two, 6% three and 2% more.
    assert bars["by_column_salted"] == "·" * 15 + "█" * 15 + "▓" * 7 + "▒" * 2 + "░"
    assert all(len(bar) == 40 for bar in bars.values()) and bars["2"].count("·") == 24


@pytest.mark.parametrize(
    "arguments", [("--partitions", "0"), ("--files", "x"), ("--scale", "0"), ("--partitions", "99999")]
)
def test_unknown_table_is_an_error_message(arguments: tuple[str, ...]) -> None:
    result = simulated(*arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output
