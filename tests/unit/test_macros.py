"""Tests of macros without dbt: numbers of files, hints, and features that only some Spark versions have."""

from __future__ import annotations

from fractions import Fraction

import pytest
from file_plan import FileCount, file_config, files_of_partitions
from macros import CompilerError, Macros

from spark_bucketing.errors import ProjectError


@pytest.mark.parametrize(
    ("setting", "value", "bytes_per_row", "files"),
    [
        ("rows_per_file", 60, None, [12, 4, 1]), ("rows_per_file", 10**9, None, [1, 1, 1]),
        ("rows_per_file", 1, None, [700, 183, 17]), ("target_file_size", 1000, Fraction(10), [7, 2, 1]),
        # Integer division rounds up: 3 rows have 10 bytes.
        ("target_file_size", 100, Fraction(10, 3), [24, 7, 1]), ("target_file_size", 5, Fraction(10), [700, 183, 17]),
        ("num_files", 9, None, [7, 2, 1]), ("files_per_partition", 20, None, [20, 20, 17]),
    ],
)  # fmt: skip
def test_file_count_depends_on_the_rows_of_each_partition(
    setting: str, value: int, bytes_per_row: Fraction | None, files: list[int]
) -> None:
    assert files_of_partitions(FileCount(setting, value), [700, 183, 17], bytes_per_row) == files
    assert files_of_partitions(FileCount(setting, value), [], bytes_per_row) == []


def test_file_count_by_size_needs_the_size_of_a_row() -> None:
    with pytest.raises(ValueError, match="unknown"):
        files_of_partitions(FileCount("target_file_size", 4), [1])


def test_options_override_the_number_of_files_of_any_model() -> None:
    config = {"clustered_by": ["k"], "buckets": "x", "num_files": 3, "materialized": "table", "file_format": "delta"}
    planned = file_config(config, {"target_file_size": 7}, "m")
    assert (planned["target_file_size"], planned["num_files"], planned["file_strategy"]) == (7, None, "exact")
    with pytest.raises(ProjectError, match="Model `m` has an invalid `num_files`"):
        file_config(config, {"num_files": 0}, "m")


@pytest.mark.parametrize(
    ("strategy", "hint", "has_key"),
    [
        ("coalesce", "coalesce(4)", False),
        ("repartition", "repartition(4)", False),
        ("by_column", "repartition(4, `ds`)", False),
        ("by_column_salted", "repartition(6, `ds`, `__spark_bucketing_key`)", True),
        ("by_range", "repartition_by_range(4, `__spark_bucketing_key`)", True),
    ],
)
def test_each_strategy_has_its_own_hint(strategy: str, hint: str, has_key: bool) -> None:
    layout = {"file_strategy": strategy, "partition_by": ["ds"], "range_by": [], "scale_factor": 1.5}
    found = Macros({}).write_distribution(4, layout)
    assert (found["hint"], found["key"] != "") == (hint, has_key)


def test_too_many_write_tasks_are_refused() -> None:
    layout = {"file_strategy": "by_column_salted", "partition_by": [], "scale_factor": 3}
    layout |= {"file_count": {"setting": "rows_per_file", "value": 1}}
    with pytest.raises(
        CompilerError, match=r"1, which results in 33,334 files, and scale_factor=3\n +expected: at most 100,000"
    ):
        Macros({"name": "m"}).write_distribution(33334, layout)


SCRIPTING = "spark.sql.scripting.enabled"


@pytest.mark.parametrize(
    ("version", "scripting", "has_scripts", "has_options"),
    [
        ([3, 5], None, False, False), ([3, 5], "true", False, False), ([4, 0], None, False, True), ([4, 0], "true", True, True),
        ([4, 1], None, True, True), ([4, 3], "false", False, True),
    ],
)  # fmt: skip
def test_scripts_and_options_of_a_read_are_used_where_spark_has_them(
    version: list[int], scripting: str | None, has_scripts: bool, has_options: bool
) -> None:
    macros = Macros({})
    macros.__dict__["spark_version"] = lambda: version
    macros._context["context"] = macros._context
    macros.detect_scripts({SCRIPTING: ["k", scripting]} if scripting else {})
    assert macros._context["__spark_bucketing_scripts"] is has_scripts
    assert macros.has_query_options() is has_options
