"""The check without the warehouse: empty shadows of tables, and the same verdicts as live."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from commanded import COMMAND, environment, explained

from spark_bucketing.check.ddl import ShadowLayout, create_table
from spark_bucketing.check.facts import Facts
from spark_bucketing.check.offline import planner_settings
from spark_bucketing.check.session_planner import SessionPlanner
from spark_bucketing.check.shadow import Shadow
from spark_bucketing.errors import SparkError
from spark_bucketing.project.catalog import CatalogTable
from spark_bucketing.project.manifest import Manifest, Node
from spark_bucketing.session import setting
from spark_bucketing.spec import BucketSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from conftest import Project

REPOSITORY = Path(__file__).parents[2]


def shadow_of(
    spark: SparkSession, schema: str, nodes: list[Node], catalog: dict[str, CatalogTable] | None = None
) -> Shadow:
    for key, value in planner_settings({}).items():
        spark.conf.set(key, value)
    spark.sql(f"create schema if not exists {schema}")
    shadow = Shadow(
        SessionPlanner("offline", spark), Manifest({one.unique_id: one for one in nodes}), catalog or {}, Path()
    )
    for one in nodes:
        shadow.create(one)
    spark.conf.unset("spark.sql.optimizer.excludedRules")
    return shadow


def test_shadows_have_the_layout_and_the_size_of_the_tables(spark: SparkSession, project: Project) -> None:
    s = project.schema
    config = {"clustered_by": ["k"], "buckets": 8, "partition_by": ["ds"], "sorted_by": ["k", "v"]}
    source = Node(
        "source.p.a", "a", "source", "m.yml", f"{s}.a", "source", columns={"k": "bigint", "v": "string", "ds": "date"}
    )
    big = Node("model.p.b", "b", "model", "b.sql", f"{s}.b", "bucketed_table", f"select * from {s}.a", config=config)
    small = Node("model.p.c", "c", "model", "c.sql", f"{s}.c", "table", f"select k from {s}.a")
    view = Node("model.p.v", "v", "model", "v.sql", f"{s}.v", "view", f"select * from {s}.b")
    path = Node(
        "source.p.x",
        "x",
        "source",
        "m.yml",
        "csv.`/no/file` with (header = true)",
        "source",
        source_name="raw",
        columns={"k": "int"},
    )
    shadow = shadow_of(spark, s, [source, big, small, view, path], {"model.p.c": CatalogTable({"k": "bigint"}, 1000)})
    assert shadow.missing == {} and shadow.unsized == {f"{s}.a", f"{s}.b", "raw__offline.x"}
    facts = Facts(SessionPlanner("x", spark), shadow.unsized).of([f"{s}.b", f"{s}.c"])
    assert facts[f"{s}.b"].spec == BucketSpec(8, ("k",), ("k", "v"), "hive")
    assert facts[f"{s}.b"].partition_columns == ("ds",) and facts[f"{s}.b"].files_per_bucket == 1
    assert (facts[f"{s}.b"].size_bytes, facts[f"{s}.c"].size_bytes) == (None, 1000)
    assert shadow.rewritten("select * from csv.`/no/file` with (header = true)") == "select * from `raw__offline`.`x`"


def test_no_shadow_is_broadcast_for_being_empty_but_a_small_table_is(spark: SparkSession, project: Project) -> None:
    s = project.schema
    spark.sql(f"create schema {s}")
    for name, size in (("a", None), ("b", None), ("small", 1000)):
        for kind, spec in (
            ("plain", None),
            ("hive", BucketSpec(4, ("k",), ("k",), "hive")),
            ("spark", BucketSpec(4, ("k",), (), "spark")),
        ):
            for partition in ((), ("ds",)):
                table = f"{s}.{name}_{kind}_{len(partition)}"
                spark.sql(create_table(table, {"k": "bigint", "ds": "string"}, ShadowLayout(spec, partition), size))
    rules = "spark.sql.optimizer.excludedRules"
    broadcast = setting(spark, "spark.sql.autoBroadcastJoinThreshold", "10485760")
    with broadcast, setting(spark, rules, planner_settings({})[rules]):
        planner = SessionPlanner("offline", spark)
        for kind in ("plain", "hive", "spark"):
            for partitioned in (0, 1):
                join = f"select * from {s}.a_{kind}_{partitioned} x join {s}.{{}}_{kind}_{partitioned} y on x.k = y.k where y.ds = 'd' and x.ds = 'd'"
                assert "Broadcast" not in planner.explain(join.format("b")).formatted, (kind, partitioned)
                assert "Broadcast" in planner.explain(join.format("small")).formatted, (kind, partitioned)


def test_what_has_no_shadow_says_why_in_the_errors_of_its_readers(spark: SparkSession, project: Project) -> None:
    s = project.schema
    source = Node("source.p.a", "a", "source", "m.yml", f"{s}.a", "source", columns={"k": None})
    shadow = shadow_of(spark, s, [source])
    assert "source 'a'" in shadow.missing[f"{s}.a"]
    with pytest.raises(SparkError) as error:
        SessionPlanner("x", spark).explain(f"select * from {s}.a")
    assert "data_type" in shadow.why(str(error.value))


@pytest.mark.long
def test_offline_and_live_agree_on_the_showcase(tmp_path: Path) -> None:
    """What make demo builds, checked in its warehouse and without it."""
    demo = tmp_path / "demo"
    variables = environment() | {"SPARK_BUCKETING_DEMO": str(demo), "DBT_TARGET_PATH": str(tmp_path / "target")}
    subprocess.run([sys.executable, "scripts/get_data.py"], cwd=REPOSITORY, env=variables, check=True)
    jar = tmp_path / "extension.jar"
    command = [*COMMAND[:-1], "extension", "build", "--output", str(jar)]
    subprocess.run(command, cwd=REPOSITORY, env=variables, check=True, capture_output=True)
    profile = (REPOSITORY / "profiles.yml").read_text().replace(".venv/spark-bucketing-extension.jar", str(jar))
    (tmp_path / "profiles.yml").write_text(profile)
    place = ["--project-dir", str(REPOSITORY), "--profiles-dir", str(tmp_path)]
    dbt = [sys.executable, "-m", "dbt.cli.main", "run", "--quiet", "--log-path", str(tmp_path), *place]
    subprocess.run(dbt, cwd=REPOSITORY, env=variables, check=True)
    planes = "nycflights13.flights_by_plane as f join nycflights13.planes as p on f.tailnum = p.tailnum"
    (tmp_path / "first.sql").write_text(f"select f.tailnum from {planes} limit 10")
    (tmp_path / "top.sql").write_text(f"select f.tailnum from {planes} order by f.tailnum limit 10")
    files = [str(tmp_path / "first.sql"), str(tmp_path / "top.sql")]
    reports = []
    for mode in ([], ["--offline"]):
        arguments = [*COMMAND, *mode, *place, "--format", "json", "--select", "resource_type:model", "--", *files]
        result = subprocess.run(arguments, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1), result.stderr
        reports.append({model["name"]: explained(model) for model in json.loads(result.stdout)["models"]})
    live, offline = reports
    assert live == offline
    assert len(live) == 21 and sum(map(len, live.values())) >= 17
    assert live[files[0]] == live[files[1]] == [("join", "shuffled", ["limit-before-check"] * 2)]
    assert "unexplained" not in str(live)


@pytest.mark.long
def test_ctrl_c_at_the_command_line(tmp_path: Path) -> None:
    project = {"name": "p", "profile": "p"}
    (tmp_path / "dbt_project.yml").write_text(yaml.safe_dump(project))
    output = {"type": "spark", "method": "session", "host": "NA", "schema": "s"}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "t", "outputs": {"t": output}}}))
    (tmp_path / "models").mkdir()
    for i in range(400):
        (tmp_path / "models" / f"m{i}.sql").write_text(f"select {i} as a group by 1")
    report = tmp_path / "report.json"
    arguments = [*COMMAND, "--offline", "--format", "json", "--output", str(report)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=log, stderr=log)
        compiled = tmp_path / "target" / "spark-bucketing" / "run_results.json"
        for _ in range(600):
            if compiled.exists():
                break
            time.sleep(0.5)
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 2, (tmp_path / "log").read_text()
    data = json.loads(report.read_text())
    assert data["models"] and data["unfinished"]
    assert len(data["models"]) + len(data["unfinished"]) == 400
