"""Tests that a crash of one cluster process during a write loses no row, and that the user gets a clear message.

docs/explanation/replacing-rows.md describes the results.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_fixtures import *  # noqa: F403 - fixtures; a second conftest.py would conflict
from cluster_fixtures import Query
from cluster_projects import ClusterProject, Ended, Running

ROWS = 3_000_000
SQL = f"select id as k, {{{{ var('version') }}}} as version, cast(id % 2 as int) as p from range({ROWS})"


def version(number: int) -> tuple[str, ...]:
    return "run", "--vars", f"version: {number}"


def content(query: Query, table: str) -> list[tuple[object, ...]]:
    return query(f"select version, count(*), count(distinct k), sum(k) from {table} group by version order by version")


def expected_content(number: int) -> list[tuple[object, ...]]:
    """Return the result of content() for a complete table of one version."""
    return [(number, ROWS, ROWS, ROWS * (ROWS - 1) // 2)]


def print_output(title: str, ended: Ended) -> None:
    """Print the parts of the output that matter to a user."""
    shown = [
        line
        for line in ended.output.splitlines()
        if not re.search(r"Running with|Registered adapter|Found \d|Concurrency|Finished running", line)
    ]
    print(f"\n### {title}: exit code {ended.code}\n" + "\n".join(line[:300] for line in shown if line.strip()))


def has_files(folder: Path) -> bool:
    return any(folder.glob("*.parquet")) or any(folder.glob("*_0_part-*"))


def is_writing(folder: Path) -> bool:
    """Return whether tasks are writing below a folder."""
    return any(folder.glob("_temporary/0/_temporary/*/*")) or any(
        folder.glob(".spark-staging*/_temporary/0/_temporary/*/*")
    )


@pytest.fixture
def built(project: ClusterProject) -> ClusterProject:
    """Build the model m as a bucketed table."""
    project.model("m", SQL, materialized="bucketed_table", clustered_by="k", buckets=8)
    project.dbt(*version(1)).checked_output()
    return project


def assert_next_run_completes(project: ClusterProject, query: Query, number: int) -> None:
    again = project.dbt(*version(number))
    print_output("the next run", again)
    assert again.code == 0, again.output
    table = f"{project.schema}.m"
    assert content(query, table) == expected_content(number)
    assert {row[1] for row in query(f"show tables in {project.schema}")} == {"m"}
    assert {row[0] for row in query(f"select status from bucket_specs('{table}')")} == {"sealed"}


def test_run_completes_when_a_worker_is_killed_during_a_write(
    running_cluster: Cluster, built: ClusterProject, query: Query
) -> None:
    run = built.start_dbt(*version(2))
    run.until(lambda: is_writing(built.table("m__dbt_tmp")))
    running_cluster.kill("worker-2")
    ended = run.end()
    print_output("dbt run", ended)
    assert ended.code == 0, ended.output
    assert "Lost executor" in running_cluster.tail("thrift", 10**7)
    assert content(query, f"{built.schema}.m") == expected_content(2)
    assert query(f"select status, num_buckets, max_files_per_bucket from bucket_specs('{built.schema}.m')") == [
        ("sealed", 8, 1)
    ]


def test_run_completes_when_a_worker_is_killed_during_a_bucketed_join(
    running_cluster: Cluster, built: ClusterProject, query: Query
) -> None:
    # Each row keeps its task busy for some seconds.
    join = (
        f"select count(*), sum(a.k), sum(length(sha2(repeat(cast(a.k as string), 40), 512))) "
        f"from {built.schema}.m as a join {built.schema}.m as b on a.k = b.k"
    )
    plan = query(f"explain {join}")[0][0]
    assert "Exchange hashpartitioning" not in plan, plan
    expected = [(ROWS, ROWS * (ROWS - 1) // 2, 128 * ROWS)]
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.extend(query(join)))
    log_start = len(running_cluster.tail("thrift", 10**8))
    asking.start()
    while "Starting task" not in running_cluster.tail("thrift", 10**8)[log_start:]:
        time.sleep(0.05)
    time.sleep(1)
    running_cluster.kill("worker-1")
    asking.join(300)
    assert found == expected
    assert re.search("Lost task|Resubmitted|Lost executor", running_cluster.tail("thrift", 10**8)[log_start:])


PHASES: dict[str, Callable[[ClusterProject], bool]] = {
    "new rows are being written": lambda project: is_writing(project.table("m__dbt_tmp")),
    "new rows are complete": lambda project: has_files(project.table("m__dbt_tmp")),
    "the old table is the backup": lambda project: project.table("m__dbt_backup").exists(),
    "the new table is in place": lambda project: (
        project.table("m__dbt_backup").exists() and has_files(project.table("m"))
    ),
}


@pytest.mark.parametrize("phase", PHASES)
def test_thrift_server_killed_during_a_swap_loses_no_row(
    running_cluster: Cluster, built: ClusterProject, query: Query, phase: str
) -> None:
    run = built.start_dbt(*version(2))
    run.until(lambda: PHASES[phase](built))
    running_cluster.kill("thrift")
    ended = run.end()
    print_output(phase, ended)
    assert ended.code in (1, 2), ended.output
    assert not re.search(r"Traceback", ended.output), ended.output
    running_cluster.start("thrift")
    tables = {row[1] for row in query(f"show tables in {built.schema}")}
    print("tables", tables)
    left = content(query, f"{built.schema}.m") if "m" in tables else content(query, f"{built.schema}.m__dbt_backup")
    assert left in (expected_content(1), expected_content(2))
    assert_next_run_completes(built, query, 3)


@pytest.fixture
def partitioned(project: ClusterProject) -> ClusterProject:
    """Build the model m, whose later runs merge all rows of both partitions."""
    project.model(
        "m", SQL, materialized="bucketed_incremental", incremental_strategy="merge", unique_key="k", partition_by="p",
        clustered_by="k", buckets=4,
    )  # fmt: skip
    project.dbt(*version(1)).checked_output()
    return project


# Phases of a run, each with a condition on the project and its files. An empty folder exists too briefly to be seen.
REPLACING: dict[str, Callable[[ClusterProject, set[Path]], bool]] = {
    "files are being written": lambda project, _: any(project.table("m").glob("_replaced/*/files/**/*part-*")),
    "files are being replaced": lambda project, before: not before <= files_of_partitions(project),
}


def files_of_partitions(project: ClusterProject) -> set[Path]:
    return set(project.table("m").glob("p=*/*part-*"))


@pytest.mark.parametrize("phase", REPLACING)
def test_thrift_server_killed_during_a_merge_loses_no_row(
    running_cluster: Cluster, partitioned: ClusterProject, query: Query, phase: str
) -> None:
    before = files_of_partitions(partitioned)
    run = partitioned.start_dbt(*version(2))
    run.until(lambda: REPLACING[phase](partitioned, before))
    running_cluster.kill("thrift")
    ended = run.end()
    print_output(phase, ended)
    assert ended.code in (1, 2) and "Traceback" not in ended.output, ended.output
    running_cluster.start("thrift")
    assert_next_run_completes(partitioned, query, 2)


def assert_complete_or_unchanged(project: ClusterProject, query: Query, run: Running, title: str) -> None:
    """Check that a run succeeded, or failed with all rows intact, and that the next run succeeds."""
    ended = run.end()
    print_output(title, ended)
    assert "Traceback" not in ended.output, ended.output
    table = f"{project.schema}.m"
    if ended.code == 0:
        assert content(query, table) == expected_content(2)
    else:
        undo_interrupted_rename(project, query)
        there = [name for name in ("m", "m__dbt_backup") if project.table(name).exists()]
        assert content(query, f"{project.schema}.{there[0]}") in (expected_content(1), expected_content(2))
    assert_next_run_completes(project, query, 3)


def undo_interrupted_rename(project: ClusterProject, query: Query) -> None:
    """Rename the folder if the metastore crashed between renaming it and its table; the next run must request this."""
    tables = {row[1] for row in query(f"show tables in {project.schema}")}
    table, other = ("m", "m__dbt_backup") if "m" in tables else ("m__dbt_backup", "m")
    if project.table(table).exists() or other in tables:
        return
    stopped = project.dbt(*version(3))
    print_output("the run after an interrupted rename", stopped)
    assert stopped.code == 1 and f"a directory {other} without a table" in stopped.output, stopped.output
    project.table(other).rename(project.table(table))


# When the test kills the metastore: while tasks write, an INSERT commits, or the old table is renamed. The number is the
# seconds until the metastore restarts.
AWAY = dict(zip(PHASES, (30, 3, 0), strict=False))


@pytest.mark.parametrize(("phase", "seconds"), AWAY.items())
def test_killed_metastore_loses_no_row(
    running_cluster: Cluster, built: ClusterProject, query: Query, phase: str, seconds: float
) -> None:
    run = built.start_dbt(*version(2))
    run.until(lambda: PHASES[phase](built))
    running_cluster.kill("metastore")
    time.sleep(seconds)
    running_cluster.start("metastore")
    assert_complete_or_unchanged(built, query, run, f"{phase}, away for {seconds} s")


def test_metastore_killed_during_alter_leaves_a_consistent_spec(
    running_cluster: Cluster, project: ClusterProject, query: Query
) -> None:
    table = f"{project.schema}.t"
    query(f"create database {project.schema}")
    query(
        f"create table {table} (k bigint, v bigint) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as parquet"
    )
    query("set spark.sql.sources.partitionOverwriteMode=dynamic")
    query(f"insert into {table} partition (p = 1) select id, id * 7 from range(1000)")
    said = []
    for number in range(5, 13):
        killed = threading.Timer(0.05 * (number - 5), running_cluster.kill, ("metastore",))
        killed.start()
        try:
            query(f"alter table {table} clustered by (k) sorted by (k) into {number} buckets")
        except Exception as error:
            said.append(str(error)[:600])
        killed.join()
        running_cluster.start("metastore")
        query(f"refresh table {table}")
        assert query(f"select count(*), sum(v) from {table} where k = k") == [(1000, 7 * 999 * 500)]
        # The spec is either the old or the new one, and all copies in the metastore are equal.
        query(f"insert overwrite table {table} partition (p = 1) select id, id * 7 from range(1000)")
        spec = query(f"select status, num_buckets from bucket_specs('{table}')")
        described = [row[1] for row in query(f"describe extended {table}") if row[0] == "Num Buckets"]
        assert spec[0][0] == "sealed" and described == [str(spec[0][1])], (spec, described)
    print(f"\n### ALTER failed {len(said)} of 8 times:", *set(said), sep="\n")


@pytest.mark.parametrize("phase", AWAY)
def test_restarted_postgresql_loses_no_row(
    running_cluster: Cluster, built: ClusterProject, query: Query, phase: str
) -> None:
    run = built.start_dbt(*version(2))
    run.until(lambda: PHASES[phase](built))
    running_cluster.restart("postgres")
    assert_complete_or_unchanged(built, query, run, f"PostgreSQL restarted while {phase}")


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Mount a file system of this size in place of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_on_a_worker_loses_no_row(running_cluster: Cluster, built: ClusterProject, query: Query) -> None:
    with small_disk(running_cluster.local("worker-2"), 8):
        running_cluster.restart("worker-2")
        run = built.start_dbt(*version(2))
        assert_complete_or_unchanged(built, query, run, "the local disk of worker-2 is full")
    running_cluster.restart("worker-2")


def test_full_disk_in_the_warehouse_loses_no_row(running_cluster: Cluster, built: ClusterProject, query: Query) -> None:
    folder = built.table("m__dbt_tmp").parent / "m__dbt_tmp"
    with small_disk(built.home / "disk", 6):
        text = (built.home / "models" / "m.sql").read_text()
        built.write("models/m.sql", text.replace("config(", f"config(location_root='{built.home / 'disk'}', ", 1))
        failed = built.dbt(*version(2))
        print_output("the disk of the new table is full", failed)
        assert failed.code == 1 and "No space left" in failed.output, failed.output
        assert content(query, f"{built.schema}.m") == expected_content(1)
        built.write("models/m.sql", text)
        assert_next_run_completes(built, query, 3)
    assert not folder.exists()
