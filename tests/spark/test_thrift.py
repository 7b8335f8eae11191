"""Tests over dbt-spark's thrift connection to a Spark Thrift Server, with one session per thread."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from cluster import HOST
from commands import command
from spark_servers import asking, thrift_server
from spark_subprocess import CREATE, interrupted

from conftest import Project
from spark_bucketing.event_log.measured import read_measured
from spark_bucketing.event_log.plan_costs import TableKeys


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the server's event log."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, logs: Path) -> Iterator[int]:
    """Start a server that writes an event log and plans like stock Spark, and return its port."""
    from spark_bucketing.extension.build import build_jar
    from spark_bucketing.extension.settings import server_settings

    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri()}
    settings |= server_settings(build_jar()) | {"spark.bucketing.enabled": "false"}
    with thrift_server(tmp_path_factory.mktemp("thrift"), settings) as port:
        yield port


@pytest.fixture(scope="module")
def extended_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start a server with the session extension, and return its port."""
    from spark_bucketing.extension.build import build_jar
    from spark_bucketing.extension.settings import server_settings

    with thrift_server(tmp_path_factory.mktemp("extended"), server_settings(build_jar())) as port:
        yield port


def connect(project: Project, port: int, schema: str, threads: int = 1) -> None:
    output = {"type": "spark", "method": "thrift", "host": HOST, "port": port, "user": "me", "schema": schema}
    project.write(
        "profiles.yml", yaml.safe_dump({"t": {"target": "t", "outputs": {"t": output | {"threads": threads}}}})
    )


STRATEGIES = {"append": 20, "insert_overwrite": 15, "merge": 15}


@pytest.mark.parametrize("bucket_hash", ["hive", "spark"])
@pytest.mark.long
def test_strategies_work_over_thrift(extended_server: int, project: Project, bucket_hash: str) -> None:
    schema = f"w_{bucket_hash}"
    connect(project, extended_server, schema, threads=4)
    later = "select id as k, 'new' as v, 1 as p from range(5, 15)"
    first = "select id as k, 'old' as v, id % 2 as p from range(10)"
    project.model(
        f"table_{bucket_hash}", first, materialized="bucketed_table", clustered_by="k", buckets=4,
        bucket_hash=bucket_hash, location_root=str(project.folder / "external"),
    )  # fmt: skip
    for strategy in STRATEGIES:
        project.model(
            f"{strategy}_{bucket_hash}",
            f"{{% if is_incremental() %}}{later}{{% else %}}{first}{{% endif %}}",
            materialized="bucketed_incremental", incremental_strategy=strategy, unique_key="k",
            clustered_by="k", buckets=4, partition_by="p", bucket_hash=bucket_hash,
        )  # fmt: skip
    project.model(
        "organized", f"{first} union all {later}", materialized="organized_table", partition_by="p", rows_per_file=4
    )
    project.dbt("run")
    project.dbt("run")
    with asking(extended_server) as query:
        # 5 rows and 15 rows.
        assert query(
            f"select count(*), sum(n) from (select count(*) as n from {schema}.organized group by input_file_name())"
        ) == [(2 + 4, 20)]
        for name in ("table", *STRATEGIES):
            table = f"{schema}.{name}_{bucket_hash}"
            assert query(f"select count(*) from {table}") == [(STRATEGIES.get(name, 10),)], table
            files = [row[0] for row in query(f"select distinct input_file_name() from {table}")]
            keys = {
                (path.rsplit("/", 1)[0], path.split("_0")[0] if bucket_hash == "hive" else path.split("_")[-1])
                for path in files
            }
            assert len(keys) == len(files), files
        assert len(query(f"show tables in {schema}")) == len(STRATEGIES) + 2


@pytest.mark.long
def test_explain_buckets_works_over_thrift(extended_server: int) -> None:
    assumed = {
        "settings": {"spark.sql.adaptive.enabled": "false"},
        "tables": [{"name": "no_schema.t", "columns": [{"name": "k", "type": "bigint"}]}],
    }
    statement = "explain buckets format json assuming '{}' select k, count(*) from no_schema.t group by k"
    with asking(extended_server) as query:
        before = query("set spark.sql.adaptive.enabled")
        document = json.loads(query(statement.format(json.dumps(assumed)))[0][0])
        assert [node["kind"] for node in document["nodes"]].count("exchange") == 1 and not document["adaptive"]
        assert query("set spark.sql.adaptive.enabled") == before
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            query("explain buckets select * from no_schema.t")


@pytest.mark.long
def test_check_works_over_thrift(server: int, project: Project) -> None:
    connect(project, server, "checked")
    for name, buckets in (("a", 4), ("b", 4), ("c", 3)):
        project.model(name, "select id as k from range(10)", materialized="bucketed_table", clustered_by="k",
                      buckets=buckets, bucket_hash="spark")  # fmt: skip
    for name, other in (("good", "b"), ("bad", "c")):
        # Without the hint, Spark would broadcast tables as small as these.
        sql = f"select /*+ merge(y) */ x.k from {{{{ ref('a') }}}} as x join {{{{ ref('{other}') }}}} as y on x.k = y.k"
        project.model(name, sql, materialized="view")
    project.dbt("run")
    result = command(project, "check", "--format", "json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["planner"][:15]) == (1, "live (thrift), "), result.output
    models = {model["name"]: model for model in report["models"]}
    assert [model["findings"] for model in models.values()] == [[]] * 5
    assert [operator["exchanges"] for operator in models["good"]["operators"]] == [0]
    found = {finding["reason"] for operator in models["bad"]["operators"] for finding in operator["findings"]}
    # This server does not use the ordering of sorted files, so Spark sorts the side that it does not shuffle.
    assert found == {"bucket-count-mismatch", "scan-ordering-disabled"}
    connect(project, 1, "checked")
    away = command(project, "check")
    assert away.exit_code == 2 and "connect" in away.output and "Traceback" not in away.output


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.long
def test_event_logs_attribute_statements_by_the_comment_over_thrift(
    server: int, new_project: Callable[..., Project], logs: Path, append: bool
) -> None:
    project = new_project(**{"query-comment": {"append": append}})
    schema, name = f"logged_{append}".lower(), f"named_{append}".lower()
    connect(project, server, schema)
    project.model("pages", "select id % 50 as k, 'p' || id as page from range(1000)", materialized="table")
    like = '/* {"app": "dbt", "node_id": "model.t.other"} */'
    sql = f"select k, max(page) as page, '{like}' as text from {{{{ ref('pages') }}}} group by k {like}"
    project.model(name, sql, materialized="table")
    project.dbt("run")
    # The server keeps running, so only the next dbt command shows that the last model is complete.
    project.dbt("run", "--select", "pages")
    found = read_measured([str(logs)])
    (run,) = found.runs_of(f"model.t.{name}")
    assert found.writers[f"{schema}.{name}"] == f"model.t.{name}" and "model.t.other" not in found.runs
    ((keys, cost),) = found.costs(f"model.t.{name}").items()
    assert keys == TableKeys(f"{schema}.pages", ("k",)) and cost.shuffle_bytes == run.work.shuffle_bytes > 0


@pytest.mark.long
def test_advise_over_thrift_reads_statistics_and_plans_on_the_server(server: int, project: Project) -> None:
    connect(project, server, "advised")
    plain = {"materialized": "table", "file_format": "parquet"}
    project.model("clicks", "select id % 5000 as user_id, id % 2 as bit, id % 3 as p from range(20000)", **plain)
    project.model("users", "select id as user_id, id % 3 as p from range(5000)", partition_by="p", **plain)
    for number in range(5):
        join = "select /*+ merge(u) */ c.bit from {{ ref('clicks') }} as c join {{ ref('users') }} as u using (user_id)"
        project.model(f"j{number}", join, **plain)
    project.model("bits", "select bit, collect_list(p) as p from {{ ref('clicks') }} group by bit", **plain)
    project.dbt("run")
    size = ["--smallest", "1", "--target-file-size", "1KiB", "--format", "json"]
    result = command(project, "advise", "--profile", *size)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["planner"].startswith("live (thrift), without")
    changes = {one["model"]: one for one in report["changes"]}
    with asking(server) as query:
        files = query(
            "select sum(size) from (select distinct _metadata.file_path as path, _metadata.file_size as size from advised.clicks)"
        )
    # For a stock Spark server, `advise` proposes the layout that it can read, and equal numbers of buckets.
    assert changes["clicks"]["config"]["bucket_hash"] == "spark" and changes["clicks"]["bytes"] == files[0][0]
    reasons = {(one["table"], *one["keys"]): one["reason"] for one in report["left_out"]}
    assert "only 2 distinct values for" in reasons["advised.clicks", "bit"], reasons


@pytest.mark.long
def test_evolution_commands_work_over_thrift(tmp_path: Path, project: Project) -> None:
    from spark_bucketing.extension.build import build_jar
    from spark_bucketing.extension.settings import server_settings

    with thrift_server(tmp_path, server_settings(build_jar())) as port, asking(port) as query:
        connect(project, port, "s")
        rows = "select p, count(*), sum(v) from s.t group by p order by p"
        for statement in CREATE:
            query(statement)
        query("insert into s.t select id, id * 7, cast(id % 5 as int) from range(20000000)")
        query("alter table s.t clustered by (k) sorted by (k) into 8 buckets")
        before = query(rows)
        interrupted(tmp_path / "warehouse", project.place)
        assert query(rows) == before
        # Without cancellation, the server would write these files within the two seconds.
        time.sleep(2)
        assert not list(tmp_path.glob("warehouse/s.db/t/_replaced/*/files/*"))
        done = command(project, "table", "rewrite", "t", "--where", "p < 9")
        assert done.exit_code == 0 and "5 partitions rewritten in the table's spec" in done.output, done.output
        assert query("select distinct status, num_buckets from bucket_specs('s.t')") == [("sealed", 8)]
        query("refresh table s.t")
        assert query(rows) == before
        assert query("show tables in s") == [("s", "t", False)]
        shown = command(project, "table", "show", "s.t", "--format", "json")
        assert json.loads(shown.output)["tables"][0]["seals"]["all_partitions"]["spec"]["num_buckets"] == 8
        sealed = command(project, "table", "seal", "s.t")
        assert sealed.exit_code == 0 and "5 unchanged" in sealed.output, sealed.output
        examined = json.loads(command(project, "doctor", "--format", "json").stdout)["examined"]
        states = {one["subject"]: one["state"] for one in examined}
        assert (states["session extension"], states["metastore"], states["Spark"]) == ("ok", "ok", "ok"), examined
        missing = command(project, "table", "seal", "s.nowhere")
        assert missing.exit_code == 2 and "Table `s.nowhere` does not exist" in missing.output, missing.output
