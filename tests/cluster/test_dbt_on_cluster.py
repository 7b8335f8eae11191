"""Tests of dbt and the commands on a cluster, through the cluster's Thrift Server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from cluster import Cluster
from cluster_fixtures import *  # noqa: F403 - fixtures; a second conftest.py would conflict
from cluster_fixtures import SETTINGS, Query
from cluster_projects import ClusterProject
from commands import explained
from spark_subprocess import REPOSITORY

from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import extension_settings


def test_showcase_builds_and_passes_tests_as_on_embedded_spark(running_cluster: Cluster) -> None:
    data = {"SPARK_BUCKETING_DEMO": str(running_cluster.folder / "demo")}
    subprocess.run([sys.executable, REPOSITORY / "scripts" / "get_data.py"], env=os.environ | data, check=True)
    embedded = (
        running_cluster.spark_settings("embedded")
        | extension_settings(build_jar())
        | SETTINGS
        | {"spark.master": "local[2]"}
    )
    showcase = ClusterProject(running_cluster, "nycflights13", project=REPOSITORY, session=embedded)
    built = showcase.dbt("build", **data).checked_output()
    done = re.search(r"PASS=(\d+) WARN=(\d+) ERROR=(\d+) SKIP=(\d+)", built)
    assert done and int(done[1]) > 100 and done.groups()[1:] == ("0", "0", "0"), built
    reports = {}
    for target in "thrift", "session":
        showcase.dbt(
            "compile", "--target", target, DBT_TARGET_PATH=str(showcase.home / target), **data
        ).checked_output()
        checked = showcase.command(
            "check", "--format", "json", "--target", target, DBT_TARGET_PATH=str(showcase.home / target), **data
        )
        assert checked.code in (0, 1), checked.output
        reports[target] = json.loads(checked.output[checked.output.index("{") :])
    assert [report["planner"].split(",")[0] for report in reports.values()] == ["live (thrift)", "live (session)"]
    verdicts = [
        {model["name"]: (model["findings"], explained(model)) for model in report["models"]}
        for report in reports.values()
    ]
    assert verdicts[0] == verdicts[1]
    assert any(operators for _, operators in verdicts[0].values())


def test_rewrite_gives_old_partitions_the_changed_buckets(project: ClusterProject, query: Query) -> None:
    project.model(
        "t", "select id as k, id * 7 as v, cast(id % 3 as int) as p from range({{ var('rows') }})",
        materialized="bucketed_incremental", incremental_strategy="insert_overwrite", partition_by="p", clustered_by="k",
        buckets=4, on_bucket_change="evolve",
    )  # fmt: skip
    project.dbt("run", "--vars", "rows: 300").checked_output()
    text = (project.home / "models" / "t.sql").read_text()
    project.write("models/t.sql", text.replace("buckets=4", "buckets=8"))
    # Only one partition has rows in this run.
    project.dbt("run", "--vars", "rows: 1").checked_output()
    table = f"{project.schema}.t"
    specs = f"select partition, status, num_buckets from bucket_specs('{table}') order by partition"
    assert query(specs) == [("p=0", "sealed", 8), ("p=1", "sealed", 4), ("p=2", "sealed", 4)]
    assert "2 partitions rewritten in the table's spec" in project.command("table", "rewrite", table).checked_output()
    assert query(specs) == [(f"p={p}", "sealed", 8) for p in range(3)]
    assert query(f"select count(*), sum(v) from {table}") == [(201, sum(7 * k for k in range(300) if k % 3))]
    assert "3 unchanged" in project.command("seal", table).checked_output()
    assert "8 buckets by (k)" in project.command("table", "show", table).checked_output()
    project.command("table", "verify", table, "--deep").checked_output()


ROWS = "select id as k, {{ var('version') }} as version from range({{ var('rows', 4000000) }})"
# Each row keeps a task busy for a second.
SLOW = "java_method('java.lang.Thread', 'sleep', 1000L)"
SLOWLY = f" where if(id % 4000000 < {{{{ var('slow', 0) }}}}, length(coalesce({SLOW}, '')) >= 0, true)"


def test_two_processes_build_different_models(project: ClusterProject, query: Query) -> None:
    for name in "a", "b":
        project.model(name, ROWS, materialized="bucketed_table", clustered_by="k", buckets=4)
    running = [project.start_dbt("run", "--select", name, "--vars", "version: 1") for name in ("a", "b")]
    for ended in [run.end() for run in running]:
        ended.checked_output()
    for name in "a", "b":
        assert query(f"select count(*), count(distinct k) from {project.schema}.{name}") == [(4000000, 4000000)]
        assert query(f"select status, num_buckets from bucket_specs('{project.schema}.{name}')") == [("sealed", 4)]


# The two possible errors of a run whose table another run has dropped. The time of the drop determines which one occurs.
DROPPED = "m__dbt_tmp|another run of the model is active"


@pytest.mark.parametrize("second_starts", ["at once", "while the first one writes"])
def test_two_processes_build_one_model(project: ClusterProject, query: Query, second_starts: str) -> None:
    project.model("m", ROWS + SLOWLY, materialized="bucketed_table", clustered_by="k", buckets=4)
    project.dbt("run", "--vars", "version: 1").checked_output()
    one = project.start_dbt("run", "--vars", f"{{version: 2, slow: {0 if second_starts == 'at once' else 30}}}")
    if second_starts != "at once":
        one.until(project.table("m__dbt_tmp").exists)
    other = project.start_dbt("run", "--vars", "version: 3")
    ended = {2: one.end(), 3: other.end()}
    for end in ended.values():
        assert end.code == 0 or re.search(DROPPED, end.output), end.output
    if second_starts != "at once":
        assert "m__dbt_tmp, which another run of this model left behind or still uses" in ended[3].output
    # The table has the rows of one version: of a successful run, or the previous version.
    [(version, rows, keys)] = query(
        f"select version, count(*), count(distinct k) from {project.schema}.m group by version"
    )
    assert (rows, keys) == (4000000, 4000000)
    assert version == 1 if all(end.code for end in ended.values()) else ended[version].code == 0
    project.dbt("run", "--vars", "version: 4").checked_output()
    assert query(f"select version, count(*) from {project.schema}.m group by version") == [(4, 4000000)]
    assert query(f"show tables in {project.schema}") == [(project.schema, "m", False)]
