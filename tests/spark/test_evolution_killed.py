"""Processes that change bucket specs and are killed at any moment, Spark with them: no row is lost, the next one completes."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from elsewhere import COMMAND, Elsewhere
from test_killed_process import dbt_command

from conftest import REPOSITORY

pytestmark = pytest.mark.long

# Another sequence of moments: SEED=7.
SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "4"))
ROWS = "select p, count(*), sum(k), sum(v) from s.t group by p order by p"
SPECS = "select partition, num_buckets, location, problem from bucket_specs('s.t')"
TABLES = "show tables in s"
DONE = "brought to the table's spec"


def folders_without_partition(warehouse: Path, locations: list[str]) -> set[Path]:
    """Folders with data files, or of a rewrite, that are of no partition."""
    used = {Path("/" + location.removeprefix("file:").lstrip("/")) for location in locations}
    data = {path.parent for path in warehouse.rglob("*") if path.is_file() and path.name[0] not in "._"}
    staged = {path for path in warehouse.rglob(".*") if path.is_dir()}
    return (data - used) | {path for path in staged if not any(place.is_relative_to(path) for place in used)}


def test_a_rewrite_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    elsewhere, moments = Elsewhere(tmp_path, "s"), random.Random(SEED)
    *_, rows = elsewhere.run(
        "create database s",
        "create table s.t (k bigint, v bigint) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets "
        "stored as parquet",
        "insert into s.t select id, id * 7, cast(id % 5 as int) from range(2000)",
        "alter table s.t clustered by (k) sorted by (k) into 8 buckets",
        ROWS,
    )
    buckets, killed = 8, 0
    for _ in range(KILLS):
        delay = moments.uniform(0, 7)
        killed += elsewhere.kill([*COMMAND, "rewrite", "s.t", *elsewhere.place], lambda output: "[1/" in output, delay)
        found, specs, verified = elsewhere.run(ROWS, SPECS, ("verify", "s.t", "--rows"))
        assert found == rows, delay
        assert {spec[3] for spec in specs} == {None}, specs
        if {spec[1] for spec in specs} == {buckets}:
            # It had come to its end, all but; the next one has something to do again.
            assert verified[0] == 0, verified[1]
            buckets = {8: 16, 16: 4, 4: 8}[buckets]
            elsewhere.run(f"alter table s.t clustered by (k) sorted by (k) into {buckets} buckets")
    assert killed
    done, found, specs, verified, tables = elsewhere.run(
        ("rewrite", "s.t"), ROWS, SPECS, ("verify", "s.t", "--rows"), TABLES
    )
    assert done[0] == 0 and DONE in done[1], done[1]
    assert found == rows
    assert {spec[1] for spec in specs} == {buckets}
    assert verified[0] == 0, verified[1]
    assert [table[1] for table in tables] == ["t"]
    assert not folders_without_partition(tmp_path / "warehouse" / "s.db", [spec[2] for spec in specs])


MODEL = """
    {{ config(materialized='bucketed_incremental', incremental_strategy=var('strategy'), unique_key='k', partition_by=['p'],
              clustered_by=['k'], buckets=var('buckets'), on_bucket_change='evolve') }}
    select id as k, {{ var('run') }} as v, cast(id % 4 as int) as p from range(400)
    {% if is_incremental() %} where id % 4 < 2 {% endif %}
"""


def test_a_dbt_run_that_evolves_and_is_killed_at_any_moment(tmp_path: Path) -> None:
    elsewhere, moments = Elsewhere(tmp_path, "s"), random.Random(SEED)
    (tmp_path / "packages.yml").write_text(f"packages: [{{local: '{REPOSITORY}'}}]")
    (tmp_path / "dbt_packages").mkdir()
    (tmp_path / "dbt_packages" / "spark_bucketing").symlink_to(REPOSITORY)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "t.sql").write_text(MODEL)

    def command(run: int, buckets: int) -> tuple[str, ...]:
        strategy = "merge" if run % 2 else "insert_overwrite"
        return "run", "--vars", f"{{run: {run}, buckets: {buckets}, strategy: {strategy}}}"

    def complete(run: int, buckets: int) -> list[Any]:
        """What is there after the run that was killed, before the one that is not; which has to end well."""
        before = (ROWS, SPECS) if run else ()
        *killed, done, found, specs, verified, tables = elsewhere.run(
            *before, ("dbt", *command(run, buckets)), ROWS, SPECS, ("verify", "s.t", "--rows"), TABLES
        )
        assert done[0] == 0, done[1]
        assert found == expected(run)
        recorded = {spec[0]: spec[1] for spec in specs}
        assert [recorded["p=0"], recorded["p=1"], recorded["p=3"]] == [buckets, buckets, 4]
        assert verified[0] == 0, verified[1]
        assert [table[1] for table in tables] == ["t"]
        assert not folders_without_partition(tmp_path / "warehouse" / "s.db", [spec[2] for spec in specs])
        return killed

    def expected(run: int) -> list[list[int]]:
        return [[p, 100, sum(range(p, 400, 4)), 100 * (run if p < 2 else 0)] for p in range(4)]

    complete(0, 4)
    ended = 0
    for run in range(1, KILLS + 1):
        buckets, delay = (8, 16, 6, 4)[run % 4], moments.uniform(0, 8)
        arguments = dbt_command(tmp_path, *command(run, buckets))
        ended += not elsewhere.kill(arguments, lambda output: "START sql" in output, delay)
        found, specs = complete(run, buckets)
        assert {spec[3] for spec in specs} == {None}, specs
        for row, old, new in zip(found, expected(run - 1), expected(run), strict=True):
            assert row in (old, new), delay
    assert ended < KILLS
