"""Tests of reading event logs, and of their costs in `advise` and `check`."""

from __future__ import annotations

import gzip
import json
import struct
import time
from collections.abc import Callable
from functools import cache, partial
from io import BytesIO
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import lz4.block
import pytest
import zstandard
from click.testing import CliRunner
from log_events import CREATE, END, comment, statement
from report_pages import written

from spark_bucketing.advise.advice import Advice, Change
from spark_bucketing.advise.event_logs import measured_runs, ranked, unplanned_layouts, with_costs
from spark_bucketing.check.results import Finding, ModelResult, OperatorResult, Report, Verdict
from spark_bucketing.cli import main
from spark_bucketing.cli.options import event_log
from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log import hadoop_files, log_files
from spark_bucketing.event_log.measured import Measured, Run, read_measured
from spark_bucketing.event_log.plan_costs import (
    UNATTRIBUTED,
    Accumulators,
    Cost,
    Keys,
    MeasuredOperator,
    Plan,
    add_results,
    plan_costs,
)
from spark_bucketing.event_log.statements import query_comment
from spark_bucketing.extension.settings import as_profile, event_log_settings
from spark_bucketing.report.advise import write_html, write_json, write_text
from spark_bucketing.report.measured_costs import with_measured_costs
from spark_bucketing.spec import BucketSpec

CASE = Path(__file__).parents[1] / "cases" / "event_logs" / "tpch_plain.zstd"


@cache
def _plain() -> bytes:
    with CASE.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def _lines(event: str = "") -> tuple[list[bytes], list[int]]:
    """Return the lines of the log, and the indexes of the lines with an event."""
    lines = _plain().splitlines(keepends=True)
    return lines, [number for number, line in enumerate(lines) if event.encode() in line[:90]]


def _read(folder: Path, content: bytes, name: str = "app-1") -> Measured:
    """Write a file with this content, and read the logs in its folder."""
    (folder / name).write_bytes(content)
    return read_measured([str(folder)])


def _numbers_of_runs(measured: Measured) -> list[int]:
    return sorted(len(measured.runs_of(node)) for node in measured.nodes())


def _lz4(content: bytes, block: int = 1 << 16) -> bytes:
    found = b""
    for start in range(0, len(content), block):
        part = content[start : start + block]
        packed = lz4.block.compress(part, store_size=False)
        found += struct.pack("<8sBiii", b"LZ4Block", 0x26, len(packed), len(part), 0) + packed
    return found + struct.pack("<8sBiii", b"LZ4Block", 0x16, 0, 0, 0)


def _frames(content: bytes) -> bytes:
    packer = zstandard.ZstdCompressor()
    return packer.compress(content[:100_000]) + packer.compress(content[100_000:])


PACKERS = [bytes, gzip.compress, zstandard.ZstdCompressor().compress, _lz4]


def test_runs_are_attributed_to_models_and_invocations() -> None:
    found = read_measured([str(CASE)])
    assert found.nodes() == ["model.tpch.orders", "model.tpch.q03", "model.tpch.q04"]
    assert all(len(found.runs_of(node)) == 5 for node in found.nodes())
    # The Spark UI shows these stage metrics.
    assert {run.work.shuffle_bytes for run in found.runs_of("model.tpch.q03")} == {5234440}
    assert found.counts.warnings == []
    assert found.writers == {f"tpch.{name}": f"model.tpch.{name}" for name in ("orders", "q03", "q04")}


@pytest.mark.parametrize("packed", [*PACKERS, _frames])
def test_every_codec_is_decompressed(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    found = _read(tmp_path, packed(_plain()))
    assert found.number_of_runs == 15 and found.counts.warnings == []


@pytest.mark.parametrize("version", ["3.5", "4.0", "4.1", "4.2"])
def test_logs_of_other_spark_versions_are_read(version: str) -> None:
    found = read_measured([str(CASE.with_name(f"spark_{version}.zstd"))])
    names = ("customers", "orders", "revenue")
    assert [len(found.runs_of(f"model.shop.{name}")) for name in names] == [2, 2, 2]
    assert found.writers == {f"shop.{name}": f"model.shop.{name}" for name in names}
    revenue = found.costs("model.shop.revenue")
    assert {keys.table: keys.columns for keys in revenue} == dict.fromkeys(
        ("shop.customers", "shop.orders"), ("customer_id",)
    )
    # The costs of the two Exchanges equal the costs of the stages.
    total = sum(run.work.shuffle_bytes for run in found.runs_of("model.shop.revenue"))
    assert sum(cost.shuffle_bytes for cost in revenue.values()) == total > 0
    assert found.counts.warnings == []


def test_log_of_a_bucketed_project_names_bucketed_tables_and_their_readers() -> None:
    found = read_measured([str(CASE.with_name("spark_4.3_bucketed.zstd"))])
    assert found.bucketed == {table: {"model.shop.revenue"} for table in ("shop.customers", "shop.orders")}
    assert found.writers == {f"shop.{name}": f"model.shop.{name}" for name in ("customers", "orders", "revenue")}
    assert found.target == "t" and found.counts.warnings == []
    revenue, orders = (found.runs_of(f"model.shop.{name}") for name in ("revenue", "orders"))
    assert [run.work.shuffle_bytes for run in revenue] == [0, 0] and found.costs("model.shop.revenue") == {}
    # A bucketed write shuffles the rows by bucket.
    assert len(orders) == 2 and all(run.work.shuffle_bytes > 0 for run in orders)


@pytest.mark.parametrize("packed", PACKERS)
def test_truncated_logs_are_counted(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    content = packed(_plain())
    found = _read(tmp_path, content[: len(content) * 2 // 3], "app-1.inprogress")
    assert found.counts.truncated_files == 1
    assert "Read 1 file up to a damaged or missing end." in found.counts.warnings
    assert 0 < found.number_of_runs < 15


def test_damaged_gzip_files_are_counted(tmp_path: Path) -> None:
    content = gzip.compress(_plain())
    found = _read(tmp_path, content + b"trailing")
    assert found.counts.truncated_files == 1 and found.number_of_runs == 15
    assert _read(tmp_path, content[:-8] + b"\0\0\0\0" + content[-4:]).counts.truncated_files == 1


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    lines, _ = _lines()
    broken = [b"garbage\n", b'{"Event":"SparkListenerJobStart"\n', b'{"Event":"SparkListenerStageCompleted"}\n']
    found = _read(tmp_path, b"".join(lines[:5] + broken + lines[5:]))
    assert found.counts.broken_lines == 3 and found.counts.warnings == ["Skipped 3 broken lines."]
    assert found.number_of_runs == 15


EVENTS = ("SQLExecutionStart", "SQLAdaptiveExecutionUpdate", "JobStart", "StageCompleted", "SQLExecutionEnd")


@pytest.mark.parametrize(("event", "kept"), [*product(EVENTS, (300, 120, 40)), ("", 700), ("", 120)])
def test_run_with_a_broken_line_does_not_count(tmp_path: Path, event: str, kept: int) -> None:
    lines, of_event = _lines(f"SparkListener{event}")
    # Execution 495 is the last run of q04; its child 496 writes the table.
    first = next(number for number, line in enumerate(lines) if b'"executionId":495,' in line)
    found = [number for number in of_event if number > first] if event else [first]
    # Spark reads only the last update of a plan.
    number = found[-1 if event == "SQLAdaptiveExecutionUpdate" else 0]
    lines[number] = lines[number][: min(kept, len(lines[number]) - 3)] + b"\n"
    measured = _read(tmp_path, b"".join(lines))
    assert measured.counts.broken_lines == 1 and _numbers_of_runs(measured) == [4, 5, 5]


def test_copies_of_a_log_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "app-1.zstd").write_bytes(CASE.read_bytes())
    found, once = _read(tmp_path, _plain()), read_measured([str(CASE)])
    assert found.runs == once.runs and found.costs() == once.costs()
    assert found.counts.warnings == ["Skipped 1 copy of other logs."]


@pytest.mark.parametrize("other", [b'"Timestamp":1', b'"Timestamp":0,"App Attempt ID":"2"'])
def test_attempts_of_an_application_are_different_runs(tmp_path: Path, other: bytes) -> None:
    content = _plain().replace(b"invocation_id", b"no")
    one = _read(tmp_path, content)
    found = _read(tmp_path, content.replace(b'"Timestamp":0', other, 1), "app-2")
    assert found.number_of_runs == 2 * one.number_of_runs and found.counts.warnings == []
    work = {run.work.shuffle_bytes for run in one.runs_of("model.tpch.q03")}
    assert {run.work.shuffle_bytes for run in found.runs_of("model.tpch.q03")} == work


def test_queries_of_a_model_are_not_runs(tmp_path: Path) -> None:
    found = _read(tmp_path, _plain() + statement(900, comment("model.tpch.q04", invocation_id="one")))
    assert "one" in {invocation for _, invocation in found.runs["model.tpch.q04"]}
    assert len(found.runs_of("model.tpch.q04")) == 5 and found.number_of_runs == 15
    assert found.costs() == read_measured([str(CASE)]).costs() and found.counts.warnings == []


DBT = '{"app": "dbt", "node_id": "model.p.m"}'
LIKE = '{"app": "dbt", "node_id": "model.p.other"}'


@pytest.mark.parametrize(
    "text",
    [
        DBT,
        '{"app":"dbt","node_id":"model.p.m"}',
        '{"node_id" : "model.p.m", "app" : "dbt"}',
        '{"app": "dbt", "meta": {"node_id": "model.p.other"}, "node_id": "model.p.m"}',
        f"/* {DBT} */\nselect 1",
        f"select 1\n/* {DBT} */",
        f"select 1\n/* {DBT} */;\n",
        f"/* {DBT} */ select '{LIKE}' /* {LIKE} */ as a",
        f"/* {DBT} */ select 1 /* {LIKE} */",
        f"select '{LIKE}' /* {LIKE} */ as a\n/* {DBT} */",
        f"select '{LIKE}', '/*' as a\n/* {DBT} */",
        f"/* old: {LIKE} */ select 1\n/* {DBT} */",
    ],
)
def test_comment_of_dbt_is_a_json_object_at_the_start_or_at_the_end_of_a_statement(text: str) -> None:
    assert query_comment(text)["node"] == "model.p.m"


@pytest.mark.parametrize(
    "text",
    ['/* {"node_id": "model.p.other"} */ select 1', f"select 1 /* {LIKE} */ as a", f"select '{LIKE}'", ""],
)
def test_text_like_a_comment_is_no_comment(text: str) -> None:
    assert query_comment(text) == {}


@pytest.mark.parametrize("whole", [True, False])
def test_text_like_a_comment_does_not_attribute_a_statement(tmp_path: Path, whole: bool) -> None:
    """A Thrift Server logs the whole statement, here with dbt's comment at its end."""
    sql = f"create table t as select '{LIKE}'\n/* {DBT} */"
    start, end = statement(1, sql, "s.t", CREATE).splitlines(keepends=True)
    found = _read(tmp_path, (start + end if whole else start[:-20] + b"\n" + end) + END)
    assert list(found.runs) == ["model.p.m"] and found.nodes() == (["model.p.m"] if whole else [])


def test_costs_do_not_include_failed_runs(tmp_path: Path) -> None:
    lines, ends = _lines("SparkListenerSQLExecutionEnd")
    # The last statement is the last run of q04.
    lines[ends[-1]] = lines[ends[-1]].replace(b'"errorMessage":""', b'"errorMessage":"No."')
    whole, found = read_measured([str(CASE)]), _read(tmp_path, b"".join(lines))
    assert len(found.runs_of("model.tpch.q04")) == 4
    keys = Keys("tpch.orders", ("o_orderkey",))
    for node in ("model.tpch.q04", None):
        assert 0 < found.costs(node)[keys].shuffle_bytes < whole.costs(node)[keys].shuffle_bytes
    assert (
        found.costs("model.tpch.q04")[keys].shuffle_bytes * 5 == whole.costs("model.tpch.q04")[keys].shuffle_bytes * 4
    )


def test_local_paths_do_not_depend_on_the_directory_of_the_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "my log"
    log.touch()
    monkeypatch.chdir(tmp_path)
    assert {event_log(given) for given in ("my log", str(log), f"file:{log}", log.as_uri())} == {str(log)}


@pytest.mark.parametrize("uri", ["s3a://logs/", "hdfs:/logs", "hdfs:///logs", "abfss://a@b.c/logs"])
def test_uris_of_other_file_systems_are_read_with_spark(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    assert event_log(uri) == uri
    content = _plain()
    monkeypatch.setattr(
        log_files, "hadoop_files", lambda path: [(f"{path}/app", len(content), lambda: BytesIO(content))]
    )
    assert [[file.path for file in log] for log in log_files.find_logs([uri])] == [[f"{uri}/app"]]


def test_missing_log_is_an_error_before_spark_plans_queries(tmp_path: Path) -> None:
    for command in ("advise", "check"):
        done = CliRunner().invoke(main, [command, "--project-dir", str(tmp_path), "--event-log", "none"])
        assert done.exit_code == 2 and "The event log `none` does not exist." in done.output


def _rolling(folder: Path) -> list[Path]:
    """Write the log as a rolling log of eleven files."""
    log = folder / "eventlog_v2_local-1"
    log.mkdir()
    (log / "appstatus_local-1").write_bytes(b"")
    lines, _ = _lines()
    size = len(lines) // 11 + 1
    files = [log / f"events_{one + 1}_local-1" for one in range(11)]
    for one, file in enumerate(files):
        file.write_bytes(b"".join(lines[one * size : (one + 1) * size]))
    return files


def test_rolling_log_is_read_in_order(tmp_path: Path) -> None:
    _rolling(tmp_path)
    found = read_measured([str(tmp_path)])
    assert found.number_of_runs == 15 and found.counts.files == 11 and found.counts.warnings == []


@pytest.mark.parametrize("missing", range(1, 11))
def test_runs_next_to_a_missing_rolling_file_do_not_count(tmp_path: Path, missing: int) -> None:
    _rolling(tmp_path)[missing - 1].unlink()
    found, whole = read_measured([str(tmp_path)]), read_measured([str(CASE)])
    assert found.counts.missing_files == 1
    assert "Rolling logs lack 1 file, so the runs next to a gap do not count." in found.counts.warnings
    every, counted = (
        [(node, run.seconds, run.work) for node in of.nodes() for run in of.runs_of(node)] for of in (whole, found)
    )
    assert 10 <= len(counted) < len(every) == 15
    assert all(run in every for run in counted)


def _writes(nodes: str, first: int = 0) -> list[bytes]:
    """Return a statement of each of these models, in one invocation of dbt."""
    return [
        statement(number, comment(f"model.p.{node}", invocation_id="one"), f"s.{node}")
        for number, node in enumerate(nodes, first)
    ]


def test_runs_of_parallel_models_do_not_continue_after_a_gap(tmp_path: Path) -> None:
    (tmp_path / "events_1_app").write_bytes(b"".join(_writes("abc")))
    found = _read(tmp_path, b"".join([*_writes("dbe", 3), END]), "events_4_app")
    # Statements of c, b and d may be in the missing files.
    assert found.nodes() == ["model.p.a", "model.p.e"] and found.counts.missing_files == 2


def test_statements_that_run_during_a_gap_fail(tmp_path: Path) -> None:
    starts, ends = zip(*(events.splitlines(keepends=True) for events in _writes("abc")), strict=True)
    (tmp_path / "events_1_app").write_bytes(b"".join(starts))
    assert _read(tmp_path, b"".join(ends), "events_3_app").nodes() == []


def test_logs_without_the_start_of_the_application_are_different_runs(tmp_path: Path) -> None:
    _, content = _plain().replace(b"invocation_id", b"no").split(b"\n", 1)
    one = _read(tmp_path, content).number_of_runs
    assert _read(tmp_path, content, "app-2").number_of_runs == 2 * one > 0


def test_events_after_a_truncated_rolling_file_do_not_complete_a_run(tmp_path: Path) -> None:
    file = _rolling(tmp_path)[4]
    file.write_bytes(file.read_bytes()[:-300])
    found = read_measured([str(tmp_path)])
    assert found.counts.truncated_files == 1 and found.counts.missing_files == 0
    assert sum(_numbers_of_runs(found)) < 15


def test_compacted_rolling_file_replaces_the_files_before_it(tmp_path: Path) -> None:
    files = _rolling(tmp_path)
    complete = read_measured([str(tmp_path)])
    compacted = files[3].with_name(f"{files[3].name}.compact")
    compacted.write_bytes(files[0].read_bytes().splitlines(keepends=True)[0])
    # Spark deletes the complete files only after it has written the compacted file.
    found = read_measured([str(tmp_path)])
    assert found.runs == complete.runs and found.counts.warnings == []
    for file in files[:4]:
        file.unlink()
    found = read_measured([str(tmp_path)])
    assert found.counts.missing_files == 0 and 0 < found.number_of_runs < 15
    assert "Spark's History Server deleted finished statements from 1 compacted file." in found.counts.warnings


def test_folder_without_logs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="contains no event log"):
        read_measured([str(tmp_path)])


def test_advice_counts_ad_hoc_queries_and_measured_costs() -> None:
    found = read_measured([str(CASE)])
    models = set(found.nodes()) - {"model.tpch.q03"}
    layouts = unplanned_layouts(found, models)
    join = next(
        one for one in layouts if {side.table for side in one.sides} == {"tpch.orders", "tpch.lineitem"} or one.is_join
    )
    assert all(one.query == "model.tpch.q03" for one in layouts) and join.kind == "join"
    assert measured_runs(found, {"tpch.q04": "model.tpch.q04"}) == {"model.tpch.q04": 5}
    first = ranked(found)[0]
    assert (first.table, first.columns) == ("tpch.lineitem", ("l_orderkey",))
    spec = BucketSpec(4, ("l_orderkey",), ("l_orderkey",), "hive")
    change = Change("model.tpch.lineitem", "lineitem", "tpch.lineitem", None, spec, {}, 1, 1, "", 1.0, 1.0)
    (measured,) = with_costs([change], ranked(found))
    assert measured.measured == first.cost


def test_numbers_of_runs_are_unknown_without_runs_of_the_projects_models() -> None:
    nodes = {"s.t": "model.p.T", "s.raw": "source.p.raw.raw"}
    run = {("app", "0"): Run(0, 1)}
    # Another tool writes its own table and a source of the project.
    others = {"table.other.t": run, "table.s.raw": run, "model.other.m": run}
    assert measured_runs(Measured(runs={**others}), nodes) == {}
    assert measured_runs(Measured(runs={**others, "table.s.t": run}), nodes) == {"model.p.t": 1, "source.p.raw.raw": 1}


def test_findings_state_their_measured_costs() -> None:
    operator = OperatorResult(
        "join",
        "tpch.orders.o_orderkey = tpch.lineitem.l_orderkey",
        Verdict.SHUFFLED,
        findings=(
            Finding("side-not-bucketed", "It shuffles.", ("tpch.lineitem",)),
            Finding("other", "No.", ("tpch.none",)),
        ),
    )
    names = {"q04": "model.tpch.q04", "view": "model.tpch.view"}
    report = Report(tuple(ModelResult(name, "", (operator,), unique_id=key) for name, key in names.items()))
    q04, view = with_measured_costs(report, read_measured([str(CASE)])).models
    messages = [finding.message for finding in q04.operators[0].findings]
    assert (
        messages[0].startswith("It shuffles.\nMean cost per run, measured in 5 runs: ")
        and "MiB shuffled" in messages[0]
    )
    assert messages[1] == "No." and view.operators == (operator,)


COSTLY = Run(0, 1, operators={MeasuredOperator("join", ()): {Keys("s.t", ("id",)): Cost(shuffle_bytes=1024)}})
FAILED = Run(0, 1, failed=True)


@pytest.mark.parametrize(
    ("key", "runs", "measured"),
    [
        ("user_id", {"model.p.m": COSTLY}, False),
        ("id", {"model.p.m": COSTLY}, True),
        ("`id`", {"model.p.m": COSTLY}, True),
        # Other writes to the table do not count if runs have the model's query comment.
        ("id", {"table.s.m": COSTLY}, True),
        ("id", {"table.s.m": COSTLY, "model.p.m": FAILED}, False),
    ],
)
def test_costs_of_a_finding_are_those_of_its_columns_and_its_model(
    key: str, runs: dict[str, Run], measured: bool
) -> None:
    found = Measured(runs={node: {("app", node): run} for node, run in runs.items()})
    finding = Finding("x", "", ("s.t",))
    operator = OperatorResult("join", f"s.t.{key} = s.u.{key}", Verdict.SHUFFLED, findings=(finding,))
    report = Report((ModelResult("m", "", (operator,), unique_id="model.p.m", table="s.m"),))
    (model,) = with_measured_costs(report, found).models
    assert ("measured in 1 run" in model.operators[0].findings[0].message) == measured


def node(name: str, text: str, *children: Plan, **metrics: int) -> Plan:
    """Return a plan node; underscores in the names of metrics stand for spaces."""
    listed = [{"name": key.replace("_", " "), "accumulatorId": id_} for key, id_ in metrics.items()]
    return {"nodeName": name, "simpleString": text, "children": children, "metrics": listed}


def scan(table: str, columns: str, **metrics: int) -> Plan:
    return node(
        f"Scan parquet spark_catalog.s.{table}", f"FileScan parquet s.{table}[{columns}] Batched: true", **metrics
    )


def exchange(key: str, below: Plan) -> Plan:
    text = f"Exchange hashpartitioning({key}, 4), ENSURE_REQUIREMENTS"
    return node("Exchange", text, below, shuffle_bytes_written=1, spill_size=2, fetch_wait_time=3)


def operator_costs(plan: Plan, measured: Accumulators) -> list[tuple[MeasuredOperator, dict[Keys, Cost]]]:
    """Return the costs of tables and keys."""
    return [(operator, costs) for operator, costs in plan_costs(plan, measured) if UNATTRIBUTED not in costs]


def shuffled(plan: Plan, values: dict[int, int]) -> dict[Keys, int]:
    """Return the shuffled bytes of tables and keys."""
    found = operator_costs(plan, Accumulators(values))
    return {keys: cost.shuffle_bytes for _, costs in found for keys, cost in costs.items()}


def union(*branches: Plan) -> Plan:
    return node("Union", "Union", *branches)


# The columns of the second table have other names and another order.
BRANCHES = (
    node(
        "Project",
        "Project [k#1L, (v#2 + 1) AS w#3]",
        node("Filter", "", scan("a", "k#1L,v#2"), number_of_output_rows=11),
    ),
    node(
        "Project",
        "Project [key#6L AS k#8L, least(x#5, 7, [1]) AS w#9]",
        scan("b", "x#5,key#6L", number_of_output_rows=12),
    ),
    # The rows of this branch come from another shuffle.
    node("ShuffleQueryStage", "", node("Exchange", "", scan("c", "k#20L"), shuffle_records_written=13)),
)


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("k#1L, v#2", ("k", "v")),
        ("lower(v#2)", None),
        ("cast(k#1L as int)", None),
        ("k#1L, lower(v#2)", ("k", None)),
        ("(k#1L + 1), v#2", (None, "v")),
    ],
)
@pytest.mark.parametrize("sorts", [False, True])
def test_keys_are_columns_and_not_expressions(key: str, columns: tuple[str | None, ...] | None, sorts: bool) -> None:
    below = exchange(key, scan("a", "k#1L,v#2"))
    if sorts:
        order = ", ".join(f"{one} ASC NULLS FIRST" for one in key.split(", "))
        below = node("Sort", f"Sort [{order}], false, 0", below)
    found = shuffled(node("SortMergeJoin", "", below), {1: 5})
    assert [keys.columns for keys in found] == ([columns] if columns else [])


@pytest.mark.parametrize("plan", ["[" * 100_000, '{"time": 1e999}'])
def test_plans_that_python_cannot_read_are_broken_lines(tmp_path: Path, plan: str) -> None:
    content = _plain()
    start = content.index(b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd"')
    end = content.index(b"\n", start)
    event = b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd","executionId":'
    found = _read(tmp_path, content[:start] + event + plan.encode() + b"}" + content[end:])
    assert found.counts.broken_lines == 1


@pytest.mark.parametrize(
    ("rows", "shares"),
    [
        ({11: 100, 12: 300, 13: 600}, {"a": 0.1, "b": 0.3}),
        ({11: 0, 12: 300, 13: 0}, {"a": 0, "b": 1}),
        # Without all numbers of rows, the branches share equally.
        ({11: 100, 12: 300}, {"a": 1 / 3, "b": 1 / 3}),
        ({11: 0, 12: 0, 13: 0}, {"a": 1 / 3, "b": 1 / 3}),
    ],
)
@pytest.mark.parametrize("sorts", [False, True])
def test_tables_below_a_union_share_the_cost_by_their_rows(
    rows: dict[int, int], shares: dict[str, float], sorts: bool
) -> None:
    plan = exchange("u#30L", node("Project", "Project [k#1L AS u#30L, w#3]", union(*BRANCHES)))
    expected = {Keys(f"s.{name}", ("k" if name == "a" else "key",)): part for name, part in shares.items()}
    if sorts:
        plan = node("Sort", "Sort [u#30L ASC NULLS FIRST], false, 0", plan, sort_time=4)
    measured = Accumulators({1: 1000, 2: 500, 3: 60, 4: 40, **rows}, {1: 900})
    ((operator, costs),) = operator_costs(node("HashAggregate", "", plan), measured)
    assert operator.sides == tuple(expected)
    assert costs == {
        keys: Cost(round(1000 * part), round(500 * part), pytest.approx((960 + 40 * sorts) * part))  # type: ignore[arg-type]
        for keys, part in expected.items()
    }


ODD = ("order-id", "a,b", "kunde nr", "x(y)", "q#12", "c]d", "größe", "plain")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("through", ["scan", "union", "alias"])
def test_columns_with_special_characters_have_their_own_name(name: str, through: str) -> None:
    columns = ",".join(f"{one}#{number}L" for number, one in enumerate(ODD, 20))
    number = 20 + ODD.index(name)
    # Other columns have the names between the commas and brackets.
    below = scan("odd", f"b#1,b)#2,nr#3,y#4,{columns}", number_of_output_rows=11)
    if through == "union":
        below = union(below, scan("odd", f"b#31,{name}#32", number_of_output_rows=12))
        below = node("Project", f"Project [{name}#{number}L]", below)
    key = f"{name}#{number}L"
    if through == "alias":
        below, key = node("Project", f"Project [b#1, {name}#{number}L AS k#40L]", below), "k#40L"
    plan = exchange(f"{key}, lower(b#1)", below)
    ((operator, costs),) = operator_costs(node("HashAggregate", "", plan), Accumulators({1: 1000, 11: 1, 12: 0}))
    assert operator.sides[0] == Keys("s.odd", (name, None))
    assert sum(cost.shuffle_bytes for cost in costs.values()) == 1000


def test_columns_beyond_the_limit_of_a_plan_are_unknown() -> None:
    text = "id#1L,... 2 more fields] Batched: true, PartitionFilters: [], DataFilters: [isnotnull(a#2), b#3"
    found = plan_costs(exchange("b#3", scan("t", text)), Accumulators({1: 5}))
    assert [costs for _, costs in found] == [{UNATTRIBUTED: Cost(shuffle_bytes=5)}]


def test_shuffle_of_a_write_counts_for_no_table() -> None:
    found = plan_costs(
        node("Sort", "Sort [k#1 ASC], false, 0", exchange("k#1L", scan("t", "k#1L"))), Accumulators({1: 5})
    )
    assert [costs for _, costs in found] == [{UNATTRIBUTED: Cost(shuffle_bytes=5)}]


def test_sums_include_costs_of_no_table_and_key() -> None:
    inner = exchange("u#30L", node("Project", "Project [k#1L AS u#30L, w#3]", union(*BRANCHES)))
    other = node("Exchange", "Exchange SinglePartition", inner, shuffle_bytes_written=21, spill_size=22)
    values = {1: 1000, 2: 500, 3: 60, 11: 100, 12: 300, 13: 600, 21: 70, 22: 7}
    found = plan_costs(node("HashAggregate", "", other), Accumulators(values))
    rest = found[-1][1][UNATTRIBUTED]
    assert (rest.shuffle_bytes, rest.spill_bytes) == (600 + 70, 300 + 7)
    total = Cost()
    for _, costs in found:
        for cost in costs.values():
            total.add(cost)
    assert (total.shuffle_bytes, total.spill_bytes) == (1070, 507)
    run = Run(0, 1, operators=dict(found))
    measured = Measured(runs={"model.p.m": {("app", "1"): run}})
    assert measured.unattributed == rest and UNATTRIBUTED not in measured.costs()
    advice = Advice(measured=ranked(measured), unattributed=measured.unattributed, event_logs="1 file.")
    for write in (write_text, write_html):
        shown = written(write, advice)
        assert "not attributed to a table and key: 670 bytes shuffled, 307 bytes spilled" in shown
    assert json.loads(written(write_json, advice))["unattributed"]["shuffle_bytes"] == 670


BUILT = node("BroadcastExchange", "", node("Project", "Project [id#4L, name#5]", scan("small", "id#4L,name#5")))
OTHER = scan("b", "x#6,y#7,z#8,k#9L", number_of_output_rows=12)


@pytest.mark.parametrize(
    ("join", "key", "columns"),
    [
        ("BroadcastHashJoin [k#1L], [id#4L], Inner, BuildRight, false", "k#1L", {"a": "k", "b": "x"}),
        # Rows with equal keys of the broadcast table are in the same bucket of the other table.
        ("BroadcastHashJoin [k#1L], [id#4L], Inner, BuildRight, false", "id#4L", {"a": "k", "b": "z"}),
        ("BroadcastHashJoin [k#1L], [id#4L], LeftOuter, BuildRight, false", "id#4L", {"b": "z"}),
        ("BroadcastHashJoin [k#1L], [id#4L], LeftSemi, BuildRight, false", "k#1L", {"a": "k", "b": "x"}),
        ("BroadcastHashJoin [k#1L], [id#4L], LeftAnti, BuildRight, false", "id#4L", {}),
        ("BroadcastNestedLoopJoin BuildRight, Cross", "id#4L", {"b": "z"}),
    ],
)
def test_join_in_the_first_branch_of_a_union_leaves_the_other_tables_their_share(
    join: str, key: str, columns: dict[str, str]
) -> None:
    first = node(join.split()[0], join, scan("a", "k#1L,v#2"), BUILT, number_of_output_rows=11)
    plan = node("HashAggregate", "", exchange(key, union(first, OTHER)))
    shares = {"a": 250, "b": 750}
    expected = {Keys(f"s.{table}", (column,)): shares[table] for table, column in columns.items()}
    assert shuffled(plan, {1: 1000, 11: 100, 12: 300}) == expected


def test_broadcast_table_on_the_left_side_comes_first() -> None:
    join = "BroadcastHashJoin [id#4L], [k#1L], Inner, BuildLeft, false"
    first = node("BroadcastHashJoin", join, BUILT, scan("a", "k#1L,v#2"), number_of_output_rows=11)
    plan = node("HashAggregate", "", exchange("id#4L, v#2", union(first, OTHER)))
    assert set(shuffled(plan, {1: 1000, 11: 100, 12: 300})) == {Keys("s.a", ("k", "v")), Keys("s.b", ("x", "k"))}


@pytest.mark.parametrize("kind", ["HashAggregate(keys", "SortAggregate(key"])
def test_aggregate_in_the_first_branch_of_a_union_leaves_the_other_tables_their_share(kind: str) -> None:
    text = f"{kind}=[k#1L], functions=[sum(v#2)])"
    first = node(kind.split("(")[0], text, scan("a", "k#1L,v#2"), number_of_output_rows=11)
    plan = node("HashAggregate", "", exchange("k#1L", union(first, OTHER)))
    description = """\
(3) Union

(2) HashAggregate [codegen id : 1]
Input [2]: [k#1L, v#2]
Keys [1]: [k#1L]
Functions [1]: [sum(v#2)]
Aggregate Attributes [1]: [sum(v#2)#10]
Results [2]: [sum(v#2)#10 AS total#11, k#1L]
"""
    add_results(plan, description)
    expected = {Keys("s.a", ("k",)): 250, Keys("s.b", ("y",)): 750}
    assert shuffled(plan, {1: 1000, 11: 100, 12: 300}) == expected


A, B = (scan(table, f"k#{number}", number_of_output_rows=10 + number) for number, table in enumerate("ab", 1))
NESTED = node("Filter", "", union(B, scan("a", "k#6", number_of_output_rows=13)), number_of_output_rows=14)
GROUPED = node("HashAggregate", "HashAggregate(keys=[k#2], functions=[])", B, number_of_output_rows=14)


@pytest.mark.parametrize(
    ("second", "values", "expected"),
    [
        # Nested unions, and unions of one table, are followed.
        (NESTED, {11: 500, 12: 100, 13: 400, 14: 500}, {"s.a": 900, "s.b": 100}),
        # Columns behind an unknown node count for no table.
        (GROUPED, {11: 1, 14: 3}, {"s.a": 250}),
    ],
)
def test_columns_are_followed_below_a_union_up_to_an_unknown_node(
    second: Plan, values: dict[int, int], expected: dict[str, int]
) -> None:
    found = shuffled(node("Window", "", exchange("k#1", union(A, second))), {1: 1000, **values})
    assert {keys.table: size for keys, size in found.items()} == expected


def test_measured_requirements_of_a_union_are_united() -> None:
    keys = [Keys("s.a", ("k",)), Keys("s.b", ("k",))]
    for kind in ("aggregate", "join"):
        operators = {MeasuredOperator(kind, tuple(keys)): {one: Cost(8) for one in keys}}
        (found,) = unplanned_layouts(Measured(ad_hoc_operators=operators), set())
        assert (found.united, found.is_join) == (kind == "aggregate", kind == "join")


def test_task_time_is_the_time_of_the_tasks_that_wrote_the_shuffle() -> None:
    read = node("ColumnarToRow", "", scan("a", "k#1", scan_time=5))
    other = node("BroadcastExchange", "", scan("b", "k#2", scan_time=6))
    joined = node("BroadcastHashJoin", "BroadcastHashJoin [k#1], [k#2]", read, other)
    values = {1: 10, 3: 7, 5: 200, 6: 1000}
    # The tasks also spent 200 ms to scan the table. Another stage scanned the small table.
    for run_ms, expected in ((900, 707), (150, 7)):
        ((_, costs),) = operator_costs(
            node("SortAggregate", "", exchange("k#1", joined)), Accumulators(values, {1: run_ms})
        )
        assert {keys.table: cost.task_ms for keys, cost in costs.items()} == {"s.a": expected}


def test_task_time_is_a_substantial_part_of_the_time_of_runs() -> None:
    found = read_measured([str(CASE)])
    for name in ("q03", "q04"):
        total = sum(run.work.task_ms for run in found.runs_of(f"model.tpch.{name}"))
        assert 0.3 * total < sum(cost.task_ms for cost in found.costs(f"model.tpch.{name}").values()) < 0.9 * total


def test_time_for_reading_a_plan_grows_with_its_length() -> None:
    word = "w" * 1_000_000
    columns = node("Project", f"Project [a#1L AS c#3L, b#2, {word} AS d#4]", scan("t", f"a#1L,b#2,{word}"))
    started = time.process_time()
    for below in (columns, union(columns, columns)):
        plan = exchange(f"c#3L, b#2, {word}", below)
        ((_, costs),) = operator_costs(node("HashAggregate", "", plan), Accumulators({1: 5}))
    assert costs == {Keys("s.t", ("a", "b", None)): Cost(shuffle_bytes=5)}
    assert time.process_time() - started < 2


@pytest.mark.parametrize("cost", [Cost(1), Cost(0, 1), Cost(task_ms=49), Cost(task_ms=51)])
def test_costs_that_the_text_shows_as_zero_are_not_notable(cost: Cost) -> None:
    assert cost.is_notable == (str(cost) != str(Cost()))


def test_extension_conf_prints_the_settings_of_event_logs() -> None:
    assert as_profile(event_log_settings("file:///logs")).splitlines()[1:] == [
        '  spark.eventLog.enabled: "true"',
        '  spark.eventLog.dir: "file:///logs"',
        '  spark.eventLog.compress: "true"',
        '  spark.sql.debug.maxToStringFields: "1000"',
    ]


@pytest.mark.parametrize("packed", [bytes, zstandard.ZstdCompressor().compress])
def test_streams_of_other_file_systems_are_read(
    monkeypatch: pytest.MonkeyPatch, packed: Callable[[bytes], bytes]
) -> None:
    class JavaStream(BytesIO):
        """A stream with the method of Java's InputStream."""

        def readNBytes(self, number: int) -> bytearray:  # noqa: N802
            return bytearray(self.read(number))

    content = packed(_plain())
    path = SimpleNamespace(toString=lambda: "s3a://logs/app-1")
    system = SimpleNamespace(open=lambda _: JavaStream(content))
    opened = partial(hadoop_files._open_hadoop, system, path)
    monkeypatch.setattr(log_files, "hadoop_files", lambda _: [("s3a://logs/app-1", len(content), opened)])
    found = read_measured(["s3a://logs"])
    assert found.number_of_runs == 15 and found.counts.size_bytes == len(content)
