"""Tests of the generic tests for the number and size of files, which must never pass if they are inconclusive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_organized_table import TABLE

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension_for_module")
AT_MOST, BETWEEN = "files_at_most", "file_sizes_between"
# Expected failures for two tables: an unpartitioned one with 4 files of about 41 KB, and one whose partitions have 5, 2
# and 1 files of up to 8 KB.
TESTS: list[tuple[str, str, dict[str, object], int]] = [
    ("whole", AT_MOST, {"n": 4}, 0),
    ("whole", AT_MOST, {"n": 3}, 1),
    ("whole", AT_MOST, {"n": 3, "per_partition": False}, 1),
    ("parts", AT_MOST, {"n": 5}, 0),
    ("parts", AT_MOST, {"n": 1}, 2),
    ("parts", AT_MOST, {"n": 1, "config": {"where": "p is null"}}, 0),
    ("parts", AT_MOST, {"n": 8, "per_partition": False}, 0),
    ("parts", AT_MOST, {"n": 7, "per_partition": False}, 1),
    ("whole", BETWEEN, {"at_least": "30KiB", "at_most": "60KiB"}, 0),
    ("whole", BETWEEN, {"at_least": 30000}, 0),
    ("whole", BETWEEN, {"at_least": "60KiB"}, 4),
    ("whole", BETWEEN, {"at_most": "10KiB"}, 4),
    # A partition with a single file has no larger file to compare.
    ("parts", BETWEEN, {"at_least": "7KiB", "at_most": "1MiB"}, 0),
    ("parts", BETWEEN, {"at_least": "1MiB"}, 7),
    ("parts", BETWEEN, {"at_most": 500}, 8),
]


@pytest.fixture(scope="module")
def built(new_project: Callable[..., Project]) -> Project:
    project = new_project()
    rows = "select id as k, uuid() as u, case when id < 1000 then 'a' when id < 1400 then 'b' when id < 1410 then 'c' end as p"
    project.model("whole", f"{rows} from range(4000)", **TABLE, rows_per_file=1000)
    project.model("parts", f"{rows} from range(1400)", **TABLE, rows_per_file=200, partition_by=["p"])
    project.model("seen", "select 1 as k", materialized="view")
    project.dbt("run")
    project.spark.sql(f"insert into {project.table('parts')} select 1, 'u', null")
    return project


def test_files_are_counted_and_measured(built: Project) -> None:
    models: dict[str, list[object]] = {"whole": [], "parts": []}
    for number, (model, test, arguments, _) in enumerate(TESTS):
        settings = dict(arguments)
        config = {"config": settings.pop("config")} if "config" in settings else {}
        models[model].append({f"spark_bucketing.{test}": {"name": f"t{number}", "arguments": settings, **config}})
    built.describe(*({"name": name, "data_tests": tests} for name, tests in models.items()))
    results, _ = built.attempt("test")
    assert [results[f"t{number}"].failures for number in range(len(TESTS))] == [failures for *_, failures in TESTS]


def test_inconclusive_tests_never_pass(built: Project) -> None:
    tests: list[object] = [
        {f"spark_bucketing.{AT_MOST}": {"name": "view", "arguments": {"n": 1}}},
        {f"spark_bucketing.{AT_MOST}": {"name": "none", "arguments": {"n": 0}}},
        {f"spark_bucketing.{BETWEEN}": {"name": "unit", "arguments": {"at_most": "1MB"}}},
        {f"spark_bucketing.{BETWEEN}": {"name": "nothing"}},
        {f"spark_bucketing.{BETWEEN}": {"name": "crossed", "arguments": {"at_least": "2MiB", "at_most": "1MiB"}}},
    ]
    built.describe({"name": "seen", "data_tests": tests})
    results, failure = built.attempt("test")
    assert len(results) == 5 and {str(result.status) for result in results.values()} == {"error"}
    for said in (
        "a view",
        "expected: a table",
        "an integer of 1 or more",
        "at_most: 256MiB",
        "a size larger than `at_least`",
    ):
        assert said in failure
