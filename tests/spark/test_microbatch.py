"""Tests of incremental_strategy='microbatch', where each of dbt-core's batches replaces its own partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from crashes import statements
from session_settings import setting
from test_bucketed_table import assert_one_file_per_bucket

from conftest import Failed, Project, all_long_but

MICROBATCH: dict[str, Any] = {
    "materialized": "bucketed_incremental", "incremental_strategy": "microbatch", "clustered_by": ["k"], "buckets": 2,
    "partition_by": ["day"], "event_time": "day", "batch_size": "day", "begin": "2024-01-01",
}  # fmt: skip


EVENTS = (
    "select id as k, date_add(date'2024-01-01', cast(id % 10 as int)) as day, '{{ var('v') }}' as v from range(1000)"
)


@pytest.fixture
def events(project: Project) -> Project:
    """Create a hundred events on each of ten days, and a model that copies them with the version of the source."""
    project.model("events", EVENTS, materialized="view", event_time="day")
    project.model("m", "select * from {{ ref('events') }}", **MICROBATCH)
    return project


def days(project: Project) -> dict[str, tuple[str, int]]:
    rows = project.rows("select day, v, count(*) as n from {schema}.m group by day, v")
    assert len({row.day for row in rows}) == len(rows)
    return {str(row.day)[-2:]: (row.v, row.n) for row in rows}


def written_batches(sent: list[str]) -> int:
    """Return the number of batches written to the table under construction, or over existing partitions."""
    writes = re.compile(r"insert (overwrite table \S+`m`|into table \S+`m__dbt_tmp`)")
    return len([statement for statement in sent if writes.match(statement)])


def test_first_run_builds_all_batches_and_later_runs_the_selected_ones(events: Project) -> None:
    """The input of each batch has only rows of the batch."""
    sql = "select * from {{ ref('events') }} -- {{ model.batch.event_time_start.date() if model.batch }}"
    events.model("m", sql, **MICROBATCH)
    with statements(ignored=re.compile("no statement")) as sent:
        events.dbt("run", "--event-time-end", "2024-01-04", "--event-time-start", "2024-01-01", v="one")
    assert written_batches(sent) == 3
    assert days(events) == {f"0{day}": ("one", 100) for day in (1, 2, 3)}
    inserts = [statement for statement in sent if "insert into" in statement and "day >= '2024" in statement]
    found = [re.findall(r"2024-01-(\d\d)(?= 00:00:00\+00:00)", insert) for insert in inserts]
    assert found == [["01", "02"], ["02", "03"], ["03", "04"]]
    assert "-- 2024-01-01" in inserts[0]
    events.dbt("run", "--event-time-start", "2024-01-03", "--event-time-end", "2024-01-05", v="two")
    assert days(events) == {"01": ("one", 100), "02": ("one", 100), "03": ("two", 100), "04": ("two", 100)}
    assert_one_file_per_bucket(events, "m", "hive", 2)


@pytest.mark.parametrize(
    ("size", "begin", "end", "expected"),
    [
        pytest.param("hour", "2024-02-28 22:30:00", "2024-02-29 01:00:00", 3, marks=pytest.mark.long),
        pytest.param("day", "2024-02-27", "2024-03-02", 4, marks=pytest.mark.long),
        pytest.param("month", "2023-11-15", "2024-02-02", 4, marks=pytest.mark.long),
        pytest.param("year", "2021-06-01", "2024-01-01", 3, marks=pytest.mark.long),
    ],
)
def test_batches_of_every_size_are_built(project: Project, size: str, begin: str, end: str, expected: int) -> None:
    sql = "select 1 as k, '{{ model.batch.event_time_start if model.batch }}' as day"
    project.model("m", sql, **MICROBATCH | {"batch_size": size, "begin": begin})
    with statements() as sent:
        project.dbt("run", "--event-time-start", begin, "--event-time-end", end)
    assert written_batches(sent) == expected


@pytest.mark.parametrize(("lookback", "batches"), [(None, 2), (0, 1), (3, 4)])
@pytest.mark.long
def test_lookback_reprocesses_earlier_batches(project: Project, lookback: int | None, batches: int) -> None:
    config = MICROBATCH | {"begin": "2024-01-01"} | ({} if lookback is None else {"lookback": lookback})
    project.model("m", "select 1 as k, '{{ model.batch.event_time_start if model.batch }}' as day", **config)
    project.dbt("run", "--event-time-start", "2024-01-01", "--event-time-end", "2024-01-02")
    with statements() as sent:
        project.dbt("run")
    assert written_batches(sent) == batches


def skipped_batches(project: Project) -> list[str]:
    """Return the numbers of skipped batches from the log, and clear the log."""
    log = project.folder / "logs" / "dbt.log"
    found = re.findall(r"(\d+ of \d+|None of the \d+) batches of \S+ ha(?:ve no|s) rows", log.read_text())
    log.write_text("")
    return found


# Four sparse timestamps: the batch size, the end, the expression, the batches written, and the logged count.
SPARSE = {
    "date": ("day", "2024-01-25", "date_add(date'2024-01-01', cast(id * 7 as int))", 4, "20 of 24"),
    "timestamp_ntz": ("day", "2024-01-25", "timestamp_ntz'2024-01-01 23:30:00' + make_dt_interval(cast(id * 7 as int))", 4, "20 of 24"),
    "timestamp": ("hour", "2024-01-04 07:00:00", "timestamp_seconds(1704067200 + id * 90000 + 3599)", 4, "75 of 79"),
    "string": ("day", "2024-01-04", "cast(date_add(date'2024-01-01', cast(id as int)) as string)", 3, ""),
}  # fmt: skip


@pytest.mark.parametrize("runs", all_long_but(1, [1, 2]))
@pytest.mark.parametrize("type_", all_long_but("date", SPARSE))
def test_batches_without_rows_are_skipped(project: Project, type_: str, runs: int) -> None:
    size, end, at, batches, said = SPARSE[type_]
    project.model("events", f"select id as k, {at} as at from range(4)", materialized="view", event_time="at")
    day = "floor(unix_seconds(at) / 3600)" if size == "hour" else "date_format(at, 'yyyy-MM-dd')"
    config = MICROBATCH | {"event_time": "at", "batch_size": size, "partition_by": ["day"], "bucket_hash": "spark"}
    project.model(
        "m", f"select k, at, cast({day} as string) as day from {{{{ ref('events') }}}} where k >= 0", **config
    )
    for _ in range(runs):
        with setting(project.spark, "spark.sql.session.timeZone", "Asia/Kolkata"), statements() as sent:
            project.dbt("run", "--event-time-start", "2024-01-01", "--event-time-end", end)
        assert written_batches(sent) == batches and skipped_batches(project) == ([said] if said else [])
        # Spark compares strings as text: a date is less than the timestamp of its midnight.
        expected = {1, 2, 3} if type_ == "string" else {0, 1, 2, 3}
        assert {row.k for row in project.rows("select k from {schema}.m")} == expected


@pytest.mark.long
def test_model_with_rows_despite_empty_input_runs_all_batches(events: Project) -> None:
    day = "date'{{ model.batch.event_time_start.date() if model.batch else '2024-01-01' }}'"
    events.model(
        "m", f"select 1 as k, {day} as day, cast(count(*) as string) as v from {{{{ ref('events') }}}}", **MICROBATCH
    )
    events.dbt("run", "--event-time-start", "2023-12-30", "--event-time-end", "2024-01-02", v="one")
    assert days(events) == {"30": ("0", 1), "31": ("0", 1), "01": ("100", 1)} and not skipped_batches(events)


@pytest.mark.long
def test_empty_batch_keeps_its_existing_partitions(events: Project) -> None:
    events.model("m", "select * from {{ ref('events') }} where '{{ var('v') }}' = 'one'", **MICROBATCH)
    window = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-04")
    events.dbt("run", *window, v="one")
    events.dbt("run", *window, v="none at all")
    assert days(events) == {f"0{day}": ("one", 100) for day in (1, 2, 3)} and not skipped_batches(events)
    events.model("events", f"{EVENTS} where id % 10 != 1", materialized="view", event_time="day")
    events.model("m", "select * from {{ ref('events') }}", **MICROBATCH)
    events.dbt("run", *window, v="two")
    assert days(events) == {"01": ("two", 100), "02": ("one", 100), "03": ("two", 100)}
    assert skipped_batches(events) == ["1 of 3"]


@pytest.mark.long
def test_run_with_only_empty_batches_creates_and_keeps_the_table(events: Project) -> None:
    for _ in range(2):
        events.dbt("run", "--event-time-start", "2025-01-01", "--event-time-end", "2025-01-09", v="one")
        assert days(events) == {} and skipped_batches(events) == ["None of the 8"]
    assert events.tables() == {"events", "m"}


# A config change and the error; dbt-core itself requires the first four.
WRONG: list[tuple[dict[str, Any], str]] = [
    *(
        ({key: None}, f"Model `m` has an invalid `{key}`")
        for key in ("event_time", "begin", "batch_size", "partition_by")
    ),
    *(({"begin": begin}, "begin") for begin in ("2024-01-41", "yesterday", "2024-01-01T25")),
    ({"batch_size": "hour", "begin": "1900-01-01"}, "results in more than 100,000 batches"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(change, message, id=str(change), marks=pytest.mark.long if message == "begin" else ())
        for change, message in WRONG
    ],
)
def test_invalid_config_is_an_error(project: Project, change: dict[str, Any], message: str) -> None:
    config = {key: value for key, value in (MICROBATCH | change).items() if value is not None}
    project.model("m", "select 1 as k, date'2024-01-01' as day", **config)
    with pytest.raises(Failed, match=message):
        project.dbt("run")


@pytest.mark.long
def test_failed_batch_leaves_no_new_table_and_keeps_an_old_one(events: Project) -> None:
    bad = "select * from {{ ref('events') }} where {{ 'k' if not var('bad', false) else \"raise_error('boom')\" }} >= 0"
    events.model("m", bad, **MICROBATCH)
    window = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-03")
    events.attempt("run", *window, v="one", bad=True)
    assert "m" not in events.tables()
    events.dbt("run", *window, v="one")
    events.attempt("run", "--full-refresh", *window, v="two", bad=True)
    assert days(events) == {"01": ("one", 100), "02": ("one", 100)}


@pytest.mark.long
def test_sources_with_an_event_time_are_filtered(project: Project) -> None:
    project.write(
        "models/s.yml",
        f"""
        sources:
          - name: raw
            schema: {project.schema}
            tables: [{{name: events, config: {{event_time: day}}}}]
        """,
    )
    project.spark.sql(
        f"create table {project.table('events')} using parquet as"
        " select id as k, date_add(date'2024-01-01', cast(id as int)) as day, 'x' as v from range(9)"
    )
    project.model("m", "select * from {{ source('raw', 'events') }}", **MICROBATCH)
    project.dbt("run", "--event-time-start", "2024-01-03", "--event-time-end", "2024-01-05")
    assert sorted(days(project)) == ["03", "04"]


MONTHLY = MICROBATCH | {"partition_by": ["month"]}
MONTHS = "select *, date_format(day, 'yyyy-MM') as month from {{ ref('events') }}"


@pytest.fixture(params=all_long_but("extension", ["stock", "extension", "write_tasks"]))
def session(request: pytest.FixtureRequest, events: Project) -> Iterator[dict[str, object]]:
    """Run a test with and without the extension; return the config that a model needs for it."""
    with setting(events.spark, "spark.bucketing.enabled", str(request.param != "stock").lower()):
        yield {"write_tasks": 2} if request.param == "write_tasks" else {}


def test_batch_that_would_overwrite_other_batches_is_refused(events: Project, session: dict[str, object]) -> None:
    events.model("m", MONTHS, **MONTHLY | session)
    window = ("--event-time-start", "2024-01-01", "--event-time-end")
    with pytest.raises(Failed, match=r"an invalid `partition_by`.\n *found: .*2 batches write to .*month="):
        events.dbt("run", *window, "2024-01-03", v="one")
    assert "m" not in events.tables()
    events.dbt("run", *window, "2024-01-02", v="one")
    with pytest.raises(
        Failed, match=r"the partition 2024-01 has (100 row.s.|rows) outside the batch from 2024-01-02 00"
    ):
        events.dbt("run", "--event-time-start", "2024-01-02", "--event-time-end", "2024-01-03", v="two")
    assert days(events) == {"01": ("one", 100)}


@pytest.mark.long
def test_rows_of_a_batch_are_written_once(events: Project, session: dict[str, object]) -> None:
    events.model("m", MONTHS, **MONTHLY | session)
    window = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-02")
    events.dbt("run", *window, v="one")
    with statements() as sent:
        events.dbt("run", *window, v="again")
    assert days(events) == {"01": ("again", 100)}
    # The extension checks the replaced rows itself, so that the rows of a batch are written only once.
    assert any("m__dbt_input" in text for text in sent) == (events.spark.conf.get("spark.bucketing.enabled") == "false")


@pytest.mark.usefixtures("extension")
@pytest.mark.long
def test_microbatch_model_without_an_event_time_column_causes_a_warning(events: Project) -> None:
    events.model("m", "select k, day as d, v from {{ ref('events') }}", **MICROBATCH | {"partition_by": ["d"]})
    window = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-02")
    events.dbt("run", *window, v="one")
    events.dbt("run", *window, v="two")
    with pytest.raises(Failed, match="does not select its `event_time` column day"):
        events.dbt("--warn-error", "run", *window, v="three")


@pytest.mark.long
def test_sample_narrows_the_batches_further(events: Project) -> None:
    sample = ("--sample", "{'start': '2024-01-02', 'end': '2024-01-03'}")
    events.dbt("run", *sample, "--event-time-start", "2024-01-01", "--event-time-end", "2024-01-05", v="one")
    assert days(events) == {"02": ("one", 100)}


@pytest.mark.long
def test_ephemeral_inputs_are_filtered_to_the_batch(events: Project) -> None:
    """Batches without rows are skipped, and batches with rows do not change other days."""
    events.model("recent", "select * from {{ ref('events') }}", materialized="ephemeral", event_time="day")
    events.model("events", EVENTS, materialized="view")
    # The SQL differs in every batch.
    events.model("m", "select * from {{ ref('recent') }} -- {{ model.batch.id if model.batch }}", **MICROBATCH)
    with statements(ignored=re.compile("no statement")) as sent:
        events.dbt("run", "--event-time-start", "2024-01-08", "--event-time-end", "2026-01-01", v="one")
    assert written_batches(sent) == 3 and skipped_batches(events) == ["721 of 724"]
    assert len([statement for statement in sent if statement.startswith("explain select 1 from (")]) == 15
    events.dbt("run", "--event-time-start", "2024-01-09", "--event-time-end", "2024-01-10", v="two")
    assert days(events) == {"08": ("one", 100), "09": ("two", 100), "10": ("one", 100)}


# What a model may read: two packages with models of the same name, versions, and macros that call ref().
INPUTS = (
    "ref('events')", "ref('events').render()", "ref('t', 'events')", "ref('other', 'events')", "ref('recent')",
    "ref('recent').render()", "ref('timeless')", "ref('sized')", "ref('sized', v=1)", "ref('sized', version=2)",
    "source('raw', 'events')", "source('raw', 'events').render()", "source('raw', 'timeless')", "input()",
    "ref('events').identifier", "model.batch",
)  # fmt: skip


@pytest.fixture
def inputs(events: Project) -> Project:
    """Create the two models m and d, which read all inputs in the batches of this package and of dbt."""
    at = {"materialized": "view", "event_time": "day"}
    events.model("recent", "select * from {{ ref('events') }}", materialized="ephemeral", event_time="day")
    events.model("timeless", "select * from {{ ref('events') }}", materialized="view")
    for version in (1, 2):
        events.model(f"sized_v{version}", "select * from {{ ref('events') }}", **at)
    events.describe({"name": "sized", "latest_version": 2, "versions": [{"v": 1}, {"v": 2}]})
    events.write("dbt_packages/other/dbt_project.yml", "{name: other, profile: t}")
    events.write(
        "dbt_packages/other/models/events.sql",
        "{{ config(materialized='view', event_time='at', alias='others') }} select 1 as k, date'2024-01-01' as at",
    )
    events.write("packages.yml", (events.folder / "packages.yml").read_text() + "- {local: dbt_packages/other}")
    tables = "[{name: events, config: {event_time: day}}, {name: timeless, identifier: events}]"
    events.write("models/s.yml", f"sources: [{{name: raw, schema: '{{{{ target.schema }}}}', tables: {tables}}}]")
    # A project's own ref() calls the one of dbt.
    events.write("macros/ref.sql", "{% macro ref() %}{{ return(builtins.ref(*varargs, **kwargs)) }}{% endmacro %}")
    events.write("macros/input.sql", "{% macro input() %}{{ return(ref('events')) }}{% endmacro %}")
    sql = "select * from {{ ref('events') }}\n" + "".join(f"-- <{{{{ {one} }}}}>\n" for one in INPUTS)
    events.model("m", sql, **MICROBATCH)
    of_dbt = {key: value for key, value in MICROBATCH.items() if key not in ("clustered_by", "buckets")}
    events.model("d", sql, **of_dbt | {"materialized": "incremental", "file_format": "parquet"})
    return events


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--empty",),
        ("--sample", "{'start': '2024-01-01 12:00:00', 'end': '2024-01-03'}"),
        ("--defer", "--favor-state"),
    ],
    ids=lambda options: "".join(options[:1]),
)
@pytest.mark.some(1)
def test_batches_read_the_same_relations_as_in_dbt(inputs: Project, options: tuple[str, ...]) -> None:
    inputs.keeps_artifacts = "--defer" in options
    inputs.dbt("run", "--exclude", "m", "d", v="one")
    if "--defer" in options:
        (inputs.folder / "target").rename(inputs.folder / "state")
        profile = (inputs.folder / "profiles.yml").read_text()
        inputs.write("profiles.yml", profile.replace(f"schema: {inputs.schema}", f"schema: {inputs.schema}_dev"))
        inputs.spark.sql(f"create schema {inputs.schema}_dev")
        inputs.spark.sql(f"create view {inputs.schema}_dev.events as select * from {inputs.schema}.events")
        options += ("--state", str(inputs.folder / "state"))
    read: dict[str, list[list[str]]] = {}
    for model in ("m", "d"):
        with statements(ignored=re.compile("no statement")) as sent:
            inputs.dbt(
                "run", "--select", model, "--event-time-start", "2024-01-01", "--event-time-end", "2024-01-03", *options,
                v="one",
            )  # fmt: skip
        writes = (statement for statement in sent if statement.startswith(("insert", "create")))
        found = (re.findall(r"-- <(.*?)>(?= --| \)|$)", statement) for statement in writes)
        read[model] = [list(one) for one in dict.fromkeys(tuple(one) for one in found if one)]
    assert all(len(one) == len(INPUTS) for one in read["d"]) and len(read["d"]) == 2
    assert read["m"] == read["d"][: 1 if "--empty" in options else 2]


@pytest.mark.long
def test_deferred_input_is_filtered_to_the_batch(events: Project) -> None:
    window = ("--event-time-start", "2024-01-02", "--event-time-end", "2024-01-03")
    events.keeps_artifacts = True
    events.dbt("run", "--select", "events", v="production")
    (events.folder / "target").rename(events.folder / "state")
    profile = (events.folder / "profiles.yml").read_text()
    events.write("profiles.yml", profile.replace(f"schema: {events.schema}", f"schema: {events.schema}_dev"))
    events.dbt("run", "--select", "m", "--defer", "--state", str(events.folder / "state"), *window, v="dev")
    rows = events.rows("select day, v, count(*) as n from {schema}_dev.m group by day, v")
    assert [(str(row.day), row.v, row.n) for row in rows] == [("2024-01-02", "production", 100)]
