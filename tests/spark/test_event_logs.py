"""Tests that `advise`, `check` and `report` read event logs that Spark itself writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from commands import command
from session_settings import setting

from conftest import Project, all_long_but
from spark_bucketing.checks import acceptance
from spark_bucketing.cli import main
from spark_bucketing.event_log.measured import Measured, read_measured
from spark_bucketing.event_log.plan_costs import TableKeys
from spark_bucketing.units import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMENT = """{% macro query_comment(node) %}
{%- set about = {'app': 'dbt', 'target_name': target.name} -%}
{%- if node %}{% do about.update(node_id=node.unique_id) %}{% endif -%}
{{ return(tojson(about)) }}
{% endmacro %}"""
SMALL = ("--smallest", "1", "--target-file-size", "1KiB")
JOIN = "select a.url, b.name from {{ ref('clicks') }} as a join {{ ref('users') }} as b using (user_id)"


@contextmanager
def event_log(spark: SparkSession, folder: Path, **settings: str) -> Iterator[None]:
    """Make Spark write an event log inside the block, with these settings below spark.eventLog."""
    folder.mkdir(exist_ok=True)
    context: Any = spark.sparkContext
    jvm, scala = context._jvm, context._jsc.sc()
    conf = scala.conf().clone()
    for name, value in settings.items():
        conf.set(f"spark.eventLog.{name.replace('_', '.')}", value)
    uri = jvm.java.net.URI(folder.as_uri())
    hadoop = context._jsc.hadoopConfiguration()
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener("app", jvm.scala.Option.empty(), uri, conf, hadoop)
    listener.start()
    scala.listenerBus().addToEventLogQueue(listener)
    try:
        yield
    finally:
        scala.listenerBus().waitUntilEmpty()
        scala.removeSparkListener(listener)
        # The application continues, but its log ends here.
        events = jvm.org.apache.spark.scheduler
        code = () if spark.version.startswith("3.") else (jvm.scala.Option.empty(),)
        listener.onApplicationEnd(events.SparkListenerApplicationEnd(0, *code))
        listener.stop()


@pytest.fixture
def clicks(new_project: Callable[..., Project], extension: None, no_broadcast: None) -> Project:
    """Create a project whose model `joined` shuffles two tables."""
    project = new_project()
    plain = {"materialized": "table", "file_format": "parquet"}
    project.model("clicks", "select id % 500 as user_id, 'u' || id as url from range(5000)", **plain)
    project.model("users", "select id as user_id, 'n' || id as name from range(500)", **plain)
    project.model("joined", JOIN, **plain)
    return project


def shuffled(found: Measured, node: str | None = None) -> set[tuple[str, tuple[str | None, ...]]]:
    return {(keys.table, keys.columns) for keys, cost in found.costs(node).items() if cost.shuffle_bytes > 0}


def test_commands_use_the_logs_of_dbt_runs_and_other_queries(
    clicks: Project, spark: SparkSession, tmp_path: Path
) -> None:
    # Buckets pay for themselves if several models read them.
    for number in range(4):
        clicks.model(f"more{number}", JOIN + f" where a.url > '{number}'", materialized="table", file_format="parquet")
    logs = tmp_path / "logs"
    with event_log(spark, logs, rolling_enabled="true", compress="true", compression_codec="zstd"):
        clicks.dbt("run")
        clicks.dbt("run")
        clicks.rows("select a.url, b.url from {schema}.clicks as a join {schema}.clicks as b using (user_id)")
    (log,) = logs.iterdir()
    assert log.is_dir()
    found = read_measured([str(logs)])
    keys = {(f"{clicks.schema}.{name}", ("user_id",)) for name in ("clicks", "users")}
    assert shuffled(found, "model.t.joined") == keys
    outside_dbt = Measured(ad_hoc_operators=found.ad_hoc_operators)
    assert shuffled(outside_dbt) == {(f"{clicks.schema}.clicks", ("user_id",))}
    assert found.ad_hoc == 1 and found.counts.warnings == []
    assert [len(found.runs_of(f"model.t.{name}")) for name in ("clicks", "users", "joined")] == [2, 2, 2]

    advice = command(clicks, "advise", "--format", "json", *SMALL, "--event-log", str(logs))
    assert advice.exit_code == 0, advice.output
    changes = {one["model"]: one for one in json.loads(advice.stdout)["changes"]}
    assert changes["clicks"]["config"]["clustered_by"] == ["user_id"]
    assert changes["clicks"]["measured"]["shuffle_bytes"] > changes["users"]["measured"]["shuffle_bytes"] > 0

    report = CliRunner().invoke(main, ["report", "--before", str(logs), "--after", str(logs)])
    assert report.exit_code == 0 and "joined" in report.output and "too few runs" in report.output, report.output


@pytest.mark.long
def test_tables_of_a_union_share_the_cost_of_its_exchange(clicks: Project, spark: SparkSession, tmp_path: Path) -> None:
    clicks.model("buyers", "select 'b' || id as label, id * 2 as buyer from range(1000)", materialized="table")
    union = "select user_id, 1 as n from {{ ref('clicks') }} union all select buyer, 2 from {{ ref('buyers') }} where buyer > 999"
    clicks.model(
        "grouped", f"select user_id, max(n) over (partition by user_id) as n from ({union})", materialized="table"
    )
    with event_log(spark, tmp_path / "logs"):
        clicks.dbt("run")
    found = read_measured([str(tmp_path / "logs")])
    (run,) = found.runs_of("model.t.grouped")
    costs = {keys: cost.shuffle_bytes / run.work.shuffle_bytes for keys, cost in found.costs("model.t.grouped").items()}
    schema = clicks.schema
    assert costs == {
        TableKeys(f"{schema}.clicks", ("user_id",)): pytest.approx(5000 / 5500, abs=0.001),
        TableKeys(f"{schema}.buyers", ("buyer",)): pytest.approx(500 / 5500, abs=0.001),
    }
    time = sum(cost.task_ms for cost in found.costs("model.t.grouped").values())
    assert 0 < time < run.work.task_ms
    assert found.target == "t"


@pytest.mark.long
def test_first_branch_of_a_union_can_be_a_broadcast_join_or_an_aggregate(
    clicks: Project, spark: SparkSession, tmp_path: Path
) -> None:
    clicks.model("buyers", "select 'b' || id as label, id * 2 as buyer from range(1000)", materialized="table")
    visits = "select id as visitor, 'p' || id as page, 'm' as tag, id * 3 as other from range(2000)"
    clicks.model("visits", visits, materialized="table")
    clicks.model("groups", "select id as visitor, id as number from range(3000)", materialized="table")
    branches = {
        "joined_first": "select /*+ broadcast(b) */ * from {{ ref('clicks') }} join {{ ref('buyers') }} as b "
        "on user_id = buyer union all select * from {{ ref('visits') }}",
        "grouped_first": "select user_id, count(*) as n from {{ ref('clicks') }} group by user_id "
        "union all select * from {{ ref('groups') }}",
    }
    for name, union in branches.items():
        window = f"select *, row_number() over (partition by user_id order by user_id) as place from ({union})"
        clicks.model(name, window, materialized="table")
    with event_log(spark, tmp_path / "logs"):
        clicks.dbt("run")
    found, schema = read_measured([str(tmp_path / "logs")]), clicks.schema
    (run,) = found.runs_of("model.t.joined_first")
    costs = found.costs("model.t.joined_first")
    # The users with even numbers bought something.
    assert {keys: cost.shuffle_bytes / run.work.shuffle_bytes for keys, cost in costs.items()} == {
        TableKeys(f"{schema}.clicks", ("user_id",)): pytest.approx(2500 / 4500, abs=0.001),
        TableKeys(f"{schema}.visits", ("visitor",)): pytest.approx(2000 / 4500, abs=0.001),
    }
    (run,) = found.runs_of("model.t.grouped_first")
    costs = found.costs("model.t.grouped_first")
    grouping, rest = (
        TableKeys(f"{schema}.{table}", (key,)) for table, key in (("clicks", "user_id"), ("groups", "visitor"))
    )
    assert set(costs) == {grouping, rest}
    shuffled_by_window = run.work.shuffle_bytes - costs[grouping].shuffle_bytes
    assert costs[rest].shuffle_bytes / shuffled_by_window == pytest.approx(3000 / 3500, abs=0.001)


@pytest.mark.parametrize("append", all_long_but(True, [True, False]))
def test_runs_are_attributed_with_the_comment_before_or_after_the_statements(
    new_project: Callable[..., Project], extension: None, spark: SparkSession, tmp_path: Path, append: bool
) -> None:
    comment = {"comment": "{{ query_comment(node) }}", "append": append}
    project = new_project(**{"query-comment": comment})
    project.model(
        "clicks",
        "select id as user_id from range(500)",
        materialized="bucketed_table",
        clustered_by="user_id",
        buckets=4,
    )
    project.write("macros/query_comment.sql", COMMENT)
    with event_log(spark, tmp_path / "logs"):
        project.dbt("run")
    found = read_measured([str(tmp_path / "logs")])
    assert len(found.runs_of("model.t.clicks")) == 1 and found.target == "t"


@pytest.mark.long
def test_check_reports_the_cost_of_a_finding_per_run(
    clicks: Project, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "SMALLEST", 0)
    rows = "select id % 500 as user_id, 'u' || id as url from range(5000)"
    clicks.model("clicks", rows, materialized="bucketed_table", clustered_by=["user_id"], buckets=4)
    with setting(spark, "spark.bucketing.read.partitionBytes", "0"):
        with event_log(spark, tmp_path / "logs", rolling_enabled="false"):
            clicks.dbt("run")
            clicks.dbt("run")
        check = command(clicks, "check", "--fail-on", "note", "--event-log", str(tmp_path / "logs"))
    assert check.exit_code == 1, check.output
    shuffled_bytes = read_measured([str(tmp_path / "logs")]).costs("model.t.joined")
    (cost,) = (cost for keys, cost in shuffled_bytes.items() if keys.table == f"{clicks.schema}.users")
    per_run = f"Mean cost per run, measured in 2 runs: {size(cost.shuffle_bytes // 2)} shuffled"
    assert check.output.count(per_run) == 1 and "side-not-bucketed" in check.output


def test_logs_name_bucketed_tables_and_their_readers(clicks: Project, spark: SparkSession, tmp_path: Path) -> None:
    bucketed = {"materialized": "bucketed_table", "clustered_by": ["user_id"], "buckets": 4}
    for name, users in (("clicks", 500), ("users", 500), ("unread", 5)):
        clicks.model(
            name, f"select id % {users} as user_id, 'u' || id as url, 'n' as name from range(5000)", **bucketed
        )
    with setting(spark, "spark.bucketing.read.partitionBytes", "0"), event_log(spark, tmp_path / "logs"):
        clicks.dbt("run")
    found = read_measured([str(tmp_path / "logs")])
    readers = {"clicks": {"model.t.joined"}, "users": {"model.t.joined"}, "unread": set()}
    assert found.bucketed == {f"{clicks.schema}.{name}": nodes for name, nodes in readers.items()}
    assert found.writers == {f"{clicks.schema}.{name}": f"model.t.{name}" for name in (*readers, "joined")}
    assert found.costs("model.t.joined") == {}


@pytest.mark.parametrize(
    ("codec", "rolling"), [("zstd", "false"), ("lz4", "true"), ("snappy", "false"), ("lzf", "false")]
)
def test_logs_in_each_codec_of_spark_are_read(spark: SparkSession, tmp_path: Path, codec: str, rolling: str) -> None:
    settings = {"compress": "true", "compression_codec": codec, "rolling_enabled": rolling}
    with event_log(spark, tmp_path, **settings, rolling_maxFileSize="10m"):
        for _ in range(3):
            spark.sql("select id % 7, count(*) from range(1000) group by 1").collect()
    counts = read_measured([str(tmp_path)]).counts
    assert counts.lines > 20 and counts.warnings == []
    (log,) = (one for one in tmp_path.rglob(f"*.{codec}"))
    log.write_bytes(log.read_bytes()[:-50])
    assert read_measured([str(tmp_path)]).counts.truncated_files == 1


def test_spark_ignores_plans_in_event_logs_without_the_extension(
    spark: SparkSession, extension: None, tmp_path: Path
) -> None:
    with event_log(spark, tmp_path, compress="false", rolling_enabled="false"):
        spark.sql("select id % 7, count(*) from range(1000) group by 1").collect()
    (log,) = (one for one in tmp_path.iterdir() if one.name.startswith("app"))
    content = log.read_bytes()
    assert content.count(b"SparkListenerBucketPlan") == 1
    jvm: Any = spark.sparkContext._jvm
    # The second class does not exist, like the first in a History Server without the extension.
    for name in (b"SparkListenerBucketPlan", b"SparkListenerOther"):
        replay = jvm.org.apache.spark.scheduler.ReplayListenerBus()
        stream = jvm.java.io.ByteArrayInputStream(content.replace(b"SparkListenerBucketPlan", name))
        every = jvm.org.apache.spark.scheduler.ReplayListenerBus.SELECT_ALL_FILTER()
        assert replay.replay(stream, "app", False, every)


def test_logs_in_a_hadoop_file_system_are_read(spark: SparkSession, tmp_path: Path) -> None:
    with event_log(spark, tmp_path / "logs", compress="true", compression_codec="zstd", rolling_enabled="true"):
        spark.sql("select id % 7, count(*) from range(1000) group by 1").collect()
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.logs.link./spark", (tmp_path / "logs").as_uri())
    found = read_measured(["viewfs://logs/spark"])
    assert found.counts.files == 1 and found.counts.lines == read_measured([str(tmp_path / "logs")]).counts.lines > 0
