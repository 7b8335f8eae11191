"""Tests of `advise` on a real Spark: live and applied, on a project that dbt built, and offline."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import COMMAND, command, environment
from dbt_projects import dbt_project
from session_settings import setting

from conftest import REPOSITORY, Project
from spark_bucketing.advice.subjects import AdvisedTable, ColumnStatistics, TableSize, column_facts
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.session import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIB = 2**30
SMALL = ("--smallest", "1", "--target-file-size", "1KiB")


def advise(project: Project, *arguments: str) -> dict[str, Any]:
    result = command(project, "advise", "--format", "json", *SMALL, *arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.long
def test_live_advice_matches_the_tables_built_after_apply(
    new_project: Callable[..., Project], extension: None, no_broadcast: None
) -> None:
    project = new_project()
    project.keeps_artifacts = True
    plain = {"materialized": "table", "file_format": "parquet"}
    project.model("clicks", "select id % 500 as user_id, id % 2 as bit, 'u' || id as url from range(5000)", **plain)
    project.model("users", "select id as user_id, 'n' || id as name from range(500)", **plain)
    join = "select a.url, b.name from {{ ref('clicks') }} as a join {{ ref('users') }} as b using (user_id)"
    for number in range(5):
        project.model(f"joined{number}", join + f" where a.url > '{number}'", materialized="view")
    project.model("bits", "select bit, collect_list(url) as urls from {{ ref('clicks') }} group by bit", **plain)
    project.dbt("run")
    report = advise(project, "--profile", "--apply")
    changes = {one["model"]: one["config"] for one in report["changes"]}
    assert {name: config["clustered_by"] for name, config in changes.items()} == {
        "clicks": ["user_id"],
        "users": ["user_id"],
    }
    assert {config["bucket_hash"] for config in changes.values()} == {"hive2"}
    few = {tuple(one["keys"]): one["reason"] for one in report["left_out"] if one["table"].endswith(".clicks")}
    assert "only 2 distinct values" in few["bit",]
    assert report["applied"] and report["total"]["planned"] == report["total"]["models"] == 8
    project.dbt("run", "--full-refresh")
    # Spark's real plans are now the plans in the proposal.
    again = advise(project)
    assert again["changes"] == []
    for when in ("exchanges", "sorts"):
        assert again["total"]["before"][when] == report["total"]["after"][when] < report["total"]["before"][when]
    assert command(project, "advise", "--explain", "clicks", *SMALL).exit_code == 0


def test_incremental_models_that_read_their_own_tables_and_files_are_planned(
    new_project: Callable[..., Project], extension: None, spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(100).write.parquet(str(tmp_path / "numbers"))
    project = new_project()
    project.keeps_artifacts = True
    later = "{% if is_incremental() %}where id > (select max(at) from {{ this }}){% endif %}"
    table = {
        "name": "numbers",
        "identifier": f"`{tmp_path}/numbers`",
        "columns": [{"name": "id", "data_type": "bigint"}],
    }
    sources = {"sources": [{"name": "raw", "schema": "parquet", "tables": [table]}]}
    project.write("models/sources.yml", json.dumps(sources))
    numbers = "select id as k, id as at from {{ source('raw', 'numbers') }}"
    project.model("events", f"{numbers} {later}", materialized="incremental",
                  incremental_strategy="append", file_format="parquet")  # fmt: skip
    project.model("latest", "select k, max(at) as at from {{ ref('events') }} group by k", materialized="table")
    project.dbt("run")
    report = advise(project)
    assert [one["error"] for one in report["models"]] == [None, None]
    # The report uses dbt's name of the source, not the name of a stub table.
    assert "raw.numbers" in {one["table"] for one in report["left_out"]}


@pytest.mark.long
def test_run_after_apply_writes_new_partitions_in_buckets_and_rebuilds_other_tables(
    new_project: Callable[..., Project], extension: None, no_broadcast: None, spark: SparkSession
) -> None:
    project = new_project()
    project.keeps_artifacts = True
    kind = {"materialized": "incremental", "file_format": "parquet"}
    later = "{{ 2 if is_incremental() else 'cast(id % 2 as int)' }}"
    project.model("parts", f"select id as k, 'v' || id as v, {later} as p from range(4000)", partition_by="p",
                  incremental_strategy="insert_overwrite", **kind)  # fmt: skip
    project.model("whole", "select id as k, 'w' || id as w from range(4000)", incremental_strategy="append", **kind)
    join = "select a.v, b.w from {{ ref('parts') }} as a join {{ ref('whole') }} as b using (k)"
    for number in range(6):
        project.model(f"j{number}", join, materialized="table", file_format="parquet")
    project.dbt("run")
    report = advise(project, "--apply")
    changes = {one["model"]: one for one in report["changes"]}
    assert {name: one["config"]["on_bucket_change"] for name, one in changes.items()} == {
        "parts": "evolve",
        "whole": "rebuild",
    }
    assert changes["parts"]["rewritten_bytes"] == 0 and "old partitions keep" in changes["parts"]["how"]
    assert changes["whole"]["rewritten_bytes"] == changes["whole"]["bytes"] > 0
    project.dbt("run")
    parts, whole = (f"{project.schema}.{name}" for name in ("parts", "whole"))
    specs = {row.partition: row.num_buckets for row in spark.sql(f"select * from bucket_specs('{parts}')").collect()}
    buckets = {name: one["config"]["buckets"] for name, one in changes.items()}
    assert specs == {"p=0": None, "p=1": None, "p=2": buckets["parts"]}
    assert spark.table(parts).count() == spark.table(whole).count() == 8000
    described = {row.col_name: row.data_type for row in spark.sql(f"describe table extended {whole}").collect()}
    assert described["Num Buckets"] == str(buckets["whole"])


@pytest.mark.long
def test_column_statistics_from_analyze_are_used(spark: SparkSession, tmp_path: Path) -> None:
    planner = Planner("live", partial(rows_of, spark))
    spark.sql("create database if not exists analyzed")
    half = "if(id < 5000, 7, id)"
    columns = f"id as k, if(id % 4 = 0, null, id) as gaps, {half} as lopsided, id % 3 as few"
    spark.sql(f"create or replace temporary view rows_of_analyzed as select {columns} from range(10000)")
    spark.sql("drop table if exists analyzed.t")
    spark.sql("create table analyzed.t using parquet as select * from rows_of_analyzed")
    one = AdvisedTable(TableFacts("analyzed.t", {}), TableSize(10**6))
    names = ("k", "gaps", "lopsided", "few", "nowhere")
    assert column_facts(planner, one, names, profile=False).columns["k"] == ColumnStatistics()
    with setting(spark, "spark.sql.statistics.histogram.enabled", "true"):
        spark.sql("analyze table analyzed.t compute statistics for all columns")
    found = column_facts(planner, one, names, profile=False).columns
    assert found["few"].distinct == 3 and found["k"].distinct == pytest.approx(10000, rel=0.1)
    assert found["gaps"].largest == pytest.approx(0.25) and found["lopsided"].largest == pytest.approx(0.5, abs=0.02)
    assert found["few"].largest == pytest.approx(1 / 3, abs=0.02) and found["k"].largest == 0 and "nowhere" not in found
    # Sampling gives the same result, with one query per column.
    sampled = column_facts(planner, one, names, profile=True).columns
    assert sampled["few"] == ColumnStatistics(3, 0.3334)
    assert sampled["gaps"] == ColumnStatistics(7501, 0.25) and sampled["lopsided"].largest == 0.5
    large = replace(one, facts=TableSize(10 * 2**30))
    part = column_facts(planner, large, ("few",), profile=True).columns["few"]
    assert part.distinct == 3 and part.largest != sampled["few"].largest
    given = {"k": ColumnStatistics(1, 1.0)}
    assert column_facts(planner, replace(one, facts=TableSize(1, None, given)), ("k",), True).columns == given


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    """Create a project whose catalog.json has the sizes, and whose tables do not exist."""
    project = dbt_project(tmp_path / "p")
    columns = [{"name": name, "data_type": "bigint"} for name in ("k", "j", "v")]
    source = {"name": "raw", "schema": "raw", "tables": [{"name": "big", "columns": columns}]}
    (project / "models" / "sources.yml").write_text(json.dumps({"sources": [source]}))
    models = {
        "fact": "{{ config(materialized='table') }}\nselect * from {{ source('raw', 'big') }}",
        "dim": "{{ config(materialized='table') }}\nselect k, max(v) as v from {{ source('raw', 'big') }} group by k",
        "renamed": "{{ config(materialized='view') }}\nselect k as key, j, v from {{ ref('fact') }}",
        "between": "{{ config(materialized='ephemeral') }}\nselect key as id, v from {{ ref('renamed') }}",
        "inc": "{{ config(materialized='incremental', file_format='parquet') }}\nselect k, v from {{ ref('fact') }}",
    }
    for number in range(4):
        models[f"j{number}"] = "select f.v from {{ ref('between') }} f join {{ ref('dim') }} d on f.id = d.k"
        models[f"i{number}"] = "select f.v from {{ ref('between') }} f join {{ ref('inc') }} d on f.id = d.k"
    models["other"] = "select j, collect_list(v) as v from {{ ref('fact') }} group by j"
    for name, text in models.items():
        (project / "models" / f"{name}.sql").write_text(f"{text}\n")
    sizes = {"fact": "100GiB", "dim": "30GiB", "inc": "60GiB", "raw.big": "100GiB"}
    (project / "sizes.json").write_text(json.dumps(sizes))
    return project


def run_offline(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = ["--project-dir", str(project), "--profiles-dir", str(project), "--sizes", str(project / "sizes.json")]
    return subprocess.run(
        [*COMMAND[:-1], "advise", "--offline", "--extension", *place, *arguments],
        capture_output=True, text=True, cwd=project, env=environment(), check=False,
    )  # fmt: skip


@pytest.mark.long
def test_offline_finds_keys_through_views_and_ephemeral_models(offline: Path) -> None:
    result = run_offline(offline, "--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    changes = {one["model"]: one for one in report["changes"]}
    assert set(changes) == {"fact", "dim", "inc"}
    assert all(one["config"]["clustered_by"] == ["k"] for one in changes.values())
    numbers = sorted(one["config"]["buckets"] for one in changes.values())
    assert all(number & (number - 1) == 0 for number in numbers) and numbers[-1] == 512
    assert changes["inc"]["config"]["on_bucket_change"] == "rebuild"
    assert changes["inc"]["rewritten_bytes"] == 60 * GIB
    assert any(lost.startswith("other ") for lost in changes["fact"]["lost"])
    models = {one["model"]: one for one in report["models"]}
    assert models["j0"]["before"]["exchanges"] == 2 and models["j0"]["after"]["exchanges"] == 0
    assert [one["table"] for one in report["sources"]] == ["raw.big"]
    assert "+++ b/models/fact.sql" in report["diff"]
    assert "bucketed" not in (offline / "models" / "fact.sql").read_text()


@pytest.mark.long
def test_offline_advice_can_be_limited_and_explained(offline: Path) -> None:
    within = run_offline(offline, "--format", "json", "--max-rewrite", "95GiB")
    assert sum(one["bytes"] for one in json.loads(within.stdout)["changes"]) <= 95 * GIB
    text = run_offline(offline, "--explain", "fact")
    assert "proposed" in text.stdout and "used by other" in text.stdout


@pytest.mark.long
def test_offline_finds_keys_through_unions_partial_join_keys_and_casts(offline: Path) -> None:
    columns = "cast(k as bigint) as k, cast(j as int) as j, v"
    models = dict.fromkeys(
        ("a", "b", "events", "visits", "narrow"),
        f"{{{{ config(materialized='table') }}}}\nselect {columns} from {{{{ source('raw', 'big') }}}}",
    )
    united = "(select k, v from {{ ref('a') }} union all select k, v + 1 as v from {{ ref('b') }})"
    for number in range(4):
        models[f"u{number}"] = f"select k, row_number() over (partition by k order by v) as n from {united}"
        models[f"s{number}"] = (
            "select e.v from {{ ref('events') }} e join {{ ref('visits') }} v on e.k = v.k and e.j = v.j"
        )
        models[f"g{number}"] = "select k, collect_list(v) as v from {{ ref('events') }} group by k"
        models[f"c{number}"] = "select n.v from {{ ref('narrow') }} n join {{ ref('fact') }} f on n.j = f.k"
        models[f"w{number}"] = "select k, row_number() over (partition by k order by v) as n from {{ ref('dim') }}"
    models["broken"] = "select no_such_function(v) from {{ ref('fact') }}"
    for name, text in models.items():
        (offline / "models" / f"{name}.sql").write_text(f"{text}\n")
    sizes = {**json.loads((offline / "sizes.json").read_text()), **dict.fromkeys(models, "50GiB")}
    (offline / "sizes.json").write_text(json.dumps(sizes))
    result = run_offline(offline, "--format", "json")
    assert result.returncode == 2, result.stderr
    report = json.loads(result.stdout)
    # The advice makes no claim about a query that Spark cannot plan.
    broken = next(one for one in report["models"] if one["model"] == "broken")
    assert broken["before"] is None and "no_such_function" in broken["error"]
    assert report["total"]["planned"] == report["total"]["models"] - 1
    configs = {one["model"]: one["config"] for one in report["changes"]}
    plans = {
        one["model"]: (one["before"]["exchanges"], one["after"]["exchanges"], one["after"]["sorts"])
        for one in report["models"]
        if one["before"]
    }
    assert configs["a"] == configs["b"] and plans["u0"] == (1, 0, 1)
    # The aggregate has only one of the join's keys, and the join requires both in order.
    assert configs["events"]["clustered_by"] == configs["visits"]["clustered_by"] == ["k"]
    assert configs["events"]["sorted_by"] == configs["visits"]["sorted_by"] == ["k", "j"]
    assert plans["s0"] == (2, 0, 0) and plans["g0"] == (1, 0, 0)
    (cast,) = (one for one in report["left_out"] if one["table"].endswith(".narrow") and one["keys"] == ["j"])
    assert "cast to bigint in c0 (join)" in cast["reason"]
    assert configs["dim"]["sorted_by"] == ["k", "v"] and plans["w0"] == (1, 0, 0)


@pytest.mark.long
def test_offline_advice_covers_the_showcase(tmp_path: Path) -> None:
    report = tmp_path / "advice.html"
    arguments = ["advise", "--offline", "--assume-size", "100GiB", "--format", "html", "--output", str(report)]
    variables = environment() | {"DBT_TARGET_PATH": str(tmp_path / "target")}
    result = subprocess.run(
        [*COMMAND[:-1], *arguments], capture_output=True, text=True, cwd=REPOSITORY, env=variables, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "<th>Reads</th>" in report.read_text() and "flights_by_plane" in report.read_text()
