"""Tests that the program file_plan.py predicts the files of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from file_plan import plan
from test_organized_table import SKEWED, TABLE, rows_of_files

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension_for_module")


def run(project: Project, *arguments: str) -> Result:
    return CliRunner().invoke(plan, [*arguments, *project.place])


def plan_files(project: Project, *arguments: str) -> dict[str, Any]:
    result = run(project, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)
    return data


@pytest.mark.parametrize(
    "sizes",
    [
        [{"rows_per_file": 60}, {"target_file_size": "1KiB"}],
        pytest.param(
            [{"num_files": 9}, {"target_file_size": "2KiB"}, {"files_per_partition": 18}], marks=pytest.mark.long
        ),
    ],
    ids=["size of a file", "others"],
)
def test_plan_predicts_the_files_of_a_run(project: Project, sizes: list[dict[str, Any]]) -> None:
    for size in sizes:
        project.keeps_artifacts = True
        project.model("m", SKEWED, **TABLE, partition_by=["ds"], **size)
        planned = plan_files(project, "m")
        project.dbt("run")
        found = {key: len(files) for key, files in rows_of_files(project, "m", "ds").items()}
        assert {one["values"]["ds"]: one["files"] for one in planned["partitions"]} == found, size
        assert (planned["files"], planned["rows"], planned["setting"]) == (sum(found.values()), 900, next(iter(size)))
    assert planned["measured"]["rows"] == 900 and planned["bytes"] == planned["measured"]["bytes"]


def test_plan_explains_the_numbers_of_files_of_any_model(project: Project) -> None:
    project.model("m", SKEWED + "-- the end", materialized="table", partition_by="ds")
    said = run(project, "m", "--target-file-size", "1KiB", "--bytes-per-row", "8").output
    assert "m: 9 files for 900 rows in 3 partitions, about 7.0 KiB" in said
    assert "target_file_size = 1.0 KiB, set by an option" in said
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
    result = run(project, *arguments)
    assert result.exit_code == 2 and message in result.output and "Traceback" not in result.output


@pytest.mark.long
def test_plan_of_a_table_with_ranges_predicts_the_files_of_a_run(project: Project) -> None:
    """NULLs in the range column have a separate file; '' and NULL in an implicit partition column are different."""
    rows = "select if(id < 300, null, id) as o, if(id % 3 = 0, '', if(id % 3 = 1, null, 'x')) as s from range(600)"
    config = {**TABLE, "range_by": "o", "implicit_partition_by": "s", "rows_per_file": 30}
    project.model("m", rows, **config)
    planned = plan_files(project, "m")
    project.dbt("run")
    assert (
        planned["files"] == 15
        and len([path for path in project.files("m") if path.parts[0] != "_file_statistics"]) == 15
    )
    project.model("n", rows, **{**config, "rows_per_file": None}, range_boundaries_from="m")
    result = run(project, "n")
    assert (
        result.exit_code == 2 and "`range_boundaries_from`" in result.output and "--target-file-size" in result.output
    )
