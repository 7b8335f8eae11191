"""Runs that die, of dbt and of `spark-bucketing evolution rewrite`: no row is lost, and the next run finishes.

Most tests find out which statements a run makes, then repeat it, dying before each statement that changes anything.
(Dying after one is the same as dying before the next.) Others kill processes, Spark with them, at any moment.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bucketed import Tables
from click.testing import Result
from commanded import evolution_of
from dying import assert_survives_every_death, content, dying, statements
from elsewhere import COMMAND, Elsewhere
from evolving import (  # noqa: F401
    DB,
    alter,
    evolution_command,
    evolved,
    evolving_tables,
    fill,
    fine,
    locations,
    nothing_is_left,
    record,
    sealed,
    sums,
)
from test_evolution_runs import EVOLVING, assert_files_match_seals

from conftest import REPOSITORY, Project
from spark_bucketing.session import setting

# Another sequence of moments: SEED=7.
SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "4"))


@pytest.fixture
def project(new_project: Callable[..., Project]) -> Project:
    return new_project()


# dbt, statement by statement.


@pytest.mark.parametrize(
    "external", [pytest.param(False, id="managed"), pytest.param(True, id="external", marks=pytest.mark.long)]
)
def test_table_survives_every_death(project: Project, external: bool) -> None:
    place = {"location_root": str(project.folder / "external")} if external else {}
    project.model(
        "m",
        "select id as k, id % 2 as ds, '{{ env_var('VERSION') }}' as version from range(10)",
        materialized="bucketed_table",
        clustered_by=["k"],
        buckets=2,
        partition_by=["ds"],
        **place,
    )
    assert_survives_every_death(project, {"VERSION": "one"}, {"VERSION": "other"})
    if external:
        builds = [path.name for path in (project.folder / "external" / "m").iterdir()]
        assert builds == [project.location("m").name], "a build directory was left behind"
        warehouse = Path(str(project.spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
        assert list((warehouse / f"{project.schema}.db").iterdir()) == [], "an empty directory was left behind"


MOVES_A_ROW = """
    {% if is_incremental() %}
    select 3 as k, '{{ env_var('VERSION') }}' as v, {{ env_var('PLACE') }} as ds union all select 9, '{{ env_var('VERSION') }}', 2
    {% else %}
    select k, 'first' as v, ds from values (1, 0), (3, 1), (5, 2) as t(k, ds)
    {% endif %}
"""


@pytest.mark.long
@pytest.mark.parametrize("bucket_hash", ["hive", "spark"])
def test_merge_that_empties_a_partition_survives_every_death(project: Project, bucket_hash: str) -> None:
    project.model(
        "m",
        MOVES_A_ROW,
        materialized="bucketed_incremental",
        incremental_strategy="merge",
        unique_key="k",
        clustered_by=["k"],
        buckets=2,
        partition_by=["ds"],
        bucket_hash=bucket_hash,
    )
    assert_survives_every_death(project, {"VERSION": "one", "PLACE": "1"}, {"VERSION": "other", "PLACE": "7"})


@pytest.mark.long
def test_merge_into_an_unpartitioned_table_survives_every_death(project: Project) -> None:
    project.model(
        "m",
        MOVES_A_ROW,
        materialized="bucketed_incremental",
        incremental_strategy="merge",
        unique_key="k",
        clustered_by=["k"],
        buckets=2,
    )
    assert_survives_every_death(project, {"VERSION": "one", "PLACE": "1"}, {"VERSION": "other", "PLACE": "7"})


def test_a_failing_second_rename_brings_the_previous_table_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dbt.adapters.spark.session import Cursor

    project.model(
        "m", "select 1 as k, '{{ var('v') }}' as v", materialized="bucketed_table", clustered_by="k", buckets=2
    )
    project.dbt("run", v="old")
    execute = Cursor.execute

    def break_second_rename(self: Cursor, sql: str, *parameters: object) -> None:
        execute(self, sql.replace("`m__dbt_tmp` rename", "`no_such_table` rename"), *parameters)

    monkeypatch.setattr(Cursor, "execute", break_second_rename)
    _, failure = project.attempt("run", v="new")
    monkeypatch.undo()
    assert "the previous one is back" in failure
    assert content(project) == [("1", "old")]
    project.dbt("run", v="new")
    assert content(project) == [("1", "new")]
    assert project.tables() == {"m"}


def test_staged_rows_that_no_longer_fit_stop_the_run_until_a_full_refresh(project: Project) -> None:
    project.model(
        "m",
        "select 1 as k, 2 as ds",
        materialized="bucketed_incremental",
        clustered_by=["k"],
        buckets=2,
        partition_by=["ds"],
    )
    project.dbt("run")
    complete = "('bucketing.staging' = 'complete')"
    project.spark.sql(f"create table {project.table('m__dbt_staged')} (k int) using parquet tblproperties {complete}")
    _, failure = project.attempt("run")
    assert "its finished rows no longer fit the table" in failure and "--full-refresh" in failure
    assert content(project) == [("1", "2")]
    project.dbt("run", "--full-refresh")
    assert project.tables() == {"m"}


STAGED = {
    "materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 2, "partition_by": ["ds"],
}  # fmt: skip


@pytest.mark.long
def test_staged_rows_of_another_build_of_the_table_are_not_applied(project: Project) -> None:
    project.model("m", "select 1 as k, 2 as ds, '{{ var('v') }}' as v", **STAGED)
    project.dbt("run", v="first")
    with statements() as sent:
        project.dbt("run", v="second")
    overwrite = next(number for number, statement in enumerate(sent) if statement.startswith("insert overwrite"))
    with statements(die_before=overwrite):
        project.attempt("run", v="third")
    assert "m__dbt_staged" in project.tables()
    project.spark.sql(f"alter table {project.table('m')} set tblproperties ('bucketing.build' = 'build-1')")
    project.spark.sql(f"insert overwrite table {project.table('m')} values (9, 'newer', 2)")
    _, failure = project.attempt("run", v="fourth")
    assert "no longer fit the table" in failure and "build-1" in failure
    assert content(project, "select k, v from {schema}.m") == [("9", "newer")]
    project.dbt("run", "--full-refresh", v="fifth")
    assert content(project, "select k, v from {schema}.m") == [("1", "fifth")]
    assert project.tables() == {"m"}


def test_directories_that_a_dead_run_left_without_their_tables_are_cleared(project: Project) -> None:
    os.environ.update({"VERSION": "one", "PLACE": "7"})
    project.model("m", MOVES_A_ROW, **STAGED | {"incremental_strategy": "merge", "unique_key": "k"})
    project.dbt("run")
    schema_folder = project.location("m").parent
    for role in ("tmp", "input", "staged"):
        (schema_folder / f"m__dbt_{role}").mkdir()
        (schema_folder / f"m__dbt_{role}" / "left_behind").write_text("by a dead process")
    project.dbt("run")
    project.dbt("run", "--full-refresh")
    assert [path.name for path in schema_folder.iterdir()] == ["m"]


@pytest.mark.parametrize("external", [False, pytest.param(True, marks=pytest.mark.long)], ids=["managed", "external"])
def test_a_table_whose_files_somebody_deleted_can_be_built_again(project: Project, external: bool) -> None:
    place = {"location_root": str(project.folder / "external")} if external else {}
    project.model("m", "select 1 as k", materialized="bucketed_table", clustered_by="k", buckets=2, **place)
    project.dbt("run")
    shutil.rmtree(project.location("m"))
    project.dbt("run")
    assert content(project) == [("1",)]
    assert project.tables() == {"m"}


def test_a_failing_first_rename_says_why_and_changes_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from dbt.adapters.spark.session import Cursor

    project.model("m", "select '{{ var('v') }}' as k", materialized="bucketed_table", clustered_by="k", buckets=2)
    project.dbt("run", v="old")
    execute = Cursor.execute

    def break_first_rename(self: Cursor, sql: str, *parameters: object) -> None:
        execute(self, sql.replace("`m` rename to", "`m` rename to no_such_schema."), *parameters)

    monkeypatch.setattr(Cursor, "execute", break_first_rename)
    _, failure = project.attempt("run", v="new")
    monkeypatch.undo()
    assert "no_such_schema" in failure and "previous one is back" not in failure
    assert content(project) == [("old",)]
    project.dbt("run", v="new")
    assert content(project) == [("new",)]


def test_another_nodes_table_is_never_taken_for_a_leftover(project: Project) -> None:
    project.model("m", "select 1 as k", materialized="bucketed_table", clustered_by="k", buckets=2)
    project.model("other", "select 'precious' as v", materialized="table", file_format="parquet", alias="m__dbt_input")
    project.dbt("run", "--select", "other")
    _, failure = project.attempt("run", "--select", "m")
    assert "Invalid `alias` of model 'm'" in failure and "another alias for 'other'" in failure
    assert [row.v for row in project.rows("select v from {schema}.m__dbt_input")] == ["precious"]


def test_a_rename_that_was_cut_off_is_an_error_and_not_an_empty_table(project: Project) -> None:
    project.model("m", "select 1 as k, 2 as ds, '{{ var('v') }}' as v", **STAGED)
    project.dbt("run", v="first")
    # What Hive's metastore leaves when it dies between the move of the directory and its commit.
    folder = project.location("m")
    backup = folder.rename(folder.with_name("m__dbt_backup"))
    for command in (("run",), ("run", "--full-refresh")):
        _, failure = project.attempt(*command, v="second")
        assert "m__dbt_backup" in failure
        assert list(backup.rglob("*.parquet")), "the only copy of the rows"
    shutil.rmtree(folder, ignore_errors=True)
    backup.rename(folder)
    project.dbt("run", v="third")
    assert content(project, "select v from {schema}.m") == [("first",), ("third",)]


EVOLVED_MODEL = """{{{{ config(materialized='bucketed_incremental', clustered_by=['k'], buckets=env_var('BUCKETS') | int, partition_by=['ds'],
    on_bucket_change='evolve', incremental_strategy='{strategy}', unique_key=['k', 'ds']) }}}}
{{% if is_incremental() %}}
select id as k, '{{{{ env_var('VERSION') }}}}' as v, 1 as ds from range(3)
{{% else %}}
select id as k, 'first' as v, id % 3 as ds from range(12)
{{% endif %}}
"""


@pytest.fixture
def extended(project: Project) -> Iterator[None]:
    with setting(project.spark, "spark.bucketing.enabled", "true"):
        yield


@pytest.mark.long
@pytest.mark.usefixtures("extended")
@pytest.mark.parametrize("strategy", ["insert_overwrite", "merge"])
def test_an_evolving_table_survives_every_death(
    project: Project, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("models/m.sql", EVOLVED_MODEL.format(strategy=strategy))
    attempt = project.attempt

    def checked(*arguments: str, **variables: object) -> Any:
        # After every run and every death.
        outcome = attempt(*arguments, **variables)
        assert_files_match_seals(project, "m")
        return outcome

    monkeypatch.setattr(project, "attempt", checked)
    one, other = {"VERSION": "one", "BUCKETS": "2"}, {"VERSION": "other", "BUCKETS": "4"}
    assert_survives_every_death(project, one, other)


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_a_plain_table_that_becomes_bucketed_survives_every_death(new_project: Callable[..., Project]) -> None:
    rows = "select id as k, {} as v, id % 3 as ds from range(12)"
    plain = {"materialized": "incremental", "file_format": "parquet", "partition_by": ["ds"]}

    def prepared() -> Project:
        project = new_project()
        project.model("m", rows.format("'old'"), **plain)
        project.dbt("run")
        project.model(
            "m",
            rows.format("'new'") + " where id % 3 = 1",
            **EVOLVING | {"buckets": 4, "incremental_strategy": "merge", "unique_key": "k"},
        )
        return project

    project = prepared()
    before = content(project)
    with statements() as sent:
        project.dbt("run")
    after = content(project)
    assert before != after
    for number, statement in enumerate(sent):
        project = prepared()
        with statements(die_before=number):
            _, failure = project.attempt("run")
        assert "the process died here" in failure, statement
        assert content(project) in (before, after), statement
        project.dbt("run")
        assert content(project) == after, statement
        assert project.tables() == {"m"}, statement
        assert_files_match_seals(project, "m")


# The command, statement by statement.

STEPS = ("create table", "insert into", "alter table", "insert overwrite", "drop table")


@pytest.mark.usefixtures("extension")
def test_a_death_before_any_statement_of_a_rewrite(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "mortal", {"a": 4, "b": 4, "c": 8})
    rows, buckets = sums(tables, "mortal"), 8
    with dying(monkeypatch, None) as sent:
        assert command("rewrite", f"{DB}.mortal").exit_code == 0
    assert [statement[: len(step)] for statement, step in zip(sent, STEPS, strict=True)] == list(STEPS)
    for step in STEPS:
        places = locations(tables, "mortal")
        buckets = {8: 16, 16: 8}[buckets]
        alter(tables, "mortal", buckets)
        with dying(monkeypatch, step):
            assert command("rewrite", f"{DB}.mortal").exit_code == 2
        assert sums(tables, "mortal") == rows, step
        dry = command("rewrite", f"{DB}.mortal", "--dry-run")
        assert ("an earlier run died" in dry.output) is (step != "create table"), dry.output
        result = command("rewrite", f"{DB}.mortal", "--where", "ds >= 'a'")
        assert result.exit_code == 0, result.output
        assert record(tables, "mortal") == sealed(a=buckets, b=buckets, c=buckets), step
        assert sums(tables, "mortal") == rows, step
        assert locations(tables, "mortal") == places
        nothing_is_left(tables, "mortal")
    fine(command, "mortal")


@pytest.mark.usefixtures("extension")
def test_a_death_within_sparks_overwrite_takes_no_row_away(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "halved", {"a": 4, "b": 4, "c": 8})
    rows = sums(tables, "halved")
    # Spark deletes a partition's folder, and renames the new one to it.
    with dying(monkeypatch, "insert overwrite", lambda: shutil.rmtree(locations(tables, "halved")["ds=a"])):
        assert command("rewrite", f"{DB}.halved").exit_code == 2
    assert sums(tables, "halved") == rows[1:]
    # Whatever is asked of the next run.
    assert command("rewrite", f"{DB}.halved", "--where", "ds = 'c'").exit_code == 0
    assert sums(tables, "halved") == rows
    assert record(tables, "halved") == sealed(a=8, b=8, c=8)
    nothing_is_left(tables, "halved")


@pytest.mark.usefixtures("extension")
def test_rows_that_came_after_a_death_are_not_overwritten(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "newer", {"a": 4, "b": 4, "c": 8})
    with dying(monkeypatch, "insert overwrite"):
        command("rewrite", f"{DB}.newer")
    fill(tables, "newer", "b", how="into")
    rows = sums(tables, "newer")
    result = command("rewrite", f"{DB}.newer")
    assert result.exit_code == 2 and "something has written there since" in result.output, result.output
    assert sums(tables, "newer") == rows
    tables.sql("drop table newer__dbt_staged")
    assert command("rewrite", f"{DB}.newer").exit_code == 0
    assert sums(tables, "newer") == rows
    nothing_is_left(tables, "newer")


@pytest.mark.usefixtures("extension")
def test_rows_that_were_staged_for_another_table_are_not_applied(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    evolved(tables, "other", {"a": 4, "b": 8})
    with dying(monkeypatch, "insert overwrite"):
        command("rewrite", f"{DB}.other")
    tables.sql("alter table other set tblproperties ('bucketing.build' = 'build-7')")
    tables.sql("insert overwrite table other partition (ds = 'a') select 1, 1")
    rows = sums(tables, "other")
    result = command("rewrite", f"{DB}.other")
    assert result.exit_code == 2 and "no longer fit the table" in result.output and "build-7" in result.output
    assert sums(tables, "other") == rows


@pytest.mark.usefixtures("extension")
def test_rows_that_change_while_they_are_staged_are_not_overwritten(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_bucketing.evolution.warehouse import Warehouse

    evolved(tables, "changing", {"a": 4, "b": 8})
    real = Warehouse.change

    def change_and_add(self: Warehouse, statement: str) -> None:
        real(self, statement)
        if statement.startswith("insert into"):
            fill(tables, "changing", "a", how="into")

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "change", change_and_add)
        result = command("rewrite", f"{DB}.changing")
    assert result.exit_code == 2 and "No partition was replaced" in result.output, result.output
    assert tables.sql("select count(*) from changing where ds = 'a'") == [(80,)]
    nothing_is_left(tables, "changing")
    assert command("rewrite", f"{DB}.changing").exit_code == 0
    assert tables.sql("select count(*) from changing where ds = 'a'") == [(80,)]


# Each finishes what the other has left.


@pytest.mark.usefixtures("extension")
def test_a_dbt_run_finishes_a_rewrite(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.model(
        "m",
        "select id as k, id % 2 as ds from range(10) {% if is_incremental() %} where id < 0 {% endif %}",
        **STAGED,
    )
    project.dbt("run")
    before = content(project)
    project.spark.sql(f"alter table {project.table('m')} clustered by (k) sorted by (k) into 4 buckets")
    with dying(monkeypatch, "insert overwrite", lambda: shutil.rmtree(next(iter(project.location("m").glob("ds=*"))))):
        assert evolution_of(project)("rewrite", f"{project.schema}.m").exit_code == 2
    assert len(content(project)) == 5
    project.model("m", "select id as k, id % 2 as ds from range(10) where id < 0", **STAGED | {"buckets": 4})
    project.dbt("run")
    assert content(project) == before
    assert project.tables() == {"m"}
    assert_files_match_seals(project, "m")


@pytest.mark.usefixtures("extension")
def test_a_rewrite_finishes_a_dbt_run(project: Project) -> None:
    os.environ.update({"VERSION": "one", "PLACE": "7"})
    project.model("m", MOVES_A_ROW, **STAGED | {"incremental_strategy": "merge", "unique_key": "k"})
    project.dbt("run")
    with statements() as sent:
        project.dbt("run")
    after = content(project)
    assert ("3", "one", "7") in after
    project.dbt("run", "--full-refresh")
    overwrite = next(number for number, statement in enumerate(sent) if "insert overwrite" in statement)
    with statements(die_before=overwrite):
        project.attempt("run")
    assert content(project) != after
    result = evolution_of(project)("rewrite", f"{project.schema}.m")
    assert result.exit_code == 0, result.output
    assert content(project) == after
    assert "m__dbt_staged" not in project.tables()


# Processes that are interrupted, or killed.

# The statement that is running when the process dies, by a part of its text, and the seconds that it has been running.
MOMENTS = [
    ("swap", "rename to `s`.`t__dbt_backup`", 0.0),
    ("swap, a moment later", "rename to `s`.`t__dbt_backup`", 0.3),
    ("staging", "into `s`.`m__dbt_staged`", 0.2),
    ("declaring", "'bucketing.staging' = 'complete'", 0.0),
    ("replacing", "insert overwrite table", 0.5),
    ("replacing, a moment later", "insert overwrite table", 1.5),
]
MODELS = {
    "m": """
        {{ config(materialized='bucketed_incremental', incremental_strategy='merge', unique_key='k',
                  clustered_by='k', buckets=2, partition_by='p') }}
        select id as k, id % 3 as p, {{ var('v') }} as v
        from range({% if is_incremental() %}{{ 10 * var('v') }}, {{ 10 * var('v') + 15 }}{% else %}20{% endif %})
    """,
    "t": """
        {{ config(materialized='bucketed_table', clustered_by='k', buckets=2) }}
        select id as k, {{ var('v') }} as v from range(20)
    """,
}


def dbt_command(folder: Path, *arguments: str) -> list[str]:
    main = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
    return [*main, *arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]


def show(folder: Path, query: str) -> list[dict[str, object]]:
    arguments = ("show", "--quiet", "--output", "json", "--limit", "-1", "--vars", "{v: 0}", "--inline", query)
    done = subprocess.run(dbt_command(folder, *arguments), capture_output=True, text=True, check=True, timeout=300)
    return list(json.loads(done.stdout[done.stdout.index("{") :])["show"])


def run(folder: Path, version: int) -> None:
    arguments = dbt_command(folder, "run", "--vars", f"{{v: {version}}}")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout


def run_and_kill(folder: Path, version: int, statement: str, delay: float) -> None:
    """Start a run, wait until it has sent this statement, and kill the process with the Spark below it."""
    log = folder / "logs" / "dbt.log"
    log.unlink()
    arguments = dbt_command(folder, "run", "--vars", f"{{v: {version}}}")
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as dbt:
        while dbt.poll() is None and not (log.exists() and statement in log.read_text()):
            time.sleep(0.02)
        assert dbt.poll() is None, f"the run ended before it sent {statement!r}"
        time.sleep(delay)
        os.killpg(dbt.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose Spark lives in dbt's own process, with a metastore of its own."""
    folder = tmp_path_factory.mktemp("killed")
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.hadoop.hive.downloaded.resources.dir": str(folder / "resources"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder}",
    }
    output = {"type": "spark", "method": "session", "host": "NA", "schema": "s", "threads": 1}
    profile = {"t": {"target": "t", "outputs": {"t": output | {"server_side_parameters": settings}}}}
    project = {"name": "t", "profile": "t", "flags": {"send_anonymous_usage_stats": False}}
    for name, settled in {"profiles.yml": profile, "dbt_project.yml": project}.items():
        (folder / name).write_text(yaml.safe_dump(settled))
    (folder / "packages.yml").write_text(yaml.safe_dump({"packages": [{"local": str(REPOSITORY)}]}))
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "spark_bucketing").symlink_to(REPOSITORY)
    (folder / "models").mkdir()
    for name, sql in MODELS.items():
        (folder / "models" / f"{name}.sql").write_text(sql)
    return folder


@pytest.mark.long
def test_the_run_after_a_killed_one_has_all_rows_once(folder: Path) -> None:
    run(folder, 0)
    versions = dict.fromkeys(range(20), 0)
    for number, (moment, statement, delay) in enumerate(MOMENTS, start=1):
        run_and_kill(folder, number, statement, delay)
        run(folder, number)
        versions.update(dict.fromkeys(range(10 * number, 10 * number + 15), number))
        rows = show(folder, "select 'm' as t, k, v from {{ ref('m') }} union all select 't', k, v from {{ ref('t') }}")
        found = {table: sorted((row["k"], row["v"]) for row in rows if row["t"] == table) for table in ("m", "t")}
        assert found == {"m": sorted(versions.items()), "t": [(k, number) for k in range(20)]}, moment
    left = [path.name for path in (folder / "warehouse" / "s.db").iterdir()]
    assert sorted(left) == ["m", "t"]


def folders_without_partition(warehouse: Path, locations: list[str]) -> set[Path]:
    """Folders with data files that are of no partition, but those that Spark's own overwrite leaves when it is killed."""
    used = {Path("/" + location.removeprefix("file:").lstrip("/")) for location in locations}
    data = {path.parent for path in warehouse.rglob("*") if path.is_file() and path.name[0] not in "._"}
    return {path for path in data - used if ".spark-staging-" not in str(path)}


CREATE = (
    "create database s",
    "create table s.t (k bigint, v bigint) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets "
    "stored as parquet",
)
ROWS = "select p, count(*), sum(k), sum(v) from s.t group by p order by p"
SPECS = "select partition, num_buckets, location, status from bucket_specs('s.t')"
TABLES = "show tables in s"
DONE = "brought to the table's spec"


@pytest.mark.long
def test_ctrl_c_cancels_what_spark_does(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, "s")
    *_, rows = elsewhere.run(
        *CREATE,
        "insert into s.t select id, id * 7, cast(id % 5 as int) from range(3000000)",
        "alter table s.t clustered by (k) sorted by (k) into 8 buckets",
        ROWS,
    )
    log = tmp_path / "interrupted.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*COMMAND, "rewrite", "s.t", *elsewhere.place], stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        while process.poll() is None and not list(tmp_path.glob("warehouse/s.db/t__dbt_staged/_temporary")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, log.read_text()
    said = [line for line in log.read_text().splitlines() if "WARN" not in line]
    assert said[-1].startswith("Interrupted.") and "Traceback" not in log.read_text() and DONE not in log.read_text()
    assert not list(tmp_path.glob("warehouse/s.db/t__dbt_staged/p=*/0*")), "the INSERT has gone on to its end"
    found, done, specs, again, tables = elsewhere.run(ROWS, ("rewrite", "s.t"), SPECS, ROWS, TABLES)
    assert (found, again) == (rows, rows)
    assert done[0] == 0 and "dropping it" in done[1], done[1]
    assert {spec[1] for spec in specs} == {8}
    assert [table[1] for table in tables] == ["t"]
    assert not folders_without_partition(tmp_path / "warehouse" / "s.db", [spec[2] for spec in specs])


@pytest.mark.long
def test_a_rewrite_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    elsewhere, moments = Elsewhere(tmp_path, "s"), random.Random(SEED)
    *_, rows = elsewhere.run(
        *CREATE,
        "insert into s.t select id, id * 7, cast(id % 5 as int) from range(2000)",
        "alter table s.t clustered by (k) sorted by (k) into 8 buckets",
        ROWS,
    )
    buckets, killed = 8, 0
    for _ in range(KILLS):
        delay = moments.uniform(0, 7)
        killed += elsewhere.kill([*COMMAND, "rewrite", "s.t", *elsewhere.place], lambda output: "[1/" in output, delay)
        found, specs, verified = elsewhere.run(ROWS, SPECS, ("verify", "s.t"))
        # Within Spark's overwrite a partition may be missing; the next run writes it.
        assert all(row in rows for row in found), delay
        if {spec[1] for spec in specs} == {buckets} and found == rows:
            # It had come to its end, all but; the next one has something to do again.
            assert verified[0] == 0, verified[1]
            buckets = {8: 16, 16: 4, 4: 8}[buckets]
            elsewhere.run(f"alter table s.t clustered by (k) sorted by (k) into {buckets} buckets")
    assert killed
    done, found, specs, verified, tables = elsewhere.run(("rewrite", "s.t"), ROWS, SPECS, ("verify", "s.t"), TABLES)
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


@pytest.mark.long
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
            *before, ("dbt", *command(run, buckets)), ROWS, SPECS, ("verify", "s.t"), TABLES
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
        found, _ = complete(run, buckets)
        for row in found:
            assert row in (expected(run - 1)[row[0]], expected(run)[row[0]]), delay
    assert ended < KILLS
