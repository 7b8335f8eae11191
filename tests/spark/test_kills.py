"""Tests that readers see a whole table after a run is killed in any statement, and that the next run completes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
from kills import (
    AFTER,
    BEFORE,
    WITHIN,
    Choice,
    Rows,
    assert_nothing_is_left,
    at,
    can_be_half_done,
    content,
    killed,
    matching,
)
from pyspark.sql import SparkSession
from session_settings import setting
from spark_features import has_scripts
from test_evolution_runs import assert_files_match_seals

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension")


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Args:
        sql: query of a run that adds rows to the table; RUN is the run's number, which may repeat.
        rows: function that returns the table's rows after the run with a given number.
        switches_by: the unit that one metastore change replaces: the table or a partition.
    """

    config: dict[str, Any]
    sql: str
    rows: Callable[[int], Rows]
    switches_by: str = "table"
    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    inputs: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    external: bool = False


RUN = "{{ env_var('RUN') }}"
BASE = "select id as k, 0 as v, id % 3 as p from range(12)"
OLD = [(k, 0, k % 3) for k in range(12)]


def updated(run: int, new: Rows) -> Rows:
    """Return the old rows with row 1 updated, plus the new rows."""
    return sorted([*((k, run if k == 1 else v, p) for k, v, p in OLD), *new])


def appended(run: int) -> Rows:
    return [*OLD, *((11 + n, n, (11 + n) % 3) for n in range(1, run + 1))]


BUILD = f"select id as k, {RUN} as v, id % 3 as p from range(12)"
APPEND = (
    f"select id as k, {RUN} as v, id % 3 as p from range(12 + {RUN}) where id not in (select k from {{{{ this }}}})"
)
MERGE = f"select 1L as k, {RUN} as v, 1L as p union all select 50L, {RUN}, {RUN} % 3L"
OVERWRITE = f"select id as k, {RUN} as v, 1L as p from range(2 + {RUN} % 2)"
MOVE = f"select 100L as k, {RUN} as v, {RUN} % 2 + 7L as p union all select 9L, {RUN}, 2L"
# Each run renames a column, so that it rewrites the table.
RENAME = f"select *, 'new' as text_{{{{ env_var('RUN') | int % 2 }}}} from ({MOVE})"
CHANGES = f"""
    select 1L as k, {RUN} as v, 1L as p, 'U' as op
    union all select 50L + {RUN}, {RUN}, 5L + {RUN} % 2, 'I'
    union all select 49L + {RUN}, 0, 6L - {RUN} % 2, 'D' where {RUN} > 1
"""
EVENTS = f"select id as k, {RUN} as v, date_add(date'2024-01-01', cast(id % 3 as int)) as p from range(12)"
BUCKETED: dict[str, Any] = {"materialized": "bucketed_incremental", "clustered_by": ["k"], "buckets": 2}
PARTITIONED = BUCKETED | {"partition_by": ["p"]}
MERGED = PARTITIONED | {"incremental_strategy": "merge", "unique_key": "k"}
EVOLVE = PARTITIONED | {"on_bucket_change": "evolve"}
# Each run changes the number of buckets.
BUCKETS = "{{ config(buckets=2 + 2 * (env_var('RUN') | int % 2)) }}"
ORGANIZED: dict[str, Any] = {"materialized": "organized_incremental", "range_by": ["k"], "rows_per_file": 4}
CHECKED = {"unique_key": "k", "delete_when": "op = 'D'", "insert_when": "op = 'I'", "update_when": "op = 'U'"}
MICROBATCH = PARTITIONED | {"event_time": "p", "batch_size": "day", "begin": "2024-01-01"}


def built(run: int) -> Rows:
    return [(k, run, p) for k, _, p in OLD]


def merged(run: int) -> Rows:
    return updated(run, [(50, run, run % 3)] if run else [])


def overwritten(run: int) -> Rows:
    return sorted([*(row for row in OLD if row[-1] != 1 or not run), *((k, run, 1) for k in range(2 + run % 2) if run)])


def changed(run: int) -> Rows:
    return updated(run, [(50 + run, run, 5 + run % 2)] if run else [])


def moved(run: int) -> Rows:
    """Return the rows after a run that moves row 100, which empties its partition, and row 9."""
    new: Rows = [(9, run, 2), (100, run, 7 + run % 2)]
    return sorted([*OLD[:9], *OLD[10:], *new]) if run else [*OLD]


def of_days(run: int) -> Rows:
    return [(k, run if p else 0, date(2024, 1, 1 + p)) for k, _, p in OLD]


KINDS = {
    "bucketed_table": Kind(PARTITIONED | {"materialized": "bucketed_table"}, BUILD, built),
    "bucketed append": Kind(PARTITIONED | {"incremental_strategy": "append"}, APPEND, appended),
    "bucketed append, unpartitioned": Kind(BUCKETED | {"incremental_strategy": "append"}, APPEND, appended),
    "bucketed_table, external": Kind(
        PARTITIONED | {"materialized": "bucketed_table", "bucket_hash": "spark"}, BUILD, built, external=True
    ),
    "bucketed merge": Kind(MERGED, MERGE, merged, "partition"),
    "bucketed merge that moves rows": Kind(MERGED, MOVE, moved),
    "bucketed merge that moves rows, Spark layout": Kind(MERGED | {"bucket_hash": "spark"}, MOVE, moved),
    "bucketed merge that rewrites the table": Kind(MERGED | {"on_schema_change": "sync_all_columns"}, RENAME, moved),
    "bucketed merge, unpartitioned": Kind(BUCKETED | {"incremental_strategy": "merge", "unique_key": "k"}, MERGE, merged),
    "bucketed insert_overwrite": Kind(PARTITIONED | {"incremental_strategy": "insert_overwrite"}, OVERWRITE, overwritten),
    "bucketed insert_overwrite, unpartitioned": Kind(
        BUCKETED | {"incremental_strategy": "insert_overwrite"}, BUILD, built
    ),
    "bucketed microbatch": Kind(
        MICROBATCH | {"incremental_strategy": "microbatch"}, "select * from {{ ref('events') }}", of_days, "partition",
        ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-04"),
        ("--event-time-start", "2024-01-02", "--event-time-end", "2024-01-04"),
        {"events": (EVENTS, {"materialized": "view", "event_time": "p"})},
    ),
    "bucketed evolve": Kind(EVOLVE | {"incremental_strategy": "merge", "unique_key": "k"}, BUCKETS + MERGE, merged, "partition"),
    "bucketed evolve, insert_overwrite": Kind(EVOLVE | {"incremental_strategy": "insert_overwrite"}, BUCKETS + OVERWRITE, overwritten),
    "organized_table": Kind(ORGANIZED | {"materialized": "organized_table", "partition_by": ["p"]}, BUILD, built),
    "organized append": Kind(ORGANIZED | {"incremental_strategy": "append"}, APPEND, appended),
    "organized insert_overwrite": Kind(
        ORGANIZED | {"incremental_strategy": "insert_overwrite", "partition_by": ["p"]}, OVERWRITE, overwritten
    ),
    "organized merge": Kind(ORGANIZED | CHECKED | {"incremental_strategy": "merge"}, CHANGES, changed),
    "organized merge, partitioned": Kind(
        ORGANIZED | CHECKED | {"incremental_strategy": "merge", "partition_by": ["p"]}, CHANGES, changed
    ),
}  # fmt: skip


def started(new_project: Callable[..., Project], kind: Kind) -> Project:
    """Create a project and build its model."""
    project = new_project()
    for name, (sql, config) in kind.inputs.items():
        project.model(name, sql, **config)
    sql = kind.sql if kind.inputs else f"{{% if env_var('RUN') | int %}}{kind.sql}{{% else %}}{BASE}{{% endif %}}"
    place = {"location_root": str(project.folder / "external")} if kind.external else {}
    project.model("m", sql, **kind.config, **place)
    os.environ["RUN"] = "0"
    project.dbt("run", *kind.first)
    assert content(project) == kind.rows(0)
    return project


def assert_survives(project: Project, kind: Kind, run: int, chosen: Choice, how: str) -> None:
    """Kill a run in a statement, the next run during its recovery, and another in the same statement; then run twice."""
    os.environ["RUN"] = str(run)
    number, statement = assert_readable_when_killed(project, kind, run, chosen, how)
    assert chosen(number, statement), statement
    # SQL scripts rename both tables in one statement.
    assert how != BEFORE or not has_scripts(project.spark) or "m" in project.tables(), statement
    if how != BEFORE:
        assert_readable_when_killed(project, kind, run, at(number % 4), BEFORE)
    assert_readable_when_killed(project, kind, run, matching(re.escape(statement)), how)
    for _ in range(2):
        project.dbt("run", *kind.later)
        assert content(project) == kind.rows(run), (how, statement)
        assert_nothing_is_left(project, {"m", *kind.inputs}, f"{how} {statement}")
        if kind.config.get("on_bucket_change"):
            assert_files_match_seals(project, "m")


def assert_readable_when_killed(project: Project, kind: Kind, run: int, chosen: Choice, how: str) -> tuple[int, str]:
    """Kill a run, and check that readers see a whole table; return the number and the text of the last statement."""
    with killed(project, chosen, how) as sent:
        _, failure = project.attempt("run", *kind.later)
    # A run whose work is already complete may not send the statement.
    assert not failure or "the process was killed here" in failure, (how, sent[-1], failure)
    assert_readable(project, kind, run, f"{how} {sent[-1]}")
    return len(sent) - 1, sent[-1]


def assert_readable(project: Project, kind: Kind, run: int, where: str) -> None:
    """Check that each part of the table that changes atomically is in its state from before or after the run."""
    table = "m" if "m" in project.tables() else "m__dbt_backup"
    found, before, after = content(project, table), kind.rows(run - 1), kind.rows(run)
    for part in {row[-1] for row in [*found, *before, *after]} if kind.switches_by == "partition" else [None]:
        of_part = [[row for row in rows if part in (None, row[-1])] for rows in (found, before, after)]
        assert of_part[0] in of_part[1:], where


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_runs_survive_kills_in_every_statement(new_project: Callable[..., Project], name: str) -> None:
    kind = KINDS[name]
    project = started(new_project, kind)
    os.environ["RUN"] = "1"
    with killed(project, lambda *_: False, BEFORE) as sent:
        project.dbt("run", *kind.later)
    stops: list[tuple[int, str]] = []
    for number, statement in enumerate(sent):
        hows = [BEFORE, *([WITHIN] if can_be_half_done(statement) else []), *([AFTER] if statement is sent[-1] else [])]
        stops += [(number, how) for how in hows]
    for run, (number, how) in enumerate(stops, 2):
        assert_survives(project, kind, run, at(number), how)
    assert (project.detail("m", "Type") == "EXTERNAL") == kind.external
    print(f"{name}: {len(sent)} statements, {len(stops)} stops")


@pytest.mark.long
@pytest.mark.parametrize("name", ["bucketed_table", "bucketed merge that rewrites the table"])
def test_runs_without_scripts_survive_kills_in_every_statement(
    spark: SparkSession, new_project: Callable[..., Project], name: str
) -> None:
    with setting(spark, "spark.sql.scripting.enabled", "false"):
        test_runs_survive_kills_in_every_statement(new_project, name)
