"""Tests that crashes of dbt and of `spark-bucketing table rewrite` lose no row, and that the next run finishes.

Some tests crash a run before each statement that changes anything, and others kill processes, including Spark, at any time. The module
test_kills also kills runs within their statements.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crashes import content, crashing, executing, statements
from spark_features import has_scripts
from spark_subprocess import COMMAND, CREATE, SparkSubprocess, interrupted
from spec_evolution import DB, SpecEvolution, evolving_tables, sealed  # noqa: F401
from test_evolution_runs import EVOLVING, assert_files_match_seals

from conftest import Project, all_long_but, data_files

# Another SEED kills processes at other random moments.
SEED = int(os.environ.get("SEED", "1"))
KILLS = int(os.environ.get("KILLS", "4"))
TABLE: dict[str, Any] = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 2}
PARTITIONED = TABLE | {"materialized": "bucketed_incremental", "partition_by": ["ds"]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("rename", "instead", "said"),
    [
        ("`m` rename to", "`m` rename to no_such_schema.", "no_such_schema"),
        ("`m__dbt_tmp` rename", "`no_such_table` rename", "The previous one is restored"),
    ],
    ids=["first", "second"],
)
def test_failed_rename_keeps_the_previous_table(project: Project, rename: str, instead: str, said: str) -> None:
    second = "no_such_table" in instead and not has_scripts(project.spark)
    said = "no_such_table" if second else said
    project.model("m", "select '{{ var('v') }}' as k", **TABLE)
    project.dbt("run", v="old")
    with executing(lambda execute, sql: execute(sql.replace(rename, instead))):
        _, failure = project.attempt("run", v="new")
    assert said in failure and ("previous one is restored" in failure) == ("previous one is restored" in said)
    kept = "m__dbt_backup" if second else "m"
    assert content(project, f"select * from {{schema}}.{kept}", kept) == [("old",)]
    project.dbt("run", v="new")
    assert content(project) == [("new",)]
    assert project.tables() == {"m"}


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_orphaned_directories_of_a_crashed_run_are_removed(project: Project) -> None:
    project.spark.sql(f"drop schema {project.schema}")
    project.spark.sql(f"create schema {project.schema} location '{project.folder / 'a place%20'}'")
    rows = "select 3 as k, 'first' as v, 1 as ds"
    project.build(rows, **PARTITIONED, incremental_strategy="merge", unique_key="k")
    schema_folder = project.location("m").parent
    for role in ("tmp", "input"):
        (schema_folder / f"m__dbt_{role}").mkdir()
        (schema_folder / f"m__dbt_{role}" / "left_behind").write_text("by a dead process")
    for command in (("run",), ("run", "--full-refresh")):
        project.dbt(*command)
        assert [path.name for path in schema_folder.iterdir()] == ["m"]


@pytest.mark.parametrize("how", all_long_but("partitioned", ("managed", "partitioned", "external")))
def test_table_with_deleted_files_can_be_rebuilt(project: Project, how: str) -> None:
    place = {"location_root": str(project.folder / "external")} if how == "external" else {}
    project.build("select 1 as k, 1 as p", **TABLE, **place, partition_by=["p"] if how == "partitioned" else [])
    shutil.rmtree(project.location("m"))
    project.dbt("run")
    assert content(project) == [("1", "1")]
    assert project.tables() == {"m"}


def test_table_of_another_node_is_never_treated_as_a_leftover_table(project: Project) -> None:
    project.model("m", "select 1 as k", **TABLE)
    project.model("other", "select 'precious' as v", materialized="table", file_format="parquet", alias="m__dbt_input")
    project.dbt("run", "--select", "other")
    _, failure = project.attempt("run", "--select", "m")
    assert "Model `m` has an invalid `alias`" in failure and "another alias for `other`" in failure
    assert [row.v for row in project.rows("select v from {schema}.m__dbt_input")] == ["precious"]


# The renames of a swap, and the state after Hive's metastore has crashed during the last rename. Either the metastore
# moved the directory but did not store the new name, or it stored the name, lost the reply and moved the directory back.
# The last item is the suggested repair; it is empty if the next run repairs the table.
FIRST, SECOND = [("m", "m__dbt_backup")], [("m", "m__dbt_backup"), ("m__dbt_tmp", "m")]
CUT_RENAMES: dict[str, tuple[list[tuple[str, str]], str, str]] = {
    "first rename, directory moved": (FIRST, "m__dbt_backup", "move the files to the directory m "),
    "first rename, name stored": (FIRST, "m", "move the files to the directory m__dbt_backup "),
    "second rename, directory moved": (SECOND, "m", "otherwise, delete the directory"),
    "second rename, name stored": (SECOND, "m__dbt_tmp", ""),
}


@pytest.mark.parametrize("partition_by", all_long_but("ds", ("ds", "")))
@pytest.mark.parametrize(
    "cut", all_long_but(("first rename, directory moved", "second rename, name stored"), CUT_RENAMES)
)
@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_interrupted_rename_loses_no_row(project: Project, cut: str, partition_by: str) -> None:
    renames, stray, instead = CUT_RENAMES[cut]
    config = PARTITIONED | {"partition_by": partition_by or []}
    project.model("m", "select 1 as k, 2 as ds, '{{ var('v') }}' as v", **config)
    project.dbt("run", v="first")
    schema = project.location("m").parent
    if renames is SECOND:
        project.spark.sql(f"create table {project.table('m__dbt_tmp')} as select 1 as k")
    for name, to in renames:
        project.spark.sql(f"alter table {project.table(name)} rename to {project.table(to)}")
    interrupted_rename(project, renames[-1], schema, stray)
    for command in (("run",), ("run", "--full-refresh")) if instead else ():
        # A session that survived the crash still has the files in its cache.
        project.spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()
        _, failure = project.attempt(*command, v="second")
        assert f"a directory {stray} without a table" in failure and instead in failure, failure
        assert list((schema / stray).rglob("*.parquet")), "the only copy of the rows may be here"
    if stray == "m__dbt_backup" or (stray == "m" and renames is FIRST):
        ours = "m" if stray == "m__dbt_backup" else "m__dbt_backup"
        shutil.rmtree(schema / ours, ignore_errors=True)
        (schema / stray).rename(schema / ours)
    elif instead:
        shutil.rmtree(schema / stray)
    project.dbt("run", v="third")
    assert content(project, "select v from {schema}.m") == [("first",), ("third",)]
    assert project.tables() == {"m"} and {path.name for path in schema.iterdir()} - {"m__dbt_tmp"} == {"m"}


def interrupted_rename(project: Project, rename: tuple[str, str], schema: Path, stray: str) -> None:
    """Give a renamed table's directory one of the two names, and the table the other."""
    name, to = rename
    if stray == to:
        project.spark.sql(f"alter table {project.table(to)} rename to {project.table(name)}")
        (schema / name).rename(schema / to)
    else:
        (schema / to).rename(schema / name)


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_unbucketed_table_that_becomes_bucketed_survives_every_crash(new_project: Callable[..., Project]) -> None:
    rows = "select id as k, {} as v, id % 3 as ds from range(12)"
    evolving = EVOLVING | {"buckets": 4, "incremental_strategy": "merge", "unique_key": "k"}

    def prepared() -> Project:
        project = new_project()
        project.build(rows.format("'old'"), materialized="incremental", file_format="parquet", partition_by=["ds"])
        project.model("m", rows.format("'new'") + " where id % 3 = 1", **evolving)
        return project

    project = prepared()
    before = content(project)
    with statements() as sent:
        project.dbt("run")
    after = content(project)
    assert before != after
    for number, statement in enumerate(sent):
        project = prepared()
        with statements(crash_before=number):
            _, failure = project.attempt("run")
        assert "the process crashed here" in failure, statement
        # Without SQL scripts, the name of the table may be gone, and its rows are in the backup.
        if not has_scripts(project.spark) and "m" not in project.tables():
            assert content(project, "select * from {schema}.m__dbt_backup", "m__dbt_backup") == before, statement
        else:
            assert content(project) in (before, after), statement
        project.dbt("run")
        assert content(project) == after and project.tables() == {"m"}, statement
        assert_files_match_seals(project, "m")


# A test that crashes the rewrite command.


@pytest.mark.usefixtures("extension", "no_broadcast")
@pytest.mark.long
def test_rewrite_survives_a_crash_before_its_statement(tables: SpecEvolution) -> None:
    rows = tables.evolved("mortal", {"a": 4, "b": 8})
    places = tables.locations("mortal")
    with crashing() as sent:
        tables.said("rewrite", "mortal", code=2)
    assert [statement.split()[0] for statement in sent] == ["update"] and tables.sums("mortal") == rows
    tables.said("rewrite", "mortal", "--where", "ds >= 'a'")
    assert tables.locations("mortal") == places
    tables.assert_whole("mortal", rows, a=8, b=8)
    tables.said("verify", "mortal", "--deep")


# Tests that interrupt and kill processes.

# Part of the statement during which the test kills the process, and the seconds that the statement has run by then.
MOMENTS = [
    ("rename to `s`.`t__dbt_backup`", 0.0),
    ("rename to `s`.`t__dbt_backup`", 0.3),
    ("insert overwrite table", 0.5),
    ("insert overwrite table", 1.5),
]
MODELS = {
    "m": """
        {{ config(materialized='bucketed_incremental', incremental_strategy='insert_overwrite',
                  clustered_by='k', buckets=2, partition_by='p') }}
        select id as k, id div 10 as p, {{ var('v') }} as v
        from range({% if is_incremental() %}{{ 10 * var('v') }}, {{ 10 * var('v') + 15 }}{% else %}20{% endif %})
    """,
    "t": """
        {{ config(materialized='bucketed_table', clustered_by='k', buckets=2) }}
        select id as k, {{ var('v') }} as v from range(20)
    """,
}


@pytest.mark.long
def test_run_after_a_kill_has_all_rows_exactly_once(tmp_path: Path) -> None:
    """This test runs on stock Spark."""
    subprocess_spark, log = SparkSubprocess(tmp_path, "s", extension=False), tmp_path / "logs" / "dbt.log"
    subprocess_spark.install(MODELS)
    versions = dict.fromkeys(range(20), 0)
    for number, (statement, delay) in enumerate([("", 0.0), *MOMENTS]):
        arguments = ("run", "--vars", f"{{v: {number}}}")
        if statement:
            log.unlink()

            def sent(_: str = "", statement: str = statement) -> bool:
                return log.exists() and statement in log.read_text()

            subprocess_spark.kill(subprocess_spark.dbt(*arguments), sent, delay)
            assert sent(), f"the run ended before it sent {statement!r}"
            versions.update(dict.fromkeys(range(10 * number, 10 * number + 15), number))
        done, m, t = subprocess_spark.run(
            ("dbt", *arguments), "select k, v from s.m order by k", "select * from s.t order by k"
        )
        assert done[0] == 0, done[1]
        assert m == [[k, v] for k, v in sorted(versions.items())], statement
        assert t == [[k, number] for k in range(20)], statement
    assert sorted(path.name for path in (tmp_path / "warehouse" / "s.db").iterdir()) == ["m", "t"]


ROWS = "select p, count(*), sum(k), sum(v) from s.t group by p order by p"
SPECS = "select partition, num_buckets, location, status from bucket_specs('s.t')"
TABLES = "show tables in s"


def evolved_in_subprocess(folder: Path, rows: int) -> tuple[SparkSubprocess, list[Any]]:
    """Create a table with 5 partitions of 4 buckets, whose spec has 8 buckets; return its sums."""
    subprocess_spark = SparkSubprocess(folder, "s")
    *_, sums = subprocess_spark.run(
        *CREATE,
        f"insert into s.t select id, id * 7, cast(id % 5 as int) from range({rows})",
        "alter table s.t clustered by (k) sorted by (k) into 8 buckets",
        ROWS,
    )
    return subprocess_spark, sums


def assert_rewritten(subprocess_spark: SparkSubprocess, rows: list[Any], buckets: int) -> str:
    """Check that the next rewrite succeeds, that all rows are then in this many buckets, and that nothing else remains.

    Returns the output of the rewrite.
    """
    found, done, specs, verified, again, tables = subprocess_spark.run(
        ROWS, ("rewrite", "s.t"), SPECS, ("seal", "s.t", "--dry-run"), ROWS, TABLES
    )
    assert found == rows and again == rows
    assert (done[0], verified[0]) == (0, 0), (done[1], verified[1])
    assert {spec[1] for spec in specs} == {buckets}
    # Spark's killed overwrite leaves its own folder.
    assert [table[1] for table in tables] == ["t"]
    used = {Path("/" + spec[2].removeprefix("file:").lstrip("/")) for spec in specs}
    data = {path.parent for path in data_files(subprocess_spark.folder / "warehouse" / "s.db")}
    assert not {path for path in data - used if ".spark-staging-" not in str(path)}
    return str(done[1])


@pytest.mark.long
def test_ctrl_c_cancels_the_running_statement(tmp_path: Path) -> None:
    subprocess_spark, rows = evolved_in_subprocess(tmp_path, 3000000)
    outcomes = "warehouse/s.db/t/_replaced/*/outcome"
    before = set(tmp_path.glob(outcomes))
    assert "rewritten in the table's spec" not in "".join(interrupted(tmp_path / "warehouse", subprocess_spark.place))
    assert set(tmp_path.glob(outcomes)) <= before, "the statement was not canceled"
    assert subprocess_spark.run(ROWS) == [rows]
    assert "5 partitions rewritten in the table's spec" in assert_rewritten(subprocess_spark, rows, 8)


@pytest.mark.long
def test_rewrite_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    subprocess_spark, rows = evolved_in_subprocess(tmp_path, 2000)
    moments, buckets, killed = random.Random(SEED), 8, 0
    for _ in range(KILLS):
        delay = moments.uniform(0, 7)
        killed += subprocess_spark.kill(
            [*COMMAND, "rewrite", "s.t", *subprocess_spark.place], lambda output: "[1/" in output, delay
        )
        found, specs, verified = subprocess_spark.run(ROWS, SPECS, ("seal", "s.t", "--dry-run"))
        assert found == rows, delay
        if {spec[1] for spec in specs} == {buckets}:
            # The killed run had almost finished, so create new work for the next one.
            assert verified[0] == 0, verified[1]
            buckets = {8: 16, 16: 4, 4: 8}[buckets]
            subprocess_spark.run(f"alter table s.t clustered by (k) sorted by (k) into {buckets} buckets")
    assert killed
    assert "rewritten in the table's spec" in assert_rewritten(subprocess_spark, rows, buckets)
